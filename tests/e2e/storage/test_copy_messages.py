"""Messages of `hither cp`: the progress bar, the summary, and errors with the names that the user gave."""

import os
import pty
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from served import serving

from bench.harness import servers
from bench.harness.paths import HITHER

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
FRAME = re.compile(rb"([\d.]+) (\w+)/([\d.]+) (\w+) ([\d.]+) (\w+)/s")
MIB = 1 << 20


def on_a_terminal(*command, code: int = 0) -> bytes:
    """Runs a command whose standard error is a terminal; returns its output there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    # Reading from a terminal whose other end is closed fails.
    try:
        while some := os.read(ours, 1 << 16):
            shown += some
    except OSError:
        pass
    os.close(ours)
    assert process.wait(60) == code, shown
    return shown


def test_every_frame_of_the_progress_bar_makes_sense(tmp_path):
    with serving(tmp_path) as served:
        url = served.file("large", os.urandom(6 * MIB))
        target = tmp_path / "copy"
        options = ("--no-store", "--max-connections", 2, "--bwlimit", "2M")
        shown = on_a_terminal(HITHER, "cp", *options, url, target)
    frames = FRAME.findall(re.sub(rb"\x1b\[[\d;]*\w", b"", shown))
    assert frames, shown
    for done, done_unit, whole, whole_unit, rate, rate_unit in frames:
        bytes_done = float(done) * UNITS[done_unit.decode()]
        assert bytes_done <= float(whole) * UNITS[whole_unit.decode()] <= 6.1 * MIB, frames
        assert float(rate) * UNITS[rate_unit.decode()] < 50 * MIB, frames


def test_checksums_are_printed_where_they_were_asked_for(hither, tmp_path):
    with serving(tmp_path) as served:
        url = served.file("large", os.urandom(5 * MIB))
        assert "adler32" not in hither("cp", "--no-store", url, tmp_path / "a").err
        assert "adler32:" in hither("cp", "--no-store", "--checksum", "adler32", url, tmp_path / "b").err
        assert hither("cp", "--no-store", "--json", url, tmp_path / "c").json["checksums"][0]["compared"]


def test_a_copy_that_fails_sums_up_nothing(hither, tmp_path):
    told = hither("cp", "--no-store", tmp_path / "none", tmp_path / "copy")
    assert told.code == 3 and "0 files" not in told.err, told.err


def test_errors_name_the_file_and_not_its_partial_file(hither, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(2 * MIB))
    small = tmp_path / "small"
    small.write_bytes(b"x")
    with serving(tmp_path) as served:
        for file in (source, small):
            # Read-only: the server refuses the first request of each.
            told = hither("cp", "--no-store", file, served.url("copy"))
            assert told.code != 0 and ".part" not in told.err, told.err
            assert "/copy" in told.err, told.err


def test_what_is_left_out_is_named_by_its_whole_path(hither, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "broken").symlink_to("nowhere")
    os.mkfifo(tree / "pipe")
    told = hither("cp", "-r", "--no-store", tree, tmp_path / "copy")
    assert told.code == 0, told.err
    assert f"{tree}/broken: broken link" in told.err and f"{tree}/pipe: neither" in told.err, told.err


def test_nothing_is_called_kept_where_nothing_was_copied(hither, tmp_path):
    store = ["--store", tmp_path / "store"]
    (tmp_path / "file").write_bytes(b"content")
    gone = f"http://127.0.0.1:{servers.free_port()}/file"
    copies = (
        [gone, tmp_path / "copy"],
        [gone.replace("http:", "root:"), tmp_path / "other copy"],
        ["-r", gone, tmp_path / "copies"],
        [tmp_path / "file", f"{gone}2"],
        ["-r", tmp_path / "file", f"{gone}3"],
    )
    # Each waits a second for the server to return.
    timeouts = ["--connect-timeout", "1", "--stall-timeout", "1"]
    with ThreadPoolExecutor(len(copies)) as pool:
        for told in pool.map(lambda words: hither("cp", *words, *store, *timeouts), copies):
            assert told.code == 5, told.err
            assert "is kept" not in told.err, told.err
