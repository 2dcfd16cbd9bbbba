"""`hither cp` on a path that it shares with its own kind and with others, or that changes.

    python -m bench.tuning.sharing [--quick]

Over 20 ms and 200 Mbit/s with cubic, from one nginx. Rates are the bytes that the client's kernel
has received for each process, second by second.

- Two and four copies that begin together: Jain's index of their bytes after the first ten seconds.
- A copy beside a flow of iperf3.
- A copy whose path loses half of its capacity to datagrams for a while, and gets it back: the
  seconds until the rate of every two seconds stays within a tenth of what it settles at.
- A copy alone for two minutes: the rates of ten seconds each, and the tuner's decisions.

Needs root and iperf3 (`apt-get install iperf3`).
"""

import json
import os
import re
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.interleaved import say, target_line
from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER, temporary_folder

LINK = Link("P", 20, 200, "another country")
FULL = 200e6 / 8
SETTLED, SECONDS, PHASE, ALONE = 10, 40, 25, 120
MIN_JAIN, MAX_OF_IPERF, MAX_SETTLING = 0.95, 2.0, 10
NEAR, SPAN = 0.1, 2
"""The part of a rate within which another is as good, and the seconds over which it is taken."""
LARGE = 40_000_000_000
"""Bytes that no copy gets to the end of. Files have no blocks."""
Rates = dict[int, list[float]]


class Arrivals:
    """Bytes that processes at the client's end have received over TCP."""

    def __init__(self, where: Wan):
        self.where = where
        self.connections: dict[str, int] = {}
        self.totals: dict[int, int] = {}

    def count(self) -> dict[int, int]:
        """Bytes by process so far; those of a connection that has ended up to the last call."""
        listing = subprocess.run(self.where.client(["ss", "-HtinpO"]), check=True, stdout=subprocess.PIPE, text=True)
        for line in listing.stdout.splitlines():
            found = re.search(r"(\S+)\s+\S+\s+users:\(\(\"[^\"]*\",pid=(\d+).* bytes_received:(\d+)", line)
            if found:
                name, process, received = found[1], int(found[2]), int(found[3])
                new = received - self.connections.get(name, 0)
                self.totals[process] = self.totals.get(process, 0) + new
                self.connections[name] = received
        return dict(self.totals)

    def rates(self, seconds: int) -> Rates:
        """Bytes per second of each process, second by second."""
        began = then = time.monotonic()
        before, found = self.count(), {}
        for number in range(seconds):
            time.sleep(max(0.0, began + number + 1 - time.monotonic()))
            after, now = self.count(), time.monotonic()
            for process, count in after.items():
                row = found.setdefault(process, [0.0] * number)
                row.append((count - before.get(process, 0)) / (now - then))
            before, then = after, now
        return found


@dataclass(frozen=True)
class SharedPath:
    """The link, with a server of files and one of iperf3."""

    where: Wan
    folder: Path
    url: str
    iperf_port: int

    @contextmanager
    def program(self, *command: object) -> Iterator[int]:
        """A program at the client's end, ended as by Ctrl-C; its process id."""
        words = self.where.client([str(word) for word in command])
        program = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield program.pid
        finally:
            program.send_signal(signal.SIGINT)
            program.wait(20)

    def copy(self) -> AbstractContextManager[int]:
        return self.program(HITHER, "cp", "--no-store", self.url, "/dev/null")

    def flow(self, *options: object) -> AbstractContextManager[int]:
        """A download by iperf3."""
        server = ("-c", self.where.server_host, "-p", self.iperf_port)
        return self.program("iperf3", *server, "--reverse", "--time", 10 * SECONDS, *options)

    def rates(self, seconds: int, programs: list[AbstractContextManager[int]]) -> list[list[float]]:
        """The rates of programs that begin together, in their order."""
        with ExitStack() as stack:
            processes = [stack.enter_context(program) for program in programs]
            found = Arrivals(self.where).rates(seconds)
        return [found[process] for process in processes]


@contextmanager
def shared_path(folder: Path) -> Iterator[SharedPath]:
    with (folder / "file").open("wb") as file:
        file.truncate(LARGE)
    port = servers.free_port()
    server = ["iperf3", "--server", "--port", str(port)]
    with (
        Wan(LINK) as where,
        servers.nginx(where, folder) as http,
        servers.running(where, server, port, folder / "iperf.log"),
    ):
        yield SharedPath(where, folder, f"http://{where.server_host}:{http}/file", port)


def mean_rates(rates: list[list[float]]) -> list[float]:
    """Mean rates after the beginning."""
    return [statistics.fmean(row[SETTLED:]) for row in rates]


