"""Files on XRootD servers: bytes, trees, names, fsspec and uproot."""

import os

import numpy as np
import pytest
from needs import python_package
from serving import serving, talkfile

import hither


@pytest.fixture(scope="module")
def small():
    """The talk's file with 3,000 events, and ROOT's results for it."""
    path = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    return path, talkfile.ensure(path, events=3000)


@pytest.fixture
def served(tmp_path, small):
    """A folder with that file, and its URL."""
    folder = tmp_path / "www"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / small[0].name).symlink_to(small[0])
    with serving("xrootd", folder) as url:
        yield folder, url


def test_bytes_are_read_by_position_and_by_vector(client, served):
    folder, url = served
    content = os.urandom(100_000)
    (folder / "bytes").write_bytes(content)
    with client.open(f"{url}/bytes") as file:
        assert file.read_at(99_990, 100) == content[99_990:]
        ranges = [(0, 10), (50_000, 50_001), (99_000, 100_000)]
        assert [bytes(it) for it in file.read_ranges(ranges)] == [content[a:b] for a, b in ranges]
    with pytest.raises(hither.exceptions.NotFoundError):
        client.open(f"{url}/none").read(1)


def test_trees_are_those_that_root_wrote(client, served, small):
    path, facts = small
    arrays = hither.open_tree(f"{served[1]}/{path.name}", "T", client=client).arrays(["rawtr", "E33"], library="np")
    near = hither.open_tree(str(path), "T", client=client).arrays(["rawtr", "E33"], library="np")
    for name, values in near.items():
        assert all(np.array_equal(a, b) for a, b in zip(values, arrays[name], strict=True)), name
    assert facts["entries"] == len(arrays["rawtr"])


def test_the_filesystem_lists_writes_moves_and_removes(client, served):
    python_package("fsspec")
    from hither.fsspec import HitherFileSystem

    folder, url = served
    fs = HitherFileSystem(client=client, skip_instance_cache=True)
    fs.pipe_file(f"hither{url}/d/a b%20", b"content")
    assert (folder / "d" / "a b%20").read_bytes() == b"content"
    assert [name.rsplit("/", 1)[1] for name in fs.ls(f"{url}/d", detail=False)] == ["a b%20"]
    assert fs.info(f"{url}/d/a b%20")["size"] == 7
    assert fs.cat_ranges([f"{url}/d/a b%20"] * 2, [0, 5], [2, 7]) == [b"co", b"nt"]
    fs.mv(f"{url}/d/a b%20", f"{url}/d/c")
    fs.rm(f"{url}/d", recursive=True)
    assert not (folder / "d").exists()
    assert fs.unstrip_protocol(f"{url}/x") == f"hither{url}/x"


def test_a_removed_directory_takes_links_along_and_nothing_behind_them(client, served):
    python_package("fsspec")
    from hither.fsspec import HitherFileSystem

    folder, url = served
    for name in ("d", "precious"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    (folder / "precious/f").write_bytes(b"content")
    (folder / "d/link").symlink_to("../precious")
    fs = HitherFileSystem(client=client, skip_instance_cache=True)
    with pytest.raises(NotImplementedError, match="maxdepth"):
        fs.rm(f"{url}/d", recursive=True, maxdepth=3)
    fs.rm(f"{url}/d", recursive=True)
    assert not (folder / "d").exists()
    assert (folder / "precious/f").read_bytes() == b"content"


def test_root_urls_find_the_filesystem(served):
    fsspec = python_package("fsspec")
    folder, url = served
    (folder / "f").write_bytes(b"found")
    with fsspec.open(f"hither{url}/f", store=False, anonymous=True) as file:
        assert file.read() == b"found"


def test_uproot_reads_it_with_our_source(client, served, small):
    uproot = python_package("uproot")
    import hither.uproot

    path, facts = small
    url = f"{served[1]}/{path.name}"
    with uproot.open(url, handler=hither.uproot.Source, client=client) as far:
        assert far["T"].num_entries == facts["entries"]
        assert len(far["T/rawtr"].array(library="np")) == facts["entries"]
    hither.uproot.install()
    try:
        with uproot.open(url) as far:
            assert isinstance(far.file.source, hither.uproot.Source)
    finally:
        hither.uproot.uninstall()
