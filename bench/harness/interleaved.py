"""Interleaved rounds of any contenders, and a table of their medians.

A round runs every entrant once; each round starts with another one. An entrant that fails, is
killed or answers wrongly takes no further part. Medians are printed, and ratios between them, since
no two days of a machine are alike.
"""

import math
import signal
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness import tables
from bench.harness.contenders import Addresses, Contender, Query, Run, measure
from bench.harness.links import Loopback


@dataclass(frozen=True)
class Entrant:
    """A contender with its command line, or None if a server that it needs is not installed.

    `check` returns the fault of a run's answer, if there is one; `before` prepares a run, outside
    the measured time.
    """

    name: str
    command: list | None
    check: Callable[[Run], str | None] = lambda _: None
    before: Callable[[], None] = lambda: None


def entrants(contenders: Iterable[Contender], at: Addresses, query: Query) -> list[Entrant]:
    return [Entrant(who.name, who.command(at, query), query.disagreement) for who in contenders]


def rotated(items: list, number: int) -> list:
    """Round `number` of `items`: each starts with another one, so that neighbours change."""
    first = number % len(items)
    return [*items[first:], *items[:first]]


def paired(ratios: Iterable[float]) -> tuple[float, float, float]:
    """The ratio that pairs show, and its 95 % interval.

    It is the median of the means of all two of their logarithms (Hodges and Lehmann 1963), which a
    disturbed pair hardly moves; the interval is that of Wilcoxon's signed ranks, in their normal
    approximation, which holds from about ten pairs on.
    """
    logs = [math.log(ratio) for ratio in ratios]
    count = len(logs)
    means = sorted((logs[a] + logs[b]) / 2 for a in range(count) for b in range(a, count))
    spread = 1.96 * math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    low = max(0, math.floor(count * (count + 1) / 4 - spread))
    return tuple(math.exp(it) for it in (statistics.median(means), means[low], means[-1 - low]))


@dataclass
class Rounds:
    """The runs of one benchmark so far."""

    count: int
    timeout: float = 120
    runs: list[Run] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def play(self, where: Loopback, link: str, server: str, entrants: list[Entrant]) -> None:
        """All rounds at one server."""
        for number in range(self.count):
            self.round(where, link, server, rotated(entrants, number), number)

    def round(self, where: Loopback, link: str, server: str, entrants: list[Entrant], number: int) -> None:
        """One round, in this order."""
        for entrant in entrants:
            if not all(r.is_good for r in self.select(link, server, entrant.name) if r.congestion == where.congestion):
                continue
            run = Run(link, where.congestion, entrant.name, number, server)
            if entrant.command is None:
                run.failure = "a server that it needs is not installed"
            else:
                entrant.before()
                measure(where, entrant.command, run, self.timeout)
            if run.is_good and (wrong := entrant.check(run)):
                run.failure = wrong
                self.wrong.append(f"{entrant.name}, {server}, {link}: {wrong}")
            self.runs.append(run)
            say(f"{link:20} {where.congestion:5} {server:8} {entrant.name:24} {tables.outcome(run)}")

    def select(self, link: str, server: str, name: str) -> list[Run]:
        return [r for r in self.runs if (r.link, r.server, r.contender) == (link, server, name)]

    def median(self, link: str, server: str, name: str, figure: str = "seconds") -> float | None:
        return tables.median(self.select(link, server, name), figure)

    def ratio(self, link: str, server: str, name: str, other: str) -> float | None:
        ours, theirs = self.median(link, server, name), self.median(link, server, other)
        return ours / theirs if ours and theirs else None


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Stops the block at Ctrl-C or SIGTERM; the program goes on and writes the results so far."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted: writing the results so far")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("seconds", "s", tables.seconds),
    ("cpu", "CPU s", tables.seconds),
    ("requests", "requests", "{:.0f}".format),
    ("turns", "turns", "{:.0f}".format),
    ("round_trips", "round trips", "{:.0f}".format),
    ("connections", "connections", "{:.0f}".format),
    ("received_mb", "MB received", "{:.2f}".format),
    ("peak_mb", "peak MiB", "{:.0f}".format),
)


def table(rounds: Rounds, link: str, floor: str | None) -> list[str]:
    """One row for each server and entrant, with the ratio to the floor at the same server."""
    heads = ["server", "", *(head for _, head, _ in FIGURES), *([f"x {floor}"] if floor else [])]
    rows = []
    for server, name in dict.fromkeys((r.server, r.contender) for r in rounds.runs if r.link == link):
        runs = rounds.select(link, server, name)
        cells = [tables.cell(runs, figure, form) for figure, _, form in FIGURES]
        if floor:
            ratio = rounds.ratio(link, server, name, floor)
            cells.append(f"{ratio:.2f}" if ratio else "")
        rows.append([server, name, *cells])
    return tables.markdown(heads, rows, "llr")


def write(
    rounds: Rounds, output: Path, title: str, notes: Iterable[str], targets: Iterable[str], floor: str | None = None
) -> int:
    """Writes OUTPUT.md, and OUTPUT.csv with every run; returns 1 if an answer was wrong, else 0."""
    parts = [
        f"# {title}",
        "",
        *notes,
        "Client, server and link share the machine. Medians; congestion control cubic.",
        "",
    ]
    if targets := list(targets):
        parts += ["## Targets", "", *(f"- {target}" for target in targets), ""]
    for link in dict.fromkeys(r.link for r in rounds.runs):
        parts += [f"## {link}", "", *table(rounds, link, floor), ""]
    parts += tables.failures(rounds.runs)
    tables.save(output, parts)
    tables.write_csv(output, [run.row() for run in rounds.runs])
    return 1 if rounds.wrong else 0


def target_line(what: str, is_met: bool) -> str:
    return f"{what}: {'met' if is_met else 'MISSED'}"


def ratio_line(what: str, ratio: float | None, maximum: float) -> str:
    """A target that is a largest ratio."""
    if ratio is None:
        return f"{what}: not measured"
    return target_line(f"{what}: {ratio:.2f} x, at most {maximum:g} x", ratio <= maximum)