def jain(values: list[float]) -> float:
    """Jain's index of fairness: 1 if all are alike, 1/n if one has all (DEC-TR-301, 1984)."""
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values))


def seconds_to_settle(rates: list[float]) -> int:
    """Seconds until the rate stays near what it is in the second half."""
    settled = statistics.median(rates[len(rates) // 2 :])
    spans = [statistics.fmean(rates[at : at + SPAN]) for at in range(len(rates) - SPAN + 1)]
    far = [at for at, rate in enumerate(spans) if abs(rate / settled - 1) > NEAR]
    return max(far, default=-1) + 1


def mbit(rate: float) -> str:
    return f"{rate * 8 / 1e6:.0f}"


def own_kind(path: SharedPath, number: int) -> list[str]:
    means = mean_rates(path.rates(SECONDS, [path.copy() for _ in range(number)]))
    index = jain(means)
    shares = ", ".join(mbit(mean) for mean in means)
    text = f"{number} copies: {shares} Mbit/s, {sum(means) / FULL:.0%} of the path; Jain's index {index:.3f}"
    return [target_line(f"{text} (at least {MIN_JAIN})", index >= MIN_JAIN)]


def beside_iperf(path: SharedPath) -> list[str]:
    ours, theirs = mean_rates(path.rates(SECONDS, [path.copy(), path.flow()]))
    alone = mean_rates(path.rates(SECONDS // 2, [path.flow()]))[0]
    text = f"beside a flow of iperf3, which has {mbit(alone)} Mbit/s alone: {mbit(ours)}, iperf3 {mbit(theirs)} Mbit/s"
    return [target_line(f"{text}; {ours / theirs:.1f} times (at most {MAX_OF_IPERF:g})", ours <= MAX_OF_IPERF * theirs)]


def moving_capacity(path: SharedPath) -> list[str]:
    lines = []
    arrivals = Arrivals(path.where)
    with path.copy() as process:
        arrivals.rates(SETTLED)
        datagrams = path.flow("--udp", "--bitrate", "100M")
        with datagrams:
            phases = {"halved": arrivals.rates(PHASE)[process]}
        phases["doubled again"] = arrivals.rates(PHASE)[process]
    for name, rates in phases.items():
        took, settled = seconds_to_settle(rates), statistics.median(rates[PHASE // 2 :])
        text = f"capacity {name}: settled after {took} s at {mbit(settled)} Mbit/s (at most {MAX_SETTLING} s)"
        lines.append(target_line(text, took <= MAX_SETTLING))
    return lines


def alone(path: SharedPath, seconds: int) -> list[str]:
    """A copy that takes `seconds` at nine tenths of the capacity, and how it was tuned."""
    (path.folder / "whole").touch()
    os.truncate(path.folder / "whole", int(0.9 * FULL * seconds))
    words = path.where.client(
        [
            str(HITHER),
            "cp",
            "--no-store",
            "--json",
            "--explain-tuning",
            f"{path.url.removesuffix('file')}whole",
            "/dev/null",
        ]
    )
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        rates = Arrivals(path.where).rates(int(0.85 * seconds))[program.pid]
        told = json.loads(program.communicate()[0])
    spans = [statistics.fmean(rates[at : at + 10]) for at in range(SETTLED, len(rates) - 9, 10)]
    low = sum(span < (1 - NEAR) * statistics.median(spans) for span in spans)
    kinds = Counter(decision["phase"] for decision in told["tuning"])
    return [
        f"alone for {told['seconds']:.0f} s: {mbit(told['bytes'] / told['seconds'])} Mbit/s, ten seconds each "
        f"{mbit(min(spans))} to {mbit(max(spans))}, {low} of {len(spans)} a tenth below the median; "
        f"decisions: {dict(kinds)}"
    ]


def main() -> None:
    parser = Arguments(__doc__, "tuning/sharing", output="sharing", quick="one minute alone", runs=1)
    arguments = parser.parse_args()
    lines = ["# `hither cp` on a path that it shares", "", f"{LINK.label}, cubic, from nginx.", ""]
    for _ in range(arguments.runs):
        with temporary_folder() as folder, shared_path(folder) as path:
            parts = (
                lambda path=path: own_kind(path, 2),
                lambda path=path: own_kind(path, 4),
                lambda path=path: beside_iperf(path),
                lambda path=path: moving_capacity(path),
                lambda path=path: alone(path, 60 if arguments.quick else ALONE),
            )
            for part in parts:
                for line in part():
                    say(line)
                    lines.append(f"- {line}")
    tables.save(arguments.output, lines)


if __name__ == "__main__":
    main()
