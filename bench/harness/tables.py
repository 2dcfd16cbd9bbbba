"""Tables of runs: medians in Markdown for people, every run in CSV and JSON for programs.

Every page and every CSV file of results is written by `save` and `write_csv`, which add the commit;
the page has date, load, machine and command, too.
"""

import csv
import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.harness.contenders import Query, Run
from bench.harness.links import LINKS
from bench.harness.paths import BINARIES, HITHER, ROOT

# Targets of hither: multiples of the raw stream in the same session; A and G have targets in
# seconds.
TARGET_RATIO = {"B": 1.12, "C": 1.08, "D": 1.12, "E": 1.15, "F": 1.08}
TARGET_SECONDS = {
    ("A", "hither"): 0.15,
    ("G", "hither 16"): 2.65,
    ("G", "hither 64"): 1.95,
    ("G", "hither second process 64"): 1.45,
}
NATIVE = "hither root://"
NATIVE_PEERS = ("root root://", "uproot XRootDSource")
MAX_WALL_ABOVE = 0.1  # seconds between the query's own time and the process's
MAX_PEAK_MB = 150

BEGIN = "<!-- Written by the harness, down to its end; what stands around that is kept. -->"
END = "<!-- End of what the harness writes. -->"
UNKNOWN = "unknown"


def commit() -> str:
    """The commit of this checkout, and `(dirty)` if files other than results differ from it."""

    def git(*words: str) -> str:
        with suppress(OSError):
            return subprocess.run(
                ["git", "-C", ROOT, *words], capture_output=True, text=True, check=False
            ).stdout.strip()
        return ""

    head = git("rev-parse", "--short=8", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return f"{head} (dirty)" if head and changed else head or UNKNOWN


@dataclass(frozen=True)
class Start:
    """Time, load of the machine and commit when the program began."""

    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    commit: str = field(default_factory=commit)


START = Start()


def outcome(run: Run) -> str:
    """One run in one line, for progress."""
    if run.late:
        return f"> {run.wall:.0f} s, killed"
    if run.failure:
        return f"FAILED, {run.failure}"
    turns = f", {run.turns} turns, {run.connections} connections" if run.turns is not None else ""
    return f"{run.seconds:.3f} s (process {run.wall:.3f} s){turns}"


def select(runs: Iterable[Run], link: str, congestion: str, contender: str) -> list[Run]:
    return [r for r in runs if (r.link, r.congestion, r.contender) == (link, congestion, contender)]


def median(runs: list[Run], field: str) -> float | None:
    """None if no run finished."""
    values = [getattr(r, field) for r in runs if getattr(r, field) is not None and r.is_good]
    return statistics.median(values) if values else None


def seconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def cell(runs: list[Run], field: str, form: Callable[[float], str]) -> str:
    value = median(runs, field)
    if value is not None:
        return form(value) + ("" if sum(r.is_good for r in runs) > 1 else " ¹")
    if any(r.late for r in runs):
        return f"> {max(r.wall for r in runs if r.late):.0f}"
    if any(r.failure for r in runs):
        return "failed"
    return "" if not runs else "-"


def markdown(heads: Iterable[str], rows: Iterable[Iterable[str]], align: str = "lr") -> list[str]:
    """The lines of a table; `align` is `l` or `r` for each column, the last for the rest."""
    heads = list(heads)
    rule = "|".join("---" if letter == "l" else "---:" for letter in align.ljust(len(heads), align[-1]))
    return ["| " + " | ".join(heads) + " |", f"|{rule}|", *("| " + " | ".join(row) + " |" for row in rows)]


def grouped(runs: Iterable, case: Callable) -> list[tuple]:
    """The runs of each case, in the order of their first ones; in it those of each `who`."""
    found: dict = {}
    for run in runs:
        found.setdefault(case(run), {}).setdefault(run.who, []).append(run)
    return list(found.items())


def provenance() -> list[str]:
    """The commit, date, command, machine and load of this measurement, as lines of a page."""
    processor = ""
    with suppress(OSError):
        processor = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = f" ({processor[1]})" if processor else ""
    programs = ""
    if HITHER.exists():
        built = datetime.fromtimestamp(HITHER.stat().st_mtime, UTC)
        folder = BINARIES.relative_to(ROOT) if BINARIES.is_relative_to(ROOT) else BINARIES
        programs = f" Programs of {folder}, built {built:%Y-%m-%d %H:%M}."
    return [
        f"Measured at commit {START.commit}, {START.time:%Y-%m-%d %H:%M} to {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, by",
        "",
        f"    {shlex.join(['python', *sys.orig_argv[1:]])}",
        "",
        f"on {os.cpu_count()} cores{name} of one machine, {platform.system()} {platform.release()}, load {START.load:.1f} at the "
        f"start and {os.getloadavg()[0]:.1f} at the end (means of a minute).{programs}",
    ]


def failures(runs: Iterable[Run]) -> list[str]:
    lines = [f"- {r.contender}, {r.server or r.congestion}, {r.link}: {r.failure}" for r in runs if r.failure]
    return ["## Failures", "", *dict.fromkeys(lines), ""] if lines else []


def save(output: Path, lines: Iterable[str]) -> None:
    """Writes OUTPUT.md, of which the first line is the title, and prints it.

    Of a page that exists, what stands before and after the harness's part is kept.
    """
    title, _, text = "\n".join(lines).strip("\n").partition("\n")
    part = "\n".join([BEGIN, title, "", *provenance(), "", text.strip("\n"), "", END])
    path = output.with_suffix(".md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(with_part(path.read_text() if path.exists() else "", part))
    print(part)


def with_part(page: str, part: str) -> str:
    """The page with this part of the harness in place of its last one, or of all if it has none."""
    before, _, rest = page.partition(BEGIN)
    _, is_marked, after = rest.partition(END)
    return f"{before}{part}{after}" if is_marked else f"{part}\n"


def write_csv(output: Path, rows: list[dict]) -> None:
    """Writes OUTPUT.csv, each row with its commit: this one, unless it has that of another run."""
    columns = dict.fromkeys(column for row in rows for column in row) | {"commit": None}
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(columns), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "commit": row.get("commit") or START.commit} for row in rows)


