"""The figures of the talk of 2007, completed with the cells that it left empty, and hither beside.

Three of them, over the talk's links:

- its table: ROOT with a cache of 0, 64 KB and 10 MB, over http and root://;
- at 240 ms: parallel sockets and the size of the cache, which the talk shows as two curves;
- at 240 ms: the bytes that have arrived by each moment, in which opening, learning, slow start and
  transfer are seen, and the time of the first ten events beside that of all.

A run of more than 45 s is computed from a part of it, run on the same link, and marked `~`. Needs
root and ROOT. Results: `results/talk/`.

    python -m bench.talk [--links ABCDEFG] [--only table,sockets,timeline]
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

from bench.demo import Demo, OldWay, Row
from bench.harness import tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import Addresses, Contender, Query, hither, peer, root_draw, serving, timed
from bench.harness.interleaved import say
from bench.harness.links import LINKS, Loopback, ends_of
from bench.harness.paths import RESULTS, temporary_folder
from bench.harness.plots import subplots

KB, MB = 65_536, 10_000_000
SIZES = {"0": 0, "64 KB": KB, "10 MB": MB}
OLD = [
    OldWay(f"ROOT {scheme}, {name}", size, protocol)
    for protocol, scheme in (("http", "http"), ("root", "root://"))
    for name, size in SIZES.items()
]
OURS = {"hither http": hither(), "hither root://": hither(protocol="root")}
# The talk's own times, in seconds; the cells that it leaves out are None.
OF_2007 = {
    "A": (3.4, 3.4, 3.4),
    "B": (8.0, 6.0, 4.0),
    "C": (11.6, 5.6, 4.9),
    "D": (124.7, 12.3, 9.0),
    "E": (230.9, 11.7, 8.4),
    "F": (743.7, 48.3, 28.0),
    "G": (None, 125.4, 9.9),
}
SOCKETS = (1, 8)
OUR_SOCKETS = (*SOCKETS, 64)
CACHES = {"64 KB": KB, "1 MB": 1_000_000, "10 MB": MB}
FIRST_EVENTS = 10
REPEATS = 3

# Prints the time and the bytes received by then of the namespace's first interface but `lo`.
SAMPLER = """
import time
while True:
    rows = [line.split() for line in open("/proc/net/dev") if ":" in line and "lo:" not in line]
    print(time.monotonic(), sum(int(row[1]) for row in rows), flush=True)
    time.sleep(0.01)
"""


class Talk(Demo):
    """The rows of the talk's table, over both protocols."""

    def links(self, links: list) -> None:
        for link in links:
            row = Row(link)
            with ends_of(link) as where, serving(where, self.query.file) as at:
                for title, command in OURS.items():
                    row.times[title] = self.run(where, at, link, Contender(title, command)).seconds
                for way in OLD:
                    self.old_way(where, at, row, way)
            self.rows.append(row)
            say(f"{link.letter}  " + ", ".join(f"{title} {row.cell(title)}" for title in row.times))

    def table(self) -> list[str]:
        titles = [*OURS, *(way.title for way in OLD)]
        rows = []
        for row in self.rows:
            then = (f"{seconds:g}" if seconds else ">1800" for seconds in OF_2007[row.link.letter])
            rows.append([row.link.letter, row.link.label, *map(row.cell, titles), *then])
        heads = ["", "link", *titles, *(f"2007, {name}" for name in SIZES)]
        return tables.markdown(heads, rows, "llr")

    def sockets(self) -> list[str]:
        """Seconds at 240 ms by sockets and cache; `hither` decides both itself unless told."""
        ways = [
            OldWay(f"ROOT root://, {count} {name}", size, "root", count)
            for count in SOCKETS
            for name, size in CACHES.items()
        ]
        # Runs on loopback tell how many round trips each takes.
        measured = Talk(self.query)
        for link in (LINKS["A"], LINKS["G"]):
            row = Row(link)
            with ends_of(link) as where, serving(where, self.query.file) as at:
                for way in ways:
                    measured.old_way(where, at, row, way)
                for count in OUR_SOCKETS:
                    title = f"hither {count}"
                    command = hither("--max-connections", count)
                    row.times[title] = measured.run(where, at, link, Contender(title, command)).seconds
            measured.rows.append(row)
            say(f"{link.letter}  " + ", ".join(f"{title} {row.cell(title)}" for title in row.times))
        cells = [
            [str(count), *(row.cell(f"ROOT root://, {count} {name}") for name in CACHES), row.cell(f"hither {count}")]
            for count in SOCKETS
        ]
        cells.append(["64", *("" for _ in CACHES), row.cell("hither 64")])
        return tables.markdown(["sockets", *(f"ROOT root://, {name}" for name in CACHES), "hither http"], cells, "r")


