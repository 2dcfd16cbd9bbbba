"""Names that `hither serve` cannot serve: no client considers a listing without them complete, or such a name free."""

import os
from urllib.parse import quote

import pytest
from command import run_hither
from served import serving

UNSUPPORTED = 8
UNSERVABLE = (b"a\nb", b"t\tb", b"e\x1bc", b"latin-\xe9", b"run\xe9/inner")
SERVABLE = ("ok.txt", "back\\slash")


@pytest.fixture
def served(tmp_path):
    with serving(tmp_path) as served:
        for name in (*map(os.fsencode, SERVABLE), *UNSERVABLE):
            path = os.path.join(os.fsencode(served.folder), b"d", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(b"content of " + name)
        yield served


def names(folder):
    return {os.path.relpath(os.path.join(where, name), folder) for where, _, files in os.walk(folder) for name in files}


def test_a_copy_fails_for_them_alone(served, tmp_path):
    done = run_hither("cp", "-r", served.url("d"), tmp_path / "copy")
    assert done.code != 0, done.err
    assert {os.fsdecode(name) for name in names(tmp_path / "copy")} == set(SERVABLE)
    for name in ("a%0Ab", "t%09b", "e%1Bc", "latin-%E9", "run%E9"):
        assert name in done.err, done.err
    assert "5 of 7 could not be copied" in done.err, done.err


def test_a_sync_deletes_none_of_them(served, tmp_path):
    good = tmp_path / "good"
    for name in (*map(os.fsencode, SERVABLE), *UNSERVABLE):
        path = os.path.join(os.fsencode(good), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"content of " + name)
    before = names(os.fsencode(good))
    done = run_hither("sync", "--delete", served.url("d"), good)
    assert done.code != 0, done.err
    assert names(os.fsencode(good)) == before
    for name in SERVABLE:
        (tmp_path / "some").mkdir(exist_ok=True)
        (tmp_path / "some" / name).write_bytes(b"content of " + os.fsencode(name))
    assert run_hither("check", served.url("d"), tmp_path / "some").code != 0


def test_a_listing_names_them(served):
    shown = run_hither("ls", served.url("d"))
    assert shown.code == 4, shown.err
    assert shown.out.splitlines() == ["back\\slash", "latin-\ufffd", "ok.txt", "run\ufffd"]
    assert all(name in shown.err for name in ("a%0Ab", "t%09b", "e%1Bc")), shown.err


@pytest.mark.parametrize("name", ["a\nb", "t\tb", "e\x1bc"])
def test_no_verb_takes_them_and_each_says_so(tmp_path, name):
    source = tmp_path / name
    source.write_bytes(b"content")
    with serving(tmp_path, "--write") as served:
        (served.folder / "there").write_bytes(b"there")
        url = served.url(quote(name))
        for words in (["cp", source, url], ["mv", served.url("there"), url], ["mkdir", url], ["rm", url], ["stat", url]):
            done = run_hither(*words)
            assert done.code == UNSUPPORTED, (words, done.err)
            assert "takes no names with control characters" in done.err, (words, done.err)
        assert os.listdir(served.folder) == ["there"]


@pytest.fixture(params=["to nothing", "out", "to a long name", "pipe"])
def broken(request, tmp_path):
    """A server with a file, and a link or pipe named `link` that is not served."""
    with serving(tmp_path, "--write") as served:
        (served.folder / "d").mkdir()
        (served.folder / "d/file").write_bytes(b"file")
        link = served.folder / "d/link"
        if request.param == "pipe":
            os.mkfifo(link)
        else:
            link.symlink_to({"to nothing": "nowhere", "out": tmp_path, "to a long name": "x" * 300}[request.param])
        yield served


def test_an_entry_that_is_not_served_is_listed_and_fails_alone(broken, tmp_path):
    shown = run_hither("ls", broken.url("d"))
    assert (shown.code != 0, shown.out) == (True, "file\n"), shown.err
    assert "d/link" in shown.err
    assert "d/link" in run_hither("stat", broken.url("d/link")).err
    assert run_hither("find", broken.url("d")).code != 0
    done = run_hither("cp", "-r", broken.url("d"), tmp_path / "copy")
    assert done.code != 0
    assert "link" in done.err, done.err
    assert names(tmp_path / "copy") == {"file"}


def test_a_sync_deletes_no_copy_of_an_entry_that_is_not_served(broken, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("file", "link", "more"):
        (copy / name).write_bytes(b"file")
    done = run_hither("sync", "--delete", broken.url("d"), copy)
    assert done.code != 0, done.err
    assert names(copy) == {"file", "link", "more"}


def test_an_entry_that_is_not_served_is_neither_free_nor_removed_in_passing(broken, tmp_path):
    (tmp_path / "new").write_bytes(b"new")
    for command in (
        ("cp", "-n", tmp_path / "new", broken.url("d/link")),
        ("mv", "-n", broken.url("d/file"), broken.url("d/link")),
        ("rm", broken.url("d/link")),
        ("rm", "-f", broken.url("d/link")),
    ):
        done = run_hither(*command)
        assert done.code != 0, (command, done.err)
    (tmp_path / "from").mkdir()
    (tmp_path / "from/file").write_bytes(b"file")
    done = run_hither("sync", "--delete", tmp_path / "from", broken.url("d"))
    assert done.code != 0, done.err
    assert os.path.lexists(broken.folder / "d/link")
    assert (broken.folder / "d/file").read_bytes() == b"file"
    assert run_hither("rm", "-r", broken.url("d")).code == 0
    assert not (broken.folder / "d").exists()
