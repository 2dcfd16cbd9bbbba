"""`hither cp` side by side with the tools that people move files with: one large file, down and up.

Two links: loopback, and 120 ms at 1 Gbit/s (stock kernel settings, cubic; with and without loss). On the long one the
measure is iperf3 with eight streams in the same round; on loopback it is curl. Every round runs everyone once, starting
with another one each time; medians and ratios are printed, and written with every single run to bench/results/copy.*.
The long link needs root (hither-wan).

    python -m bench.copying --rounds 3 --links loopback,far,lossy --size 1024 [--only hither,curl]

Who takes part is who is installed. The files lie in memory (/dev/shm) at both ends: disks are not what is compared.
"""

import argparse
import contextlib
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import servers
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import BENCH, HITHER, RESULTS

MEMORY = Path("/dev/shm")
# A run that takes longer is cut off: its rate is that of what it moved, which we do not know, so it counts as slower than this.
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
    """How a tool is told to move the file; `needs` is the program that must be there."""

    name: str
    needs: str
    command: Callable[["Site", Path], list[str]]


@dataclass(frozen=True)
class Site:
    """Where the file is served, and where an upload may go."""

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
        "aria2c -x8", "aria2c",
        lambda at, to: ["aria2c", "-q", "-x8", "-s8", "-k1M", "--file-allocation=none", "--allow-overwrite=true",
                        "-d", str(to.parent), "-o", to.name, f"{at.http}/data"],
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
        "rclone", "rclone",
        lambda at, source: rclone("copyto", "--webdav-url", at.dav, str(source), ":webdav:up-rclone"),
    ),
    Contender("davix-put", "davix-put", lambda at, source: ["davix-put", str(source), f"{at.dav}/up-davix"]),
]


def progress(text: str) -> None:
    print(f"copy: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def site(where: Loopback, folder: Path) -> Iterator[Site]:
    """Everything that anybody copies from or to, at the server's end."""
    with contextlib.ExitStack() as stack:
        web = stack.enter_context(servers.nginx(where, folder))
        grid = stack.enter_context(servers.xrootd(where, folder))
        dav = stack.enter_context(servers.apache(where, folder / "up", webdav=True))
        port = servers.free_port()
        log = folder / "iperf.log"
        stack.enter_context(servers.running(where, ["iperf3", "-s", "-p", str(port)], port, log))
        host = where.server_host
        yield Site(f"http://{host}:{web}", f"root://{host}:{grid}", f"http://{host}:{dav}", port, host)


def measured(where: Loopback, command: list[str], size: int) -> tuple[float, float, float, str]:
    timed = [sys.executable, str(BENCH / "harness" / "process_time.py"), str(CAP_SECONDS), *command]
    told = json.loads(subprocess.run(where.client(timed), stdout=subprocess.PIPE, text=True, check=True).stdout)
    note = "cut off" if told["timeout"] else "" if told["exit"] == 0 else f"exit {told['exit']}: {told['stderr'][-200:]}"
    return size * 8e-6 / told["wall"], told["wall"], told["cpu"] / (size / 1e9), note


def iperf(where: Loopback, at: Site, way: str) -> Run:
    command = ["iperf3", "-c", at.host, "-p", str(at.iperf_port), "-P", "8", "-t", "10", "-J"]
    command += ["-R"] if way != "up" else []
    told = json.loads(subprocess.run(where.client(command), stdout=subprocess.PIPE, text=True, check=False).stdout)
    end = told.get("end", {}).get("sum_received", {})
    return Run("", way, "iperf3 -P8", end.get("bits_per_second", 0) * 1e-6, end.get("seconds", 0), 0)


def rounds(name: str, way: str, who: list[Contender], options: argparse.Namespace, folder: Path) -> list[Run]:
    label, make = LINKS[name]
    size = options.size << 20
    results: list[Run] = []
    out: set[str] = set()
    with make() as where, site(where, folder) as at:
        for number in range(options.rounds):
            if not options.no_iperf:
                run = iperf(where, at, way)
                run.link = label
                results.append(run)
                progress(f"{label}, {way}: {run.who} {run.mbit:.0f} Mbit/s")
            shift = number % len(who)
            for contender in who[shift:] + who[:shift]:
                if contender.name in out or shutil.which(contender.needs) is None:
                    continue
                target = folder / "data" if way == "up" else MEMORY / f"hither-copy-{os.getpid()}"
                mbit, seconds, cpu, note = measured(where, contender.command(at, target), size)
                if way == "down":
                    good = target.exists() and target.stat().st_size == size
                    note = note or ("" if good else "the file is not whole")
                    target.unlink(missing_ok=True)
                for left in (folder / "up").glob("up-*"):
                    left.unlink()
                if note:
                    out.add(contender.name)
                results.append(Run(label, way, contender.name, mbit, seconds, cpu, note))
                progress(f"{label}, {way}: {contender.name} {mbit:.0f} Mbit/s, {seconds:.2f} s, {cpu:.2f} CPU s/GB {note}")
    return results


def table(results: list[Run]) -> str:
    lines = []
    for link, way in dict.fromkeys((run.link, run.way) for run in results):
        here = [run for run in results if (run.link, run.way) == (link, way)]
        by_name: dict[str, list[Run]] = {}
        for run in here:
            by_name.setdefault(run.who, []).append(run)
        mine = statistics.median([run.mbit for run in by_name.get("hither", [])] or [0])
        lines += [f"\n## {link}, {way}\n", "| who | Mbit/s (median, range) | s | CPU s/GB | hither is faster by | |",
                  "|---|---:|---:|---:|---:|---|"]
        for who, runs in by_name.items():
            rates = [run.mbit for run in runs]
            median = statistics.median(rates)
            seconds = statistics.median([run.seconds for run in runs])
            cpu = statistics.median([run.cpu_per_gb for run in runs])
            ratio = f"{mine / median:.2f}" if median else "-"
            cpu_text = "" if who.startswith("iperf3") else f"{cpu:.2f}"
            lines.append(f"| {who} | {median:.0f} ({min(rates):.0f}-{max(rates):.0f}) | {seconds:.2f} | {cpu_text} | {ratio} | {runs[-1].note} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--links", default="loopback,far,lossy")
    parser.add_argument("--ways", default="nowhere,down,up")
    parser.add_argument("--size", type=int, default=1024, help="of the file, in MiB")
    parser.add_argument("--only", default="", help="contenders, by the beginning of their names")
    parser.add_argument("--no-iperf", action="store_true")
    parser.add_argument("--write", action="store_true", help="to bench/results")
    options = parser.parse_args()
    only = tuple(filter(None, options.only.split(",")))
    results: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="hither-copy-", dir=MEMORY) as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "up").mkdir()
        (folder / "up").chmod(0o777)
        block = os.urandom(1 << 20)
        with (folder / "data").open("wb") as file:
            for number in range(options.size):
                file.write(number.to_bytes(8, "little") + block[8:])
        for link in options.links.split(","):
            for way in options.ways.split(","):
                if way == "nowhere" and link != "loopback":
                    continue
                who = {"nowhere": NOWHERE, "down": DOWN, "up": UP}[way]
                who = [it for it in who if not only or it.name.startswith(only)]
                results += rounds(link, way, who, options, folder)
    text = table(results)
    print(text)
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "copy.md").write_text(f"# Copies of {options.size} MiB\n{text}\n")
        with (RESULTS / "copy.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Run.__dataclass_fields__)
            writer.writerows([list(vars(run).values()) for run in results])


if __name__ == "__main__":
    main()
