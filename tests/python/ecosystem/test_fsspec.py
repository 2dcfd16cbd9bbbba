"""The fsspec filesystem: requests, versions, pickles, and libraries that use it."""

import asyncio
import bz2
import contextlib
import gc
import gzip
import io
import json
import lzma
import pickle
import subprocess
import sys
import warnings

import pytest
from needs import python_package, require_network_namespaces

fsspec = python_package("fsspec")

from e2e.behaviours import foreign_server  # noqa: E402
from serving import LINKS, Wan, access_log, servers, serving  # noqa: E402

import hither  # noqa: E402
import hither.fsspec  # noqa: E402
from bench.harness.paths import HITHER  # noqa: E402
from hither.fsspec import HitherFileSystem  # noqa: E402
from hither.fsspec._reads import Reads  # noqa: E402


@pytest.fixture
def fs(client):
    return HitherFileSystem(client=client, skip_instance_cache=True)


@pytest.fixture
def dav(tmp_path):
    """A folder, and its URL on a WebDAV server."""
    folder = tmp_path / "www"
    folder.mkdir()
    folder.chmod(0o777)
    with serving("apache", folder, tmp_path / "access.log") as url:
        yield folder, url


def ranged(site):
    return [asked for command, _, asked in site.requests if command == "GET"]


def test_urls_with_the_prefix_find_the_filesystem(site, content):
    url = "hither" + site.put("f", content)
    with fsspec.open(url, store=False, anonymous=True) as file:
        assert file.read(10) == content[:10]
    fs, path = fsspec.url_to_fs(url)
    assert isinstance(fs, HitherFileSystem)
    assert path == site.url("f")
    assert fs.unstrip_protocol(path) == url
    for prefix in ("hither+", ""):
        assert HitherFileSystem._strip_protocol(prefix + path) == path
    for scheme in ("https", "root", "roots", "s3", "pelican", "osdf"):
        name = f"{scheme}://place/of/hithers3://odd"
        assert HitherFileSystem._strip_protocol(f"hither{scheme}://place/of/hithers3://odd") == name
        assert fsspec.get_filesystem_class(f"hither{scheme}") is HitherFileSystem


def test_plain_urls_are_read_with_hither_once_it_is_installed(site, content):
    url = site.put("f", content)
    before = fsspec.get_filesystem_class("http")
    hither.fsspec.install("http")
    try:
        with fsspec.open(url, store=False, anonymous=True) as file:
            assert isinstance(file.fs, HitherFileSystem)
            assert file.read(4) == content[:4]
        hither.fsspec.install()
        assert fsspec.get_filesystem_class("s3") is HitherFileSystem
    finally:
        hither.fsspec.uninstall()
    assert fsspec.get_filesystem_class("http") is before
    assert "s3" not in fsspec.registry
    with pytest.raises(ValueError, match="expected one of https"):
        hither.fsspec.install("gopher")


def test_ranges_of_a_file_are_one_vector(site, fs, content):
    one, two = site.put("one", content), site.put("two", content[::-1])
    paths = [one, two, one, one, two]
    starts, ends = [0, 500_000, 900_000, 5, 7], [10, 500_100, 900_050, 5, 9]
    found = fs.cat_ranges(paths, starts, ends)
    reverse = content[::-1]
    wanted = [
        (reverse if path == two else content)[start:end] for path, start, end in zip(paths, starts, ends, strict=True)
    ]
    assert found == wanted
    assert all(isinstance(it, bytes) for it in found)
    report = fs.client.report
    # An empty range is not a read.
    assert report.reads == 4


def test_ranges_are_cut_at_the_end_as_slices_are(site, fs, content):
    path, size = site.put("f", content), len(content)
    limits = [(size - 5, size + 5), (-3, None), (None, 4), (-8, -4), (size + 1, size + 9), (9, 3), (7, None)]
    found = fs.cat_ranges([path] * len(limits), *zip(*limits, strict=True))
    assert found == [content[start:end] for start, end in limits]
    for start, end in limits:
        assert fs.cat_file(path, start, end) == content[start:end]
    assert fs.cat_ranges([path], 0, 5) == [content[:5]]


