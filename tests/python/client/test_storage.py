"""Listing, writing, renaming and removing on local paths."""

import asyncio
import contextlib
import hashlib
import zlib

import pytest
from serving import Loopback, servers, serving

import hither


def test_names_are_made_listed_renamed_and_removed(tmp_path, client):
    client.make_directory(tmp_path / "d")
    entry = client.put(tmp_path / "d" / "a", b"12345")
    assert (entry.name, entry.size, entry.kind) == ("a", 5, "file")
    (tmp_path / "source").write_bytes(bytes(10_000_000))
    assert client.put(tmp_path / "d" / "b", tmp_path / "source").size == 10_000_000
    assert [entry.name for entry in client.list(tmp_path / "d")] == ["a", "b"]
    client.rename(tmp_path / "d" / "a", tmp_path / "d" / "c")
    assert client.stat(tmp_path / "d" / "c").size == 5
    with pytest.raises(ValueError, match="not empty"):
        client.remove(tmp_path / "d")
    client.remove(tmp_path / "d" / "c")
    client.remove(tmp_path / "d", recursive=True)
    with pytest.raises(FileNotFoundError):
        client.stat(tmp_path / "d")


def test_files_are_replaced_only_on_request(tmp_path, client):
    client.put(tmp_path / "a", b"1")
    client.put(tmp_path / "b", b"2")
    with pytest.raises(FileExistsError, match="overwrite=True replaces it"):
        client.put(tmp_path / "a", b"3")
    with pytest.raises(FileExistsError, match="overwrite=True replaces it"):
        client.rename(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == b"1"
    client.rename(tmp_path / "a", tmp_path / "b", overwrite=True)
    client.put(tmp_path / "b", b"4", overwrite=True)
    assert (tmp_path / "b").read_bytes() == b"4"


def test_an_argument_is_not_advised_where_it_was_given(tmp_path, client):
    for name in ("a", "b"):
        (tmp_path / "www" / name).mkdir(parents=True)
        (tmp_path / "www" / name / "file").write_bytes(b"1")
    with servers.hither(Loopback(), tmp_path / "www", more=("--write",)) as port:
        base = f"http://127.0.0.1:{port}"
        with pytest.raises(FileExistsError, match=r"b exists already$"):
            client.rename(f"{base}/a", f"{base}/b", overwrite=True)


@pytest.mark.parametrize("kind", ["", "apache", "rclone", "xrootd"])
def test_only_the_version_that_was_read_is_replaced(tmp_path, client, kind):
    folder = tmp_path / "www"
    folder.mkdir()
    with serving(kind, folder) if kind else contextlib.nullcontext(str(folder)) as base:
        place = f"{base}/a"
        client.put(place, b"first")
        first = client.stat(place)
        local = tmp_path / "local"
        local.write_bytes(b"second one")
        client.put(place, local, overwrite=first)
        for content in (b"lost", local):
            with pytest.raises(hither.exceptions.ChangedError, match="has changed since it was read"):
                client.put(place, content, overwrite=first)
        client.put(place, b"third", overwrite=client.stat(place))
        with hither.open(place, client=client) as file:
            assert file.read() == b"third"


def test_every_name_operation_has_an_async_twin(tmp_path, client):
    async def use():
        await client.make_directory_async(tmp_path / "d")
        await client.put_async(tmp_path / "d" / "a", b"123")
        await client.rename_async(tmp_path / "d" / "a", tmp_path / "d" / "b")
        names = [entry.name for entry in await client.list_async(tmp_path / "d")]
        size = (await client.stat_async(tmp_path / "d" / "b")).size
        await client.remove_async(tmp_path / "d", recursive=True)
        return names, size

    assert asyncio.run(use()) == (["b"], 3)
    assert not (tmp_path / "d").exists()


def test_files_are_fetched_to_exactly_one_path(site, client, content, tmp_path):
    url, path = site.put("f", content), tmp_path / "copy"
    entry = client.get(url, path)
    assert (entry.url, entry.size, path.read_bytes()) == (str(path), len(content), content)
    site.put("f", b"other")
    site.tag = '"2"'
    with pytest.raises(FileExistsError):
        client.get(url, path)
    assert path.read_bytes() == content
    assert asyncio.run(client.get_async(url, path, overwrite=True)).size == 5
    with pytest.raises(FileNotFoundError):
        client.get(site.url("gone"), tmp_path / "gone")
    with pytest.raises((ValueError, OSError)):
        client.get(url, tmp_path, overwrite=True)
    assert [it.name for it in tmp_path.iterdir()] == ["copy"]


def test_checksums_are_the_servers_or_computed(site, client, content, tmp_path):
    url, near = site.put("f", content), tmp_path / "f"
    near.write_bytes(content)
    wanted = f"md5:{hashlib.md5(content).hexdigest()}"
    assert client.checksum(url, "md5") == client.checksum(near, "MD5") == wanted
    assert asyncio.run(client.checksum_async(url)) == f"adler32:{zlib.adler32(content):08x}"
    with pytest.raises(ValueError, match="adler32, crc32c"):
        client.checksum(url, "crc64")


def test_a_client_copies_with_itself(site, client, content, tmp_path):
    url = site.put("f", content)
    assert client.copy(url, tmp_path / "a", checksum="none").files == 1
    assert asyncio.run(client.copy_async(url, tmp_path / "b")).files == 1
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == content
    assert client.report.bytes_payload >= 2 * len(content)


def test_a_client_shows_its_options_and_no_secrets():
    client = hither.Client(
        max_connections=3, cache="1 MiB", store=False, staleness=0, token="hush", headers={"X-Key": "hush"}
    )
    shown = repr(client)
    assert "max_connections=3" in shown
    assert "cache=1048576" in shown
    assert "staleness=0" in shown
    assert "token=..." in shown
    assert "hush" not in shown
    assert repr(hither.Client()) == "<hither.Client without options>"


def test_the_root_is_not_removed(client):
    with pytest.raises(ValueError, match="root"):
        client.remove("http://127.0.0.1:1/", recursive=True)


def test_a_file_on_a_plain_server_has_a_size(site, client):
    url = site.put("f", b"123456")
    assert client.stat(url).size == 6
    assert client.stat(url) == client.stat(url)


def test_a_closed_client_opens_nothing(tmp_path):
    client = hither.Client(store=False)
    client.close()
    with pytest.raises(ValueError, match="closed"):
        client.stat(tmp_path)
