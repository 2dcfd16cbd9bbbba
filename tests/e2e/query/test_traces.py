"""Traces: of a real job, imported from other programs, and replayed reads compared with nginx's log."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import TIMEOUT
from needs import missing, require

from bench.harness import access_log, servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER_BENCH

RECORDER = Path("/usr/lib/x86_64-linux-gnu/libXrdClRecorder-5.so")


def shown(hither, trace) -> dict:
    finished = hither("trace", "show", trace, "--json")
    assert finished.code == 0, finished.err
    return finished.json["statistics"]


def test_a_draw_writes_a_trace_of_its_reads(hither, site, small, tmp_path):
    trace = tmp_path / "draw.trace"
    url = site.link_in(small)
    drawn = hither("draw", f"{url}:T", "rawtr", "--where", "E33>5", "--no-store", "--json", "--trace", trace).json
    told = shown(hither, trace)
    assert told["cut_bytes"] == 0
    assert [file["name"] for file in told["files"]] == [url]
    report = drawn["report"]
    assert report["bytes_used"] <= told["all"]["bytes"] <= report["bytes_requested"]
    assert told["all"]["absent"] == told["all"]["reads"] >= 2
    assert 0 < told["waited_seconds"] <= report["seconds"]


def test_traces_are_shown_as_pictures_and_text(hither, site, tmp_path):
    url = site.put("data", bytes(300_000))
    trace = tmp_path / "%p.trace"
    assert hither("cat", url, "--no-store", "--trace", trace).code == 0
    [trace] = tmp_path.glob("*.trace")
    assert trace.stem.isdecimal()
    for histogram in ("displacements", "plain", "sizes", "runs"):
        svg, png = tmp_path / "a.svg", tmp_path / "a.png"
        finished = hither("trace", "show", trace, "--histogram", histogram, "--svg", svg, "--png", png)
        assert finished.code == 0, finished.err
        assert "1 file read" in finished.out and url in finished.out
        assert svg.read_text().startswith("<svg")
        assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("seed", range(24))
def test_a_replay_matches_the_servers_log(hither, site, tmp_path, seed):
    job = tmp_path / "job.trace"
    command = [HITHER_BENCH, "workload", "random", "--seed", str(seed), "--reads", "60", "-o", job]
    size = int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    (site.folder / "data").touch()
    os.truncate(site.folder / "data", size)
    connections = str(1 + seed % 4)
    finished = hither(
        "trace", "replay", job, site.url("data"), "--no-store", "--max-connections", connections, "--json"
    )
    assert finished.code == 0, finished.err
    replay = finished.json["replay"]
    log = site.requests("/data")
    assert (replay["reads"], replay["bytes"]) == (60, shown(hither, job)["all"]["bytes"])
    assert replay["hits"] + replay["partial"] + replay["misses"] == 60
    report = replay["report"]
    assert report["requests"] == len(log)
    # A connection that was opened and not needed has no request.
    assert report["connections"] >= len({request.connection for request in log})
    assert report["bytes_requested"] == sum(asked(request.ranges) for request in log)
    sent = sum(request.bytes_sent for request in log)
    assert report["bytes_used"] <= report["bytes_received"] <= sent
    # Of several connections one may take over half of a slow request on a busy machine: the server then sends more than
    # is read.
    assert connections != "1" or report["bytes_received"] == sent


def test_the_report_of_a_replay_has_what_was_read_ahead_to_the_end(hither, tmp_path):
    job, folder, log = tmp_path / "job.trace", tmp_path / "www", tmp_path / "access.log"
    subprocess.run([HITHER_BENCH, "workload", "sequential", "--reads", "16", "-o", job], check=True, capture_output=True)
    folder.mkdir()
    (folder / "data").touch()
    os.truncate(folder / "data", 8 << 20)
    where = Loopback()
    # On one connection: another one may take over half of a slow request, and the server then sends more than is read.
    words = ("--no-store", "--max-connections", 1)
    with servers.nginx(where, folder, log, limits="limit_rate 1m;") as port:
        finished = hither("trace", "replay", job, f"http://127.0.0.1:{port}/data", *words, "--json")
        servers.settle(where, port)
    assert finished.code == 0, finished.err
    replay = finished.json["replay"]
    logged = access_log.read(log, "/data")
    assert replay["bytes_ahead"] > 0
    assert replay["report"]["requests"] == len(logged)
    assert replay["report"]["bytes_received"] == sum(request.bytes_sent for request in logged)


def asked(ranges: str) -> int:
    """The number of bytes that a Range header requests."""
    total = 0
    for part in ranges.removeprefix("bytes=").split(","):
        first, _, last = part.partition("-")
        total += int(last) - int(first) + 1 if first else int(last)
    return total


READER = """
import os, sys
f = os.open(sys.argv[1], os.O_RDONLY)
for offset, length in ((0, 100), (50_000, 300), (100, 20), (99_990, 50)):
    os.pread(f, length, offset)
