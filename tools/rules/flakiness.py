"""Tests that a busy machine can fail: sleeps, repeated tries, bounds of time; and tests that cannot fail: expected
failures that may not occur, and skips where something is missing that CI must have.

Time passes in tests by a virtual clock, or in the helpers that poll under a deadline: `bench/harness/waiting.py`, and
`waiting` in testkit.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rules.finding import Finding

SLEEP = re.compile(r"(?<!fn )\bsleep\s*\(|\bpark_timeout\s*\(|\bEvent\(\)\.wait\(|\braises\((?:subprocess\.)?TimeoutExpired\)")
THREAD_SLEEP = re.compile(r"\bthread::sleep\b|\bpark_timeout\b")
VIRTUAL_TIME = re.compile(r"start_paused|time::pause\s*\(|VirtualTime::new\s*\(")
PYTHON_CLOCK = re.compile(r"\b(?:monotonic|perf_counter|process_time)(?:_ns)?\b")
RUST_CLOCK = re.compile(r"\.elapsed\(\)|\bInstant::now\(\)\s*>\s")
# A duration that a program reports, compared with a number or a constant.
REPORTED = re.compile(r"\bassert\b.*(?:seconds|_ms)\"\](?: / [\d.]+ - 1\))?\s*<=?\s*(?:\d|\(|[A-Z])")
COUNT = r"(?:two|three|four|five|ten|several|\d+|N)"
TRIED_AGAIN = re.compile(
    rf"\bATTEMPTS\b|\b(?i:best|minimum|maximum|median|fastest|lowest|smallest) of {COUNT}\b|"
    r"\bany of \w+ tries\b|\bfor attempt in range\(|\bflaky\b|\breruns\b"
)
# One of several measurements: of a comprehension that measures again, or of a list of them.
PYTHON_CHOICE = re.compile(
    r"\b(?:min|max|median|any|sorted)\(.*\bfor _ in range\(|"
    r"\b(?:min|median)\((?:\w+_)?(?:runs|times|tries|rounds|measured|measurements|seconds|took)\)"
)
RUST_CHOICE = re.compile(r"\(0\.\.\w+\)\.map\(\|_\|.*\)\.(?:min|max)(?:_by\w*)?\(|assert!\(\(0\.\.\w+\)\.any\(\|_\|")
SKIPPED = re.compile(r"\bimportorskip\(|\bskipif\(.*(?:\bwhich\(|\.exists\(\))")
XFAIL = re.compile(r"\bxfail\b(\((?:[^()]|\([^()]*\))*\))?")


def check_python_tests(path: Path, source: str) -> Iterator[Finding]:
    """`path` is relative to the repository."""
    for number, line in enumerate(source.splitlines(), 1):
        code = line.split("#")[0]
        if SLEEP.search(code):
            yield Finding(str(path), number, "a test sleeps; wait for the event itself, or use wait_until")
        if PYTHON_CLOCK.search(code):
            yield Finding(str(path), number, "a test reads a clock; count what the program decides, or use wait_until")
        if REPORTED.search(code):
            yield Finding(str(path), number, "a test bounds a time; count what the program decides")
        if TRIED_AGAIN.search(line) or PYTHON_CHOICE.search(code):
            yield Finding(str(path), number, "a test is tried again; assert what holds each time")
        if SKIPPED.search(code):
            yield Finding(str(path), number, "a skip that CI cannot fail: use `python_package`, `require` or `missing` of needs")
    for found in XFAIL.finditer(source):
        if "strict=True" not in (found[1] or ""):
            number = source[: found.start()].count("\n") + 1
            yield Finding(str(path), number, "an xfail that is not strict cannot fail: strict=True")


def check_rust_tests(path: Path, tests: Iterable[tuple[int, str]], virtual_time: bool) -> Iterator[Finding]:
    """`tests` are numbered lines of test code; comments are removed where code is meant."""
    is_program = bool({"benches", "examples"} & set(path.parts))
    for number, line in tests:
        code = re.sub(r"//.*", "", line)
        if SLEEP.search(code) and (THREAD_SLEEP.search(code) or not virtual_time):
            yield Finding(str(path), number, "a test sleeps; wait for the event itself, pause the clock, or use wait_until")
        if not is_program and not virtual_time and RUST_CLOCK.search(code):
            yield Finding(str(path), number, "a test reads a clock; count what the program decides, or use wait_until")
        if TRIED_AGAIN.search(line) or RUST_CHOICE.search(code):
            yield Finding(str(path), number, "a test is tried again; assert what holds each time")
