"""The figure of 2006: the duration of a job of 100,000 small reads, by latency and by block size.

Furano and others ("Latencies and data access", CHEP 2006, figure 5) simulated it before they wrote
XrdClient. Here the real cache and the real read-ahead run over a link in memory, in virtual time
(`bench/programs/examples/latency_grid.rs`); nothing is measured, so the machine does not matter.
Beside fixed block sizes there is hither's default, which learns the block size from the job.

With --packets, three points are measured as well: the beginning of the same job, as a trace that
`hither trace replay` replays at the job's pace, over kernel TCP from nginx. That needs root, and
ten minutes.
"""

import argparse
import csv
import json
import subprocess
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.interleaved import target_line
from bench.harness.links import Link, Wan
from bench.harness.paths import BINARIES, HITHER, HITHER_BENCH, RESULTS, temporary_folder
from bench.harness.plots import subplots

GRID = BINARIES / "examples" / "latency_grid"
WORKLOAD = [HITHER_BENCH, "workload"]
LEARNED = "learned"
# Targets at 100 ms: reads that wait, as a part of all; duration, as a multiple of that at 0 ms.
MAX_WAITS = 0.05
MAX_SLOWER = 1.15
# Measured over packets: round-trip times in ms, reads, and the largest error of virtual time.
MEASURED_MS = (20, 50, 100)
MEASURED_READS = 20_000
SEED = 2006
MBIT = 8.4
MAX_ERROR = 0.1

Rows = list[dict[str, str]]


def compute(reads: int | None) -> Rows:
    command = [GRID, *([str(reads)] if reads else [])]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(csv.DictReader(output.splitlines()))


def curve(rows: Rows, block: str) -> dict[int, float]:
    return {int(row["rtt_ms"]): float(row["seconds"]) for row in rows if row["block_bytes"] == block}


def label(block: str) -> str:
    if block == LEARNED:
        return "learned (the default)"
    return f"{int(block) // 1000} KB" if block != "0" else "no cache"


def draw(rows: Rows, path: Path) -> None:
    import matplotlib as mpl

    blocks = list(dict.fromkeys(row["block_bytes"] for row in rows))
    fixed = [block for block in blocks if block != LEARNED]
    latencies = sorted(curve(rows, LEARNED))
    figure, (left, right) = subplots(1, 2, figsize=(12, 5), sharey=True)
    colours = mpl.colormaps["viridis"]
    for place, block in enumerate(blocks):
        seconds = curve(rows, block)
        style = {"color": "tab:red", "linewidth": 2.5} if block == LEARNED else {"color": colours(place / len(fixed))}
        left.plot(list(seconds), list(seconds.values()), marker="o", markersize=3, label=label(block), **style)
    for place, rtt in enumerate(latencies):
        if rtt % 20 == 0:
            seconds = [curve(rows, block)[rtt] for block in fixed]
            colour = colours(place / len(latencies))
            right.plot(
                [int(block) / 1000 for block in fixed],
                seconds,
                marker="o",
                markersize=3,
                color=colour,
                label=f"{rtt} ms",
            )
            right.axhline(curve(rows, LEARNED)[rtt], color=colour, linestyle=":", linewidth=1)
    left.set_yscale("log")
    left.set_xlabel("round-trip time in ms")
    left.set_ylabel("duration of the job in s")
    left.legend(title="block size", fontsize="small")
    right.set_xlabel("block size in KB (0: no cache); dotted: learned")
    right.legend(title="round-trip time", fontsize="small")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    reads = int(rows[0]["reads"])
    figure.suptitle(f"{reads:,} reads of 100 B to 8 KB at 350 KB/s over 1.05 MB/s, in virtual time (figure 5 of 2006)")
    figure.savefig(path, dpi=120)


def at_100_ms(rows: Rows, block: str) -> tuple[dict[str, str], float, float]:
    """The row, the part of the reads that wait, and the duration as a multiple of that at 0 ms."""
    row = next(row for row in rows if row["block_bytes"] == block and row["rtt_ms"] == "100")
    seconds = curve(rows, block)
    return row, int(row["waits"]) / int(row["reads"]), seconds[100] / seconds[0]


