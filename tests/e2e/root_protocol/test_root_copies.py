"""`hither cp --third-party` between two xrootd servers: the file is sent directly from one to the other."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from command import run
from needs import require

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER
from bench.harness.waiting import readable

UNSUPPORTED, INTERRUPTED, PATIENCE = 8, 130, 60
TPC = "ofs.tpc pgm {program}\nxrootd.chksum max 2 adler32\n"
CONTENT = os.urandom(5_000_000)
# The last arguments of a copy program are source and target.
STUCK = '#!/bin/sh\nfor target; do :; done\nhead -c 3000000 /dev/zero > "$target"\necho $$ > {pipe}\nexec sleep 1000\n'


class Side:
    """A server and its folder."""

    def __init__(self, port: int, folder: Path):
        self.port, self.folder = port, folder

    def url(self, name: str) -> str:
        return f"root://127.0.0.1:{self.port}//{name}"

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def serve(tmp_path):
    """Starts xrootd; without a program it does not support third-party copies."""
    require("xrootd")
    tmp_path.chmod(0o755)
    with contextlib.ExitStack() as stack:

        def start(name: str, program: str = "/usr/bin/xrdcp --server", more: str = "") -> Side:
            folder = tmp_path / name
            folder.mkdir()
            folder.chmod(0o777)
            more += TPC.format(program=program) if program else ""
            return Side(stack.enter_context(servers.xrootd(Loopback(), folder, more=more)), folder)

        yield start


def copy(mode: str, source: str, target: str, *options: str):
    return run([HITHER, "cp", "--json", "--no-store", "--third-party", mode, *options, source, target])


@pytest.mark.parametrize("mode", ["pull", "auto"])
def test_the_target_fetches_the_file_and_checksums_are_compared(serve, mode):
    there, here = serve("there"), serve("here")
    (there.folder / "f").write_bytes(CONTENT)
    told = copy(mode, there.url("f"), here.url("copied"), "--checksum", "adler32")
    assert told.code == 0, told.err
    assert (here.folder / "copied").read_bytes() == CONTENT
    assert here.names() == ["copied"]
    assert told.json["notices"] == [], "no other way was taken"
    assert (told.json["bytes"], told.json["bytes_arrived"]) == (len(CONTENT), 0)
    assert [checksum["compared"] for checksum in told.json["checksums"]] == [True]


def test_a_tree_goes_from_server_to_server(serve):
    there, here = serve("there"), serve("here")
    for n in range(12):
        (there.folder / "run" / str(n % 3)).mkdir(parents=True, exist_ok=True)
        (there.folder / "run" / str(n % 3) / f"f{n}").write_bytes(CONTENT[: 1000 * n])
    told = copy("pull", there.url("run"), here.url(""), "-r")
    assert (told.code, told.json["files"]) == (0, 12), told.err
    for path in (there.folder / "run").rglob("f*"):
        assert (here.folder / path.relative_to(there.folder)).read_bytes() == path.read_bytes()


def test_existing_files_are_kept_or_replaced_whole(serve):
    there, here = serve("there"), serve("here")
    (there.folder / "f").write_bytes(CONTENT)
    (here.folder / "f").write_bytes(b"old")
    assert copy("pull", there.url("f"), here.url("f"), "-n").code == 0
    assert (here.folder / "f").read_bytes() == b"old"
    assert copy("pull", there.url("f"), here.url("f")).code == 0
    assert (here.folder / "f").read_bytes() == CONTENT


@pytest.mark.parametrize("lacking", ["source", "target"])
def test_a_server_without_support_is_named_and_auto_copies_through_here(serve, lacking):
    there = serve("there", *([""] if lacking == "source" else []))
    here = serve("here", *([""] if lacking == "target" else []))
    (there.folder / "f").write_bytes(CONTENT)
    at_fault = there if lacking == "source" else here
    told = copy("pull", there.url("f"), here.url("f"))
    assert told.code == UNSUPPORTED, told.err
    assert f"127.0.0.1:{at_fault.port}: the server does no third-party copies" in told.err
    assert here.names() == []
    told = copy("auto", there.url("f"), here.url("f"))
    assert told.code == 0, told.err
    assert "copied through this machine" in told.json["notices"][0]
    assert (here.folder / "f").read_bytes() == CONTENT


def test_a_push_and_a_target_of_another_protocol_are_errors(serve):
    there, here = serve("there"), serve("here")
    (there.folder / "f").write_bytes(CONTENT)
    told = copy("push", there.url("f"), here.url("f"))
    assert told.code == UNSUPPORTED and "only pull" in told.err, told.err
    told = copy("pull", there.url("f"), f"http://127.0.0.1:{here.port}/f")
    assert told.code == UNSUPPORTED and "different protocols" in told.err, told.err


def test_a_failure_of_the_target_is_quoted_and_leaves_nothing(serve, tmp_path):
    program = tmp_path / "failing"
    program.write_text("#!/bin/sh\necho 'xrdcp: the disk is on fire' >&2\nexit 51\n")
    there, here = serve("there"), serve("here", f"/bin/sh {program}")
    (there.folder / "f").write_bytes(CONTENT)
    told = copy("pull", there.url("f"), here.url("f"))
    assert told.code != 0 and "the third-party copy failed" in told.err, told.err
    assert here.names() == []


def test_an_interrupt_ends_the_copy_at_the_target_and_removes_its_file(serve, tmp_path):
    program = tmp_path / "stuck"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program.write_text(STUCK.format(pipe=pipe))
    there, here = serve("there"), serve("here", f"/bin/sh {program}")
    (there.folder / "f").write_bytes(CONTENT)
    command = [HITHER, "cp", "--no-store", "--third-party", "pull", there.url("f"), here.url("f")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        # Opening a pipe waits for the other end.
        watched = os.pidfd_open(int(pipe.read_text()))
        assert [path.stat().st_size for path in here.folder.iterdir()] == [3_000_000]
        assert here.names() != ["f"], "the name is for whole files"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == INTERRUPTED, process.stderr.read()
    assert here.names() == []
    # The descriptor of an ended process is readable.
    assert readable(watched, timeout=PATIENCE), "the copy program was not stopped"
    os.close(watched)
