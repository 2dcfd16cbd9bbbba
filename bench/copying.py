"""`hither cp` side by side with other tools that copy files: one large file, down and up.

Two links: loopback, and 120 ms at 1 Gbit/s (stock kernel settings, cubic; with and without loss).
On the long one the reference is iperf3 with eight streams in the same round; on loopback it is
curl. Each round runs all contenders once, starting with another one; medians and ratios are
printed, and written with every single run to OUTPUT.*. The long link needs root (hither-wan).

    python -m bench.copying --runs 3 --links loopback,far,lossy --size 1024 [--only hither,curl]

Tools that are not installed are left out. The files lie in memory (/dev/shm) at both ends, so disks
are not compared.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import timed
from bench.harness.interleaved import rotated, say
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import HITHER, MEMORY, temporary_folder

# A run that takes longer is killed; its rate is then an upper limit.
CAP_SECONDS = 60


@dataclass(frozen=True)
class LossyLink(Link):
    """A link that loses packets."""

    loss: str = "0.01%"

    def options(self) -> list[str]:
        return [*super().options(), "--loss", self.loss]


FAR = Link("X", 120, 1000, "another continent")
LINKS: dict[str, tuple[str, Callable[[], Loopback]]] = {
    "loopback": ("loopback", Loopback),
    "far": ("120 ms, 1 Gbit/s", lambda: Wan(FAR)),
    "lossy": ("120 ms, 1 Gbit/s, 0.01 % loss", lambda: Wan(LossyLink("Y", 120, 1000, "another continent"))),
}


@dataclass
class Run:
    link: str
    way: str
    who: str
    mbit: float
    seconds: float
    cpu_per_gb: float
    note: str = ""


@dataclass(frozen=True)
class Contender:
    """A tool: its command line for a copy, and the program that must be installed."""

    name: str
    needs: str
    command: Callable[["Site", Path], list[str]]


@dataclass(frozen=True)
class Site:
    """The servers of the file, and of uploads."""

    http: str
    root: str
    dav: str
    iperf_port: int
    host: str


def hither(*arguments: str) -> list[str]:
    return [str(HITHER), "cp", "--no-store", "--quiet", *arguments]


def rclone(*arguments: str) -> list[str]:
    return ["rclone", "--config", "/dev/null", *arguments]


DOWN = [
    Contender("hither", str(HITHER), lambda at, to: hither(f"{at.http}/data", str(to))),
    Contender("curl", "curl", lambda at, to: ["curl", "-sS", "-o", str(to), f"{at.http}/data"]),
    Contender(
        "aria2c -x8",
        "aria2c",
        lambda at, to: [
            "aria2c",
            "-q",
            "-x8",
            "-s8",
            "-k1M",
            "--file-allocation=none",
            "--allow-overwrite=true",
            "-d",
            str(to.parent),
            "-o",
            to.name,
            f"{at.http}/data",
        ],
    ),
    Contender("rclone", "rclone", lambda at, to: rclone("copyto", "--http-url", at.http, ":http:data", str(to))),
    Contender("xrdcp", "xrdcp", lambda at, to: ["xrdcp", "-s", "-f", f"{at.root}//data", str(to)]),
    Contender("xrdcp -S 4", "xrdcp", lambda at, to: ["xrdcp", "-s", "-f", "-S", "4", f"{at.root}//data", str(to)]),
    Contender("davix-get", "davix-get", lambda at, to: ["davix-get", f"{at.http}/data", str(to)]),
]
NOWHERE = [
    Contender("hither", str(HITHER), lambda at, _: hither(f"{at.http}/data", "/dev/null")),
    Contender("curl", "curl", lambda at, _: ["curl", "-sS", "-o", "/dev/null", f"{at.http}/data"]),
    Contender("davix-get", "davix-get", lambda at, _: ["davix-get", f"{at.http}/data", "/dev/null"]),
]
UP = [
    Contender("hither", str(HITHER), lambda at, source: hither(str(source), f"{at.dav}/up-hither")),
    Contender("curl -T", "curl", lambda at, source: ["curl", "-sS", "-T", str(source), f"{at.dav}/up-curl"]),
    Contender(
        "rclone",
        "rclone",
        lambda at, source: rclone("copyto", "--webdav-url", at.dav, str(source), ":webdav:up-rclone"),
    ),
    Contender("davix-put", "davix-put", lambda at, source: ["davix-put", str(source), f"{at.dav}/up-davix"]),
]


@contextlib.contextmanager
def site(where: Loopback, folder: Path) -> Iterator[Site]:
    """The servers that tools copy from and to, at the server's end."""
    with contextlib.ExitStack() as stack:
        web = stack.enter_context(servers.nginx(where, folder))
        grid = stack.enter_context(servers.xrootd(where, folder))
        dav = stack.enter_context(servers.apache(where, folder / "up", webdav=True))
        port = servers.free_port()
        log = folder / "iperf.log"
        stack.enter_context(servers.running(where, ["iperf3", "-s", "-p", str(port)], port, log))
        host = where.server_host
        yield Site(f"http://{host}:{web}", f"root://{host}:{grid}", f"http://{host}:{dav}", port, host)


