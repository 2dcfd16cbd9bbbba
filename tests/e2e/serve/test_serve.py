"""`hither serve` with common programs: curl, davix, gfal2, rclone, litmus, a browser's view, and hither's own
client."""

import hashlib
import os
import re
import subprocess
import zlib

import pytest
from served import CONTENT, DEBIANS_PYTHON, PATIENCE, run, serving

from bench.harness import servers
from bench.harness.paths import HITHER


@pytest.fixture
def reading(tmp_path):
    with serving(tmp_path) as served:
        yield served


@pytest.fixture
def writing(tmp_path):
    with serving(tmp_path, "--write") as served:
        yield served


def test_curl_reads_ranges_and_whole_files(reading, tmp_path):
    url = reading.file("d/file.bin")
    run("curl", "-sf", "-o", tmp_path / "whole", url)
    assert (tmp_path / "whole").read_bytes() == CONTENT
    assert run("curl", "-sf", "-r", "65-70", url) == "ABCDEF"
    parts = run("curl", "-sf", "-r", "65-70,97-99,-1", "--output", "-", url, encoding="latin-1")
    assert parts.index("ABCDEF") < parts.index("abc")
    head = run("curl", "-sfI", "-H", "Want-Digest: adler32", url).lower()
    assert f"digest: adler32={zlib.adler32(CONTENT):08x}" in head
    assert run("curl", "-sf", "--http2-prior-knowledge", "-r", "65-70", url) == "ABCDEF"


def test_curl_uploads_and_errors_come_before_the_body(writing):
    source = writing.folder.parent / "source"
    source.write_bytes(CONTENT)
    run("curl", "-sf", "-T", source, "-H", "Expect: 100-continue", writing.url("new"))
    assert (writing.folder / "new").read_bytes() == CONTENT
    run("curl", "-sf", "-T", source, writing.url("none/new"), code=22)
    run("curl", "-sf", "-T", source, "-H", "If-None-Match: *", writing.url("new"), code=22)


def test_a_read_only_server_accepts_no_writes(reading, tmp_path):
    url = reading.file("file")
    run("curl", "-sf", "-T", HITHER, url, code=22)
    run("curl", "-sf", "-X", "DELETE", url, code=22)
    assert (reading.folder / "file").read_bytes() == CONTENT


def test_the_reason_of_the_server_reaches_the_user(reading, hither):
    told = hither("mkdir", "--no-store", reading.url("new"))
    reason = run("curl", "-s", "-X", "MKCOL", reading.url("new")).strip()
    assert told.code == 4 and f'"{reason}"' in told.err, (told.err, reason)


def test_only_directories_have_a_used_quota(reading):
    reading.file("d/file")
    body = '<propfind xmlns="DAV:"><prop><quota-used-bytes/></prop></propfind>'
    listed = run("curl", "-sf", "-X", "PROPFIND", "-H", "Depth: 1", "-d", body, reading.url("d/"))
    of_directory, of_file = listed.split("</D:response>")[:2]
    assert "200 OK" in of_directory.split("quota-used-bytes")[-1] and "404 Not Found" in of_file, listed


def test_files_uploaded_a_moment_ago_are_copied_at_once(writing, hither, tmp_path):
    for number in range(20):
        (writing.folder / f"d{number}").mkdir()
        writing.file(f"d{number}/file")
    told = hither("cp", "-r", "--json", "--no-store", writing.url(""), tmp_path / "copy")
    assert told.code == 0 and told.json["notices"] == [], told.err
    assert (tmp_path / "copy/d7/file").read_bytes() == CONTENT


