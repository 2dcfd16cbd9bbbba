"""Wrong names, and the messages about them: directories, buckets, servers, credential files."""

import os
import socket
import subprocess
import threading

import pytest
from loopback_server import LoopbackServer, QuietHandler
from served import serving

from bench.harness.paths import HITHER

UNSUPPORTED = 8


@pytest.fixture
def run(hither):
    return lambda *arguments: hither(*arguments, "--no-store")


def test_a_file_that_is_copied_as_a_tree_is_copied(run, tmp_path):
    with serving(tmp_path) as served:
        url = served.file("file", b"content")
        assert run("cp", "-r", url, tmp_path / "copy").code == 0
        (tmp_path / "into").mkdir()
        assert run("cp", "-r", url, tmp_path / "into").code == 0
        told = run("cp", "-r", served.url("none"), tmp_path / "none")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "into" / "file").read_bytes() == b"content"
    assert told.code == 3
    assert not (tmp_path / "none").exists()


def test_a_directory_where_a_file_is_meant_is_called_one(hither, tmp_path):
    with serving(tmp_path) as served:
        served.file("directory/file", b"content")
        for command in (["cat"], ["tree"], ["tree", "--learned"], ["tree", "--export", "-"]):
            told = hither(*command, served.url("directory"), "--store", tmp_path / "store")
            assert told.code == 2, (command, told.err)
            assert "directory is a directory: list it with ls" in told.err


def test_sizes_below_a_name_that_is_not_utf8_are_counted_or_said_to_be_missing(run, tmp_path):
    folder = os.fsencode(tmp_path / "d")
    os.makedirs(folder + b"/run\xff")
    for name, size in ((b"ok", 10), (b"run\xe9", 500), (b"run\xff/data", 1000)):
        with open(folder + b"/" + name, "wb") as file:
            file.write(bytes(size))
    for verb in (["du"], ["find"], ["ls", "-R"]):
        told = run(*verb, tmp_path / "d")
        assert (told.code, "run\ufffd: the name is not UTF-8" in told.err) == (UNSUPPORTED, True), (verb, told.err)
    assert run("du", tmp_path / "d").out == f">510\t{tmp_path}/d\n"
    os.rename(folder + b"/run\xff", folder + b"/run")
    told = run("du", tmp_path / "d")
    assert (told.code, told.out) == (0, f"1510\t{tmp_path}/d\n"), told.err


def test_the_directory_whose_name_is_not_utf8_is_named(tmp_path):
    folder = os.fsencode(tmp_path) + b"/run\xff"
    os.mkdir(folder)
    told = subprocess.run([HITHER, "stat", "in"], cwd=folder, capture_output=True, text=True, check=False)
    assert told.returncode == UNSUPPORTED
    assert "run\\xFF/in" in told.stderr, told.stderr


@pytest.mark.parametrize(
    ("url", "said"), [("s3://", "names no bucket"), ("s3:///key", "names no bucket"), ("s3://a b/", "is not the name of a")]
)
def test_a_bucket_has_a_name(run, url, said):
    told = run("ls", url)
    assert told.code == 2
    assert said in told.err


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (400, "<Error><Code>Odd</Code><Message>no</Message></Error>", '400 Bad Request, "Odd: no": it rejects the request'),
        (503, "<Error><Code>SlowDown</Code></Error>", '503 Service Unavailable, "SlowDown": it is overloaded'),
        (404, "<html>", "404 Not Found: check the endpoint"),
        (200, "<html>", "check the endpoint, which may be no object store"),
    ],
)
def test_what_an_object_store_answers_is_told_without_the_words_of_the_library(run, monkeypatch, status, body, said):
    class Store(QuietHandler):
        def do_GET(self):
            self.send_response(status)
            if status == 503:
                # Too long to be waited for.
                self.send_header("Retry-After", "3600")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

    with LoopbackServer(Store) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{store.port}")
        told = run("ls", "s3://bucket/", "--anonymous")
    assert told.code == 5
    assert said in told.err
    assert not any(word in told.err for word in ("Generic", "performing", "retry_timeout", "<Error"))


def test_a_server_that_hangs_up_may_be_one_of_xrootd(run):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.recv(100)
                connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        for scheme in ("http", "https"):
            told = run("stat", f"{scheme}://127.0.0.1:{server.getsockname()[1]}/file")
            assert told.code == 5
            assert "An XRootD server is named by root://" in told.err
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("option", "code"),
    [("--token-file", 4), ("--cert", 4), ("--proxy-cert", 4), ("--ca", 1), ("--ca-dir", 1)],
)
def test_a_file_that_an_option_names_has_to_be_there_for_http_too(run, tmp_path, option, code):
    with serving(tmp_path) as served:
        url = served.file("file", b"content")
        told = run("cat", url, option, tmp_path / "none")
        assert (told.code, told.out) == (code, "")
        assert "cannot read the " in told.err
        assert f"{tmp_path}/none" in told.err


@pytest.mark.parametrize("command", ["stat", "cat"])
def test_a_token_command_that_fails_runs_once(run, tmp_path, command):
    with serving(tmp_path) as served:
        url = served.file("file", b"content")
        told = run(command, url, "--token-command", f"echo ran >> {tmp_path}/runs; exit 1")
    assert told.code == 4
    assert (tmp_path / "runs").read_text() == "ran\n"


@pytest.mark.parametrize("variable", ["X509_USER_PROXY", "X509_USER_CERT", "BEARER_TOKEN_FILE", "X509_CERT_DIR"])
def test_the_variable_that_names_a_missing_file_is_named(run, monkeypatch, tmp_path, variable):
    monkeypatch.setenv(variable, str(tmp_path / "none"))
    told = run("stat", "https://127.0.0.1:9/file")
    assert told.code in (1, 4)
    assert f"{variable} names a file that cannot be used" in told.err
    assert f"{tmp_path}/none" in told.err
