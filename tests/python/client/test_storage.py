"""Listing, writing, renaming and removing, on local paths."""

import asyncio

import pytest

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
    with pytest.raises(FileExistsError):
        client.put(tmp_path / "a", b"3")
    with pytest.raises(FileExistsError):
        client.rename(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == b"1"
    client.rename(tmp_path / "a", tmp_path / "b", overwrite=True)
    client.put(tmp_path / "b", b"4", overwrite=True)
    assert (tmp_path / "b").read_bytes() == b"4"


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