os.lseek(f, 7, os.SEEK_SET)
os.read(f, 5)
"""


def test_records_of_strace_are_imported(hither, tmp_path):
    strace = require("strace")
    data, record, trace = (tmp_path / name for name in ("data.bin", "record", "trace"))
    data.write_bytes(bytes(100_000))
    options = ["-f", "-ttt", "-T", "-e", "trace=openat,read,pread64,lseek,close"]
    traced = subprocess.run([strace, *options, "-o", record, sys.executable, "-c", READER, data], check=False)
    if traced.returncode != 0:
        pytest.skip("strace may not trace here")
    finished = hither("trace", "import", "--format", "strace", record, "--only", "data.bin", "-o", trace, "--json")
    assert finished.json["imported"]["reads"] == 5
    [file] = shown(hither, trace)["files"]
    assert file["name"] == str(data)
    assert file["bytes"] == 100 + 300 + 20 + 10 + 5
    assert file["distinct_bytes"] == 100 + 300 + 20 + 10
    assert file["displacements"]["sequential"] == 0
    replay = hither("trace", "replay", trace, "--think", "1", "--json", "--no-store").json["replay"]
    assert (replay["reads"], replay["bytes"]) == (5, 435)


def test_records_of_xrootds_client_are_imported(hither, site, tmp_path):
    require("xrootd")
    require("xrdcp")
    if not RECORDER.exists():
        missing(RECORDER.name)
    size = 3_000_000
    (site.folder / "data").write_bytes(bytes(size))
    record, trace = tmp_path / "record.csv", tmp_path / "trace"
    with servers.xrootd(site.where, site.folder) as port:
        url = f"root://{site.where.server_host}:{port}//data"
        recorded = {**os.environ, "XRD_PLUGIN": str(RECORDER), "XRD_RECORDERPATH": str(record)}
        command = ["xrdcp", "-f", url, "/dev/null"]
        copied = subprocess.run(command, env=recorded, check=False, capture_output=True, timeout=TIMEOUT)
    assert copied.returncode == 0, copied.stderr
    finished = hither("trace", "import", "--format", "xrdrecord", record, "-o", trace, "--json")
    assert finished.json["imported"]["lines_skipped"] == 0
    [file] = shown(hither, trace)["files"]
    assert file["name"] == url
    assert file["bytes"] == file["distinct_bytes"] == size
    replay = hither("trace", "replay", trace, site.url("data"), "--json", "--no-store").json["replay"]
    assert replay["bytes"] == size


def test_an_invalid_trace_is_an_error(hither, site, tmp_path):
    (tmp_path / "no").write_bytes(b"root")
    assert hither("trace", "show", tmp_path / "no").code == 7
    assert hither("trace", "show", tmp_path / "nothing").code == 3
    assert hither("trace", "import", "--format", "strace", tmp_path / "no", "-o", tmp_path / "out").code == 7
    assert not (tmp_path / "out").exists()
    assert hither("cat", site.put("a", b"a"), "--no-store", "--trace", tmp_path / "none" / "trace").code == 1
    same = hither("trace", "replay", tmp_path / "no", "--trace", tmp_path / "no")
    assert same.code == 2 and (tmp_path / "no").read_bytes() == b"root"
    error = json.loads(hither("trace", "show", tmp_path / "no", "--json").out)["error"]
    assert error["kind"] == "corrupt"
