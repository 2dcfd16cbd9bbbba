"""A file of 2 GB from front to back over loopback, to nowhere: `hither cat` beside xrdcp and curl, by the clock and in CPU.

The file lies in memory, the server is xrootd. xrdcp comes as it is, and with settings that suit it
better here (`--tune` tries more). Every round runs everyone once, starting with another one each time. No root needed.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

from bench.copying import measured, progress
from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER, RESULTS

MEMORY = Path("/dev/shm")
HITHER_CAT, XRDCP = "hither cat root://", "xrdcp"


@dataclass
class Contender:
    """A command, what it took in each round, and CPU seconds per GB of the process."""

    name: str
    command: list[str]
    seconds: list[float]
    cpu: list[float]


def to_nowhere(*command: object) -> list[str]:
    """The shell becomes the command, so that the time is the command's."""
    return ["sh", "-c", 'exec "$@" >/dev/null', "sh", *map(str, command)]


def xrdcp(url: str, *options: str, **settings: int) -> list[str]:
    return ["env", *(f"XRD_{name.upper()}={value}" for name, value in settings.items()), "xrdcp", "-s", "-f", *options, url, "/dev/null"]


def contenders(root: str, http: str, tune: bool) -> list[Contender]:
    commands = {
        HITHER_CAT: to_nowhere(HITHER, "cat", "--no-store", root),
        "hither cat http://": to_nowhere(HITHER, "cat", "--no-store", http),
        XRDCP: xrdcp(root),
        "xrdcp -S 4": xrdcp(root, "-S", "4"),
        # It asks for checksums of all pages otherwise, which hither does where it is told to.
        "xrdcp, no checksums": xrdcp(root, cpusepgwrtrd=0),
        "xrdcp, no checksums, -S 4": xrdcp(root, "-S", "4", cpusepgwrtrd=0),
        "xrdcp, no checksums, 8 MiB x 2": xrdcp(root, cpusepgwrtrd=0, cpchunksize=8 << 20, cpparallelchunks=2),
        "curl http://": ["curl", "-sS", "-o", "/dev/null", http],
    }
    if tune:
        for mib, parallel, loops in product((1, 2, 4, 8, 16), (1, 2, 4, 16), (1, 10)):
            name = f"xrdcp, no checksums, {mib} MiB x {parallel}, {loops} loops"
            commands[name] = xrdcp(root, cpusepgwrtrd=0, cpchunksize=mib << 20, cpparallelchunks=parallel, parallelevtloop=loops)
    return [Contender(name, command, [], []) for name, command in commands.items()]


def play(who: list[Contender], rounds: int, size: int) -> None:
    for number in range(rounds):
        turn = number % len(who)
        for it in [*who[turn:], *who[:turn]]:
            _, seconds, cpu, note = measured(Loopback(), it.command, size)
            if note:
                raise RuntimeError(f"{it.name}: {note}")
            it.seconds.append(seconds)
            it.cpu.append(cpu)
            progress(f"{it.name}: {seconds:.2f} s, {cpu:.2f} CPU s/GB")


def document(who: list[Contender], size: int) -> str:
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    lines = [
        "# A sequential read over loopback",
        "",
        f"{size / 1e9:.2f} GB from front to back, to /dev/null; xrootd 5.5, the file in memory; client and server share two cores.",
        f"CPU is that of the client. Medians of {len(who[0].seconds)}. Load of the machine at the end: {load}.",
        "",
        "| | s (range) | GB/s | CPU s/GB (range) |",
        "|---|---:|---:|---:|",
    ]
    for it in who:
        seconds, cpu = median(it.seconds), median(it.cpu)
        lines.append(
            f"| {it.name} | {seconds:.2f} ({min(it.seconds):.2f}-{max(it.seconds):.2f}) | {size / 1e9 / seconds:.2f} | "
            f"{cpu:.2f} ({min(it.cpu):.2f}-{max(it.cpu):.2f}) |"
        )
    by_name = {it.name: it for it in who}
    ours, peers = by_name[HITHER_CAT], [it for it in who if it.name.startswith(XRDCP)]
    lines += ["", "## Bounds", ""]
    for what, taken in (("seconds", lambda it: median(it.seconds)), ("CPU", lambda it: median(it.cpu))):
        for words, other in (("xrdcp as it is", by_name[XRDCP]), ("the best xrdcp", min(peers, key=taken))):
            ratio = taken(ours) / taken(other)
            lines.append(f"- {what}: {ratio:.2f} x those of {words}, at most 1: {'kept' if ratio <= 1 else 'MISSED'}")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=2000, help="of the file, in MB, default %(default)s")
    parser.add_argument("--tune", action="store_true", help="more settings of xrdcp")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "sequential")
    options = parser.parse_args()
    size = options.size * 1_000_000
    with tempfile.TemporaryDirectory(prefix="hither-sequential-", dir=MEMORY) as name:
        folder = Path(name)
        folder.chmod(0o755)
        block, digest = os.urandom(1_000_000), hashlib.sha256()
        with (folder / "data").open("wb") as file:
            for number in range(options.size):
                content = number.to_bytes(8, "little") + block[8:]
                file.write(content)
                digest.update(content)
        with servers.xrootd(Loopback(), folder) as grid, servers.nginx(Loopback(), folder) as web:
            root, http = f"root://127.0.0.1:{grid}//data", f"http://127.0.0.1:{web}/data"
            with subprocess.Popen([HITHER, "cat", "--no-store", root], stdout=subprocess.PIPE) as cat:
                if hashlib.file_digest(cat.stdout, "sha256").digest() != digest.digest():
                    sys.exit("sequential: hither cat gave other bytes than those of the file")
            who = contenders(root, http, options.tune)
            play(who, options.rounds, size)
    text = document(who, size)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
