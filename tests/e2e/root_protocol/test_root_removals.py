"""Removals over root:// and XrdHttp, whose listings show links to directories as directories: no file behind a link is
removed."""

import shutil
from pathlib import Path

import pytest
from command import run
from needs import missing, require

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER

FAILED, UNSUPPORTED = 5, 8


# Soak: xrootd 6 is built from its source package.
@pytest.fixture(params=[5, pytest.param(6, marks=pytest.mark.soak)])
def served(request, tmp_path):
    """The folder of an xrootd server, and its port.

    It contains a directory `precious`, and a directory `d` with a relative link to it, a link in a subdirectory, and an
    empty directory.
    """
    if request.param == 6 and not servers.XROOTD6.exists():
        missing("xrootd 6")
    require("xrootd")
    folder = tmp_path / "www"
    for name in ("precious/in", "d/sub", "d/empty", "d/z"):
        (folder / name).mkdir(parents=True)
    for name in ("precious/year.root", "precious/in/deep", "d/keep", "d/sub/f", "d/z/f"):
        (folder / name).write_text(name)
    (folder / "d/link").symlink_to("../precious")
    (folder / "d/sub/deeper").symlink_to("../../precious/in")
    for path in (tmp_path, *tmp_path.parents):
        if path != Path("/") and path.stat().st_mode & 0o005 != 0o005:
            path.chmod(path.stat().st_mode | 0o055)
    open_up(folder)
    with servers.xrootd(Loopback(), folder, binary=servers.XROOTD6 if request.param == 6 else None) as port:
        yield folder, port


def open_up(folder: Path) -> None:
    """Lets the server change the contents of a folder."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o777 if path.is_dir() else 0o666)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def hither(*arguments: object, code: int = 0):
    told = run([HITHER, *map(str, arguments), "--no-store"])
    assert told.code == code, told.err
    return told


def test_a_tree_is_removed_with_its_links_and_nothing_behind_them(served):
    folder, port = served
    before = names(folder / "precious")
    hither("rm", "-r", f"root://127.0.0.1:{port}//d")
    assert names(folder) == ["precious", *(f"precious/{name}" for name in before)]


def test_a_link_is_removed_by_itself(served):
    folder, port = served
    (folder / "one").symlink_to("precious")
    hither("rm", "-r", f"root://127.0.0.1:{port}//one")
    assert "one" not in names(folder)
    assert names(folder / "precious") == ["in", "in/deep", "year.root"]


@pytest.mark.parametrize("url", ["root://127.0.0.1:{}//d", "http://127.0.0.1:{}/d"], ids=["root", "http"])
def test_a_link_that_the_server_does_not_remove_is_an_error_and_not_entered(served, url):
    folder, port = served
    shutil.rmtree(folder / "d/sub")
    (folder / "d/link").unlink()
    # xrootd interprets an absolute link as one within its own root, where the target is a file.
    (folder / "d/link").symlink_to(folder / "precious")
    for name in ("d", "d/link"):
        told = hither("rm", "-r", url.format(port).removesuffix("d") + name, code=UNSUPPORTED)
        assert f"/d/link{'/' * url.startswith('http')} is a link, which the server does not remove" in told.err, told.err
        assert names(folder / "precious") == ["in", "in/deep", "year.root"]
    if url.startswith("root"):
        assert names(folder / "d") == ["link"], "the rest was not removed"


def test_a_sync_deletes_links_and_nothing_behind_them(served, tmp_path):
    folder, port = served
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "keep").write_text("d/keep")
    told = run([HITHER, "sync", "--json", "--delete", "--no-store", str(source), f"root://127.0.0.1:{port}//d"])
    assert told.code == 0, told.err
    assert names(folder / "precious") == ["in", "in/deep", "year.root"]
    assert names(folder / "d") == ["keep", "sub"]
    assert (told.json["files_deleted"], told.json["directories_deleted"]) == (4, 2), "two links, two files"


def test_a_sync_deletes_nothing_behind_a_link_that_is_a_directory_in_the_source(served, tmp_path):
    folder, port = served
    source = tmp_path / "source"
    (source / "link/in").mkdir(parents=True)
    (source / "link/year.root").write_text("precious/year.root")
    (source / "keep").write_text("d/keep")
    told = run([HITHER, "sync", "--json", "--delete", "--no-store", str(source), f"root://127.0.0.1:{port}//d"])
    assert told.code == 0, told.err
    assert names(folder / "precious") == ["in", "in/deep", "year.root"]
    assert names(folder / "d") == ["keep", "link"]
    assert (folder / "d/link").is_symlink()
    assert "link: is a link at the destination: nothing behind it was deleted" in told.json["notices"]


def test_a_cycle_of_links_ends_a_copy_with_an_error(served, tmp_path):
    folder, port = served
    shutil.rmtree(folder / "d")
    (folder / "d").mkdir()
    (folder / "d/f").write_text("x")
    (folder / "d/again").symlink_to("../d")
    open_up(folder)
    told = hither("cp", "-r", f"root://127.0.0.1:{port}//d", tmp_path / "copy", code=FAILED)
    assert "/again/again" in told.err, told.err
    assert (tmp_path / "copy/f").read_text() == "x"
    hither("rm", "-r", f"root://127.0.0.1:{port}//d")
    assert names(folder) == ["precious", "precious/in", "precious/in/deep", "precious/year.root"]
