"""Turns runs into tables: medians in Markdown for people, every run in CSV and JSON for programs."""

import csv
import json
import os
import platform
import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from bench.harness.contenders import Query, Run
from bench.harness.links import LINKS

# What hither must reach, times the raw stream measured in the same session; A and G have targets in seconds.
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
    """None where nobody finished."""
    values = [getattr(r, field) for r in runs if getattr(r, field) is not None and not r.late and not r.failure]
    return statistics.median(values) if values else None


def seconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def cell(runs: list[Run], field: str, form: Callable[[float], str]) -> str:
    value = median(runs, field)
    if value is not None:
        finished = sum(not r.late and not r.failure for r in runs)
        return form(value) + ("" if finished > 1 else " ¹")
    if any(r.late for r in runs):
        return f"> {max(r.wall for r in runs if r.late):.0f}"
    if any(r.failure for r in runs):
        return "failed"
    return "" if not runs else "-"


def contenders(runs: list[Run], marked: bool) -> list[str]:
    """In order of first appearance; `@` marks the runs of the curve."""
    return [name for name in dict.fromkeys(r.contender for r in runs) if ("@" in name) == marked]


def columns(runs: list[Run]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((r.link, r.congestion) for r in runs if "@" not in r.contender))


def table(runs: list[Run], field: str, form: Callable[[float], str]) -> list[str]:
    heads = columns(runs)
    lines = ["| | " + " | ".join(f"{link} {'' if how == 'cubic' else how}".strip() for link, how in heads) + " |"]
    lines.append("|---|" + "---:|" * len(heads))
    for name in contenders(runs, marked=False):
        cells = [cell(select(runs, link, how, name), field, form) for link, how in heads]
        if set(cells) - {"", "-"}:
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def judged(runs: list[Run]) -> list[str]:
    """What hither must reach, and whether it did."""
    lines = ["| link | hither | must reach | fastest peer | result |", "|---|---:|---:|---:|---|"]
    cubic = [r for r in runs if r.congestion == "cubic"]
    cases = [(link, "hither") for link in "ABCDEF"] + [k for k in TARGET_SECONDS if k[0] == "G"]
    for link, name in cases:
        ours = median(select(cubic, link, "cubic", name), "seconds")
        if ours is None:
            continue
        raw = median(select(cubic, link, "cubic", "raw"), "seconds")
        peers = [
            value
            for peer in contenders(cubic, marked=False)
            if not peer.startswith(("hither", "raw"))
            and (value := median(select(cubic, link, "cubic", peer), "seconds")) is not None
        ]
        best = min(peers) if peers else None
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
        wall = median(select(cubic, link, "cubic", name), "wall")
        if wall - ours > MAX_WALL_ABOVE:
            faults.append(f"the process takes {wall - ours:.2f} s more")
        peak = median(select(cubic, link, "cubic", name), "peak_mb")
        if peak > MAX_PEAK_MB:
            faults.append(f"peak memory {peak:.0f} MiB")
        lines.append(
            f"| {link} {name} | {seconds(ours)} | {seconds(target) + why if target else ''} | "
            f"{seconds(best) if best else ''} | {', '.join(faults) or 'reached'} |"
        )
    return lines


def native(runs: list[Run]) -> list[str]:
    """What hither must reach over root://: no more than over http, less than its peers, and fewer round trips where they are long."""
    lines = ["| link | root:// | http | ROOT root:// | uproot XRootDSource | result |", "|---|---:|---:|---:|---:|---|"]
    names = (NATIVE, "hither", *NATIVE_PEERS)
    for link in dict.fromkeys(r.link for r in runs):
        here = {name: select(runs, link, "cubic", name) for name in names}
        ours, http, *peers = taken = [median(runs, "seconds") for runs in here.values()]
        if ours is None:
            continue
        faults = []
        # Two runs of the same are not alike to the last hundredth.
        if http is not None and ours > 1.03 * http + 0.01:
            faults.append("http is faster")
        if any(peer is not None and ours >= peer for peer in peers):
            faults.append("a peer is faster")
        flights = [median(here[name], "flights") for name in (NATIVE, NATIVE_PEERS[0])]
        saved = flights[1] - flights[0] if None not in flights else None
        if link == "G" and saved is not None and saved < 4:
            faults.append(f"only {saved:.0f} round trips fewer than ROOT")
        cells = [seconds(value) if value is not None else "" for value in taken]
        few = f"; {saved:.0f} round trips fewer than ROOT" if link == "G" and saved is not None and saved >= 4 else ""
        lines.append(f"| {link} | " + " | ".join(cells) + f" | {', '.join(faults) or 'reached'}{few} |")
    return lines


