"""`hither simulate` beside packets: the durations of jobs in virtual time and over emulated links.

Four jobs of known reads are replayed at their own pace by the real client, from nginx over kernel
TCP through hither-wan, and simulated over the same links with the same number of connections.
Nothing is fitted: the only figure beside those of the link is the server's time per request, which
is measured once, on another link, as `hither simulate --like` does it. Needs root.

The second part counts the operations that are simulated in a second.
"""

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.interleaved import target_line
from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER, HITHER_BENCH, RESULTS, temporary_folder

WORKLOAD = [HITHER_BENCH, "workload"]
# Pattern, and the arguments that make it a job of some seconds.
JOBS = {
    "babar": ("babar", "--first", "1000"),
    "sequential": ("sequential", "--reads", "600", "--think-micros", "4000"),
    "interleaved": ("interleaved", "--reads", "2000", "--think-micros", "1000"),
    "random": ("random", "--reads", "150", "--think-micros", "2000"),
}
CALIBRATION = Link("a", 10, 100, "for the server's time")
LINKS = [Link(f"l{rtt}r{mbit}", rtt, mbit, "held out") for rtt in (2, 20, 60, 150) for mbit in (20, 200)]
CONNECTIONS = (64, 1)
MAX_MEDIAN, MAX_P90, MAX_LOSS = 0.05, 0.10, 0.05
MIN_OPERATIONS = 200_000


