"""Rust files: how long lib.rs may be, where state, the environment and I/O may be touched."""

import re
from collections.abc import Iterator
from pathlib import Path

from rules.finding import Finding
from rules.flakiness import VIRTUAL_TIME, check_rust_tests

MAX_LIB_LINES = 120
PURE_CRATES = {"chart", "checksum", "core", "load", "tune", "read", "replicas", "explain", "http", "xrd", "formats", "query", "netem"}
STATE_CRATES = {"cli", "testkit", "wan"}
ENVIRONMENT_CRATES = {*STATE_CRATES, "py", "capi"}

ENVIRONMENT = re.compile(r"\benv::(vars?|vars?_os|set_var|remove_var)\b")
STATIC = re.compile(r"\bstatic\s+\w+\s*:\s*[^=;]*\b(Mutex|RwLock|OnceLock|LazyLock|OnceCell)\b")
IMPURE = re.compile(r"\b(tokio\b|std::net\b|std::fs\b)")
IMPURE_IN_BRACES = re.compile(r"\buse\s+std::\{[^}]*\b(net|fs)\b")
TUPLE_LET = re.compile(r"^\s*let \((?:mut )?\w+, .*\) = \(.*,.*\);$")
LIB_ITEM = re.compile(r"(pub(\([^)]*\))?\s+)?(async\s+|const\s+|unsafe\s+)*(fn|struct|enum|trait|impl|static|macro_rules!)\b")


def split_tests(source: str) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The numbered lines of production code, and those of inline test modules (`#[cfg(test)] mod ... { ... }`).

    Relies on rustfmt: a module ends at the brace that is indented as its first line is.
    """
    production: list[tuple[int, str]] = []
    tests: list[tuple[int, str]] = []
    lines = source.splitlines()
    index = 0
    while index < len(lines):
        if lines[index].strip() != "#[cfg(test)]":
            production.append((index + 1, lines[index]))
            index += 1
            continue
        start = index
        while index + 1 < len(lines) and lines[index].lstrip().startswith("#["):
            index += 1
        opening = lines[index]
        end = index
        if re.match(r"\s*(pub(\([^)]*\))?\s+)?mod\s+\w+\s*\{\s*$", opening):
            indent = opening[: len(opening) - len(opening.lstrip())]
            while end + 1 < len(lines) and lines[end] != indent + "}":
                end += 1
            tests += [(n + 1, lines[n]) for n in range(start, end + 1)]
        elif re.match(r"\s*(pub(\([^)]*\))?\s+)?mod\s+\w+;", opening):
            pass  # the tests lie in a file of their own
        else:
            production += [(n + 1, lines[n]) for n in range(start, end + 1)]
        index = end + 1
    return production, tests


def without_comment(line: str) -> str:
    return re.sub(r"//.*", "", line)


def is_test_file(path: Path) -> bool:
    """Not production: tests, benches and examples, which may read files and clocks as they please."""
    return bool({"tests", "benches", "examples"} & set(path.parts)) or path.stem == "tests"


def check_rust(path: Path, source: str, virtual_time: bool = False) -> Iterator[Finding]:
    """`path` is relative to the repository, `crates/NAME/...`; `virtual_time` where other files of a test binary pause it."""
    crate = path.parts[1] if path.parts[0] == "crates" and len(path.parts) > 2 else ""
    if is_test_file(path):
        production, tests = [], list(enumerate(source.splitlines(), 1))
    else:
        production, tests = split_tests(source)

    if path.name == "lib.rs":
        if len(production) > MAX_LIB_LINES:
            yield Finding(str(path), 1, f"{len(production)} lines, at most {MAX_LIB_LINES}: lib.rs is the table of contents")
        for number, line in production:
            if LIB_ITEM.match(line):
                yield Finding(str(path), number, "lib.rs holds docs, modules and re-exports; this belongs into a module")
    for number, line in production:
        code = without_comment(line)
        if crate not in ENVIRONMENT_CRATES and ENVIRONMENT.search(code):
            names = "cli, py, capi, testkit and wan"
            yield Finding(str(path), number, f"only {names} read the environment; hand the value in")
        if crate not in STATE_CRATES and STATIC.search(code):
            yield Finding(str(path), number, "process-wide state; let a Client or its like own it")
        if crate in PURE_CRATES and (IMPURE.search(code) or IMPURE_IN_BRACES.search(code)):
            yield Finding(str(path), number, f"{crate} does no I/O: no tokio, std::net or std::fs here")
        if TUPLE_LET.match(code):
            yield Finding(str(path), number, "several values bound by one let: write a let for each")
    virtual = virtual_time or bool(VIRTUAL_TIME.search("\n".join(line for _, line in tests)))
    yield from check_rust_tests(path, tests, virtual)
