"""A file of 2 GB from front to back over loopback: seconds and CPU of `hither cat`, xrdcp and curl.

The file lies in memory, the server is xrootd. xrdcp runs with its defaults, and with settings that
suit it better here (`--tune` tries more). Each round runs all contenders once, starting with
another one. Needs no root.
"""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from statistics import median

from bench.copying import numbered_blocks, timed_copy
from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.interleaved import ratio_line, rotated, say
from bench.harness.links import Loopback
from bench.harness.paths import HITHER, MEMORY, temporary_folder

HITHER_CAT, XRDCP = "hither cat root://", "xrdcp"


@dataclass
class Contender:
    """A command, and the seconds and the CPU seconds per GB of each of its runs."""

    name: str
    command: list[str]
    seconds: list[float]
    cpu: list[float]


def to_nowhere(*command: object) -> list[str]:
    """The shell replaces itself by the command, so that the time is the command's."""
    return ["sh", "-c", 'exec "$@" >/dev/null', "sh", *map(str, command)]


def xrdcp(url: str, *options: str, **settings: int) -> list[str]:
    return [
        "env",
        *(f"XRD_{name.upper()}={value}" for name, value in settings.items()),
        "xrdcp",
        "-s",
        "-f",
        *options,
        url,
        "/dev/null",
    ]


def contenders(root: str, http: str, tune: bool) -> list[Contender]:
    commands = {
        HITHER_CAT: to_nowhere(HITHER, "cat", "--no-store", root),
        "hither cat http://": to_nowhere(HITHER, "cat", "--no-store", http),
        XRDCP: xrdcp(root),
        "xrdcp -S 4": xrdcp(root, "-S", "4"),
        # By default it requests checksums of all pages; hither does if configured.
        "xrdcp, no checksums": xrdcp(root, cpusepgwrtrd=0),
        "xrdcp, no checksums, -S 4": xrdcp(root, "-S", "4", cpusepgwrtrd=0),
        "xrdcp, no checksums, 8 MiB x 2": xrdcp(root, cpusepgwrtrd=0, cpchunksize=8 << 20, cpparallelchunks=2),
        "curl http://": ["curl", "-sS", "-o", "/dev/null", http],
    }
    if tune:
        for mib, parallel, loops in product((1, 2, 4, 8, 16), (1, 2, 4, 16), (1, 10)):
            name = f"xrdcp, no checksums, {mib} MiB x {parallel}, {loops} loops"
            commands[name] = xrdcp(
                root, cpusepgwrtrd=0, cpchunksize=mib << 20, cpparallelchunks=parallel, parallelevtloop=loops
            )
    return [Contender(name, command, [], []) for name, command in commands.items()]


def play(who: list[Contender], rounds: int, size: int) -> None:
    for number in range(rounds):
        for it in rotated(who, number):
            seconds, cpu, note = timed_copy(Loopback(), it.command, size)
            if note:
                raise RuntimeError(f"{it.name}: {note}")
            it.seconds.append(seconds)
            it.cpu.append(cpu)
            say(f"{it.name}: {seconds:.2f} s, {cpu:.2f} CPU s/GB")


def document(who: list[Contender], size: int) -> list[str]:
    def with_range(values: list[float]) -> str:
        return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})"

    rows = [
        [it.name, with_range(it.seconds), f"{size / 1e9 / median(it.seconds):.2f}", with_range(it.cpu)] for it in who
    ]
    return [
        "# A sequential read over loopback",
        "",
        f"{size / 1e9:.2f} GB from front to back, to /dev/null; xrootd 5.5, the file in memory; CPU of the client;",
        f"medians of {len(who[0].seconds)}.",
        "",
        *tables.markdown(["", "s (range)", "GB/s", "CPU s/GB (range)"], rows),
        "",
        "## Targets",
        "",
        *(f"- {line}" for line in check_targets(who)),
    ]


def check_targets(who: list[Contender]) -> Iterator[str]:
    by_name = {it.name: it for it in who}
    ours, peers = by_name[HITHER_CAT], [it for it in who if it.name.startswith(XRDCP)]
    for what, taken in (("seconds", lambda it: median(it.seconds)), ("CPU", lambda it: median(it.cpu))):
        for words, other in (("xrdcp's defaults", by_name[XRDCP]), ("the best xrdcp", min(peers, key=taken))):
            yield ratio_line(f"{what} beside {words}", taken(ours) / taken(other), 1)


def main() -> int:
    parser = Arguments(__doc__, "reads/sequential", runs=5)
    parser.add_argument("--size", type=int, default=2000, help="of the file, in MB (default %(default)s)")
    parser.add_argument("--tune", action="store_true", help="more settings of xrdcp")
    options = parser.parse(needs_root=False)
    with temporary_folder(MEMORY) as folder:
        data, digest = folder / "data", hashlib.sha256()
        with data.open("wb") as file:
            for block in numbered_blocks(options.size, 1_000_000):
                file.write(block)
                digest.update(block)
        with servers.xrootd(Loopback(), folder) as xrootd, servers.nginx(Loopback(), folder) as nginx:
            root, http = f"root://127.0.0.1:{xrootd}//data", f"http://127.0.0.1:{nginx}/data"
            with subprocess.Popen([HITHER, "cat", "--no-store", root], stdout=subprocess.PIPE) as cat:
                if hashlib.file_digest(cat.stdout, "sha256").digest() != digest.digest():
                    sys.exit("sequential: hither cat returned other bytes than those of the file")
            who = contenders(root, http, options.tune)
            play(who, options.runs, data.stat().st_size)
        tables.save(options.output, document(who, data.stat().st_size))
    return 0


if __name__ == "__main__":
    sys.exit(main())
