"""Words: the field's terms, doc comments that begin with a subject or a verb, comments that fit beside each other."""

import re
from collections.abc import Iterator
from pathlib import Path

from rules.finding import Finding

MAX_COMMENT_COLUMNS = 100

# Each pattern with what is written instead; docs/glossary.md says what the terms mean.
REPLACED: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in {
        r"\bcourtesy\b": "adaptive concurrency limit",
        r"\bforesight\b": "prefetcher",
        r"\bwhereabouts\b": "replica discovery",
        r"\bmanners\b": "server behaviours",
        r"\b(?!air|bit)lanes?\b": "connection, or worker of a copy",
        r"(?<!in[ _-])(?<!in-)\bflights?\b": "round trip",
        r"\bput[ _]off\b": "retry after",
        r"\bstrag(?:g)?ling\b": "slow",
        r"\bthe books\b": "counters",
        r"\bfor good\b": "permanently, or without verification",
        r"\bso many\b": "the number meant",
        r"\bsuch as are\b": "those that are",
        r"\b(?:is|are|was|were|be|being|been) told\b": "who says it, in the active voice",
        r"\bas(?: \w+)? pays?\b": "as help",
        r"\bwhoever\b": "the user, client or server that is meant",
        r"\bby now\b": "since, or nothing",
        r"\baskers?\b": "client, caller or request",
        r"\b(?:baffled|barren|hopeless|stumbled|troubled)\b": "failed, rejected or down: say which",
        r"\bhopeful\b": "may succeed",
        r"\bheed(?:s|ed)?\b": "apply",
        r"\blaborious\b": "expensive",
        r"\buntold\b": "unknown, or unreported",
        r"\bdefaces?\b": "corrupt",
        r"(?<!there )\b(?:is|are|was|were) no (?!longer|more|less|better|worse|doubt|\w+er\b)\w+": "is not a",
    }.items()
]
UPPER_LIMITS = re.compile(r"\b(?:MOST|LARGEST|LONGEST|DEEPEST|LEAST|SMALLEST)_[A-Z]")
HEADLESS = re.compile(r"(?:What|Whether|Who|Whose|How (?:many|much|long|far|often))\b(?![^.]*\?)")
DOC = re.compile(r"^\s*(//[/!]|\"\"\"|#:) ?(.*)")


def check_words(path: Path, source: str) -> Iterator[Finding]:
    """`path` is relative to the repository; Rust, Python and Markdown."""
    before = ""
    for number, line in enumerate(source.splitlines(), 1):
        for pattern, instead in REPLACED:
            if found := pattern.search(line):
                yield Finding(str(path), number, f"`{found[0]}`: write {instead}")
        if path.suffix == ".md":
            continue
        if found := UPPER_LIMITS.search(line):
            yield Finding(str(path), number, f"`{found[0]}...`: limits are MAX_*, MIN_*, DEFAULT_*")
        begins = DOC.match(line)
        continued = DOC.match(before)
        if begins and continued and continued[1] != '"""' and continued[2]:
            begins = None
        if begins and HEADLESS.match(begins[2]):
            yield Finding(str(path), number, "a doc comment begins with a noun phrase or a verb: 'Returns ...', 'The ...'")
        if path.suffix == ".rs" and line.lstrip().startswith("//") and len(line) > MAX_COMMENT_COLUMNS:
            yield Finding(str(path), number, f"{len(line)} columns of comment, at most {MAX_COMMENT_COLUMNS}")
        before = line
