"""`hither simulate`: known jobs over links in virtual time, and its exit."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from served import serving

from bench.harness.paths import HITHER, HITHER_BENCH
from bench.harness.waiting import wait_until

PATIENCE = 240
READS = 300


def workload(folder, pattern: str, *words, reads: int = READS):
    """Returns the trace of a job, and the size of its file."""
    trace = folder / f"{pattern}.trace"
    command = [HITHER_BENCH, "workload", pattern, "--reads", reads, "-o", trace, *words]
    size = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout
    return trace, int(size)


@pytest.fixture
def sequential(tmp_path):
    """300 reads of 64 KiB, 10 ms apart."""
    return workload(tmp_path, "sequential", "--think-micros", "10000")


def simulated(hither, trace, *words) -> dict:
    finished = hither("simulate", trace, "--json", *words)
    assert finished.code == 0, finished.err
    return finished.json["simulation"]


def seconds(simulation: dict, method: str) -> list[float]:
    return [case["seconds"] for case in simulation["cases"] if case["method"] == method]


def test_a_grid_shows_what_latency_costs_and_what_hides_it(hither, sequential, tmp_path):
    trace, size = sequential
    page = tmp_path / "page.html"
    grid = ("--latency", "1ms,100ms", "--bandwidth", "400Mbit", "--block", "learned,300k", "--html", page)
    told = simulated(hither, trace, *grid)
    job = told["job"]
    assert (job["reads"], job["bytes"], job["file_bytes"], job["threads"]) == (READS, size, size, 1)
    assert abs(job["work_seconds"] - (READS - 1) * 0.01) < 1e-6
    assert len(told["cases"]) == 2 * (1 + 1 + 2)
    near, far = seconds(told, "read_through")
    # One round trip per read, except for the first ones.
    assert near < 3.8
    assert far > near + READS * 0.09
    prefetch = seconds(told, "prefetch")
    assert all(2.99 <= duration < 5 for duration in prefetch), prefetch
    # At 100 ms the job reads too little for TCP windows to grow, so a copy is equally fast.
    assert told["links"][0]["recommended"] == "prefetch"
    assert told["links"][1]["read_through_seconds"] == far
    through = next(case for case in told["cases"] if case["method"] == "read_through")
    causes = sum(through["waits"].values())
    assert abs(causes - through["waited_seconds"]) < 1e-6
    assert through["bytes_fetched"] == through["bytes_used"] == size
    assert page.read_text().count("<rect") == 4
    shown = hither("simulate", trace, "--latency", "100ms")
    for text in ("300 reads", "round trips", "copy first"):
        assert text in shown.out


def test_the_same_job_takes_the_same_time(hither, sequential):
    grid = ("--latency", "20ms", "--connections", "1,8")
    first, second = (simulated(hither, sequential[0], *grid)["cases"] for _ in range(2))
    # Requests that could be sent at the same instant may be sent in either order.
    for one, other in zip(first, second, strict=True):
        assert abs(one["seconds"] / other["seconds"] - 1) < 0.001


def test_a_size_makes_copies_longer_and_nothing_else(hither, sequential):
    trace, size = sequential
    grid = ("--latency", "1ms", "--bandwidth", "100Mbit")
    small, large = (simulated(hither, trace, *grid, "--file-size", str(length)) for length in (size, 10 * size))
    assert seconds(small, "prefetch") == seconds(large, "prefetch")
    more = seconds(large, "copy_first")[0] - seconds(small, "copy_first")[0]
    assert abs(more / (9 * size * 8 / 100e6) - 1) < 0.1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--latency", "fast"], 2),
        (["--block", "large"], 2),
        (["--connections", "0"], 2),
        (["--latency", ",".join(f"{time}ms" for time in range(1, 5000))], 2),
    ],
)
def test_wrong_lists_are_errors_of_usage(hither, sequential, words, code):
    assert hither("simulate", sequential[0], *words).code == code


def test_a_file_that_is_no_trace_is_refused(hither, tmp_path):
    (tmp_path / "text").write_text("not a trace, but long enough to be one")
    assert hither("simulate", tmp_path / "text").code == 7
    assert hither("simulate", tmp_path / "none").code == 3


def test_an_interrupted_simulation_prints_what_is_done(tmp_path):
    # Minutes of work: a grid for a job that no prefetcher can predict.
    trace, _ = workload(tmp_path, "random", reads=200_000)
    latencies = ",".join(f"{time}ms" for time in range(1, 200))
    command = [HITHER, "simulate", trace, "--json", "--latency", latencies]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    # One thread waits for Ctrl-C, others work.
    tasks = Path(f"/proc/{process.pid}/task")
    wait_until(lambda: len(list(tasks.iterdir())) >= 3, "its threads", PATIENCE)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert json.loads(out)["simulation"]["interrupted"]


def test_a_link_is_like_the_path_to_a_server(hither, sequential, tmp_path):
    with serving(tmp_path) as served:
        finished = hither("simulate", sequential[0], "--json", "--like", served.file("file", bytes(4_000_000)))
    assert finished.code == 0, finished.err
    assert "the path to http" in finished.err
    [link] = finished.json["simulation"]["links"]
    assert link["latency_seconds"] > 0
    assert link["bits_per_second"] > 1e6
