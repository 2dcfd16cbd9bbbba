"""Copies, mirrors and comparisons from Python, of local paths and over HTTP."""

import asyncio

import pytest

import hither


def tree(root):
    for name in ("a.txt", "b.log", "sub/c.txt"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 100)
    return root


def names(root):
    return sorted(str(it.relative_to(root)) for it in root.rglob("*") if it.is_file())


def test_a_file_is_copied_from_a_server_with_its_checksum(site, client, tmp_path):
    content = bytes(range(256)) * 20_000
    url = site.put("f", content)
    seen = []
    summary = hither.copy(url, tmp_path / "f", checksum="adler32", progress=seen.append, client=client)
    assert (tmp_path / "f").read_bytes() == content
    assert (summary.files, summary.bytes) == (1, len(content))
    assert [value.partition(":")[0] for value in summary.checksums.values()] == ["adler32"]
    assert (seen[-1].files_done, seen[-1].bytes_done) == (1, len(content))


def test_a_copy_reads_from_replicas(site, client, tmp_path):
    content = bytes(range(256)) * 20_000
    again = site.put("again", content)
    summary = hither.copy("http://127.0.0.1:1/f", tmp_path / "f", replicas=[again], client=client)
    assert (tmp_path / "f").read_bytes() == content
    assert "127.0.0.1:1" in "".join(summary.notices), "the source was named, and is not there"
    asyncio.run(hither.copy_async("http://127.0.0.1:1/f", tmp_path / "g", replicas=[again], client=client))
    assert (tmp_path / "g").read_bytes() == content
    with pytest.raises(ValueError, match="one source"):
        hither.copy([again, again], tmp_path, replicas=[again], client=client)
    with pytest.raises(TypeError, match="list of URLs"):
        hither.copy(again, tmp_path / "f", replicas=again, client=client)


def test_a_mirror_is_made_compared_and_cleaned(tmp_path, client):
    source, mirror = tree(tmp_path / "source"), tmp_path / "mirror"
    planned = hither.sync(source, mirror, dry_run=True, client=client)
    assert (planned.files, mirror.exists()) == (3, False)
    assert hither.sync(source, mirror, exclude=["*.log"], client=client).files == 2
    assert names(mirror) == ["a.txt", "sub/c.txt"]
    (mirror / "extra").write_bytes(b"")
    checked = hither.check(source, mirror, client=client)
    assert checked.differences == {"b.log": "only_in_source", "extra": "only_in_destination"}
    assert checked.equal == 2
    done = hither.sync(source, mirror, delete=True, client=client)
    assert (done.files, done.files_skipped, done.files_deleted) == (1, 2, 1)
    assert not hither.check(source, mirror, compare="checksum", client=client).differences


def test_every_function_has_an_async_twin_with_progress(tmp_path, client):
    source, mirror = tree(tmp_path / "source"), tmp_path / "mirror"
    seen = []

    async def use():
        await hither.sync_async(source, mirror, progress=seen.append, client=client)
        checked = await hither.check_async(source, mirror, client=client)
        copied = await hither.copy_async(
            f"{source}/.", tmp_path / "copy", recursive=True, filters=["+ *.txt", "- *"], client=client
        )
        return checked, copied

    checked, copied = asyncio.run(use())
    assert (checked.equal, copied.files) == (3, 2)
    assert seen[-1].files_done == 3
    assert names(tmp_path / "copy") == ["a.txt", "sub/c.txt"]


def test_what_a_progress_callback_raises_ends_the_copy(site, client, tmp_path):
    url = site.put("f", bytes(3_000_000))

    def stop(progress):
        raise KeyError(progress.files_found)

    with pytest.raises(KeyError):
        hither.copy(url, tmp_path / "f", bandwidth="100k", progress=stop, client=client)
    assert not (tmp_path / "f").exists()


def test_failures_and_wrong_options_raise(site, client, tmp_path):
    source = tree(tmp_path / "source")
    with pytest.raises(FileNotFoundError):
        hither.copy(site.url("none"), tmp_path / "f", client=client)
    with pytest.raises(FileNotFoundError, match="not there"):
        hither.copy(source, tmp_path / "copy", recursive=True, files=["not there"], client=client)
    with pytest.raises(ValueError, match="overlap"):
        hither.sync(source, source / "sub", delete=True, client=client)
    with pytest.raises(ValueError, match="compare is"):
        hither.check(source, tmp_path, compare="colour", client=client)
    with pytest.raises(ValueError, match="rate"):
        hither.copy(source, tmp_path / "copy", recursive=True, bandwidth="fast", client=client)
    with pytest.raises(TypeError, match="include"):
        hither.copy(source, tmp_path / "copy", recursive=True, include="*.txt", client=client)


@pytest.mark.parametrize("call", [hither.copy, hither.sync, hither.check])
def test_an_unknown_option_is_a_type_error_that_suggests(call, tmp_path):
    with pytest.raises(TypeError, match=r"there is no option 'excludes'; did you mean `exclude`"):
        call(tmp_path, tmp_path / "copy", excludes=["*"])
    with pytest.raises(TypeError, match="there is no option 'one_sided'"):
        call(tmp_path, tmp_path / "copy", one_sided=True)