def test_errors_of_ranges_are_returned_or_raised(site, fs, content):
    paths = [site.put("f", content), site.url("gone")]
    good, bad = fs.cat_ranges(paths, [0, 0], [4, 4])
    assert good == content[:4]
    assert isinstance(bad, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(paths, [0, 0], [4, 4], on_error="raise")


def test_a_small_file_is_read_without_a_request_for_its_size(site, fs):
    path = site.put("f", b"0123456789")
    assert fs.cat_file(path) == b"0123456789"
    assert [command for command, _, _ in site.requests] == ["GET"]


@pytest.mark.parametrize(("size", "most"), [(0, 2), (645, 1), (77_000, 1), (1_000_000, 1), (1_200_000, 2)])
def test_a_whole_file_takes_one_request_or_two(site, size, most):
    """As zarr reads its chunks. Another connection would take over the rest of a slow response."""
    client = hither.Client(store=False, anonymous=True, max_connections=1)
    fs = HitherFileSystem(client=client, skip_instance_cache=True)
    chunks = {site.put(f"chunk{number}", bytes([number]) * size): number for number in range(3)}
    first = site.put("metadata", b"{}")
    assert fs.cat_file(first) == b"{}"
    for url, number in chunks.items():
        before = len(site.requests)
        assert fs.cat_file(url) == bytes([number]) * size
        assert len(site.requests) - before <= most, site.requests


@pytest.mark.parametrize("size", [10_000, 77_000, 1_000_000])
def test_many_whole_files_at_once_take_one_request_each(site, size):
    """None is opened ahead: that would request its ends, and then the rest.

    Another connection would take over the rest of a slow response.
    """
    client = hither.Client(store=False, anonymous=True, max_connections=1)
    fs = HitherFileSystem(client=client, skip_instance_cache=True)
    chunks = {site.put(f"c/{number}", bytes([number]) * size): number for number in range(50)}
    # The first request to a server is small.
    assert fs.cat_file(site.put("metadata", b"{}")) == b"{}"
    before = len(site.requests)
    assert fs.cat(list(chunks)) == {url: bytes([number]) * size for url, number in chunks.items()}
    assert len(site.requests) - before == len(chunks), site.requests[:20]


def test_a_small_file_is_read_to_its_end_in_one_request(site, client):
    with hither.open(site.put("f", b"0123456789"), client=client) as file:
        assert file.read() == b"0123456789"
        assert file.size == 10
    assert len(site.requests) == 1


def test_large_files_are_read_and_downloaded_whole(site, fs, content, tmp_path):
    large = content * 3
    path = site.put("f", large)
    assert fs.cat_file(path) == large
    fs.get_file(path, str(tmp_path / "f"))
    assert (tmp_path / "f").read_bytes() == large
    kept = io.BytesIO()
    fs.get_file(path, kept)
    assert kept.getvalue() == large


def test_a_failed_download_leaves_nothing(site, fs, tmp_path):
    with pytest.raises(FileNotFoundError):
        fs.get_file(site.url("gone"), str(tmp_path / "f"))
    assert list(tmp_path.iterdir()) == []


def replace(site, name, content):
    site.put(name, content)
    site.tag = f'"{int(site.tag[1:-1]) + 1}"'


@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["opened again", "open"])
def test_ranges_of_a_path_are_never_of_two_versions(site, fs, content, monkeypatch, seconds):
    monkeypatch.setattr("hither.fsspec._versions.STAT_SECONDS", seconds)
    path = site.put("f", content)
    assert fs.cat_file(path, 0, 4) == content[:4]
    replace(site, "f", content[::-1])
    for _ in range(2):
        with pytest.raises(hither.exceptions.ChangedError, match="changed"):
            fs.cat_file(path, 700_000, 700_004)
        (found,) = fs.cat_ranges([path], [800_000], [800_004])
        assert isinstance(found, hither.exceptions.ChangedError)
        # All bytes, which is not a range.
        assert fs.cat_file(path) == content[::-1]


@pytest.mark.parametrize("begin", [(0, 4), (None, 4), (-4, None)])
def test_a_read_of_an_end_of_a_file_begins_anew(site, fs, content, monkeypatch, begin):
    monkeypatch.setattr("hither.fsspec._versions.STAT_SECONDS", 0.0)
    path = site.put("f", content)
    for version in (content, content[::-1], content[4:]):
        assert fs.cat_file(path, *begin) == version[slice(*begin)]
        assert fs.cat_file(path, 700_000, 700_004) == version[700_000:700_004]
        replace(site, "f", {content: content[::-1]}.get(version, content[4:]))


@pytest.mark.parametrize("again", ["info", "invalidate_cache"])
def test_a_file_that_changed_is_opened_again_by_its_stat(site, fs, content, again):
    path, later = site.put("f", content), content[::-1]
    assert fs.cat_file(path, 4, 8) == content[4:8]
    replace(site, "f", later)
    with pytest.raises(hither.exceptions.ChangedError, match="changed"):
        fs.cat_file(path, 700_000, 700_004)
    getattr(fs, again)(path)
    assert fs.cat_file(path, 700_000, 700_004) == later[700_000:700_004]


def test_a_stat_alone_does_not_change_the_version_of_ranges(site, fs, content, monkeypatch):
    monkeypatch.setattr("hither.fsspec._versions.STAT_SECONDS", 0.0)
    path = site.put("f", content)
    assert fs.cat_file(path, 4, 8) == content[4:8]
    replace(site, "f", content[::-1])
    assert fs.size(path) == len(content)
    with fs.open(path) as file:
        assert file.read(4) == content[::-1][:4]
    with pytest.raises(hither.exceptions.ChangedError, match="changed"):
        fs.cat_file(path, 4, 8)


