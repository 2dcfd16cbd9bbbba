"""`hither tune sweep`: a small grid over two servers, interrupted, killed and continued; and the arguments that it
refuses."""

import csv
import json
import re
import signal
import subprocess

import pytest
from needs import require
from served import serving

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until

PATIENCE = 240
# Waits while the journal has as many runs with nginx as `limit` allows. It writes nothing: a killed sweep leaves it behind,
# beside the next sweep.
BEFORE = 'while [ "$(cat {0}/e.journal.csv 2>&- | grep -c ^nginx)" -ge "$(cat {0}/limit)" ]; do sleep 0.1; done'
MANY = "1000"
# Reads if its source is a URL, writes if it is a path.
CURL = 'case $1 in http*) curl -sf -o "$2" "$1";; *) curl -sf -T "$1" "$2";; esac'
EXPERIMENT = """
bytes = "2M"
runs = 2
[axes]
direction = ["read", "write"]
file_size = ["600k", "2M"]
connections = [1, 2]
[[server]]
name = "nginx"
url = "{nginx}"
pid = {nginx_pid}
client = {curl}
before = {before}
[[server]]
name = "hither serve"
url = "{hither}"
pid = {hither_pid}
"""


def command(*words) -> list[str]:
    return [str(word) for word in (HITHER, "tune", "sweep", *words)]


def sweep(*words) -> subprocess.CompletedProcess:
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=PATIENCE, check=False)


def runs(journal) -> list[str]:
    """Returns the complete lines of runs."""
    lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
    return [line for line in lines if line.endswith("\n") and not line.startswith(("#", "server,"))]


def stop_after_another_run(file, journal, how: signal.Signals) -> tuple[int, str]:
    before, limit = runs(journal), file.with_name("limit")
    # The third run with nginx does not begin, so the sweep does not end.
    limit.write_text(str(2 + sum(line.startswith("nginx") for line in before)))
    process = subprocess.Popen(command(file), stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len(runs(journal)) > len(before) or process.poll() is not None, "another run", PATIENCE)
    assert process.poll() is None
    process.send_signal(how)
    code = process.wait(PATIENCE)
    limit.write_text(MANY)
    return code, process.stderr.read()


@pytest.fixture
def experiment(tmp_path):
    """An experiment, and the folders of its servers."""
    require("nginx")
    require("curl")
    folder = tmp_path / "nginx"
    folder.mkdir()
    with serving(tmp_path, "--write") as served, servers.nginx(Loopback(), folder, webdav=True) as port:
        pids = {"nginx_pid": servers.PROCESSES[port].pid, "hither_pid": served.process.pid}
        curl = json.dumps(["sh", "-c", CURL, "client", "{source}", "{target}"])
        before = json.dumps(["sh", "-c", BEFORE.format(tmp_path), "before", "{connections}"])
        (tmp_path / "limit").write_text(MANY)
        file = tmp_path / "e.toml"
        parts = {"nginx": f"http://127.0.0.1:{port}/", "hither": served.base, "curl": curl, "before": before, **pids}
        file.write_text(EXPERIMENT.format(**parts))
        yield file, [folder, served.folder]


def test_an_interrupted_and_a_killed_sweep_go_on(experiment, tmp_path):
    file, folders = experiment
    journal = tmp_path / "e.journal.csv"
    planned = json.loads(sweep("--dry-run", "--json", file).stdout)
    assert (len(planned["points"]), planned["runs_left"], journal.exists()) == (16, 32, False)

    code, err = stop_after_another_run(file, journal, signal.SIGINT)
    assert (code, "interrupted: the same command goes on" in err) == (130, True)
    assert not any(list(folder.iterdir()) for folder in folders)
    begun = runs(journal)
    assert 0 < len(begun) < 32
    code, _ = stop_after_another_run(file, journal, signal.SIGKILL)
    assert code == -signal.SIGKILL
    killed = runs(journal)
    assert killed[: len(begun)] == begun and len(begun) < len(killed) < 32

    done = sweep("--json", "--csv", tmp_path / "e.csv", "--html", tmp_path / "e.html", file)
    assert done.returncode == 0, done.stderr
    assert not any(list(folder.iterdir()) for folder in folders)
    assert not list(tmp_path.glob(".hither-*"))
    assert runs(journal)[: len(killed)] == killed and len(runs(journal)) == len(set(runs(journal))) == 32
    found = json.loads(done.stdout)
    assert (found["runs_done"], found["runs_left"], found["seconds_left"]) == (32, 0, 0)
    for point in found["points"]:
        size = int(point["settings"]["file_size"])
        assert (point["runs"], point["bytes"]) == (2, -(-2_000_000 // size) * size)
        rate = point["bytes_per_second"]
        assert 0 < rate["low"] <= rate["median"] <= rate["high"]
        assert point["load_percent"]["low"] >= 0
    rows = list(csv.DictReader((tmp_path / "e.csv").open()))
    assert [float(row["bytes_per_second"]) for row in rows] == [it["bytes_per_second"]["median"] for it in found["points"]]
    page = (tmp_path / "e.html").read_text()
    assert page.count("<svg") >= 3 * 2 and "<script" not in page and "http" not in page

    again = sweep(file)
    assert (again.returncode, len(runs(journal))) == (0, 32)
    assert len([line for line in again.stdout.splitlines() if line.startswith(("nginx", "hither serve"))]) == 16


def test_a_client_that_fails_or_copies_nothing_ends_the_sweep(experiment, tmp_path):
    file, folders = experiment
    text = file.read_text()
    for client, message in [
        ('["sh", "-c", "echo broken >&2; exit 3", "{source}", "{target}"]', "exit status: 3: broken"),
        ('["true", "{source}", "{target}"]', "only 0 of 4 files have 600000 bytes after it"),
        ('["no-such-client", "{source}", "{target}"]', "No such file"),
    ]:
        file.write_text(re.sub("(?m)^client = .*", f"client = {client}", text))
        done = sweep(file)
        assert (done.returncode, message in done.stderr) == (5, True), done.stderr
        assert not any(list(folder.iterdir()) for folder in folders)
        (tmp_path / "e.journal.csv").unlink()


def test_what_cannot_be_measured_is_refused(experiment):
    file, _ = experiment
    text = file.read_text()
    for change, message in [
        (("[axes]", "[axes]\nblock_size = [65536]"), "nothing sets block_size"),
        (("runs = 2", "rums = 2"), "unknown field `rums`"),
    ]:
        file.write_text(text.replace(*change))
        done = sweep("--dry-run", file)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert sweep("--dry-run", file.with_name("gone")).returncode == 1
    file.write_text(re.sub("(?m)^pid = .*", "pid = 4194304", text))
    done = sweep(file)
    assert (done.returncode, "no process of its `pid`" in done.stderr) == (2, True), done.stderr
