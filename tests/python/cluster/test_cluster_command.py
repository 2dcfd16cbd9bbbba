"""`hither cp --cluster`: what it refuses, and what it reports."""

import errno
import io
import json
import re
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from cluster_rig import PATIENCE, write_tree
from e2e.loopback_server import LoopbackServer, QuietHandler
from needs import python_package

python_package("distributed")
import hither.cluster  # noqa: E402
import hither.cluster.__main__ as command  # noqa: E402
from hither.cluster import _scheduler  # noqa: E402
from hither.cluster.__main__ import EXIT_CODES  # noqa: E402
from hither.cluster._listing import Listing  # noqa: E402
from hither.cluster._options import ClusterOptions  # noqa: E402

pytestmark = pytest.mark.pair

LOGGED_DIRECTORIES = 200
"""Number of directories whose listing logs more than a pipe holds."""


class Greeting(QuietHandler):
    """Another protocol, whose server begins."""

    def handle(self):
        self.connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
        self.connection.recv(1000)


def test_the_command_tells_what_it_did_and_refuses_what_it_cannot(cluster, tmp_path):
    write_tree(tmp_path / "tree", small=3, large=0)
    command = [sys.executable, "-m", "hither", "cp", "-r", "--json", "--exclude", "*2%", f"{tmp_path}/tree/."]
    command += [str(tmp_path / "to"), "--cluster", str(cluster.scheduler_file)]

    def run(*more):
        return subprocess.run([*command, *more], capture_output=True, text=True, check=False, timeout=PATIENCE)

    done = run()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == 2
    assert not (tmp_path / "to" / "d2" / "ä 2%").exists()
    assert run("--checksum", "md5").returncode == 2
    refused = run("--header", "X-Token: secret")
    assert (refused.returncode, "--header does not reach the nodes" in refused.stderr) == (2, True), refused.stderr


