"""Times of uploaded files: those of their sources, set by `X-OC-Mtime`."""

import os
import urllib.request
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from served import run, serving

THEN = 1_600_000_000
EXACT = THEN * 1_000_000_000 + 123_456_789
MIB = 1 << 20


@pytest.fixture
def writing(tmp_path):
    with serving(tmp_path, "--write") as served:
        yield served


def source_of(tmp_path, name: str, size: int):
    source = tmp_path / name
    source.write_bytes(os.urandom(size))
    os.utime(source, ns=(EXACT, EXACT))
    return source


# A small file is sent in one request; a large one in pieces, which are renamed at the end.
@pytest.mark.parametrize("size", [0, 10, 3 * MIB])
def test_a_copy_has_the_time_of_its_source(hither, writing, tmp_path, size):
    source = source_of(tmp_path, "source", size)
    store = ("--store", tmp_path / "store")
    url = writing.url("copy")
    for _ in range(2):
        assert hither("cp", source, url, *store).code == 0
        assert int((writing.folder / "copy").stat().st_mtime) == THEN
    told = hither("cp", "-u", "--json", source, url, *store)
    assert (told.json["files"], told.json["files_skipped"]) == (0, 1), told.err
    again = hither("cp", "--json", url, tmp_path / "back", *store)
    assert again.code == 0, again.err
    assert (tmp_path / "back").read_bytes() == source.read_bytes()


def test_fractions_of_seconds_are_kept_where_the_server_is_known(hither, writing, tmp_path):
    store = ("--store", tmp_path / "store")
    assert hither("ls", writing.url(""), *store).code == 0
    assert hither("cp", source_of(tmp_path, "f", 3 * MIB), writing.url(""), *store).code == 0
    assert (writing.folder / "f").stat().st_mtime_ns == EXACT


@pytest.mark.parametrize("verb", ["sync", "check"])
def test_a_time_before_1970_is_unknown(hither, writing, tmp_path, verb):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for path, content, time in ((writing.folder / "f", b"new", -1), (mirror / "f", b"old", 0)):
        path.write_bytes(content)
        os.utime(path, (time, time))
    done = hither(verb, writing.url(""), mirror, "--no-store")
    assert (done.code, "compared by size alone" in done.err) == (0, True), done


def test_other_clients_set_times(writing, tmp_path):
    source = source_of(tmp_path, "source", 1000)
    url = writing.url("copy")
    answer = run("curl", "-sfi", "-T", source, "-H", "X-OC-Mtime: 1500000000.25", url)
    assert "x-oc-mtime: accepted" in answer.lower()
    assert (writing.folder / "copy").stat().st_mtime == 1500000000.25
    head = run("curl", "-sfI", "-H", "Want-Digest: adler32", url).lower()
    assert f"digest: adler32={zlib.adler32(source.read_bytes()):08x}" in head
    assert "last-modified: fri, 14 jul 2017 02:40:00 gmt" in head
    for wrong in ("yesterday", "-1", "1e99"):
        answer = run("curl", "-si", "-T", source, "-H", f"X-OC-Mtime: {wrong}", writing.url("wrong"))
        assert " 400 " in answer.splitlines()[0] and "X-OC-Mtime must be" in answer, answer
    assert "accepted" not in run("curl", "-sfi", "-T", source, url)
    assert not (writing.folder / "wrong").exists()


def test_rclone_keeps_times(writing, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    source_of(tree, "f", 1000)
    remote = f":webdav,url='{writing.url('')}',vendor=owncloud:"
    run("rclone", "--config", "/dev/null", "copy", tree, remote)
    assert int((writing.folder / "f").stat().st_mtime) == THEN


FAR = 1_700_000_000_000
"""Milliseconds interpreted as seconds: the year 55840, which no date format can represent."""


@pytest.fixture
def keeping():
    """A directory on a file system that supports such a date."""
    with TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        os.utime(folder, (FAR, FAR))
        if folder.stat().st_mtime != FAR:
            pytest.skip("/dev/shm keeps no such dates")
        yield folder


def test_a_file_dated_beyond_the_year_9999_is_listed_and_read_without_a_date(hither, keeping):
    with serving(keeping, "--write") as served:
        url = served.file("d/far", b"far")
        served.file("d/near")
        os.utime(served.folder / "d/far", (FAR, FAR))
        os.utime(served.folder / "d", (FAR, FAR))
        assert sorted(hither("ls", served.url("d")).out.split()) == ["far", "near"]
        assert hither("cat", url).out == "far"
        assert hither("cp", "-r", served.url("d"), keeping / "down").code == 0
        assert (keeping / "down/far").read_bytes() == b"far"
        assert (keeping / "down/far").stat().st_mtime < FAR
        for page in ("d/", "d/far"):
            with urllib.request.urlopen(served.url(page)) as response:
                assert response.status == 200
                assert "last-modified" not in response.headers
        listing = run("curl", "-sf", "-X", "PROPFIND", "-H", "Depth: 1", served.url("d/"))
        assert listing.count("getlastmodified>") == 2, listing


def test_an_upload_sets_no_date_beyond_the_year_9999(hither, keeping):
    tree = keeping / "tree"
    tree.mkdir()
    (tree / "far").write_bytes(b"far")
    os.utime(tree / "far", (FAR, FAR))
    with serving(keeping, "--write") as served:
        for command in (("-r", tree, served.url("t")), (tree / "far", served.url("one"))):
            told = hither("cp", *command)
            assert told.code == 0, told.err
        for name in ("t/far", "one"):
            assert (served.folder / name).read_bytes() == b"far"
            assert (served.folder / name).stat().st_mtime < FAR
