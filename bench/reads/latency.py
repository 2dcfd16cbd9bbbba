"""The figure of 2006: how long a job of 100,000 small reads takes, by latency and by block size.

Furano and others ("Latencies and data access", CHEP 2006, figure 5) simulated it before they wrote XrdClient. Here the real
cache and the real read-ahead run over a link in memory, in virtual time (`crates/testkit/examples/latency_grid.rs`); nothing is
measured, so the machine does not matter. Beside blocks of a fixed size there is what hither does by itself: it learns the
block size from what it is good for.

With --packets, three points of it are measured as well: the beginning of the same job, as a trace that `hither trace replay`
plays at its own pace, over kernel TCP from nginx. That needs root, and ten minutes.
"""

import argparse
import csv
import json
import subprocess
import tempfile
from pathlib import Path

from bench.harness import servers
from bench.harness.links import Link, Wan
from bench.harness.paths import BINARIES, HITHER, RESULTS

GRID = BINARIES / "examples" / "latency_grid"
JOB = BINARIES / "hither-job"
LEARNED = "learned"
# What the job is to keep to at a tenth of a second: waits as a part of its reads, duration as a multiple of that at 0 ms.
MOST_WAITS = 0.05
MOST_SLOWER = 1.15
# What is measured over packets: round-trip times in ms, reads, and how far virtual time may be off.
MEASURED_MS = (20, 50, 100)
MEASURED_READS = 20_000
SEED = 2006
MBIT = 8.4
MOST_OFF = 0.1

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
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    blocks = list(dict.fromkeys(row["block_bytes"] for row in rows))
    fixed = [block for block in blocks if block != LEARNED]
    latencies = sorted(curve(rows, LEARNED))
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5), sharey=True, layout="constrained")
    colours = pyplot.get_cmap("viridis")
    for place, block in enumerate(blocks):
        seconds = curve(rows, block)
        style = {"color": "tab:red", "linewidth": 2.5} if block == LEARNED else {"color": colours(place / len(fixed))}
        left.plot(list(seconds), list(seconds.values()), marker="o", markersize=3, label=label(block), **style)
    for place, rtt in enumerate(latencies):
        if rtt % 20 == 0:
            seconds = [curve(rows, block)[rtt] for block in fixed]
            colour = colours(place / len(latencies))
            right.plot([int(block) / 1000 for block in fixed], seconds, marker="o", markersize=3, color=colour, label=f"{rtt} ms")
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
    pyplot.close(figure)


def summary(rows: Rows) -> list[str]:
    lines = ["| block size | 0 ms | 50 ms | 100 ms | 100 ms / 0 ms | waits at 100 ms | fetched MB | read MB |", "|---|" + "---:|" * 7]
    for block in dict.fromkeys(row["block_bytes"] for row in rows):
        seconds = curve(rows, block)
        far = next(row for row in rows if row["block_bytes"] == block and row["rtt_ms"] == "100")
        waits = int(far["waits"]) / int(far["reads"])
        times = " | ".join(f"{seconds[rtt]:.1f} s" for rtt in (0, 50, 100))
        fetched, used = int(far["fetched_bytes"]) / 1e6, int(far["used_bytes"]) / 1e6
        ratio = seconds[100] / seconds[0]
        lines.append(f"| {label(block)} | {times} | {ratio:.2f} | {waits:.2%} | {fetched:.1f} | {used:.1f} |")
    return lines


def bounds(rows: Rows) -> list[str]:
    seconds = curve(rows, LEARNED)
    far = next(row for row in rows if row["block_bytes"] == LEARNED and row["rtt_ms"] == "100")
    waits, slower = int(far["waits"]) / int(far["reads"]), seconds[100] / seconds[0]
    kept = {True: "kept", False: "MISSED"}
    return [
        f"- reads that wait at 100 ms: {waits:.2%}, under {MOST_WAITS:.0%}: {kept[waits < MOST_WAITS]}",
        f"- duration at 100 ms: {slower:.3f} x that at 0 ms, at most {MOST_SLOWER} x: {kept[slower <= MOST_SLOWER]}",
    ]


def measured(reads: int) -> dict[int, float]:
    """Seconds of the first so many reads of the job over packets, by round-trip time in ms."""
    seconds = {}
    with tempfile.TemporaryDirectory(prefix="hither-latency-") as name:
        folder = Path(name)
        trace, file = folder / "job.trace", folder / "www" / "job"
        command = [JOB, "babar", "--seed", str(SEED), "--first", str(reads), "--output", trace]
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
                told = subprocess.run(where.client(list(map(str, replay))), check=True, capture_output=True, text=True).stdout
                seconds[rtt] = json.loads(told)["replay"]["seconds"]
    return seconds


def packets(reads: int) -> list[str]:
    computed = curve(compute(reads), LEARNED)
    lines = ["", f"The first {reads:,} reads over packets:", "", "| | virtual time | packets | |", "|---:|---:|---:|---|"]
    for rtt, seconds in measured(reads).items():
        off = seconds / computed[rtt] - 1
        kept = "kept" if abs(off) <= MOST_OFF else "MISSED"
        lines.append(f"| {rtt} ms | {computed[rtt]:.1f} s | {seconds:.1f} s | {off:+.1%}, within {MOST_OFF:.0%}: {kept} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reads", type=int, help="the first so many reads of the job; all by default")
    parser.add_argument("--quick", action="store_true", help="as --reads 5000")
    parser.add_argument("--from", dest="rows", type=Path, metavar="CSV", help="draw what was computed before")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "latency", help="without suffix; bench/results/latency by default")
    parser.add_argument("--packets", action="store_true", help="measure three points of it as well; needs root")
    options = parser.parse_args()
    if options.rows:
        rows = list(csv.DictReader(options.rows.read_text().splitlines()))
    else:
        rows = compute(5000 if options.quick else options.reads)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, options.output.with_suffix(".png"))
    title = "# The job of 2006 by latency and block size, in virtual time"
    over_packets = packets(MEASURED_READS) if options.packets else []
    text = "\n".join([title, "", *bounds(rows), "", *summary(rows), *over_packets, ""])
    options.output.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