def test_a_file_that_changed_before_its_ranges_were_read_is_read_anew(site, fs, content):
    path = site.put("f", content)
    assert fs.size(path) == len(content)
    replace(site, "f", content[::-1])
    assert fs.cat_file(path, 700_000, 700_004) == content[::-1][700_000:700_004]


def test_a_range_in_memory_is_confirmed_with_one_byte(site, fs, content, monkeypatch):
    monkeypatch.setattr("hither.fsspec._versions.STAT_SECONDS", 0.0)
    path = site.put("f", content)
    assert fs.cat_file(path, 0, 4) == content[:4]
    before = fs.client.report
    assert fs.cat_file(path, 0, 4) == content[:4]
    report = fs.client.report.since(before)
    assert (report.requests, report.bytes_payload) == (1, 1)
    replace(site, "f", b"another")
    assert fs.cat_file(path, 0, 4) == b"anot"


def test_confirming_the_version_of_ranges_takes_no_further_round_trip(site, fs, content, monkeypatch):
    monkeypatch.setattr("hither.fsspec._versions.STAT_SECONDS", 0.0)
    path = site.put("f", content)
    assert fs.cat_file(path, 0, 4) == content[:4]
    for start in (300_000, 600_000, 900_000):
        before = fs.client.report
        assert fs.cat_file(path, start, start + 10) == content[start : start + 10]
        report = fs.client.report.since(before)
        assert (report.requests, report.round_trips) == (1, 1)


READS = {
    "read": lambda file, start, stop: (file.seek(start), file.read(stop - start)),
    "read to the end": lambda file, start, _: (file.seek(start), file.read()),
    "readinto": lambda file, start, stop: (file.seek(start), file.readinto(bytearray(stop - start))),
    "read_at": lambda file, start, stop: file.read_at(start, stop - start),
    "read_at_async": lambda file, start, stop: asyncio.run(file.read_at_async(start, stop - start)),
    "read_ranges": lambda file, *limits: file.read_ranges([(0, 4), limits]),
    "read_ranges_async": lambda file, *limits: asyncio.run(file.read_ranges_async([(0, 4), limits])),
}


@pytest.mark.parametrize("read", READS)
def test_an_opened_file_has_the_version_of_its_stat(site, fs, content, read):
    path = site.put("f", content[:1000])
    assert fs.size(path) == 1000
    replace(site, "f", content)
    with fs.open(path) as file:
        assert file.size == 1000
        with pytest.raises(hither.exceptions.ChangedError, match="open it again"):
            READS[read](file, 990, 1000)
    with fs.open(path) as file:
        READS[read](file, file.size - 10, file.size)


@pytest.mark.parametrize("later", ['"1"', None])
def test_a_weak_tag_and_a_strong_one_or_a_date_are_of_the_same_version(site, fs, content, later):
    path = site.put("f", content)
    site.tag = 'W/"1"'
    fs.ls(path)
    site.tag = later
    with fs.open(path) as file:
        file.seek(-10, io.SEEK_END)
        assert file.read(10) == content[-10:]


def test_stat_and_open_make_one_request(site, fs, content):
    path = site.put("f", content)
    assert fs.exists(path)
    assert fs.isfile(path)
    with fs.open(path) as file:
        file.seek(-4, io.SEEK_END)
        assert file.read() == content[-4:]
    assert len(site.requests) == 2


def test_files_read_as_text_and_into_buffers(site, fs):
    path = site.put("f", b"one\ntwo\nthree\n")
    with fs.open(path, "r") as file:
        assert list(file) == ["one\n", "two\n", "three\n"]
    with fs.open(path) as file:
        buffer = bytearray(5)
        file.seek(4)
        assert file.readinto(buffer) == 5
        assert bytes(buffer) == b"two\nt"
        assert file.hint([(0, 4)]) is not None


def test_query_strings_are_not_patterns(site, fs, content):
    path = site.put("f", content) + "?authz=x&y=1"
    assert fs.cat(path) == content
    assert fs.glob(path) == [path]


def test_filesystems_and_their_files_pickle(site, content):
    path = site.put("f", content)
    fs = HitherFileSystem(store=False, anonymous=True)
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file(path, 5, 9) == content[5:9]
    given = HitherFileSystem(client=hither.Client(store=False, max_connections=3), skip_instance_cache=True)
    assert pickle.loads(pickle.dumps(given)).client._options["max_connections"] == 3
    with fs.open(path) as file:
        file.seek(8)
        assert pickle.loads(pickle.dumps(file)).read(4) == content[8:12]
    opened = fsspec.open("hither" + path, store=False, anonymous=True)
    with pickle.loads(pickle.dumps(opened)) as file:
        assert file.read(4) == content[:4]