def read_csv(output: Path) -> list[dict]:
    """The rows of OUTPUT.csv, each with its commit; none if there is no such file."""
    path = output.with_suffix(".csv")
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{**row, "commit": row.get("commit") or UNKNOWN} for row in csv.DictReader(file)]


def add_rows(output: Path, title: str, rows: list[dict]) -> None:
    """Adds rows to those of OUTPUT.csv, which may lack columns, and writes all as a table, too."""
    rows = read_csv(output) + [{**row, "commit": START.commit} for row in rows]
    columns = dict.fromkeys(column for row in rows for column in row)
    write_csv(output, rows)
    save(output, [title, "", *markdown(columns, ([str(row.get(column, "")) for column in columns] for row in rows))])


def contenders(runs: list[Run], marked: bool) -> list[str]:
    """In order of first appearance; `@` marks the runs of the curve."""
    return [name for name in dict.fromkeys(r.contender for r in runs) if ("@" in name) == marked]


def columns(runs: list[Run]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((r.link, r.congestion) for r in runs if "@" not in r.contender))


def table(runs: list[Run], field: str, form: Callable[[float], str]) -> list[str]:
    heads = columns(runs)
    rows = []
    for name in contenders(runs, marked=False):
        cells = [cell(select(runs, link, how, name), field, form) for link, how in heads]
        if set(cells) - {"", "-"}:
            rows.append([name, *cells])
    return markdown(["", *(f"{link} {'' if how == 'cubic' else how}".strip() for link, how in heads)], rows)


def check_targets(runs: list[Run]) -> list[str]:
    """Targets of hither, and whether they are met."""
    rows = []
    for link, name in [*((link, "hither") for link in "ABCDEF"), *(k for k in TARGET_SECONDS if k[0] == "G")]:

        def figure(contender: str, field: str = "seconds", link: str = link) -> float | None:
            return median(select(runs, link, "cubic", contender), field)

        ours, raw = figure(name), figure("raw")
        if ours is None:
            continue
        peers = [figure(peer) for peer in contenders(runs, marked=False) if not peer.startswith(("hither", "raw"))]
        best = min((value for value in peers if value is not None), default=None)
        target, why = TARGET_SECONDS.get((link, name)), ""
        if target is None and raw is not None:
            target, why = TARGET_RATIO[link] * raw, f" ({TARGET_RATIO[link]} x raw; here {ours / raw:.2f} x)"
        faults = []
        if target is not None and ours > target:
            faults.append("too slow")
        if best is not None and ours >= best:
            faults.append("a peer is faster")
        if link == "A" and best is not None and ours * 3 > best:
            faults.append("not 3 x faster than the best peer")
        if (above := figure(name, "wall") - ours) > MAX_WALL_ABOVE:
            faults.append(f"the process takes {above:.2f} s more")
        if (peak := figure(name, "peak_mb")) > MAX_PEAK_MB:
            faults.append(f"peak memory {peak:.0f} MiB")
        target, best = seconds(target) + why if target else "", seconds(best) if best else ""
        rows.append([f"{link} {name}", seconds(ours), target, best, ", ".join(faults) or "met"])
    return markdown(["link", "hither", "target", "fastest peer", "result"], rows, "lrrrl")


