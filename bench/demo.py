"""The talk's table, today: one query of a tree of 275 MB, from seven places.

As root the links are packets between two network namespaces (hither-wan); otherwise hither-proxy
delays the bytes on loopback, without TCP slow start, and the table says so. All ways of reading
must give the same answer.

The old ways are ROOT's: without a cache it requests one piece (basket) at a time, with a cache of
64 KB as many as fit. Without ROOT, a small HTTP client does the same (peers/draw/piecewise.py).
A run of more than a minute is computed from a part of it, run on the same link, and
marked `~`.
"""

import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.generators import talkfile
from bench.harness.contenders import RAW, Addresses, Contender, Query, Run, hither, measure, peer, root_draw, serving
from bench.harness.interleaved import say
from bench.harness.links import LINKS, Link, Loopback, ends_of, is_root
from bench.harness.paths import HITHER, HITHER_PROXY, HITHER_WAN, ROOT
from bench.harness.plots import subplots
from bench.harness.pyroot import import_root
from bench.harness.tables import seconds

PICTURE = ROOT / "demo.png"
MAX_MEASURED = 45.0  # seconds; the whole demo has to end within five minutes
SAMPLE = 8.0  # seconds of a slow way that are run
TIMEOUT = 120.0


@dataclass(frozen=True)
class OldWay:
    """A column of the talk's table: ROOT with a cache of `cache` bytes, over a number of `streams`.

    Only XrdCl, the client of `root://`, divides a connection into streams.
    """

    title: str
    cache: int
    protocol: str = "http"
    streams: int = 1


ONE_PIECE = OldWay("one piece at a time", 0)
BUFFER_64K = OldWay("64 KB buffer", 65_536)


@dataclass
class Row:
    """The seconds of one link; `computed` names the columns that were not run to the end."""

    link: Link
    times: dict[str, float] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)

    def cell(self, title: str) -> str:
        value = self.times.get(title)
        if value is None:
            return "-"
        return f"~{value:.0f}" if title in self.computed else seconds(value)


def old_command(way: OldWay, with_root: bool, share: float, facts: dict) -> Contender:
    """The old way, over the first `share` of the data."""
    if with_root:
        entries = None if share == 1 else max(1, int(facts["entries"] * share))
        draw = root_draw(way.protocol, way.cache, entries)
        streams = f"XRD_SUBSTREAMSPERCHANNEL={way.streams}"
        return Contender(way.title, lambda at, query: ["env", streams, *draw(at, query)], answers=share == 1)

    def command(at: Addresses, query: Query) -> list[str]:
        ranges = query.file.with_suffix(".ranges.json")
        return peer("draw.piecewise", at.http, ranges, way.cache, f"{share:.6f}")

    return Contender(way.title, command, answers=share == 1)