def summary(rows: Rows) -> list[str]:
    lines = []
    for block in dict.fromkeys(row["block_bytes"] for row in rows):
        far, waits, slower = at_100_ms(rows, block)
        seconds = curve(rows, block)
        megabytes = (f"{int(far[figure]) / 1e6:.1f}" for figure in ("fetched_bytes", "used_bytes"))
        lines.append(
            [
                label(block),
                *(f"{seconds[rtt]:.1f} s" for rtt in (0, 50, 100)),
                f"{slower:.2f}",
                f"{waits:.2%}",
                *megabytes,
            ]
        )
    heads = ["block size", "0 ms", "50 ms", "100 ms", "100 ms / 0 ms", "waits at 100 ms", "fetched MB", "read MB"]
    return tables.markdown(heads, lines)


def check_targets(rows: Rows) -> list[str]:
    _, waits, slower = at_100_ms(rows, LEARNED)
    lines = [
        target_line(f"reads that wait at 100 ms: {waits:.2%}, under {MAX_WAITS:.0%}", waits < MAX_WAITS),
        target_line(f"duration at 100 ms: {slower:.3f} x that at 0 ms, at most {MAX_SLOWER} x", slower <= MAX_SLOWER),
    ]
    return [f"- {line}" for line in lines]


def measured(reads: int) -> dict[int, float]:
    """Seconds of the first `reads` reads of the job over packets, by round-trip time in ms."""
    seconds = {}
    with temporary_folder() as folder:
        trace, file = folder / "job.trace", folder / "www" / "job"
        command = [*WORKLOAD, "babar", "--seed", str(SEED), "--first", str(reads), "--output", trace]
        size = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        file.parent.mkdir()
        with file.open("wb") as content:
            content.truncate(size)
        folder.chmod(0o755)
        for rtt in MEASURED_MS:
            link = Link(f"L{rtt}", rtt, MBIT, "three times what the job needs")
            with Wan(link) as where, servers.nginx(where, file.parent) as port:
                url = f"http://{where.server_host}:{port}/job"
                replay = [HITHER, "trace", "replay", trace, url, "--think", "1", "--no-store", "--json"]
                told = subprocess.run(
                    where.client(list(map(str, replay))), check=True, capture_output=True, text=True
                ).stdout
                seconds[rtt] = json.loads(told)["replay"]["seconds"]
    return seconds


def packets(reads: int) -> list[str]:
    computed = curve(compute(reads), LEARNED)
    rows = []
    for rtt, seconds in measured(reads).items():
        error = seconds / computed[rtt] - 1
        target = target_line(f"{error:+.1%}, within {MAX_ERROR:.0%}", abs(error) <= MAX_ERROR)
        rows.append([f"{rtt} ms", f"{computed[rtt]:.1f} s", f"{seconds:.1f} s", target])
    table = tables.markdown(["", "virtual time", "packets", ""], rows, "rrrl")
    return ["", f"The first {reads:,} reads over packets:", "", *table]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reads", type=int, help="only the first reads of the job (default all)")
    parser.add_argument("--quick", action="store_true", help="as --reads 5000")
    parser.add_argument("--from", dest="rows", type=Path, metavar="CSV", help="draw rows that were computed before")
    parser.add_argument(
        "--output", type=Path, default=RESULTS / "reads" / "latency", help="without suffix (default %(default)s)"
    )
    parser.add_argument("--packets", action="store_true", help="also measure three points over packets; needs root")
    options = parser.parse_args()
    if options.rows:
        rows = list(csv.DictReader(options.rows.read_text().splitlines()))
    else:
        rows = compute(5000 if options.quick else options.reads)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    tables.write_csv(options.output, rows)
    draw(rows, options.output.with_suffix(".png"))
    title = "# The job of 2006 by latency and block size, in virtual time"
    over_packets = packets(MEASURED_READS) if options.packets else []
    tables.save(options.output, [title, "", *check_targets(rows), "", *summary(rows), *over_packets])


if __name__ == "__main__":
    main()