def run(command: list) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def record(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Writes the trace of each job, and its file."""
    (folder / "www").mkdir()
    folder.chmod(0o755)
    found = {}
    for name, words in JOBS.items():
        trace, file = folder / f"{name}.trace", folder / "www" / name
        size = int(run([*WORKLOAD, *words, "--output", trace]))
        with file.open("wb") as content:
            content.truncate(size)
        found[name] = (trace, file)
    return found


def simulated(trace: Path, link: Link, connections: int, server_ms: float) -> dict:
    grid = ["--latency", f"{link.rtt_ms}ms", "--bandwidth", f"{link.mbit}Mbit", "--connections", connections]
    told = json.loads(run([HITHER, "simulate", trace, *grid, "--server-time", f"{server_ms:.3f}ms", "--json"]))
    return next(case for case in told["simulation"]["cases"] if case["method"] == "prefetch")


def replayed(where: Wan, url: str, trace: Path, connections: int) -> dict:
    words = ["--think", "1", "--no-store", "--max-connections", connections, "--json"]
    return json.loads(run(where.client([str(word) for word in (HITHER, "trace", "replay", trace, url, *words)])))[
        "replay"
    ]


def server_time(folder: Path, file: Path) -> float:
    """Milliseconds of the server for a request, and of both ends' programs."""
    with Wan(CALIBRATION) as where, servers.nginx(where, folder) as port:
        url = f"http://{where.server_host}:{port}/{file.name}"
        profile = where.client([str(word) for word in (HITHER, "profile", "network", url, "--seconds", 3, "--json")])
        told = json.loads(run(profile))
    return max(0.0, told["request_ms"] - told["tcp_handshake_ms"])


def compare(rounds: int, links: list[Link]) -> tuple[list[dict], float]:
    rows = []
    with temporary_folder() as folder:
        jobs = record(folder)
        server_ms = server_time(folder / "www", jobs["sequential"][1])
        for link in links:
            with Wan(link) as where, servers.nginx(where, folder / "www") as port:
                for name, (trace, file) in jobs.items():
                    url = f"http://{where.server_host}:{port}/{file.name}"
                    for connections in CONNECTIONS:
                        runs = [replayed(where, url, trace, connections) for _ in range(rounds)]
                        seconds = statistics.median(each["seconds"] for each in runs)
                        expected = simulated(trace, link, connections, server_ms)
                        rows.append(
                            {
                                "job": name,
                                "rtt_ms": link.rtt_ms,
                                "mbit": link.mbit,
                                "connections": connections,
                                "packets_s": round(seconds, 3),
                                "virtual_s": round(expected["seconds"], 3),
                                "error": round(expected["seconds"] / seconds - 1, 4),
                                "packets_requests": runs[0]["report"]["requests"],
                                "virtual_requests": expected["requests"],
                            }
                        )
                        print(rows[-1], flush=True)
    return rows, server_ms


def operations_per_second(folder: Path) -> list[tuple[str, int, float]]:
    """Reads per second of one run with prefetching, on one processor each."""
    found = []
    for name, words in {"babar": ("babar",), "random": ("random", "--reads", "100000")}.items():
        trace = folder / f"{name}.trace"
        run([*WORKLOAD, *words, "--output", trace])
        command = [HITHER, "simulate", trace, "--latency", "20ms", "--bandwidth", "1Gbit", "--json"]
        began = time.monotonic()
        told = json.loads(run(["taskset", "1", *command]))
        took = time.monotonic() - began
        simulation = told["simulation"]
        # A copy has no reads.
        runs = sum(case["method"] != "copy_first" for case in simulation["cases"])
        reads = simulation["job"]["reads"]
        found.append((name, reads * runs, reads * runs / took))
    return found


def losses_by_choice(rows: list[dict]) -> list[float]:
    """Losses of time by the simulated choice of connections, for each job on each link."""
    cases: dict[tuple, list[dict]] = {}
    for row in rows:
        cases.setdefault((row["job"], row["rtt_ms"], row["mbit"]), []).append(row)
    losses = []
    for settings in cases.values():
        chosen = min(settings, key=lambda row: row["virtual_s"])
        losses.append(chosen["packets_s"] / min(row["packets_s"] for row in settings) - 1)
    return losses


def document(rows: list[dict], server_ms: float, speeds: list[tuple[str, int, float]]) -> list[str]:
    errors = sorted(abs(row["error"]) for row in rows)
    median, p90 = statistics.median(errors), errors[int(0.9 * (len(errors) - 1))]
    worst = max(rows, key=lambda row: abs(row["error"]))
    lines = [
        "# `hither simulate` beside packets",
        "",
        f"{len(rows)} points that nothing was fitted to. "
        f"Server's time per request: {server_ms:.2f} ms, measured at {CALIBRATION.label}.",
        "",
        f"- {target_line(f'median error: {median:.1%}, under {MAX_MEDIAN:.0%}', median < MAX_MEDIAN)}",
        f"- {target_line(f'90 % of the errors: up to {p90:.1%}, under {MAX_P90:.0%}', p90 < MAX_P90)}",
        f"- largest error: {worst['error']:+.1%} ({worst['job']}, {worst['rtt_ms']} ms, {worst['mbit']} Mbit/s, "
        f"{worst['connections']} connections)",
    ]
    losses = losses_by_choice(rows)
    near = sum(loss < MAX_LOSS for loss in losses)
    what = f"connections chosen by the simulation: in {near} of {len(losses)} cases within {MAX_LOSS:.0%} of the best"
    lines.append(f"- {target_line(what, near == len(losses))}, the worst {max(losses):.1%}")
    for name, operations, speed in speeds:
        what = f"{name}: {speed:,.0f} reads in a second ({operations:,} in all), {MIN_OPERATIONS:,}"
        lines.append(f"- {target_line(what, speed >= MIN_OPERATIONS)}")
    heads = ["job", "link", "connections", "packets", "virtual time", "error", "requests", "in virtual time"]
    table = [
        [
            row["job"],
            f"{row['rtt_ms']:g} ms, {row['mbit']:g} Mbit/s",
            str(row["connections"]),
            f"{row['packets_s']:.2f} s",
            f"{row['virtual_s']:.2f} s",
            f"{row['error']:+.1%}",
            str(row["packets_requests"]),
            str(row["virtual_requests"]),
        ]
        for row in rows
    ]
    return [*lines, "", *tables.markdown(heads, table, "llrrrrrr")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1, help="replays of each point, of which the median counts")
    parser.add_argument("--quick", action="store_true", help="only every third link")
    parser.add_argument(
        "--output", type=Path, default=RESULTS / "simulate", help="without suffix (default %(default)s)"
    )
    options = parser.parse_args()
    rows, server_ms = compare(options.runs, LINKS[:: 3 if options.quick else 1])
    with temporary_folder() as folder:
        speeds = operations_per_second(folder)
    tables.write_csv(options.output, rows)
    tables.save(options.output, document(rows, server_ms, speeds))


if __name__ == "__main__":
    main()
