"""`hither profile`: a program with known shares, the report without rights, and its exit."""

import json
import os
import signal
import subprocess

import pytest

from bench.harness.paths import HITHER, HITHER_BENCH
from bench.profile import OF_KIND, of_kinds

PATIENCE = 240


def profile(*words, **options) -> tuple[dict, str]:
    command = [str(word) for word in (HITHER, "profile", "--json", *words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_shares_of_known_work_are_found():
    found, err = profile("--", HITHER_BENCH, "known-work", "10")
    assert round(sum(found["shares"].values()), 6) == 100
    if found["sampling"]["mode"] != "machine":
        pytest.skip(f"needs the right to sample the kernel: {found['notes']}")
    shares, truth = of_kinds(found), json.loads(err.splitlines()[-1])
    # Other work on the machine reduces the sleeping time, and scales the other shares equally.
    kinds = [kind for kind in OF_KIND if kind != "sleeping"]
    ours, theirs = sum(shares[kind] for kind in kinds), sum(truth[kind] for kind in kinds)
    # With other work it gets fewer samples: three standard deviations of a share of one half.
    samples = found["sampling"]["samples"] * ours / (100 - found["shares"]["idle"])
    bound = 5 + 3 * 70 * (0.25 / samples) ** 0.5
    for kind in kinds:
        off = 70 * shares[kind] / ours - 70 * truth[kind] / theirs
        assert abs(off) < bound, f"{kind} is off by {off:.1f} points: {shares}, {truth}"
    assert found["shares"]["unknown"] + found["shares"]["rest_of_kernel"] <= 5
    assert abs(sum(found["off_cpu"]["shares"].values()) - 100) < 1


def test_without_rights_own_processes_are_reported():
    """As the user nobody, or as the current user."""
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    found, _ = profile("--seconds", "2", "--", "sh", "-c", "while :; do :; done", cwd="/", **user)
    assert round(sum(found["shares"].values()), 6) == 100
    if found["sampling"]["mode"] != "machine":
        assert any("kernel.perf_event_paranoid" in note and "root" in note for note in found["notes"])
    # How much of the machine it gets, others decide.
    own = {kind: share for kind, share in found["shares"].items() if kind not in ("idle", "other_processes", "steal")}
    assert 2 * (own["application"] + own["libc"] + own["unknown"]) > sum(own.values()) > 0, found


def test_an_interrupt_ends_a_profile_with_its_result(tmp_path):
    stacks, page = tmp_path / "stacks", tmp_path / "page.html"
    work = ["sh", "-c", "echo began; while :; do :; done"]
    command = [HITHER, "profile", "--json", "--folded", stacks, "--html", page, "--", *work]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(list(map(str, command)), **pipes)
    assert process.stderr.readline() == "began\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    found = json.loads(out)
    assert page.read_text().startswith("<!doctype html>")
    assert sum(int(line.rpartition(" ")[2]) for line in stacks.read_text().splitlines()) >= found["sampling"]["samples"]


def test_a_process_that_does_not_run_is_an_error():
    command = [str(HITHER), "profile", "--pid", "4194304", "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 3
    assert "process 4194304 does not run" in done.stderr
