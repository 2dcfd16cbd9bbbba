"""ls, stat, mkdir, rm, mv and checksum against real servers and the local disk: what they print, and what becomes of files."""

import hashlib
import zlib
from contextlib import contextmanager
from pathlib import Path

import pytest
from needs import missing, require

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import BUILT_PEERS

USAGE, NOT_FOUND, UNAVAILABLE, UNSUPPORTED, EXISTS = 2, 3, 5, 8, 10


class Place:
    """A folder, and how it is called from outside."""

    def __init__(self, folder: Path, base: str, kind: str):
        self.folder, self.base, self.kind = folder, base, kind

    def url(self, name: str) -> str:
        return f"{self.base}/{name}"

    def put(self, name: str, content: bytes = b"x") -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return self.url(name)

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))


@contextmanager
def serving(kind: str, folder: Path):
    if kind == "local":
        yield str(folder)
        return
    start = {
        "apache": lambda: servers.apache(Loopback(), folder, webdav=True),
        "nginx": lambda: servers.nginx(Loopback(), folder, webdav=True),
        "rclone": lambda: servers.rclone(Loopback(), folder),
        "xrootd": lambda: servers.xrootd(Loopback(), folder),
        "root": lambda: servers.xrootd(Loopback(), folder),
    }[kind]
    require({"apache": "apache2", "root": "xrootd"}.get(kind, kind))
    with start() as port:
        yield f"root://127.0.0.1:{port}/" if kind == "root" else f"http://127.0.0.1:{port}"


@contextmanager
def s3_bucket(folder: Path, monkeypatch):
    """Yields the folder of s3://bucket, which the command reaches with what is in the environment."""
    if not (BUILT_PEERS / "bin" / "s3s-fs").exists():
        missing("s3s-fs")
    with servers.s3s(Loopback(), folder) as port:
        key, secret = servers.S3_KEY
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        yield folder / "bucket"


@pytest.fixture(params=["local", "apache", "nginx", "rclone", "xrootd", "root"])
def place(request, tmp_path):
    folder = tmp_path / "www"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with serving(request.param, folder) as base:
        yield Place(folder, base, request.param)


@pytest.fixture
def run(hither):
    return lambda *arguments: hither(*arguments, "--no-store")


def test_ls_shows_names_in_order(run, place):
    for name in ("b.root", "a b.root", ".hidden", "d/inner"):
        place.put(name, b"12345")
    told = run("ls", place.url(""))
    assert (told.code, told.out) == (0, "a b.root\nb.root\nd\n"), told.err
    if place.kind != "nginx":  # its page for people leaves such names out
        assert run("ls", "-a", place.url("")).out.splitlines()[0] == ".hidden"
    long = run("ls", "-l", place.url("")).out.splitlines()
    assert [line.split()[:2] for line in long] == [["-", "5"], ["-", "5"], ["d", "0"]]
    deep = run("ls", "-R", place.url("")).out
    assert "d/:" in deep or "/d:" in deep
    assert "inner" in deep
    file = run("ls", place.url("b.root"))
    assert file.out.strip().endswith("b.root"), file.err
    entries = run("ls", "--json", place.url("d")).json["entries"]
    assert [(e["kind"], e["size"]) for e in entries] == [("file", 5)]
    assert entries[0]["url"].endswith("/d/inner")


def test_a_recursive_listing_shows_every_directory_once(run, place):
    names = [f"s{n}" for n in range(1, 6)] + ["s1/deep", "s1/deeper", "s3/deep"]
    for name in names:
        place.put(f"{name}/file")
    told = run("ls", "-R", place.url(""))
    assert told.code == 0, told.err
    titles = [line.split("/s", 1)[1] for line in told.out.splitlines() if line.endswith(":") and "/s" in line]
    assert titles == [f"{name[1:]}:" for name in sorted(names)]
    assert told.out.splitlines().count("file") == len(names)


def test_each_failure_is_reported(run, place):
    place.put("there")
    told = run("ls", place.url("none"), place.url("there"), place.url("nothing"))
    assert told.code == NOT_FOUND
    assert "there" in told.out and told.err.count("hither: ") == 2, told.err
    told = run("stat", "--json", place.url("none"), place.url("there"))
    assert told.code == NOT_FOUND
    assert len(told.json["entries"]) == len(told.json["errors"]) == 1
    assert told.json["errors"][0]["error"]["kind"] == "not_found"


@pytest.mark.parametrize("verb", ["ls", "stat", "checksum"])
def test_results_come_in_the_order_of_the_arguments(run, place, verb):
    names = [f"file{n:02}" for n in range(20)]
    for name in names[::2]:
        place.put(name)
    told = run(verb, *map(place.url, names))
    assert (told.code, told.err.count("hither: ")) == (NOT_FOUND, 10), told.err
    seen = [word[-6:] for word in told.out.split() if word[-6:] in names]
    assert seen == names[::2]


def test_stat_shows_kind_and_size(run, place):
    place.put("d/file", b"123")
    assert run("stat", "--json", place.url("d")).json["kind"] == "directory"
    file = run("stat", "--json", place.url("d/file")).json
    assert (file["kind"], file["size"]) == ("file", 3)
    assert file["modified"].endswith("Z")


def test_mkdir_creates_parents_on_request(run, place):
    assert run("mkdir", place.url("one")).code == 0
    assert run("mkdir", place.url("one")).code == EXISTS
    assert run("mkdir", place.url("no/where")).code == NOT_FOUND
    assert run("mkdir", "-p", place.url("one/two three/four")).code == 0
    assert run("mkdir", "-p", place.url("one/two three/four")).code == 0
    assert place.names() == ["one", "one/two three", "one/two three/four"]
    place.put("file")
    assert run("mkdir", "-p", place.url("file")).code == EXISTS


