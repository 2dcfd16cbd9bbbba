"""`hither profile storage`: its output, its clean-up, and the arguments that it refuses."""

import json
import os
import signal
import subprocess

import pytest

from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until

PATIENCE = 240
QUICK = ("--seconds", "3", "--size", "32M")


def command(*words) -> list[str]:
    return [str(word) for word in (HITHER, "profile", "storage", *words)]


def profile(*words, **options) -> subprocess.CompletedProcess:
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=PATIENCE, check=False, **options)


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("storage")
    (folder / "kept").write_text("kept")
    done = profile(*QUICK, "--json", folder)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir()] == ["kept"]
    return json.loads(done.stdout)


def test_rates_are_those_of_the_bytes(measured):
    assert measured["file_bytes"] == 30 << 20
    assert len(measured["cases"]) > 20
    for case in measured["cases"]:
        assert case["bytes"] == case["operations"] * case["block_bytes"] > 0
        assert case["bytes_per_second"] == pytest.approx(case["bytes"] / case["seconds"])
        assert case["operations_per_second"] == pytest.approx(case["operations"] / case["seconds"])
    assert sum(case["seconds"] for case in measured["cases"]) < measured["seconds"]
    for files in measured["small_files"]:
        assert min(files[f"{kind}_per_second"] for kind in ("create", "stat", "open", "remove")) > 0


def test_a_knee_is_the_first_point_with_nine_tenths_of_the_best_rate(measured):
    knees = {(it["series"], it["direction"]): it for it in measured["knees"]}
    for (series, direction), knee in knees.items():
        axis = "block_bytes" if series == "block_size" else "in_flight"
        of_series = [it for it in measured["cases"] if (it["series"], it["direction"]) == (series, direction)]
        best = max(it["bytes_per_second"] for it in of_series)
        good = [it[axis] for it in of_series if it["bytes_per_second"] >= 0.9 * best]
        assert knee["at"] == min(good)
        assert knee["is_reached"] == (knee["at"] < max(it[axis] for it in of_series))
    assert ("block_size", "read") in knees
    assert ("queue_depth", "write") in knees


def test_buffered_reads_are_cold_or_said_to_be_warm(measured):
    buffered = [it for it in measured["cases"] if not it["direct"] and it["direction"] == "read"]
    assert buffered
    warm = [it for it in buffered if (it["cached_percent"] or 0) > 1]
    assert bool(warm) == any("were warm" in note for note in measured["notes"])


def test_a_page_for_people_has_each_series_and_its_knee(tmp_path):
    done = profile("--seconds", "1", "--size", "16M", tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{tmp_path}: ")
    assert sum(line.startswith("  knee") for line in lines) >= 4
    assert any(line.startswith("Files of 4 KiB") for line in lines)
    assert len(lines) < 80


def wait_for_scratch(folder, process) -> None:
    wait_until(lambda: list(folder.glob(".hither-profile-*/data")) or process.poll() is not None, "a file", PATIENCE)
    assert process.poll() is None


def test_an_interrupt_leaves_nothing(tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command("--seconds", "50", "--size", "16M", "--json", tmp_path), **pipes)
    wait_for_scratch(tmp_path, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert any("interrupted" in note for note in json.loads(out)["notes"])
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_profile_left_is_removed_by_the_next(tmp_path):
    killed = subprocess.Popen(command("--seconds", "50", "--size", "16M", tmp_path))
    wait_for_scratch(tmp_path, killed)
    killed.kill()
    killed.wait()
    assert list(tmp_path.glob(".hither-profile-*/data"))
    done = profile("--seconds", "0.5", "--size", "16M", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a killed profile had left" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_measured_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("text")
    read_only = tmp_path / "read-only"
    read_only.mkdir(mode=0o555)
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    for parent in (tmp_path, *tmp_path.parents[:-2]):
        parent.chmod(parent.stat().st_mode | 0o011)
    for code, message, words, options in [
        (3, "does not exist", [tmp_path / "gone"], {}),
        (2, "neither a directory nor a block device", [file], {}),
        (2, "--size must be 16000000 at least", ["--size", "1M", tmp_path], {}),
        (11, "set a smaller size", ["--size", "900T", tmp_path], {}),
        (4, "Permission denied", [read_only], {"cwd": "/", **user}),
    ]:
        done = profile(*words, **options)
        assert (done.returncode, message in done.stderr) == (code, True), (words, done.stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "read-only"]
    assert list(read_only.iterdir()) == []


def test_options_of_a_profile_of_processes_are_no_options_of_storage(tmp_path):
    done = subprocess.run([str(HITHER), "profile", "--pid", "1", "storage", str(tmp_path)], capture_output=True, check=False)
    assert done.returncode == 2