def timed_copy(where: Loopback, command: list, size: int) -> tuple[float, float, str]:
    """Seconds, CPU seconds per GB of the client, and what went wrong."""
    answer = timed(where, command, CAP_SECONDS)
    failed = "" if answer["exit"] == 0 else f"exit {answer['exit']}: {answer['stderr'][-200:]}"
    return answer["wall"], answer["cpu"] / (size / 1e9), "cut off" if answer["timeout"] else failed


def numbered_blocks(count: int, length: int) -> Iterator[bytes]:
    """Blocks of the same random bytes, each beginning with its number."""
    block = os.urandom(length)
    for number in range(count):
        yield number.to_bytes(8, "little") + block[8:]


def iperf(where: Loopback, at: Site, way: str) -> Run:
    command = ["iperf3", "-c", at.host, "-p", str(at.iperf_port), "-P", "8", "-t", "10", "-J"]
    command += ["-R"] if way != "up" else []
    answer = json.loads(subprocess.run(where.client(command), stdout=subprocess.PIPE, text=True, check=False).stdout)
    end = answer.get("end", {}).get("sum_received", {})
    return Run("", way, "iperf3 -P8", end.get("bits_per_second", 0) * 1e-6, end.get("seconds", 0), 0)


def rounds(name: str, way: str, who: list[Contender], options: argparse.Namespace, folder: Path) -> list[Run]:
    label, make = LINKS[name]
    size = options.size << 20
    results: list[Run] = []
    out: set[str] = set()
    with make() as where, site(where, folder) as at:
        for number in range(options.runs):
            if not options.no_iperf:
                run = iperf(where, at, way)
                run.link = label
                results.append(run)
                say(f"{label}, {way}: {run.who} {run.mbit:.0f} Mbit/s")
            for contender in rotated(who, number):
                if contender.name in out or shutil.which(contender.needs) is None:
                    continue
                target = folder / "data" if way == "up" else MEMORY / f"hither-copy-{os.getpid()}"
                seconds, cpu, note = timed_copy(where, contender.command(at, target), size)
                mbit = size * 8e-6 / seconds
                if way == "down":
                    good = target.exists() and target.stat().st_size == size
                    note = note or ("" if good else "the file is incomplete")
                    target.unlink(missing_ok=True)
                for left in (folder / "up").glob("up-*"):
                    left.unlink()
                if note:
                    out.add(contender.name)
                results.append(Run(label, way, contender.name, mbit, seconds, cpu, note))
                say(f"{label}, {way}: {contender.name} {mbit:.0f} Mbit/s, {seconds:.2f} s, {cpu:.2f} CPU s/GB {note}")
    return results


def table(results: list[Run]) -> list[str]:
    lines = []
    for link, way in dict.fromkeys((run.link, run.way) for run in results):
        by_name: dict[str, list[Run]] = {}
        for run in results:
            if (run.link, run.way) == (link, way):
                by_name.setdefault(run.who, []).append(run)
        ours = statistics.median([run.mbit for run in by_name.get("hither", [])] or [0])
        rows = []
        for who, runs in by_name.items():
            rates = [run.mbit for run in runs]
            median, seconds, cpu = (
                statistics.median(getattr(run, figure) for run in runs) for figure in ("mbit", "seconds", "cpu_per_gb")
            )
            rows.append(
                [
                    who,
                    f"{median:.0f} ({min(rates):.0f}-{max(rates):.0f})",
                    f"{seconds:.2f}",
                    "" if who.startswith("iperf3") else f"{cpu:.2f}",
                    f"{ours / median:.2f}" if median else "-",
                    runs[-1].note,
                ]
            )
        heads = ["", "Mbit/s (median, range)", "s", "CPU s/GB", "hither is faster by", ""]
        lines += ["", f"## {link}, {way}", "", *tables.markdown(heads, rows, "lrrrrl")]
    return lines


def main() -> None:
    parser = Arguments(__doc__, "copying", quick="one run each, loopback only")
    parser.add_argument("--links", default="loopback,far,lossy", help="default %(default)s")
    parser.add_argument("--ways", default="nowhere,down,up", help="default %(default)s")
    parser.add_argument("--size", type=int, default=1024, help="of the file, in MiB (default %(default)s)")
    parser.add_argument("--only", default="", help="contenders, by the beginning of their names")
    parser.add_argument("--no-iperf", action="store_true", help="without iperf3")
    options = parser.parse(needs_root=False)
    links = ["loopback"] if options.quick else options.links.split(",")
    only = tuple(filter(None, options.only.split(",")))
    results: list[Run] = []
    with temporary_folder(MEMORY) as folder:
        (folder / "up").mkdir()
        (folder / "up").chmod(0o777)
        with (folder / "data").open("wb") as file:
            file.writelines(numbered_blocks(options.size, 1 << 20))
        for link in links:
            for way in options.ways.split(","):
                if way == "nowhere" and link != "loopback":
                    continue
                who = {"nowhere": NOWHERE, "down": DOWN, "up": UP}[way]
                who = [it for it in who if not only or it.name.startswith(only)]
                results += rounds(link, way, who, options, folder)
    tables.save(options.output, [f"# Copies of {options.size} MiB", *table(results)])
    tables.write_csv(options.output, [vars(run) for run in results])


if __name__ == "__main__":
    main()
