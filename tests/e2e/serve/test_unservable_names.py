"""Names that `hither serve` cannot serve: nobody takes what it lists for all that is there."""

import os

import pytest
from command import run_hither
from served import serving

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