def check_native_targets(runs: list[Run]) -> list[str]:
    """Targets over root://: as fast as http, faster than peers, fewer round trips on link G."""
    rows = []
    names = (NATIVE, "hither", *NATIVE_PEERS)
    for link in dict.fromkeys(r.link for r in runs):
        here = {name: select(runs, link, "cubic", name) for name in names}
        ours, http, *peers = times = [median(runs, "seconds") for runs in here.values()]
        if ours is None:
            continue
        results = []
        # Two runs of the same command differ in the last hundredth.
        if http is not None and ours > 1.03 * http + 0.01:
            results.append("http is faster")
        if any(peer is not None and ours >= peer for peer in peers):
            results.append("a peer is faster")
        trips = [median(here[name], "round_trips") for name in (NATIVE, NATIVE_PEERS[0])]
        saved = trips[1] - trips[0] if None not in trips and link == "G" else None
        if saved is not None and saved < 4:
            results.append(f"only {saved:.0f} round trips fewer than ROOT")
        result = ", ".join(results) or "met"
        if saved is not None and saved >= 4:
            result += f"; {saved:.0f} round trips fewer than ROOT"
        rows.append([link, *(seconds(value) if value is not None else "" for value in times), result])
    return markdown(["link", "root://", "http", "ROOT root://", "uproot XRootDSource", "result"], rows, "lrrrrl")


def curve(runs: list[Run]) -> list[str]:
    counts = sorted({int(name.partition("@")[2]) for name in contenders(runs, marked=True)})
    rows = []
    for how in ("cubic", "bbr"):
        for who in ("hither", "raw"):
            cells = [cell(select(runs, "G", how, f"{who} @{n}"), "seconds", seconds) for n in counts]
            if any(cells):
                rows.append([f"{who}, {how}", *cells])
    return markdown(["connections at G", *map(str, counts)], rows)


def document(runs: list[Run], query: Query, took: float) -> list[str]:
    facts = query.facts
    parts = [
        "# hither beside its peers",
        "",
        f"`{facts['expression']}` where `{facts['cut']}`: {facts['query_baskets']} baskets, {facts['query_bytes'] / 1e6:.2f} MB, "
        f"out of {facts['bytes'] / 1e6:.0f} MB; the TTree object is {facts['tree_bytes'] / 1e6:.2f} MB. "
        f"`raw` is {query.floor_bytes / 1e6:.2f} MB (both, and 10 % for framing) over one fresh TCP connection, nothing decoded.",
        "Links: "
        + "; ".join(f"{x} {LINKS[x].label}" for x in dict.fromkeys(r.link for r in runs))
        + ". Congestion control cubic unless said.",
        "Client, server and link share the machine.",
        f"{len(runs)} runs in {took / 60:.0f} minutes; medians; ¹ one run; > killed.",
        "",
    ]
    sections = [("Targets", check_targets(runs))] if any(r.contender.startswith("hither") for r in runs) else []
    if any(r.contender == NATIVE for r in runs):
        sections.append(("Over root://", check_native_targets(runs)))
    sections += [
        ("Seconds from opening the URL to the result", table(runs, "seconds", seconds)),
        ("Seconds of the whole process, measured from outside", table(runs, "wall", seconds)),
        ("Turns (the client sends after having received), counted in the link", table(runs, "turns", "{:.0f}".format)),
        ("Dependent round trips, counted in the link", table(runs, "round_trips", "{:.0f}".format)),
        ("Connections", table(runs, "connections", "{:.0f}".format)),
        ("MB received on the wire, headers of TCP and IP included", table(runs, "received_mb", "{:.2f}".format)),
        ("Seconds of CPU, client", table(runs, "cpu", seconds)),
        ("Peak memory of the client, MiB", table(runs, "peak_mb", "{:.0f}".format)),
    ]
    if contenders(runs, marked=True):
        sections.append(("Time against connections, 240 ms, unlimited", curve(runs)))
    for title, lines in sections:
        parts += [f"## {title}", "", *lines, ""]
    return parts + failures(runs)


def write(folder: Path, runs: list[Run], query: Query, took: float, name: str) -> None:
    """FOLDER/NAME.md, and every run: in runs.* for `tables`, else in NAME.csv."""
    save(folder / name, document(runs, query, took))
    if name == "tables":
        (folder / "runs.json").write_text(json.dumps([asdict(r) for r in runs], indent=1) + "\n")
    write_csv(folder / ("runs" if name == "tables" else name), [r.row() for r in runs])