def arrivals(where: Loopback, command: list) -> tuple[dict, list[tuple[float, float]]]:
    """A run's report, and the megabytes that had arrived by each second since the first packet."""
    sampler = subprocess.Popen(where.client([sys.executable, "-c", SAMPLER]), stdout=subprocess.PIPE, text=True)
    try:
        found = timed(where, command, 60)
    finally:
        sampler.terminate()
        lines = sampler.communicate()[0].splitlines()
    samples = [(float(at), int(count)) for at, _, count in (line.partition(" ") for line in lines) if count]
    before = samples[0][1]
    first = next(at for at, count in samples if count > before)
    last = next(at for at, count in samples if count == samples[-1][1])
    report = json.loads(found["stdout"].strip().splitlines()[-1] if "\n{" in found["stdout"] else found["stdout"])
    return report, [(at - first, (count - before) / 1e6) for at, count in samples if first - 0.02 <= at <= last + 0.02]


def root_phases(report: dict, first: dict) -> list[str]:
    """Opening, the first events (with the learning phase), and the rest."""
    opening = report["open"] + report["tree"]
    return [opening, first["draw"], max(0.0, report["draw"] - first["draw"]), report["seconds"]]


def timeline(query: Query) -> list[str]:
    """Writes the picture; returns the table of phases: medians of some runs."""
    link = LINKS["G"]
    with ends_of(link) as where, serving(where, query.file) as at, temporary_folder() as work:
        figure, axes = subplots(figsize=(9, 5))
        rows = []
        for protocol, name in (("root", "ROOT root://"), ("http", "ROOT http")):
            phases = []
            for number in range(REPEATS):
                first, _ = arrivals(where, root_draw(protocol, MB, FIRST_EVENTS)(at, query))
                whole, points = arrivals(where, root_draw(protocol, MB)(at, query))
                phases.append(root_phases(whole, first))
                if number == 0:
                    axes.plot(*zip(*points, strict=True), label=f"{name}, cache of 10 MB")
            rows.append([name, *(tables.seconds(statistics.median(column)) for column in zip(*phases, strict=True))])
            say(f"timeline: {rows[-1]}")
        for name, is_second in (("hither, first process", False), ("hither, next process", True)):
            phases = []
            for number in range(REPEATS):
                store = work / f"{is_second}{number}"
                if is_second:
                    arrivals(where, hither("--store", store)(at, query))
                report, points = arrivals(where, hither("--store", store)(at, query))
                ten = first_events(where, at, query, work / f"ten{is_second}{number}", is_second)
                inside = report["report"]
                opening, whole = inside["open_seconds"], inside["seconds"]
                phases.append([opening, max(0.0, ten - opening), max(0.0, whole - max(ten, opening)), whole])
                if number == 0:
                    axes.plot(*zip(*points, strict=True), label=name)
            rows.append([name, *(tables.seconds(statistics.median(column)) for column in zip(*phases, strict=True))])
            say(f"timeline: {rows[-1]}")
        axes.set_xlabel("seconds since the first packet")
        axes.set_ylabel("MB that have arrived")
        axes.set_title("the talk's query at 240 ms: opening, learning, slow start, transfer")
        axes.grid(alpha=0.3)
        axes.legend()
        (RESULTS / "talk").mkdir(parents=True, exist_ok=True)
        figure.savefig(RESULTS / "talk" / "timeline.png", dpi=120)
    heads = ["", "opening, s", f"until {FIRST_EVENTS} events, s", "all others, s", "together, s"]
    return tables.markdown(heads, rows, "lr")


def first_events(where: Loopback, at: Addresses, query: Query, store: Path, is_second: bool) -> float:
    """Seconds from the URL to the arrays of the first events, by the Python package."""
    command = peer("draw.hither_arrays", at.http, query.warm_up, "--entries", FIRST_EVENTS, "--store", store)
    for _ in range(2 if is_second else 1):
        report = json.loads(timed(where, command, 60)["stdout"])
    return report["report"]["seconds"]


def main() -> int:
    parser = Arguments(__doc__, "talk", output="talk/README", links="ABCDEFG")
    parser.add_argument("--only", default="table,sockets,timeline", help="parts, comma separated")
    chosen = parser.parse()
    query = Query.of_the_talk()
    talk = Talk(query)
    if not talk.with_root:
        parser.error("ROOT is not installed (tools/setup-peers installs it)")
    facts = query.facts
    parts = [
        "# The talk's figures, completed\n",
        f"{query}: {facts['query_baskets']} baskets. Seconds from opening the URL to the histogram, one run of each; "
        "`~` is computed from a part that was run.\n",
    ]
    wanted = chosen.only.split(",")
    if "table" in wanted:
        talk.links(chosen.links)
        parts += ["## ROOT's cache, over both protocols\n", *talk.table(), ""]
    if "sockets" in wanted:
        parts += ["## Sockets and cache at 240 ms\n", *talk.sockets(), ""]
    if "timeline" in wanted:
        note = (
            f"Medians of {REPEATS} runs. The first {FIRST_EVENTS} events are a run of their own, which ends with them; "
            "those of hither are read as arrays by the Python package.\n"
        )
        parts += ["## Opening, the first events, and the rest at 240 ms\n", note, *timeline(query), ""]
        parts += ["![MB that have arrived by each second](timeline.png)", ""]
    tables.save(chosen.output, parts)
    for wrong in talk.wrong:
        say(f"WRONG ANSWER: {wrong}")
    return 1 if talk.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
