"""Results: the code that each page of measurements speaks of, and whether it has changed since.

These are warnings: a page may be older than the code, but nobody may take it for a page of today's.
"""

import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

RESULTS = Path("bench/results")
# As bench/harness/tables.py writes it.
MEASURED = re.compile(r"^Measured at commit (?P<commit>[0-9a-f]{7,40})(?P<dirty> \(dirty\))?", re.MULTILINE)

NETWORK = tuple(f"crates/{name}" for name in ["checksum", "core", "explain", "http", "load", "replicas", "transport", "xrd"])
COPIES = (*NETWORK, "crates/transfer", "crates/tune")
ENGINE = ("crates/core", "crates/load", "crates/read", "crates/trace", "crates/tune")
READS = (*NETWORK, *ENGINE, "crates/formats", "crates/hither", "crates/query")
SERVER = ("crates/http", "crates/server")
# The code of pages; the first pattern that a page's path below bench/results matches counts.
CODE = {
    "cluster*": (*COPIES, "crates/hither", "python/hither/cluster"),
    "copying.md": (*COPIES, *SERVER),
    "explain.md": ("crates/hither", *COPIES),
    "kills*": (*COPIES, *SERVER),
    "mice.md": (*COPIES, *SERVER),
    "profile/sweep*": ("crates/profile", *COPIES),
    "profile/*": ("crates/profile",),
    "python_api/*": (*READS, "crates/py", "python/hither"),
    "reads/federate_readers.md": ("crates/federate", *READS, *SERVER),
    "reads/pieces-c.md": (*READS, "crates/capi"),
    "replicas.md": COPIES,
    "server/*": SERVER,
    "sharing.md": COPIES,
    "simulate.md": (*ENGINE, "crates/netem", "crates/simulate"),
    "stalls.md": (*COPIES, *SERVER),
    "tuning.md": COPIES,
    "*": READS,
}


def code_of(page: Path) -> tuple[str, ...]:
    """The paths of which a page of results speaks; `page` is relative to the folder of results."""
    return next(paths for pattern, paths in CODE.items() if fnmatch(str(page), pattern))


def check_results(root: Path) -> Iterator[str]:
    """Warnings: pages whose code has changed since their commit, and pages of unknown commit."""
    if not (root / ".git").exists():
        return
    older: dict[str, list[str]] = {}
    unknown: list[str] = []
    for file in sorted((root / RESULTS).rglob("*.md")):
        page = file.relative_to(root / RESULTS)
        found = MEASURED.search(file.read_text(encoding="utf-8"))
        code = 128
        if found and not found["dirty"]:
            diff = ["git", "-C", root, "diff", "--quiet", found["commit"], "HEAD", "--", *code_of(page)]
            code = subprocess.run(diff, stderr=subprocess.DEVNULL, check=False).returncode
        if code == 1:
            older.setdefault(found["commit"], []).append(str(page))
        elif code != 0:
            unknown.append(str(page))
    if older:
        named = "; ".join(f"{', '.join(pages)} ({commit})" for commit, pages in older.items())
        yield f"{RESULTS}: the code has changed since these were measured: {named}"
    if unknown:
        yield f"{RESULTS}: measured at an unknown commit: {', '.join(unknown)}"