def test_the_filesystem_is_used_from_a_running_loop(site, client, content):
    path = site.put("f", content)

    async def use():
        fs = HitherFileSystem(client=client, asynchronous=True, skip_instance_cache=True)
        return await asyncio.gather(*(fs._cat_file(path, at, at + 4) for at in range(20)))

    assert asyncio.run(use()) == [content[at : at + 4] for at in range(20)]


def test_settings_are_those_of_clients():
    with pytest.raises(TypeError, match="nonsense"):
        HitherFileSystem(nonsense=1)
    with pytest.raises(ValueError, match="max_connections"):
        HitherFileSystem(client=hither.Client(store=False), max_connections=3)


def test_names_are_listed_found_and_walked(dav, fs):
    folder, url = dav
    for name in ("a b.root", "c.root", "d/e.root", "d/f/g.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"12345")
    assert sorted(fs.ls(url, detail=False)) == [f"{url}/a%20b.root", f"{url}/c.root", f"{url}/d"]
    assert fs.cat_file(f"{url}/a%20b.root") == b"12345"
    assert fs.glob(f"{url}/*.root") == [f"{url}/a%20b.root", f"{url}/c.root"]
    assert fs.glob(f"{url}/**/*.txt") == [f"{url}/d/f/g.txt"]
    assert fs.find(url) == [f"{url}/a%20b.root", f"{url}/c.root", f"{url}/d/e.root", f"{url}/d/f/g.txt"]
    assert fs.ls(f"{url}/c.root", detail=False) == [f"{url}/c.root"]
    found = fs.info(f"{url}/d/e.root")
    assert (found["name"], found["size"], found["type"]) == (f"{url}/d/e.root", 5, "file")
    assert fs.isdir(f"{url}/d")
    assert fs.modified(f"{url}/c.root").year > 2000
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{url}/none")
    assert not fs.exists(f"{url}/none")


def test_names_are_written_moved_and_removed(dav, fs):
    folder, url = dav
    with fs.open(f"{url}/new/deep/file", "wb") as file:
        file.write(b"123")
        file.write(b"45")
    assert (folder / "new/deep/file").read_bytes() == b"12345"
    fs.mv(f"{url}/new/deep/file", f"{url}/moved")
    assert fs.cat_file(f"{url}/moved") == b"12345"
    fs.mv(f"{url}/new", f"{url}/old")
    assert sorted(path.name for path in folder.iterdir()) == ["moved", "old"]
    fs.mkdir(f"{url}/one/two")
    with pytest.raises(FileExistsError):
        fs.mkdir(f"{url}/one/two")
    fs.makedirs(f"{url}/one/two", exist_ok=True)
    fs.rmdir(f"{url}/one/two")
    with pytest.raises(ValueError, match="not empty"):
        fs.rm(f"{url}/old")
    fs.rm([f"{url}/old", f"{url}/one"], recursive=True)
    assert [path.name for path in folder.iterdir()] == ["moved"]
    assert fs.info(f"{url}/moved")["size"] == 5
    fs.pipe_file(f"{url}/moved", b"another")
    assert fs.info(f"{url}/moved")["size"] == 7
    assert (folder / "moved").read_bytes() == b"another"


def test_a_write_that_raised_is_not_sent(dav, fs):
    folder, url = dav

    def fail():
        with fs.open(f"{url}/file", "wb") as file:
            file.write(b"123")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    forgotten = fs.open(f"{url}/forgotten", "wb")
    forgotten.write(b"123")
    with pytest.warns(RuntimeWarning, match="was not sent"):
        del forgotten
    with fs.transaction:
        with fs.open(f"{url}/done", "wb") as file:
            file.write(b"123")
        assert list(folder.iterdir()) == []
    assert [path.name for path in folder.iterdir()] == ["done"]

    def fail_later():
        with fs.transaction:
            with fs.open(f"{url}/other", "wb") as file:
                file.write(b"123")
            raise KeyError

    with pytest.raises(KeyError):
        fail_later()
    assert [path.name for path in folder.iterdir()] == ["done"]
    with pytest.raises(NotImplementedError, match="mode"):
        fs.open(f"{url}/file", "ab")


COMPRESSED = [None, "gzip", "bz2", "xz"]


@pytest.fixture(params=["filesystem", "fsspec"])
def opened(request, fs):
    """Opens a file with the filesystem, or with `fsspec.open`."""

    def by_fsspec(url, mode, compression):
        return fsspec.core.OpenFile(fs, url, mode, compression)

    def by_filesystem(url, mode, compression):
        return fs.open(url, mode, compression=compression)

    return by_fsspec if request.param == "fsspec" else by_filesystem


def content_of(path, compression):
    content = path.read_bytes()
    return {None: bytes, "gzip": gzip.decompress, "bz2": bz2.decompress, "xz": lzma.decompress}[compression](content)


def missing():
    raise KeyError


def half(mode):
    return b"half" if mode == "wb" else "half"


@pytest.mark.parametrize("mode", ["wb", "wt"])
@pytest.mark.parametrize("compression", COMPRESSED)
def test_a_file_whose_block_raised_is_not_sent_in_any_mode(dav, opened, mode, compression):
    folder, url = dav
    (folder / "file").write_bytes(b"good")

    def fail():
        with opened(f"{url}/file", mode, compression) as file:
            file.write(half(mode))
            raise KeyError

    def fail_in_a_generator():
        @contextlib.contextmanager
        def writing():
            with opened(f"{url}/file", mode, compression) as file:
                yield file

        with writing() as file:
            file.write(half(mode))
            raise KeyError

    def fail_in_a_stack():
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(opened(f"{url}/file", mode, compression))
            file.write(half(mode))
            raise KeyError

    def fail_in_an_asynchronous_stack():
        async def write():
            async with contextlib.AsyncExitStack() as stack:
                file = stack.enter_context(opened(f"{url}/file", mode, compression))
                file.write(half(mode))
                raise KeyError

        asyncio.run(write())

    def fail_again():
        try:
            missing()
        except KeyError:
            with opened(f"{url}/file", mode, compression) as file:
                file.write(half(mode))
                raise

    for failing in (fail, fail_in_a_generator, fail_in_a_stack, fail_in_an_asynchronous_stack, fail_again):
        with pytest.raises(KeyError):
            failing()
        assert (folder / "file").read_bytes() == b"good", failing


@pytest.mark.parametrize("mode", ["wb", "wt"])
@pytest.mark.parametrize("compression", COMPRESSED)
def test_a_file_that_is_closed_is_sent_amid_an_exception_too(dav, opened, mode, compression):
    folder, url = dav

    def write(name):
        with opened(f"{url}/{name}", mode, compression) as file:
            file.write(half(mode))

    class WritesAtItsEnd:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            write("at-the-end-of-a-block")

    write("without-an-exception")
    try:
        with WritesAtItsEnd():
            missing()
    except KeyError:
        write("in-a-handler")
    opened_before = opened(f"{url}/opened-before", mode, compression)
    file = opened_before.open() if isinstance(opened_before, fsspec.core.OpenFile) else opened_before
    file.write(half(mode))
    try:
        missing()
    except KeyError:
        file.close()
        if isinstance(opened_before, fsspec.core.OpenFile):
            opened_before.close()
    names = {path.name: content_of(path, compression) for path in folder.iterdir()}
    expected = ("without-an-exception", "at-the-end-of-a-block", "in-a-handler", "opened-before")
    assert names == dict.fromkeys(expected, b"half")


@pytest.mark.parametrize("compression", COMPRESSED)
def test_a_file_that_is_never_closed_is_not_sent_in_any_mode(dav, fs, compression):
    folder, url = dav
    for mode in ("wb", "wt"):
        file = fs.open(f"{url}/file", mode, compression=compression)
        file.write(half(mode))
        with pytest.warns(RuntimeWarning, match="was not sent"):  # noqa: PT031
            del file
            gc.collect()
        assert list(folder.iterdir()) == []


def test_of_two_exclusive_writers_the_second_fails(dav, fs):
    folder, url = dav
    first, second = (fs.open(f"{url}/file", "xb") for _ in range(2))
    first.write(b"first")
    second.write(b"second")
    first.close()
    with pytest.raises(FileExistsError):
        second.close()
    with pytest.raises(FileExistsError):
        fs.open(f"{url}/file", "xb")
    with pytest.raises(FileExistsError):
        fs.pipe_file(f"{url}/file", b"third", mode="create")
    assert (folder / "file").read_bytes() == b"first"


def test_times_and_versions_of_any_file_are_known(tmp_path, fs):
    pq = python_package("pyarrow.parquet")
    pa = python_package("pyarrow")
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "table.parquet")
    (tmp_path / "plain").write_bytes(b"12345")
    with serving("nginx", tmp_path) as url:
        for name in ("table.parquet", "plain"):
            path = tmp_path / name
            key = fs.ukey(f"{url}/{name}")
            # The end of a Parquet file, which `info` reads, does not state its time of
            # modification.
            assert fs.modified(f"{url}/{name}").timestamp() == int(path.stat().st_mtime)
            assert fs.ukey(f"{url}/{name}") == key
            assert fs.checksum(f"{url}/{name}") == int(key, 16)
            with pytest.raises(NotImplementedError, match=r"when .* was created"):
                fs.created(f"{url}/{name}")
            path.write_bytes(path.read_bytes() + b" ")
            fs.invalidate_cache()
            assert fs.ukey(f"{url}/{name}") != key