def test_rm_removes_only_what_was_named(run, place):
    for name in ("keep", "dir/a", "dir/sub/b", "dir2/c", "file"):
        place.put(name)
    told = run("rm", place.url("dir"), place.url("file"))
    assert told.code == USAGE and "-r" in told.err
    assert "file" not in place.names() and "dir/a" in place.names()
    assert run("rm", place.url("none")).code == NOT_FOUND
    assert run("rm", "-f", place.url("none")).code == 0
    assert run("rm", "-r", place.url("dir/")).code == 0
    assert place.names() == ["dir2", "dir2/c", "keep"]
    for mad in (place.url("dir2/.."), place.url("dir2/.")):
        assert run("rm", "-r", mad).code == USAGE
    assert run("rm", "-r", "/").code == USAGE
    assert run("rm", "-r", "--no-preserve-root", "/").code == USAGE
    assert place.names() == ["dir2", "dir2/c", "keep"]


def test_the_root_of_a_server_is_removed_on_request_only(run, place):
    if place.kind == "local":
        pytest.skip("the root of this machine is never removed")
    place.put("a/b")
    place.put("c")
    assert run("rm", "-r", place.url("")).code == USAGE
    assert "c" in place.names()
    assert run("rm", "-r", "--no-preserve-root", place.url("")).code == 0
    assert place.names() == []


def test_links_are_removed_and_not_followed(run, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("x")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to("../precious")
    (tmp_path / "link").symlink_to("precious")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert "l " in run("ls", "-l", tmp_path / "tree").out
    assert run("rm", tmp_path / "link", tmp_path / "dangling").code == 0
    assert run("rm", "-r", tmp_path / "tree").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious"]
    assert (tmp_path / "precious/file").exists()


def test_mv_renames_and_moves_into_directories(run, place):
    place.put("a", b"a")
    place.put("b", b"b")
    place.put("dir/x")
    assert run("mv", place.url("a"), place.url("new name")).code == 0
    assert run("mv", "-n", place.url("b"), place.url("new name")).code == 0
    assert (place.folder / "new name").read_bytes() == b"a"
    assert run("mv", place.url("b"), place.url("new name")).code == 0
    assert (place.folder / "new name").read_bytes() == b"b"
    place.put("c")
    assert run("mv", place.url("c"), place.url("new name"), place.url("dir")).code == 0
    assert run("mv", place.url("dir"), place.url("other")).code == 0
    assert place.names() == ["other", "other/c", "other/new name", "other/x"]
    assert run("mv", place.url("none"), place.url("x")).code == NOT_FOUND
    assert run("mv", place.url("other"), place.url("other/in")).code == USAGE
    assert run("mv", place.url("other/c"), place.url("other/x"), place.url("none")).code == USAGE
    assert run("mv", place.url("other/c"), "http://127.0.0.1:9/x").code in (USAGE, UNAVAILABLE)


def test_checksums_are_those_of_the_bytes(run, place):
    content = bytes(range(256)) * 5000
    url = place.put("file", content)
    told = run("checksum", url)
    assert told.code == 0, told.err
    assert told.out.startswith(f"adler32:{zlib.adler32(content):08x}  "), told.out
    assert "computed" in told.out
    for name in ("md5", "sha256"):
        (answer,) = run("checksum", "--algorithm", name, "--json", url).json["checksums"]
        assert answer["value"] == hashlib.new(name, content).hexdigest()
        assert answer["by"] == "reading"
    assert run("checksum", place.url("none"), url).code == NOT_FOUND
    assert run("checksum", "--algorithm", "crc7", url).code == USAGE


def test_a_server_that_does_not_list_says_so(run, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/file").write_text("x")
    with servers.nginx(Loopback(), tmp_path) as port:
        told = run("ls", f"http://127.0.0.1:{port}/d")
        assert told.code == UNSUPPORTED, told.err
        assert "list" in told.err
        assert run("stat", f"http://127.0.0.1:{port}/d/file").code == 0
        assert run("mkdir", f"http://127.0.0.1:{port}/e").code == UNSUPPORTED


def test_no_message_repeats_a_secret(run, place):
    if place.kind == "local":
        pytest.skip("local paths hold no secrets")
    place.put("file")
    for verb in ("ls", "stat", "rm", "mkdir", "checksum"):
        told = run(verb, place.url("file?authz=hush"), place.url("none/none?authz=hush"), "--json")
        assert "hush" not in told.out + told.err, verb


def test_a_bucket_of_an_object_store_works_like_a_directory(run, hither, tmp_path, monkeypatch):
    with s3_bucket(tmp_path, monkeypatch) as bucket:
        content = bytes(range(256)) * 5000
        (bucket / "dir").mkdir()
        (bucket / "dir/a b").write_bytes(content)
        told = run("ls", "-l", "s3://bucket/dir")
        assert told.code == 0, told.err
        assert told.out.split()[:2] == ["-", str(len(content))] and told.out.endswith("a b\n")
        assert run("stat", "--json", "s3://bucket/dir").json["kind"] == "directory"
        (answer,) = run("checksum", "--json", "s3://bucket/dir/a b").json["checksums"]
        assert answer["value"] == f"{zlib.adler32(content):08x}"
        assert run("mv", "s3://bucket/dir/a b", "s3://bucket/other/c").code == 0
        assert run("ls", "-R", "s3://bucket").out.split()[-1] == "c"
        assert run("rm", "s3://bucket/none").code == NOT_FOUND
        assert run("rm", "-r", "s3://bucket/other").code == 0
        assert run("ls", "s3://bucket").out == ""
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        told = run("ls", "s3://bucket")
        assert told.code == 4, told.err
        assert "wrong" not in told.err