class Demo:
    """The rows so far, and the round trips of the old ways, known from the first link."""

    def __init__(self, query: Query):
        self.query = query
        self.with_root = import_root() is not None
        self.rows: list[Row] = []
        self.trips: dict[str, int] = {}
        self.answers = 0
        self.wrong: list[str] = []
        self.histogram: dict | None = None

    def run(self, where: Loopback, at: Addresses, link: Link, who: Contender) -> Run:
        run = measure(where, who.command(at, self.query), Run(link.letter, "cubic", who.name, 0), TIMEOUT)
        if run.failure or run.late:
            sys.exit(f"demo: {who.name} over link {link.letter}: {run.failure or 'no answer within two minutes'}")
        if who.answers and who is not RAW:
            if wrong := self.query.disagreement(run):
                self.wrong.append(f"{who.name}, link {link.letter}: {wrong}")
            self.answers += 1
        return run

    def estimate(self, way: OldWay, link: Link) -> float:
        """Seconds that the old way will take: its round trips in sequence, and the bytes."""
        wire = self.query.floor_bytes * 8 / (link.mbit * 1e6) if link.mbit else 0
        return self.rows[0].times[way.title] + self.trips[way.title] * link.rtt_ms / 1e3 + wire if self.rows else 0

    def old_way(self, where: Loopback, at: Addresses, row: Row, way: OldWay) -> None:
        expected = self.estimate(way, row.link)
        if expected <= MAX_MEASURED:
            run = self.run(where, at, row.link, old_command(way, self.with_root, 1, self.query.facts))
            row.times[way.title] = run.seconds
            self.trips.setdefault(way.title, run.report["reads"])
            return
        # The first part of the data, large enough to be typical; opening happens once, reading `1 /
        # share` times.
        share = min(1, max(SAMPLE / expected, 30 / self.trips[way.title]))
        run = self.run(where, at, row.link, old_command(way, self.with_root, share, self.query.facts))
        opening = run.report["open"] + run.report["tree"]
        trips_opening = run.report["reads_opening"]
        left = (self.trips[way.title] - trips_opening) / max(1, run.report["reads"] - trips_opening)
        row.times[way.title] = opening + run.report["draw"] * left
        row.computed.add(way.title)

    def link(self, link: Link) -> None:
        row = Row(link)
        with ends_of(link) as where, serving(where, self.query.file, only_http=True) as at:
            run = self.run(where, at, link, Contender("hither", hither()))
            row.times["hither"] = run.seconds
            trips = f"{run.report['round_trips']} round trips, {run.report['connections']} connections"
            say(f"  {link.letter}  {link.label:20} hither {seconds(run.seconds)} s ({trips})")
            row.times["wire"] = self.run(where, at, link, RAW).seconds
            for way in (BUFFER_64K, ONE_PIECE):
                self.old_way(where, at, row, way)
                say(f"     {'':20} {way.title}: {row.cell(way.title)} s")
        self.rows.append(row)


COLUMNS = (ONE_PIECE.title, BUFFER_64K.title, "hither", "wire")


def table(demo: Demo) -> str:
    facts = demo.query.facts
    lines = [
        f'{facts["tree"]}.Draw("{facts["expression"]}", "{facts["cut"]}"): seconds from opening the URL to the histogram',
        f"({facts['query_baskets']:,} pieces, {facts['query_bytes'] / 1e6:.1f} MB, scattered over a file of "
        f"{facts['bytes'] / 1e6:.0f} MB; served by a stock nginx over plain HTTP)",
        "",
        f"{'link':<4} {'round trip, rate':<22} {'where':<20} " + " ".join(f"{c:>20}" for c in COLUMNS),
    ]
    for row in demo.rows:
        cells = " ".join(f"{row.cell(c):>20}" for c in COLUMNS)
        lines.append(f"{row.link.letter:<4} {row.link.label:<22} {row.link.where:<20} {cells}")
    old = "ROOT" if demo.with_root else "a small HTTP client (ROOT is not installed)"
    lines += [
        "",
        f"one piece at a time, 64 KB buffer: {old}. wire: the same bytes over one TCP connection, nothing decoded.",
        "~ computed: a part was run on this link, and the rest is in proportion.",
    ]
    if not is_root():
        lines.append(
            "Links by hither-proxy: delay and rate are right, but there is no TCP slow start. Run as root for real packets."
        )
    return "\n".join(lines)