def test_davix_lists_reads_writes_and_removes(writing, tmp_path):
    url = writing.file("d/file")
    assert "file" in run("davix-ls", writing.url("d/"))
    run("davix-get", url, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == CONTENT
    run("davix-mkdir", writing.url("e"))
    run("davix-put", tmp_path / "got", writing.url("e/put"))
    assert (writing.folder / "e/put").read_bytes() == CONTENT
    # It prints nothing, and its exit code is 255 or 0, independent of the result (davix 0.8.4).
    subprocess.run(["davix-mv", writing.url("e/put"), writing.url("e/moved")], check=False, timeout=PATIENCE)
    run("davix-rm", writing.url("e/moved"))
    assert list((writing.folder / "e").iterdir()) == []


def test_gfal_copies_lists_and_checks(writing, tmp_path):
    base = writing.base.replace("http://", "dav://")
    (tmp_path / "source").write_bytes(CONTENT)
    run("gfal-copy", f"file://{tmp_path}/source", f"{base}copied", **DEBIANS_PYTHON)
    assert (writing.folder / "copied").read_bytes() == CONTENT
    assert "copied" in run("gfal-ls", base, **DEBIANS_PYTHON)
    assert str(len(CONTENT)) in run("gfal-stat", f"{base}copied", **DEBIANS_PYTHON)
    assert f"{zlib.adler32(CONTENT):08x}" in run("gfal-sum", f"{base}copied", "ADLER32", **DEBIANS_PYTHON)
    run("gfal-rm", f"{base}copied", **DEBIANS_PYTHON)
    assert not (writing.folder / "copied").exists()


def test_rclone_copies_trees_there_and_back(writing, tmp_path):
    for name in ("a", "b c", "d/ü", "d/e/%41"):
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 1000)
    remote = [f":webdav,url='{writing.base}',vendor=other:"]
    run("rclone", "--config", "/dev/null", "copy", tmp_path / "source", *remote)
    run("rclone", "--config", "/dev/null", "copy", *remote, tmp_path / "back")
    run("rclone", "--config", "/dev/null", "check", "--download", tmp_path / "source", *remote)
    found = {p.relative_to(tmp_path / "back"): p.read_bytes() for p in (tmp_path / "back").rglob("*") if p.is_file()}
    assert len(found) == 4
    assert all(content == str(name).encode() * 1000 for name, content in found.items())
    run("rclone", "--config", "/dev/null", "moveto", f"{remote[0]}a", f"{remote[0]}moved")
    assert (writing.folder / "moved").exists()


@pytest.mark.parametrize("suite", ["basic", "copymove", "props", "http"])
def test_litmus_passes(writing, tmp_path, suite):
    told = run("litmus", writing.base, cwd=tmp_path, env={**os.environ, "TESTS": suite})
    assert "FAIL" not in told, told
    assert re.search(r"\b(\d+) passed, 0 failed", told), told


def test_our_client_reads_writes_and_checks(writing, hither, tmp_path):
    (tmp_path / "source").write_bytes(CONTENT * 5)
    assert hither("cp", tmp_path / "source", writing.url("copied"), "--no-store").code == 0
    assert (writing.folder / "copied").read_bytes() == CONTENT * 5
    told = hither("checksum", "--algorithm", "md5", writing.url("copied"), "--no-store")
    assert hashlib.md5(CONTENT * 5).hexdigest() in told.out, told.err
    assert hither("ls", writing.base, "--no-store").out == "copied\n"
    assert hither("rm", writing.url("copied"), "--no-store").code == 0
    assert list(writing.folder.iterdir()) == []


def test_a_page_shows_names_sizes_and_checksums(writing):
    run("curl", "-sf", "-T", HITHER, writing.url("program"))
    page = run("curl", "-sf", writing.base)
    assert "<title>/</title>" in page and "program" in page and "MiB" in page
    assert f"{zlib.adler32(HITHER.read_bytes()):08x}" in page


def test_tls_and_http2_work(tmp_path):
    tls = servers.certificate(tmp_path)
    with serving(tmp_path, "--tls-cert", tls.certificate, "--tls-key", tls.key) as served:
        served.file("file", b"hello")
        assert served.base.startswith("https://")
        told = run("curl", "-sf", "--cacert", tls.authority, "-w", "%{http_version}", served.url("file"))
        assert told == "hello2"
        told = run("curl", "-sf", "--http1.1", "--cacert", tls.authority, served.url("file"))
        assert told == "hello"


def test_every_request_is_logged_as_a_line_of_json(reading):
    url = reading.file("file")
    run("curl", "-sf", "-o", "/dev/null", "-r", "0-9,20-29", "-A", "me", url)
    run("curl", "-s", "-o", "/dev/null", reading.url("none"))
    assert reading.stop() == 0
    first, second = reading.logged()
    assert (first["method"], first["target"], first["status"], first["ranges"]) == ("GET", "/file", 206, 2)
    assert (first["agent"], first["complete"], second["status"]) == ("me", True, 404)
    assert first["sent"] > 20 and first["peer"].startswith("127.0.0.1:")


def test_settings_come_from_a_file_and_errors_name_the_setting(tmp_path, hither):
    (tmp_path / "www").mkdir()
    config = tmp_path / "serve.toml"
    config.write_text(f'root = "{tmp_path}/www"\nwrite = true\n[limits]\nranges = 1\n')
    with serving(tmp_path, "--config", config) as served:
        url = served.file("file")
        run("curl", "-sf", "-r", "0-1,4-5", url, code=22)
    config.write_text("rooot = 1")
    told = hither("serve", "--config", config)
    assert told.code == 2 and "rooot" in told.err
    assert hither("serve", tmp_path / "none").code == 3
