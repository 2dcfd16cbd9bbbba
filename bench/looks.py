"""The cost of looks: requests of each file, and time, of copies, beside an older `hither`.

A change is believed when it was seen, so a copy looks at what it has written, and asks again where
two answers differ. This counts the requests in the access log of each server, by method, for trees
of small and of large files that `cp -r` and `sync` bring down and up, and that a second `sync`
finds equal; and times the small ones, the two programs in turn. Everything is in memory, over
loopback: where a request costs most of the time.

    python -m bench.looks --before OTHER/hither [--runs 5] [--files 10000]
"""

import argparse
import json
import os
import shutil
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.harness import access_log, servers, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import timed
from bench.harness.content import write_tree
from bench.harness.interleaved import rotated, say
from bench.harness.links import Loopback
from bench.harness.paths import HITHER, MEMORY, temporary_folder

LARGE_FILES, LARGE_BYTES = 10, 16 << 20
CAP_SECONDS = 600
WHERE = Loopback()


@dataclass(frozen=True)
class Server:
    name: str
    run: Callable
    requests: Callable[[str], list[str]]
    """The methods of the requests in a log."""


def of_table(text: str) -> list[str]:
    return [row.method for row in access_log.table_rows(text)]


def of_trace(text: str) -> list[str]:
    return [row.method for row in access_log.trace_rows(text)]


def of_objects(text: str) -> list[str]:
    """The log of `hither serve`."""
    return [json.loads(line)["method"] for line in text.splitlines()]


SERVERS = [
    Server("nginx", lambda root, log: servers.nginx(WHERE, root, log, webdav=True), of_table),
    Server("Apache", lambda root, log: servers.apache(WHERE, root, log, webdav=True), of_table),
    Server("XrdHttp", lambda root, log: servers.xrootd(WHERE, root, log), of_trace),
    Server("hither serve", lambda root, log: servers.hither(WHERE, root, log, more=("--write",)), of_objects),
]


@dataclass
class Run:
    server: str
    kind: str
    verb: str
    program: str
    files: int
    seconds: float
    methods: Counter[str]


@dataclass(frozen=True)
class Verb:
    name: str
    command: Callable[[Path, str], list]
    """The arguments, of a folder of trees and the URL of another one."""
    is_up: bool
    finds_equal: bool = False


VERBS = [
    Verb("cp -r, down", lambda here, url: ["cp", "-r", f"{url}/tree/.", here / "copy"], is_up=False),
    Verb("cp -r, up", lambda here, url: ["cp", "-r", f"{here}/tree/.", f"{url}/copy/"], is_up=True),
    Verb("sync, up", lambda here, url: ["sync", here / "tree", f"{url}/copy/"], is_up=True),
    Verb("sync, up, again", lambda here, url: ["sync", here / "tree", f"{url}/copy/"], is_up=True, finds_equal=True),
]


@contextmanager
def served(server: Server, folder: Path) -> Iterator[tuple[str, Path]]:
    """A server of a folder that everybody may write to: its URL and its log."""
    folder.chmod(0o777)
    log = folder.parent / f"{server.name.replace(' ', '-')}.log"
    with server.run(folder, log) as port:
        yield f"http://127.0.0.1:{port}", log


def one(server: Server, kind: str, verb: Verb, program: tuple[str, Path], work: Path, files: int) -> Run:
    there, here = work / "there", work / "here"
    name, binary = program
    target = (there if verb.is_up else here) / "copy"
    if not verb.finds_equal:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(mode=0o777)
        target.chmod(0o777)
    with served(server, there) as (url, log):
        before = log.stat().st_size if log.exists() else 0
        # No journal of an earlier run, and the servers as the first run of a process meets them.
        command = [binary, *verb.command(here, url), "--quiet", "--no-store"]
        told = timed(WHERE, list(map(str, command)), CAP_SECONDS)
    if told["exit"] != 0:
        raise RuntimeError(f"{name}, {verb.name}, {server.name}: exit code {told['exit']}: {told['stderr'][-500:]}")
    # Whatever the server has logged is there once it has ended.
    with log.open(errors="replace") as lines:
        lines.seek(before)
        methods = Counter(server.requests(lines.read()))
    say(f"{server.name:12} {kind:6} {verb.name:16} {name:8} {told['wall']:.2f} s {dict(methods)}")
    return Run(server.name, kind, verb.name, name, files, told["wall"], methods)


def rows(runs: list[Run], programs: list[str]) -> list[list[str]]:
    found = []
    for server, kind, verb in dict.fromkeys((run.server, run.kind, run.verb) for run in runs):
        these = [run for run in runs if (run.server, run.kind, run.verb) == (server, kind, verb)]
        by_program = [[run for run in these if run.program == name] for name in programs]
        seconds = [statistics.median(run.seconds for run in some) for some in by_program]
        requests = [statistics.median(run.methods.total() for run in some) / some[0].files for some in by_program]
        methods = ", ".join(f"{name} {count}" for name, count in by_program[-1][-1].methods.most_common())
        time = (
            [f"{seconds[0]:.2f}", f"{seconds[1]:.2f}", f"{seconds[1] / seconds[0]:.2f}"]
            if kind == "small"
            else [""] * 3
        )
        found.append([server, kind, verb, *(f"{it:.3f}" for it in requests), *time, methods])
    return found


def main(options: argparse.Namespace) -> int:
    programs = [("before", options.before), ("now", HITHER)]
    runs = []
    with temporary_folder(MEMORY) as work:
        for kind, files, size in [("small", options.files, 10 << 10), ("large", LARGE_FILES, LARGE_BYTES)]:
            for side in ("here", "there"):
                shutil.rmtree(work / side, ignore_errors=True)
                (work / side).mkdir()
                write_tree(work / side / "tree", files, size)
            # Older than any upload, so that a sync knows from the times that files are equal.
            for path in (work / "here").rglob("f*"):
                os.utime(path, (1.7e9, 1.7e9))
            for server in SERVERS:
                for number in range(options.runs if kind == "small" else 1):
                    for program in rotated(programs, number):
                        runs += [one(server, kind, verb, program, work, files) for verb in VERBS]
    heads = ["server", "files", "verb", "requests before", "now", "seconds before", "now", "ratio", "requests now"]
    parts = [
        "# What looks cost",
        "",
        f"Requests of each file: {options.files:,} of 10 KiB and {LARGE_FILES} of 16 MiB, in memory, over loopback, by the",
        f"access logs of the servers; seconds of the small ones, medians of {options.runs}. `before` is {options.before_name}.",
        "Nothing is remembered between runs.",
        "",
        *tables.markdown(heads, rows(runs, [name for name, _ in programs]), "lllrrrrrl"),
    ]
    tables.save(options.output, parts)
    tables.write_csv(options.output, [{**vars(run), "methods": dict(run.methods)} for run in runs])
    return 0


if __name__ == "__main__":
    arguments = Arguments(__doc__, "looks", runs=5)
    arguments.add_argument("--before", type=Path, required=True, help="the older program")
    arguments.add_argument("--before-name", default="the older program", help="what the page calls it")
    arguments.add_argument("--files", type=int, default=10_000, help="small files (default %(default)s)")
    sys.exit(main(arguments.parse(needs_root=False)))