def curve(runs: list[Run]) -> list[str]:
    counts = sorted({int(name.partition("@")[2]) for name in contenders(runs, marked=True)})
    lines = ["| at G | " + " | ".join(map(str, counts)) + " |", "|---|" + "---:|" * len(counts)]
    for how in ("cubic", "bbr"):
        for who in ("hither", "raw"):
            cells = [cell(select(runs, "G", how, f"{who} @{n}"), "seconds", seconds) for n in counts]
            if any(cells):
                lines.append(f"| {who}, {how} | " + " | ".join(cells) + " |")
    return lines


def document(runs: list[Run], query: Query, took: float) -> str:
    facts = query.facts
    letters = dict.fromkeys(r.link for r in runs)
    parts = [
        "# hither beside its peers",
        "",
        f"`{facts['expression']}` where `{facts['cut']}`: {facts['query_baskets']} baskets, {facts['query_bytes'] / 1e6:.2f} MB, "
        f"out of {facts['bytes'] / 1e6:.0f} MB; the TTree object is {facts['tree_bytes'] / 1e6:.2f} MB. "
        f"`raw` is {query.floor_bytes / 1e6:.2f} MB (both, and 10 % for framing) over one fresh TCP connection, nothing decoded.",
        "Links: " + "; ".join(f"{x} {LINKS[x].label}" for x in letters) + ". Congestion control cubic unless said.",
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores shared by client, server and link; "
        f"{len(runs)} runs in {took / 60:.0f} minutes; medians; ¹ one run; > killed.",
        "",
    ]
    whole = [("Targets", judged(runs))] if any(r.contender.startswith("hither") for r in runs) else []
    if any(r.contender == NATIVE for r in runs):
        whole.append(("Over root://", native(runs)))
    whole += [
        ("Seconds from opening the URL to the result", table(runs, "seconds", seconds)),
        ("Seconds of the whole process, from outside", table(runs, "wall", seconds)),
        ("Turns (the client sends after having received), by the link's own count", table(runs, "turns", "{:.0f}".format)),
        ("Dependent flights, by the link's own count", table(runs, "flights", "{:.0f}".format)),
        ("Connections", table(runs, "connections", "{:.0f}".format)),
        ("MB received on the wire, headers of TCP and IP included", table(runs, "received_mb", "{:.2f}".format)),
        ("Seconds of CPU, client", table(runs, "cpu", seconds)),
        ("Peak memory of the client, MiB", table(runs, "peak_mb", "{:.0f}".format)),
    ]
    if contenders(runs, marked=True):
        whole.append(("Time against connections, 240 ms, unlimited", curve(runs)))
    for title, lines in whole:
        parts += [f"## {title}", "", *lines, ""]
    failures = [f"- {r.contender} on {r.link}, {r.congestion}: {r.failure}" for r in runs if r.failure]
    if failures:
        parts += ["## Failures", "", *dict.fromkeys(failures), ""]
    return "\n".join(parts)


def write(folder: Path, runs: list[Run], query: Query, took: float, name: str = "tables") -> None:
    """NAME.md, and every run: in runs.* for the tables of everything, else in NAME.csv."""
    (folder / f"{name}.md").write_text(document(runs, query, took))
    if name == "tables":
        (folder / "runs.json").write_text(json.dumps([asdict(r) for r in runs], indent=1) + "\n")
    with (folder / ("runs.csv" if name == "tables" else f"{name}.csv")).open("w", newline="") as file:
        rows = [r.row() for r in runs]
        writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)
