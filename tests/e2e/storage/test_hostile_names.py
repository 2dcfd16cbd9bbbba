"""Trees with any name that Linux allows, copied there and back: each file keeps its name, or is refused with a
reason."""

import os
import random
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from loopback_server import LoopbackServer, QuietHandler
from served import serving as serving_hither
from places import s3_bucket
from places import serving as serving_peer

SEED = 20
TREES = int(os.environ.get("HITHER_HOSTILE_TREES", "2"))
NAME_BYTES = 255

FIXED = [
    *(bytes([byte]) for byte in range(1, 256) if byte not in b"./"),
    *(b"a%cb" % byte for byte in b"\t\n\r \x1b\x7f\\?#%;:&+\"'`<>|*"),
    *(b" a", b"a ", b"\ta", b"a\n", b"-rf", b"--help", b"...", b"..a", b".a", b"a.", b"~", b"a."),
    *(b"%2e%2e", b"%00", b"%41", b"%zz", b"&amp;", b"C:", b"a/".replace(b"/", b"%2F")),
    *("\u00e9 e\u0301 \u1e9b\u0323 \u212b \u200b \u202e \ufeff \ufffd \uffff \U0001f600".encode().split()),
    *(b"\xff", b"\xc3", b"a\x80b", b"\xed\xa0\x80", b"x" * NAME_BYTES, "\u00e9".encode() * 127),
]
"""Names that some program has mistaken for another one."""


LONGEST = {"root": 254, "s3": 200}
"""Maximum bytes of a name on a server: xrootd 5.5 lists one of 255 as 254, s3s-fs adds to names."""


def hostile_name(numbers: random.Random) -> bytes:
    if numbers.random() < 0.5:
        return numbers.choice(FIXED)
    alphabet = [b for b in range(1, 256) if b != ord("/")]
    narrow = numbers.choice([alphabet, b"%25ef", b" .-\t", b"?#&=;", b"\\ab", b"abc"])
    name = bytes(numbers.choices(narrow, k=numbers.choice([1, 2, 5, 30])))
    return name + b"_" if name in {b".", b".."} or name.startswith(b".hither-") else name


def write_tree(root: Path, numbers: random.Random, names: list[bytes]) -> dict[bytes, bytes]:
    """Writes a file with each name and several directories of such files. Returns paths and contents."""
    root.mkdir(parents=True)
    root.chmod(0o777)
    base = os.fsencode(root)
    folders, files = [b"", b"plain"], {}
    os.mkdir(base + b"/plain", 0o777)
    for _ in range(4):
        folder = b"d" + hostile_name(numbers)[: NAME_BYTES - 1]
        if folder not in folders:
            folders.append(folder)
            os.mkdir(base + b"/" + folder, 0o777)
            os.chmod(base + b"/" + folder, 0o777)
    for number, name in enumerate([b"plain file", b"name", *names]):
        path = (b"plain/" if number < 2 else numbers.choice(folders) + b"/").lstrip(b"/") + name
        if not os.path.lexists(base + b"/" + path):
            files[path] = b"%d:" % number + path
            with open(base + b"/" + path, "wb") as file:
                file.write(files[path])
    return files


def read_tree(root: Path) -> dict[bytes, bytes]:
    found, base = {}, os.fsencode(root)
    for folder, _, names in os.walk(base):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.relpath(os.path.join(folder, name), base)] = file.read()
    return found


def may_be_refused(kind: str, path: bytes) -> bool:
    """Returns true for names that the protocol or the server cannot express."""
    try:
        text = path.decode()
    except UnicodeDecodeError:
        return True
    has_control = any(ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0 for letter in text)
    match kind:
        case "hither" | "s3":
            return has_control
        case "root":
            return "?" in text or "\n" in text
        case _:
            return False


def check_copied(kind: str, sent: dict[bytes, bytes], there: dict[bytes, bytes], told) -> None:
    """Asserts that each existing file was sent, and that each missing file was named in an error."""
    summary = told.json
    for path, content in there.items():
        assert sent.get(path) == content, path
    missing = [path for path in sent if path not in there]
    refused = [failure["source"] for failure in summary["failures"]]
    assert (told.code != 0) == bool(missing), (missing, told.err)
    assert summary["files"] == len(there)
    for path in missing:
        assert may_be_refused(kind, path), (path, told.err)
        parts = path.split(b"/")
        above = [b"/".join(parts[:end]).decode(errors="replace") for end in range(1, len(parts) + 1)]
        assert any(source.endswith(f"/{name}") for source in refused for name in above), (path, refused)


@contextmanager
def storage(kind: str, folder: Path, monkeypatch):
    """Yields the served folder and its URL."""
    www = folder / "www"
    match kind:
        case "hither":
            with serving_hither(folder, "--write") as server:
                yield www, server.base.rstrip("/")
        case "s3":
            with s3_bucket(folder, monkeypatch) as bucket:
                yield bucket, "s3://bucket"
        case _:
            www.mkdir(mode=0o777)
            www.chmod(0o777)
            with serving_peer(kind, www) as base:
                yield www, base.rstrip("/")


