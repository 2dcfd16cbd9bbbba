"""Standard streams that are full or closed: a message is lost, a result is an error, and no job is aborted."""

import json
import os
import subprocess
from contextlib import contextmanager
from http import HTTPStatus

import pytest
from loopback_server import LoopbackServer, QuietHandler
from served import serving

from bench.harness.paths import HITHER

LOCAL = 1
LINES = 3


@contextmanager
def unread_pipe():
    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "wb") as pipe:
        yield pipe


@pytest.fixture(params=["full", "unread"])
def deaf(request):
    """Opens a stream that accepts no data."""
    return unread_pipe if request.param == "unread" else lambda: open("/dev/full", "wb")


def run(*words, **streams) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in (HITHER, *words)], timeout=120, check=False, **streams)


def closed(redirection: str, *words) -> subprocess.CompletedProcess:
    """Runs the command without a standard stream, as a shell starts it."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", HITHER, *words]
    return subprocess.run([str(word) for word in command], capture_output=True, timeout=120, check=False)


class BusyOnce(QuietHandler):
    """Responds that it is busy, and then sends the file."""

    asked = 0

    def do_GET(self):
        type(self).asked += 1
        is_busy = self.asked == 1
        self.send_response(HTTPStatus.SERVICE_UNAVAILABLE if is_busy else HTTPStatus.OK)
        self.send_header("Retry-After" if is_busy else "ETag", "1" if is_busy else '"1"')
        self.send_header("Content-Length", "0" if is_busy else "5")
        self.end_headers()
        self.wfile.write(b"" if is_busy else b"hello")


def test_a_wait_that_cannot_be_told_ends_no_copy(tmp_path, deaf, monkeypatch):
    monkeypatch.setattr(BusyOnce, "asked", 0)
    with LoopbackServer(BusyOnce) as server, deaf() as errors:
        done = run("cp", "--no-store", f"http://127.0.0.1:{server.port}/f", tmp_path / "f", stderr=errors)
    assert done.returncode == 0
    assert (tmp_path / "f").read_bytes() == b"hello"


def test_a_log_that_nobody_reads_ends_no_copy(tmp_path, deaf):
    (tmp_path / "from").mkdir()
    for number in range(LINES):
        (tmp_path / f"from/{number}").write_bytes(b"1")
    with deaf() as errors:
        done = run("cp", "-rv", "--no-store", tmp_path / "from", tmp_path / "to", stderr=errors)
    assert done.returncode == 0
    assert len(os.listdir(tmp_path / "to")) == LINES


def test_a_server_whose_log_nobody_reads_serves(tmp_path, deaf):
    (tmp_path / "f").write_bytes(b"hello")
    command = [str(word) for word in (HITHER, "serve", "-v", "--json", "--listen", "127.0.0.1:0", tmp_path)]
    with deaf() as errors:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        base = json.loads(server.stdout.readline())["urls"][0]
        for _ in range(LINES):
            assert run("cat", "--no-store", f"{base}f", capture_output=True).stdout == b"hello"
    finally:
        server.terminate()
        server.wait(60)


@pytest.mark.parametrize("words", [["--help"], ["cp", "--help"], ["--version"], ["ls", "/"], ["cat", __file__]])
def test_results_that_cannot_be_written_are_an_error(words):
    with open("/dev/full", "wb") as full:
        done = run(*words, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == LOCAL
    assert b"cannot write the output" in done.stderr, done.stderr
    with unread_pipe() as pipe:
        assert run(*words, stdout=pipe, stderr=subprocess.PIPE).returncode == 0


def test_what_was_written_to_an_output_is_not_said_to_be_kept(tmp_path):
    with serving(tmp_path) as served, open("/dev/full", "wb") as full:
        done = run("cp", served.file("f"), "-", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode != 0
    assert b"kept" not in done.stderr, done.stderr


def test_a_closed_output_is_an_error(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"good")
    for words in (["cat", file], ["cp", "--no-store", file, "-"], ["ls", tmp_path], ["--help"]):
        done = closed(">&-", *words)
        assert done.returncode == LOCAL, words
        assert b"Bad file descriptor" in done.stderr, done.stderr
    assert file.read_bytes() == b"good"
    # A stream that is not used may be closed.
    assert closed("<&- >&- 2>&-", "cp", "--no-store", file, tmp_path / "copy").returncode == 0
    assert (tmp_path / "copy").read_bytes() == b"good"


def test_a_closed_input_is_not_an_empty_one(tmp_path):
    good, kept = tmp_path / "good", tmp_path / "kept"
    good.write_bytes(b"good")
    assert closed("<&-", "cp", "--no-store", "-", good).returncode == LOCAL
    assert good.read_bytes() == b"good"
    kept.mkdir()
    (kept / "excluded").write_bytes(b"good")
    (tmp_path / "empty").mkdir()
    done = closed("<&-", "sync", "--delete", "--filter-from", "-", tmp_path / "empty", kept)
    assert done.returncode == LOCAL, done.stderr
    assert (kept / "excluded").exists()
