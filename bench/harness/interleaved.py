"""Interleaved rounds of any contenders, and a table of what they took; for the benches beside run.py.

A round is every entrant once; the first one is another each time. Who fails or is late takes no further part. Medians are
printed, and ratios between them, since the machine is not the same tomorrow.
"""

import csv
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness import tables
from bench.harness.contenders import Run, contest
from bench.harness.links import Loopback


@dataclass(frozen=True)
class Entrant:
    """`check` says what is wrong with the answer of a run, if anything; `before` sets the scene, outside the clock."""

    name: str
    command: list[str]
    check: Callable[[Run], str | None] = lambda _: None
    before: Callable[[], None] = lambda: None


@dataclass
class Rounds:
    """The runs of one bench so far."""

    count: int
    timeout: float = 120
    runs: list[Run] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def play(self, where: Loopback, link: str, server: str, entrants: list[Entrant]) -> None:
        out: set[str] = set()
        for number in range(self.count):
            turn = number % len(entrants)
            for entrant in [*entrants[turn:], *entrants[:turn]]:
                if entrant.name in out:
                    continue
                run = Run(link, "cubic", entrant.name, number, server)
                entrant.before()
                contest(where, [str(word) for word in entrant.command], run, self.timeout)
                if run.late or run.failure:
                    out.add(entrant.name)
                elif wrong := entrant.check(run):
                    run.failure = wrong
                    self.wrong.append(f"{entrant.name}, {server}, {link}: {wrong}")
                self.runs.append(run)
                say(f"{link:20} {server:8} {entrant.name:24} {tables.outcome(run)}")

    def select(self, link: str, server: str, name: str) -> list[Run]:
        return [r for r in self.runs if (r.link, r.server, r.contender) == (link, server, name)]

    def median(self, link: str, server: str, name: str, figure: str = "seconds") -> float | None:
        return tables.median(self.select(link, server, name), figure)

    def ratio(self, link: str, server: str, name: str, other: str) -> float | None:
        ours, theirs = self.median(link, server, name), self.median(link, server, other)
        return ours / theirs if ours and theirs else None


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Asked to end, by Ctrl-C or otherwise, a bench stops what it started and writes what it has."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted: writing what there is")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("seconds", "s", tables.seconds),
    ("cpu", "CPU s", tables.seconds),
    ("requests", "requests", "{:.0f}".format),
    ("turns", "turns", "{:.0f}".format),
    ("flights", "flights", "{:.0f}".format),
    ("connections", "connections", "{:.0f}".format),
    ("received_mb", "MB received", "{:.2f}".format),
    ("peak_mb", "peak MiB", "{:.0f}".format),
)


def table(rounds: Rounds, link: str, floor: str | None) -> list[str]:
    """One row for each server and entrant, with the ratio to the floor at the same server."""
    heads = [head for _, head, _ in FIGURES]
    lines = ["| server | | " + " | ".join(heads) + (f" | x {floor} |" if floor else " |")]
    lines.append("|---|---|" + "---:|" * (len(heads) + bool(floor)))
    for server, name in dict.fromkeys((r.server, r.contender) for r in rounds.runs if r.link == link):
        runs = rounds.select(link, server, name)
        cells = [tables.cell(runs, figure, form) for figure, _, form in FIGURES]
        if floor:
            ratio = rounds.ratio(link, server, name, floor)
            cells.append(f"{ratio:.2f}" if ratio else "")
        lines.append(f"| {server} | {name} | " + " | ".join(cells) + " |")
    return lines


def write(rounds: Rounds, output: Path, title: str, notes: Iterable[str], bounds: Iterable[str], floor: str | None) -> None:
    """NAME.md for people, NAME.csv with every run."""
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    parts = [f"# {title}", "", *notes, f"Load of the machine at the end (1, 5, 15 minutes): {load}.", ""]
    if bounds := list(bounds):
        parts += ["## Bounds", "", *(f"- {bound}" for bound in bounds), ""]
    for link in dict.fromkeys(r.link for r in rounds.runs):
        parts += [f"## {link}", "", *table(rounds, link, floor), ""]
    failures = [f"- {r.contender}, {r.server}, {r.link}: {r.failure}" for r in rounds.runs if r.failure]
    if failures:
        parts += ["## Failures", "", *dict.fromkeys(failures), ""]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.with_suffix(".md").write_text("\n".join(parts))
    with output.with_suffix(".csv").open("w", newline="") as file:
        rows = [run.row() for run in rounds.runs]
        writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)
    print("\n".join(parts))


def bound(what: str, ratio: float | None, most: float) -> str:
    """A sentence on a ratio that must not be exceeded."""
    if ratio is None:
        return f"{what}: not measured"
    return f"{what}: {ratio:.2f} x, at most {most:g} x: {'kept' if ratio <= most else 'MISSED'}"