def test_a_server_that_does_not_list_says_so(tmp_path, fs):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/file").write_bytes(b"12345")
    with serving("nginx", tmp_path) as url:
        assert fs.cat_file(f"{url}/d/file") == b"12345"
        with pytest.raises(NotImplementedError, match="list"):
            fs.ls(f"{url}/d")
        with pytest.raises(NotImplementedError):
            fs.pipe_file(f"{url}/d/other", b"1")


def test_a_parquet_file_that_is_read_whole_is_requested_once_after_its_ends(tmp_path, fs):
    # More than the amount that is read through the cache.
    content = bytes(range(251)) * 100_000 + b"PAR1"
    (tmp_path / "table.parquet").write_bytes(content)
    with serving("nginx", tmp_path, tmp_path / "access.log") as url, fs.open(f"{url}/table.parquet") as file:
        assert file.read() == content
        assert file.read() == b""
        file.seek(-4, 2)
        assert file.read() == b"PAR1"
    asked = access_log.read(tmp_path / "access.log", "/table.parquet")
    starts = [int(it.ranges.removeprefix("bytes=").partition("-")[0]) for it in asked]
    # Both ends, then the whole file.
    assert len([start for start in starts if start < 1 << 20]) == 2, asked


def test_parquet_columns_are_read_and_no_others(tmp_path, fs):
    pa = python_package("pyarrow")
    pq = python_package("pyarrow.parquet")
    np = python_package("numpy")
    rng = np.random.default_rng(1)
    table = pa.table({f"c{at}": rng.standard_normal(100_000) for at in range(30)})
    pq.write_table(table, tmp_path / "table.parquet", row_group_size=25_000)
    with serving("nginx", tmp_path, tmp_path / "access.log") as url:
        found = pq.read_table(f"{url}/table.parquet", columns=["c3", "c4", "c17"], filesystem=fs)
        assert found.equals(table.select(["c3", "c4", "c17"]))
        report = fs.client.report
        asked = access_log.read(tmp_path / "access.log", "/table.parquet")
        print(report.requests, report.round_trips, report.bytes_payload, [it.ranges for it in asked])
        assert report.bytes_payload < 0.2 * (tmp_path / "table.parquet").stat().st_size