def test_the_command_counts_what_could_not_be_copied(cluster, source, tmp_path):
    root, _, url = source
    (root / "d1" / "secret").write_bytes(b"secret")
    command = [sys.executable, "-m", "hither", "cp", "-r", url, str(tmp_path / "to")]
    command += ["--cluster", str(cluster.scheduler_file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == EXIT_CODES["permission_denied"], done.stderr
    assert "hither: 1 of 303 could not be copied: run the same command to try them again\n" in done.stderr
    (tmp_path / "open").touch()
    again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (again.returncode, "could not be copied" in again.stderr) == (0, False), again.stderr


def test_the_command_refuses_what_is_no_scheduler_source_or_destination(dask, cluster, tmp_path, capfd, monkeypatch):
    """With the exit code of the cause, in one line, and before any change.

    A process that has reached another kind of server also has to end without Dask's tracebacks.
    """
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("x")
    (tmp_path / "not.json").write_text("{}")
    scheduler, worker = str(cluster.scheduler_file), next(iter(dask.scheduler_info()["workers"]))

    def here(source, to, address):
        options = {"source": source, "destination": to, "cluster": address, "quiet": False, "as_json": False}
        code = command.main(json.dumps(options))
        return code, *capfd.readouterr()

    def process(source, to, address):
        words = [sys.executable, "-m", "hither", "cp", "-r", source, to, "--cluster", address]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr

    def impatiently(source, to, address):
        with monkeypatch.context() as patch:
            patch.setattr(_scheduler, "CONNECT_SECONDS", 1)
            return here(source, to, address)

    nobody = "no Dask scheduler answers at tcp://127.0.0.1:"
    with LoopbackServer(QuietHandler) as http, LoopbackServer(Greeting) as other:
        for run, source, to, address, code, said in [
            (here, "tree", "to", f"{tmp_path}/none.json", 3, "neither a file nor an address"),
            (here, "tree", "to", f"{tmp_path}/not.json", 7, "not the file of a scheduler"),
            # A server of HTTP waits for the rest of the request.
            (impatiently, "tree", "to", f"tcp://127.0.0.1:{http.port}", 5, nobody),
            (process, "tree", "to", f"tcp://127.0.0.1:{other.port}", 5, nobody),
            (here, "tree", "to", f"http://127.0.0.1:{http.port}", 2, "is not an address such as tcp://"),
            (process, "tree", "to", worker, 5, "is the address of Dask's Worker: name that of the scheduler"),
            (process, "none", "to", scheduler, 3, "none"),
            (here, "tree/file", "to", scheduler, 2, "is not a directory: name the directory that it is in"),
            (here, "tree", "s3://bucket/to", scheduler, 8, "cannot copy to S3"),
        ]:
            done, out, error = run(f"{tmp_path}/{source}", to if "://" in to else f"{tmp_path}/{to}", address)
            assert (done, out) == (code, ""), error
            assert said in error, error
            assert len(error.splitlines()) == 1, error
    assert not (tmp_path / "to").exists()


@pytest.mark.soak
def test_a_process_that_met_a_silent_server_says_one_line(tmp_path):
    """Such as Dask's dashboard: a server of HTTP waits for the rest of the request, for 10 s."""
    (tmp_path / "tree").mkdir()
    with LoopbackServer(QuietHandler) as http:
        words = [sys.executable, "-m", "hither", "cp", "-r", "tree", "to", "--cluster", f"tcp://127.0.0.1:{http.port}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (5, ""), done.stderr
    assert "no Dask scheduler answers at tcp://127.0.0.1:" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_log_does_not_stop_the_listing(tmp_path, monkeypatch):
    monkeypatch.setenv("HITHER_LOG", "trace")
    for number in range(LOGGED_DIRECTORIES):
        (tmp_path / f"from/{number}").mkdir(parents=True)

    class Indexes(SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=tmp_path / "from")

        def log_message(self, *_arguments):
            pass

    with LoopbackServer(Indexes) as server:
        options = ClusterOptions(f"http://127.0.0.1:{server.port}", str(tmp_path / "to"))
        listed = list(Listing(options, open_manifest=None, destination=None)._listed(manifest=None))
    assert len(listed) == LOGGED_DIRECTORIES


def test_no_process_that_lists_has_a_query_in_its_arguments(tmp_path, monkeypatch):
    commands, asked = [], []

    class Recorded(subprocess.Popen):
        def __init__(self, command, **options):
            commands.append(command)
            super().__init__(command, **options)

    class Index(SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=tmp_path / "from")

        def log_message(self, *_arguments):
            asked.append(self.path)

    (tmp_path / "from").mkdir()
    (tmp_path / "from/file").write_bytes(b"file")
    monkeypatch.setattr(subprocess, "Popen", Recorded)
    with LoopbackServer(Index) as server:
        options = ClusterOptions(f"http://127.0.0.1:{server.port}?authz=hush", str(tmp_path / "to"))
        listed = list(Listing(options, open_manifest=None, destination=None)._listed(manifest=None))
    assert [entry["path"] for entry in listed] == ["file"]
    assert "/?authz=hush" in asked
    assert commands
    assert not [word for command in commands for word in command if "hush" in str(word)]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_command_ends_with_what_it_did_where_nobody_reads(stream, capfd, monkeypatch):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(sys, stream, Full())
    summary = hither.cluster.ClusterSummary(0, 0, {}, 0, None, 0, {}, {}, 1.0, ["a notice"])
    done = command._report(summary, as_json=True, quiet=False)
    assert done == (stream == "stderr")
    command._say("something")
    out, err = capfd.readouterr()
    assert ("cannot write the output" in err) == (stream == "stdout")
    assert ("files" in out) == (stream == "stderr")


def test_exit_codes_are_those_of_the_command():
    table = (Path(__file__).parents[3] / "docs" / "reference" / "exit-codes.md").read_text()
    documented = {
        kind: int(row.split("|")[1])
        for row in table.splitlines()
        for kind in re.findall(r"`(\w+)`", row[4:])
        if row.startswith("|")
    }
    del documented["usage"], documented["local"]
    assert documented == EXIT_CODES
