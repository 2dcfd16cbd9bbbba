"""A client that behaves beside attackers: how much longer its GETs take.

Of `hither serve` and of nginx:

    python -m bench.server.attacks [--attack NAME] [--server NAME]

The client reads a file of 64 KiB again and again over one connection with TLS. The attackers are in
a CPU cgroup of their own, so that they do not take the processors from the server and the client,
but only what the server spends on them. Medians of several runs, printed and written to OUTPUT.md.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.interleaved import say
from bench.harness.links import Loopback
from bench.harness.paths import ROOT, temporary_folder
from bench.server.attackers import ATTACKS, connect, get

SMALL, NAMES = 64 << 10, 95_000
CGROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
"""Where a group for processors can be made: cgroup v1, and v2."""


@contextlib.contextmanager
def attackers_group() -> Iterator[Path | None]:
    """A CPU cgroup, or none where there can be none: attackers then run at the lowest priority."""
    for parent in CGROUPS:
        if (parent / "cpu.cfs_quota_us").exists() or "cpu" in _controllers(parent):
            group = parent / f"hither-attackers-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue
            try:
                yield group
            finally:
                group.rmdir()
            return
    yield None


def _controllers(parent: Path) -> list[str]:
    file = parent / "cgroup.subtree_control"
    return file.read_text().split() if file.exists() else []


def make_files(folder: Path) -> None:
    (folder / "small").write_bytes(bytes(SMALL))
    for name, size in (("large", 256 << 20), ("huge", 40 << 30)):
        with (folder / name).open("wb") as file:
            os.truncate(file.fileno(), size)
    for number in range(NAMES):
        place = folder / "names" / str(number // 1000)
        if number % 1000 == 0:
            place.mkdir(parents=True)
        (place / str(number)).touch()


@contextlib.contextmanager
def hither(folder: Path, tls: servers.Tls) -> Iterator[int]:
    arguments = ("--listen", "127.0.0.1:0", "--tls-cert", tls.certificate, "--tls-key", tls.key, folder)
    process, address = servers.hither_process(*arguments)
    try:
        yield int(address.rpartition(":")[2])
    finally:
        process.terminate()
        process.wait(60)


def nginx(folder: Path, tls: servers.Tls) -> contextlib.AbstractContextManager[int]:
    return servers.nginx(Loopback(), folder, tls=tls, webdav=True, http2=True, workers=os.cpu_count())


SERVERS = {"hither": hither, "nginx": nginx}


def times(address: tuple[str, int], seconds: float) -> list[float]:
    """The sorted times of GETs in milliseconds; the connection is opened again once a second."""
    taken, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        with connect(address, source="127.0.0.1") as connection:
            again = time.monotonic() + 1
            while time.monotonic() < again:
                began = time.perf_counter()
                connection.sendall(get("/small"))
                received, length = b"", None
                while length is None or len(received) < length:
                    piece = connection.recv(1 << 17)
                    if not piece:
                        raise RuntimeError("the server ended the connection of a client that behaves")
                    received += piece
                    head = received.find(b"\r\n\r\n")
                    if length is None and head >= 0:
                        length = head + 4 + SMALL
                taken.append(1000 * (time.perf_counter() - began))
    return sorted(taken)


def quantiles(taken: list[float]) -> tuple[float, float]:
    return taken[len(taken) // 2], taken[int(0.99 * len(taken))]


def measure(
    server: str, attack: str, seconds: float, group: Path | None, folder: Path, tls: servers.Tls
) -> list[float]:
    """p50 and p99 at rest, and beside the attackers."""
    with SERVERS[server](folder, tls) as port:
        address = ("127.0.0.1", port)
        times(address, 0.5)
        quiet = quantiles(times(address, seconds))
        numbers = [*address, seconds + 60, group or ""]
        command = [sys.executable, "-m", "bench.server.attackers", attack, *map(str, numbers)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as attacker:
            try:
                attacker.stdout.readline()
                times(address, 0.5)
                beside = quantiles(times(address, seconds))
            finally:
                attacker.kill()
        return [*quiet, *beside]


def main() -> None:
    parser = Arguments(__doc__, "server/attacks", quick="one run of each")
    parser.add_argument("--attack", choices=ATTACKS, action="append", help="by default all")
    parser.add_argument("--server", choices=SERVERS, action="append", help="by default all")
    parser.add_argument("--seconds", type=float, default=4, help="default %(default)s")
    options = parser.parse(needs_root=False)
    rows = []
    with temporary_folder() as work, attackers_group() as group:
        say(f"attackers are in {group or 'no cgroup: at the lowest priority'}")
        folder = work / "www"
        folder.mkdir()
        folder.chmod(0o755)
        make_files(folder)
        tls = servers.certificate(work)
        for attack in options.attack or ATTACKS:
            found = {server: [] for server in options.server or SERVERS}
            for _ in range(options.runs):
                for server, runs in found.items():
                    runs.append(measure(server, attack, options.seconds, group, folder, tls))
            for server, runs in found.items():
                medians = [statistics.median(values) for values in zip(*runs, strict=True)]
                ratio = statistics.median(run[3] / run[1] for run in runs)
                rows.append([attack, server, *(f"{value:.2f}" for value in medians), f"{ratio:.1f}"])
                say(", ".join(rows[-1]))
    heads = ["attack", "server", "p50 at rest, ms", "p99", "p50 attacked", "p99", "ratio of p99"]
    title = (
        f"# GETs of {SMALL >> 10} KiB over one connection with TLS, beside attackers; medians of {options.runs} runs"
    )
    tables.save(options.output, [title, "", *tables.markdown(heads, rows, "llr")])


if __name__ == "__main__":
    main()