def test_hdf5_is_read_through_an_opened_file(tmp_path, fs):
    h5py = python_package("h5py")
    np = python_package("numpy")
    values = np.random.default_rng(1).standard_normal((500, 1000))
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(10, 1000))
        file.create_dataset("y", data=values[::-1], chunks=(500, 10))
    with serving("nginx", tmp_path) as url, fs.open(f"{url}/f.h5") as remote, h5py.File(remote, "r") as file:
        assert np.array_equal(file["x"][40:60], values[40:60])
        chunks = [file["y"].id.get_chunk_info(at) for at in range(40)]
        remote.hint([(it.byte_offset, it.byte_offset + it.size) for it in chunks])
        assert np.array_equal(file["y"][:, :400], values[::-1, :400])


def test_zarr_reads_chunks(dav):
    zarr = python_package("zarr")
    np = python_package("numpy")
    folder, url = dav
    values = np.arange(10_000).reshape(100, 100)
    zarr.create_array(store=str(folder / "a.zarr"), data=values, chunks=(10, 100))
    store = zarr.storage.FsspecStore.from_url(f"hither{url}/a.zarr", storage_options={"store": False}, read_only=True)
    assert np.array_equal(zarr.open_array(store=store, mode="r")[25:75], values[25:75])


PARQUET = """
import json, os, sys, hither, pyarrow.dataset, pyarrow.parquet
from hither.fsspec import HitherFileSystem
way, base, *columns = sys.argv[1:]
fs = HitherFileSystem(client=hither.Client(store=False, anonymous=True))
told, sums = [], []
for name in ("one", "two"):
    url = f"{base}/{name}.parquet"
    before = fs.client.report
    if way == "read_table":
        table = pyarrow.parquet.read_table(url, columns=columns, filesystem=fs)
    elif way == "dataset":
        table = pyarrow.dataset.dataset(url, filesystem=fs, format="parquet").to_table(columns=columns)
    else:
        import fsspec.parquet
        with fsspec.parquet.open_parquet_file(url, fs=fs, columns=columns, engine="pyarrow") as file:
            table = pyarrow.parquet.read_table(file, columns=columns)
    told.append(fs.client.report.since(before).as_dict())
    sums.append([float(column.to_numpy().sum()) for column in table.columns])
print(json.dumps([told, sums]), flush=True)
# A thread of pyarrow that closes a file of Python's while the interpreter ends aborts the process, even if the file is another one's.
os._exit(0)
"""