@pytest.mark.parametrize("kind", ["local", "hither", "apache", "root", "s3"])
def test_every_name_arrives_or_is_refused(hither, tmp_path, monkeypatch, kind):
    numbers = random.Random(SEED)
    with storage(kind, tmp_path, monkeypatch) as (www, url):
        for tree in range(TREES):
            names = FIXED if tree == 0 else [hostile_name(numbers) for _ in range(80)]
            source = tmp_path / f"source{tree}"
            sent = write_tree(source, numbers, [name for name in names if len(name) <= LONGEST.get(kind, NAME_BYTES)])
            up = hither("cp", "-r", "--json", "--no-store", source, f"{url}/up{tree}")
            there = read_tree(www / f"up{tree}")
            check_copied(kind, sent, there, up)
            back = tmp_path / f"back{tree}"
            down = hither("cp", "-r", "--json", "--no-store", f"{url}/up{tree}", back)
            check_copied(kind, there, read_tree(back), down)
            assert down.code == 0, down.err


class Index(QuietHandler, SimpleHTTPRequestHandler):
    """Responds only to requests for files and HTML indexes."""


def write_all(root: Path, files: dict[bytes, bytes]) -> None:
    for path, content in files.items():
        name = os.fsencode(root) + b"/" + path
        os.makedirs(os.path.dirname(name), mode=0o755, exist_ok=True)
        with open(name, "wb") as file:
            file.write(content)
        os.utime(name, (1_600_000_000, 1_600_000_000))


@contextmanager
def served_tree(kind: str, www: Path):
    if kind == "index":
        with LoopbackServer(partial(Index, directory=www)) as server:
            yield f"http://127.0.0.1:{server.port}/"
    else:
        with serving_peer(kind, www) as base:
            yield base


@pytest.mark.parametrize("kind", ["local", "apache", "index", "root"])
def test_a_name_that_is_not_unicode_fails_alone_and_is_never_another_one(hither, tmp_path, kind):
    www, copy = tmp_path / "www", tmp_path / "copy"
    www.mkdir(mode=0o755)
    write_all(www, {b"plain": b"new", b"odd\xff": b"odd", b"folder/odd\xfe": b"odd", b"folder/inner": b"new"})
    old = {b"odd\xff": b"another", b"odd\xfd": b"of no source", b"folder/odd\xfc": b"of no source"}
    write_all(copy, old)
    wanted = {**old, b"plain": b"new", b"folder/inner": b"new"}
    with served_tree(kind, www) as url:
        for verb in (["check"], ["sync"], ["sync", "--delete"], ["check"]):
            told = hither(*verb, "--no-store", url, copy)
            assert told.code != 0, (verb, told.err)
            assert all(name in told.err for name in ("odd\ufffd", "folder/odd\ufffd")), (verb, told.err)
            if verb[0] != "check":
                assert {path: it for path, it in read_tree(copy).items() if path in wanted} == wanted, verb
    assert read_tree(www)[b"odd\xff"] == b"odd"


def test_names_with_line_feeds_fail_alone_at_a_root_server(hither, tmp_path):
    www, copy = tmp_path / "www", tmp_path / "copy"
    www.mkdir(mode=0o755)
    files = {name: b"new" for name in (b"a", b"a\nb", b"b", b"c\n", b"\nd", b"e\n\ne/f")}
    bad = {name: b"older" for name in files if b"\n" in name}
    write_all(www, files)
    write_all(copy, bad)
    with served_tree("root", www) as url:
        told = hither("sync", "--delete", "--json", "--no-store", url, copy)
        assert told.code == 2, told.err
        assert read_tree(copy) == {**bad, b"a": b"new", b"b": b"new"}
        sources = [failure["source"] for failure in told.json["failures"]]
        assert len(sources) == 4
        for name in ("/a\nb", "/c\n", "/\nd", "e\n\ne"):
            assert any(source.endswith(name) for source in sources), (name, sources)
        assert hither("check", "--no-store", url, copy).code == 2
        # After a line in the form of a status no name is certain, so no name is deleted.
        write_all(www, {b"a\n0 1 16 0": b"new"})
        write_all(copy, {b"z": b"of no source"})
        there = read_tree(copy)
        for verb in (["sync", "--delete"], ["check"]):
            told = hither(*verb, "--no-store", url, copy)
            assert told.code == 5
            assert "a listing" in told.err or "the status of a file" in told.err
            assert read_tree(copy) == there


def test_a_missing_bucket_ends_with_not_found_said_once(hither, tmp_path, monkeypatch):
    with storage("s3", tmp_path, monkeypatch):
        for command in (["ls", "s3://missing"], ["ls", "s3://missing/folder/"], ["cp", "s3://missing/file", tmp_path / "file"]):
            told = hither(*command, "--no-store")
            assert told.code == 3, told.err
            assert told.err.count("bucket") + told.err.count("not exist") <= 1, told.err