def picture(demo: Demo) -> None:
    figure, (left, right) = subplots(1, 2, figsize=(13, 5), width_ratios=(2, 3))
    h = demo.histogram
    width = (h["hi"] - h["lo"]) / h["bins"]
    left.stairs(h["counts"], [h["lo"] + i * width for i in range(h["bins"] + 1)], fill=True, color="tab:blue")
    left.set_yscale("log")
    facts = demo.query.facts
    left.set_title(f"{facts['expression']} where {facts['cut']}: {facts['selected']:,} values")
    left.set_xlabel(facts["expression"])
    left.set_ylabel("values per bin")

    styles = {
        ONE_PIECE.title: ("tab:red", "one piece at a time"),
        BUFFER_64K.title: ("tab:orange", "64 KB buffer"),
        "hither": ("tab:blue", "hither"),
        "wire": ("black", "the wire (one connection)"),
    }
    at = range(len(demo.rows))
    for title, (colour, label) in styles.items():
        values = [row.times[title] for row in demo.rows]
        line = "--" if title == "wire" else "-"
        right.plot(at, values, line, marker="o", color=colour, label=label)
        hollow = [(x, row.times[title]) for x, row in enumerate(demo.rows) if title in row.computed]
        if hollow:
            right.plot(*zip(*hollow, strict=True), "o", color="white", markeredgecolor=colour, zorder=3)
    right.set_yscale("log")
    right.set_ylabel("seconds until the histogram")
    right.set_xticks(at, [f"{row.link.letter}\n{row.link.label.replace(', ', chr(10))}" for row in demo.rows])
    kind = "" if is_root() else "; links by proxy, no TCP slow start"
    right.set_title(f"the same query from seven places (hollow: computed from a part{kind})")
    right.legend()
    right.grid(axis="y", alpha=0.3)
    figure.savefig(PICTURE, dpi=110)


def histogram_of(query: Query) -> dict:
    """The histogram of the picture, by hither from the file on disk."""
    command = query.draw(query.file, "--bins", "120", "--range", "0:30", "--no-store")
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["histogram"]


def write_ranges(file: Path) -> None:
    """Writes the offsets of the query's baskets for the client that replaces ROOT."""
    target = file.with_suffix(".ranges.json")
    if target.exists() and target.stat().st_mtime >= file.stat().st_mtime:
        return
    import uproot

    with uproot.open(file) as opened:
        key = opened.key(talkfile.TREE)
        tree = opened[talkfile.TREE]
        pieces = []
        for name in ("rawtr", "E33"):
            branch = tree[name]
            for i in range(branch.num_baskets):
                start = int(branch.member("fBasketSeek")[i])
                size = int(branch.member("fBasketBytes")[i])
                pieces.append([name, i, start, size, int(branch.basket_entry_start_stop(i)[0])])
    pieces.sort(key=lambda piece: piece[2])
    target.write_text(json.dumps({"tree": [int(key.fSeekKey), int(key.fNbytes)], "pieces": pieces}))


def main() -> int:
    # SIGTERM ends the program as Ctrl-C does, so that everything it started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for binary in (HITHER, HITHER_WAN if is_root() else HITHER_PROXY):
        if not binary.exists():
            sys.exit(f"demo: {binary} is missing; `make demo` builds it")
    started = time.monotonic()
    data = talkfile.DEFAULT_OUTPUT
    query = Query(data, data, talkfile.ensure(data))
    demo = Demo(query)
    if not demo.with_root:
        write_ranges(data)
    kind = "packets between two network namespaces" if is_root() else "a proxy on loopback (no TCP slow start)"
    say(f"demo: seven links, by {kind}; about four minutes")
    for link in LINKS.values():
        demo.link(link)
    demo.histogram = histogram_of(query)
    picture(demo)

    print()
    print(table(demo))
    print()
    for wrong in demo.wrong:
        print(f"WRONG ANSWER: {wrong}")
    if not demo.wrong:
        facts = query.facts
        print(
            f"All {demo.answers} complete runs gave the same answer: {facts['selected']:,} values, mean {facts['mean']:.6f}."
        )
    far = demo.rows[-1]
    gain = far.times[ONE_PIECE.title] / far.times["hither"]
    if math.isfinite(gain):
        print(f"At {far.link.label}: {gain:,.0f} times faster than one piece at a time.")
    print(f"Picture: {PICTURE.name}. Took {time.monotonic() - started:.0f} s.")
    return 1 if demo.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