@pytest.mark.netns
@pytest.mark.parametrize("way", ["read_table", "dataset", "told beforehand"])
def test_parquet_columns_take_few_round_trips(way, tmp_path):
    """Two runs of columns in four row groups: requests for the ends and one for each run; one more
    if late."""
    pa = python_package("pyarrow")
    pq = python_package("pyarrow.parquet")
    np = python_package("numpy")
    require_network_namespaces()
    rng = np.random.default_rng(1)
    columns = ["c3", "c4", "c17"]
    sums = []
    tmp_path.chmod(0o755)
    for name in ("one", "two"):
        table = pa.table({f"c{at}": rng.standard_normal(6_000) for at in range(30)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=1_500)
        sums.append([float(table[column].to_numpy().sum()) for column in columns])
    where = Wan(LINKS["G"], real_time=True)
    with where, servers.nginx(where, tmp_path) as port:
        host, reached = where.reach(port)
        words = [sys.executable, "-c", PARQUET, way, f"http://{host}:{reached}", *columns]
        done = subprocess.run(where.client(words), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told, found = json.loads(done.stdout)
    assert found == sums
    assert told[0]["round_trips"] <= 4
    assert told[1]["round_trips"] <= 3


@pytest.fixture
def unsized():
    """A directory on a WebDAV server that lists no sizes: `a.dat` and `empty`."""

    def list_without_sizes(it) -> bool:
        name = it.name if it.name in it.site.files else it.name + "/"
        if it.command != "PROPFIND" or name not in it.site.files:
            return False
        inside = it.site.within(name) if name.endswith("/") and it.headers.get("Depth") == "1" else []
        return it.multistatus("".join(it.properties(path, getcontentlength=None) for path in [name, *inside]))

    site = foreign_server.Site({"/": None, "/d/": None, "/d/a.dat": b"content", "/d/empty": b""}, list_without_sizes)
    with foreign_server.serving(site) as server:
        yield f"http://127.0.0.1:{server.port}/d"


def test_a_size_that_no_listing_has_is_never_taken_for_nothing(fs, unsized, tmp_path):
    for name, content in (("a.dat", b"content"), ("empty", b"")):
        url = f"{unsized}/{name}"
        assert fs.exists(url)
        assert fs.size(url) == len(content)
        assert fs.open(url).read() == fs.cat_file(url) == content
        fs.get(url, str(tmp_path / name))
        assert (tmp_path / name).read_bytes() == content
    assert {it["name"].rpartition("/")[2]: it["size"] for it in fs.ls(unsized, detail=True)} == {
        "a.dat": None,
        "empty": None,
    }
    # The cached listing does not decide either.
    assert fs.open(f"{unsized}/a.dat").read() == b"content"
    fs.get(unsized, str(tmp_path / "tree"), recursive=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "tree").rglob("*") if path.is_file()} == {
        "a.dat": b"content",
        "empty": b"",
    }


def test_an_unknown_size_is_not_counted_as_nothing(fs, unsized):
    assert fs.du(unsized) == len(b"content")

    def tell_no_size_of_a(it) -> bool:
        if it.name == "/d/a" and it.command == "PROPFIND":
            return it.multistatus(it.properties(it.name, getcontentlength=None))
        return it.name == "/d/a" and it.stream(b"content")

    files = {"/": None, "/d/": None, "/d/a": b"content", "/d/b": b"four"}
    with foreign_server.serving(foreign_server.Site(files, tell_no_size_of_a)) as server:
        url = f"http://127.0.0.1:{server.port}/d"
        assert fs.du(url, total=False) == {f"{url}/a": None, f"{url}/b": 4}
        with pytest.raises(NotImplementedError, match=r"1 of 2 files, as of \S+/d/a; the others have 4 bytes"):
            fs.du(url)


def test_names_that_an_index_may_hide_are_told_once_for_a_tree(fs, client, tmp_path):
    import fsspec.generic

    pages = {"/d/": ["a.dat", "sub/"], "/d/sub/": ["b.dat"]}

    def show_index(it) -> bool:
        if it.command == "PROPFIND":
            return it.answer(405)
        links = "".join(f"<a href='{name}'>{name}</a>\n" for name in pages.get(it.name, []))
        return bool(links) and it.html(f"<html><title>Index of {it.name}</title><pre>{links}</pre></html>")

    files = {"/": None, "/d/": None, "/d/a.dat": b"a", "/d/.zarray": b"{}", "/d/sub/": None, "/d/sub/b.dat": b"b"}
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / ".zarray").write_bytes(b"{}")
    with foreign_server.serving(foreign_server.Site(files, show_index)) as server:
        url = f"http://127.0.0.1:{server.port}/d"
        for list_names in (
            fs.find,
            lambda url: list(fs.walk(url)),
            fs.ls,
            client.list,
            lambda url: fs.glob(f"{url}/**"),
        ):
            with pytest.warns(hither.exceptions.HiddenNamesWarning, match=f"{url}/: .* may hide names") as told:
                assert list_names(url)
            assert len(told) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error", hither.exceptions.HiddenNamesWarning)
            # Names that begin with a dot match no pattern.
            hither.Dataset(f"{url}/*.dat", client=client)
            for _ in range(2):
                with pytest.raises(hither.exceptions.HiddenNamesWarning):
                    fsspec.generic.rsync(f"hither{url}", f"file://{mirror}", delete_missing=True)
    assert (mirror / ".zarray").exists()


