"""Documents: every file and every test that a document names exists; lines that fit beside each other."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rules.finding import Finding

MAX_COLUMNS = 120
FOLDERS = ("crates", "bench", "tests", "tools", "python", "fuzz", "docs", "packaging", ".ci", ".github")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
# A row of a table, or a link alone, perhaps in a list; neither can be broken.
UNBREAKABLE = re.compile(r"\s*(?:\||(?:[-*] )?(?:!?\[[^\]]*\]\(\S+\)|\[[^\]]*\]: \S+|<?https?://\S+)$)")
GENERATED = re.compile(r"^<!-- Generated: ", re.MULTILINE)
FENCE = re.compile(r"^\s*```")
NAMED_TEST = re.compile(r"^[a-z][a-z0-9]*(?:_[a-z0-9]+){2,}$")


@cache
def tests_of(root: Path) -> frozenset[str]:
    """The names of all test functions."""
    names: set[str] = set()
    for file in [*root.glob("crates/**/*.rs"), *root.glob("tests/**/*.py")]:
        names.update(re.findall(r"\b(?:fn|def) (\w+)", file.read_text(encoding="utf-8")))
    return frozenset(names)


def documents(root: Path) -> Iterator[Path]:
    """All Markdown files of the project, relative to it."""
    for file in sorted([*root.glob("*.md"), *(f for d in FOLDERS for f in root.glob(f"{d}/**/*.md"))]):
        relative = file.relative_to(root)
        if not {"target", "node_modules", "results"} & set(relative.parts):
            yield relative


def check_document(root: Path, path: Path, text: str) -> Iterator[Finding]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        if fenced:
            continue
        for link in LINK.findall(line):
            target = link.split("#")[0]
            if target and "://" not in link and not link.startswith("mailto:") and not (root / path.parent / target).exists():
                yield Finding(str(path), number, f"the link leads to `{target}`, which does not exist")
        for code in CODE.findall(line):
            first = code.split("/")[0]
            if first in FOLDERS and re.fullmatch(r"[\w./-]+", code) and not (root / code.split(":")[0]).exists():
                yield Finding(str(path), number, f"`{code}` does not exist")
            if path.name == "invariants.md" and NAMED_TEST.match(code) and code not in tests_of(root):
                yield Finding(str(path), number, f"no test is called `{code}`")


def check_front_page(root: Path, path: Path, text: str) -> Iterator[Finding]:
    """Finds files that the front page of a crate names and that do not exist; `src/` is that of the crate. The page has to
    say which file to open first."""
    if "//! # Where to start reading\n" not in text:
        yield Finding(str(path), 1, "the front page does not say `# Where to start reading`: name the files")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("//!"):
            return
        for code in CODE.findall(line):
            base = path.parent.parent if code.startswith("src/") else Path()
            if code.split("/")[0] in (*FOLDERS, "src") and re.fullmatch(r"[\w./-]+", code) and not (root / base / code).exists():
                yield Finding(str(path), number, f"`{code}` does not exist")


def check_columns(path: Path, text: str) -> Iterator[Finding]:
    """Finds lines of documents written by hand that are too long."""
    if GENERATED.search(text):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_COLUMNS and not UNBREAKABLE.match(line):
            yield Finding(str(path), number, f"{len(line)} columns, at most {MAX_COLUMNS}: break the line")