def test_nothing_is_written_behind_a_link_in_the_folder_of_a_get(fs, unsized, tmp_path):
    for name in ("named", "shared"):
        (tmp_path / name).mkdir()
    (tmp_path / "named/d").symlink_to(tmp_path / "shared")
    with pytest.raises(ValueError, match=r"shared/a\.dat, which is not in"):
        fs.get(unsized, str(tmp_path / "named"), recursive=True)
    assert not list((tmp_path / "shared").iterdir())
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    fs.get(f"{unsized}/", str(tmp_path / "link"), recursive=True)
    assert {path.name for path in (tmp_path / "shared").rglob("*") if path.is_file()} == {"a.dat", "empty"}


def test_the_command_shows_that_a_size_is_unknown(unsized):
    def run(*arguments) -> str:
        command = [HITHER, *arguments, "--no-store"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    lines = run("ls", "-l", f"{unsized}/").splitlines()
    assert [(line.split()[1], line.split()[-1]) for line in lines] == [("?", "a.dat"), ("?", "empty")]
    assert run("du", f"{unsized}/").startswith(">0\t")
    assert json.loads(run("du", "--json", f"{unsized}/"))["directories"][0]["unknown_sizes"] == 2


@pytest.fixture
def locked():
    """A WebDAV server with `d/a`, `d/sub/b` and `e/`; `d/sub` cannot be listed."""

    def refuse(it) -> bool:
        asked.append(it.command)
        return it.command == "PROPFIND" and it.name.rstrip("/") == "/d/sub" and it.answer(403)

    asked = []
    files = {"/": None, "/d/": None, "/d/a": b"a", "/d/sub/": None, "/d/sub/b": b"b", "/e/": None}
    with foreign_server.serving(foreign_server.Site(files, refuse)) as server:
        yield f"http://127.0.0.1:{server.port}", asked


def test_a_directory_that_cannot_be_listed_is_an_error(fs, locked, tmp_path):
    url, _ = locked
    for ask in (fs.find, fs.du, lambda it: fs.glob(f"{it}/**"), lambda it: fs.get(it, str(tmp_path), recursive=True)):
        with pytest.raises(PermissionError):
            ask(f"{url}/d")
    for ask in (fs.isdir, fs.isfile, fs.exists):
        with pytest.raises(PermissionError):
            ask(f"{url}/d/sub")
    assert fs.find(f"{url}/none") == []


def test_a_move_renames_and_removes_nothing(fs, locked):
    url, asked = locked
    with pytest.raises(NotImplementedError, match="maxdepth"):
        fs.mv(f"{url}/d", f"{url}/e/", recursive=True, maxdepth=1)
    fs.mv(f"{url}/d*", f"{url}/e/", recursive=True)
    assert "MOVE" in asked
    assert "DELETE" not in asked


def test_a_move_or_copy_onto_itself_sends_nothing(fs, locked):
    url, asked = locked
    for source, target in (("d/a", "d/a"), ("d/a", "d/"), ("d", "d/x")):
        with pytest.raises(ValueError, match="itself"):
            fs.mv(f"{url}/{source}", f"{url}/{target}")
    with pytest.raises(ValueError, match="itself"):
        fs.cp_file(f"{url}/d/a", f"{url}/d/a")
    with pytest.raises(ValueError, match="itself"):
        fs.copy(f"{url}/d", f"{url}/d/x", recursive=True)
    for move in (fs.mv, fs.copy, fs.get, fs.put):
        with pytest.raises(ValueError, match="one name"):
            move([f"{url}/d/a", f"{url}/e/a"], f"{url}/f/")
    assert not {"MOVE", "PUT", "DELETE", "MKCOL"} & set(asked)


def test_downloads_to_one_path_share_no_partial_file(site, fs, content, tmp_path, monkeypatch):
    partial = []
    download = Reads.download

    async def note(reads, path, target, *others):
        partial.append(target.name)
        await download(reads, path, target, *others)

    monkeypatch.setattr(Reads, "download", note)
    for name in ("one", "two"):
        fs.get_file(site.put(name, content), str(tmp_path / "f"))
    assert len(set(partial)) == 2
