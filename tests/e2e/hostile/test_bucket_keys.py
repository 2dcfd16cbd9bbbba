"""A bucket with keys that are not file names, or with strange responses: only unusable keys fail."""

from itertools import count

import pytest
from behaviours.storages.object_store import Store, serving

NOT_FOUND, FORBIDDEN = 3, 4


@pytest.mark.parametrize("bad", ["tab\tx", "tab\tx/below", "/slash", "two//slashes", "./a", "../a", "", "folder/"])
def test_a_key_that_is_no_name_fails_alone(tmp_path, bad):
    with serving(Store({"d/good": b"1", f"d/{bad}": b"2", "d/more/good": b"3"})) as hither:
        done = hither("cp", "-r", "s3://bucket/d", tmp_path / "d", "--no-store")
        kept = tmp_path / "kept"
        kept.mkdir()
        (kept / "other").write_bytes(b"o")
        mirrored = hither("sync", "--delete", "s3://bucket/d", kept, "--no-store")
    assert done.code != 0
    assert "check the endpoint" not in done.err, done.err
    assert (tmp_path / "d/good").read_bytes() == b"1"
    assert (tmp_path / "d/more/good").read_bytes() == b"3"
    assert mirrored.code != 0
    assert (kept / "other").exists()


def test_a_list_without_end_ends():
    with serving(Store({f"d/{number}": b"" for number in range(10)}, fresh=count())) as hither:
        done = hither("ls", "s3://bucket/d", "--no-store")
        assert done.code != 0
        assert "nothing new" in done.err, done.err
    with serving(Store({}, fresh=count())) as hither:
        assert "nothing new" in hither("ls", "s3://bucket/d", "--no-store").err


def test_a_folder_is_removed_with_the_objects_that_stand_for_folders():
    keys = {"d/": b"", "d/x/": b"", "d/x/f": b"1", "d/y/": b"", "d/tab\tx": b"2", "d//a": b"3", "e": b""}
    with serving(Store(keys)) as hither:
        done = hither("rm", "-r", "s3://bucket/d", "--no-store")
    assert (done.code, list(keys)) == (0, ["e"]), done.err


@pytest.mark.parametrize("url", ["s3://bucket/d//", "s3://bucket//", "s3://bucket//d"])
def test_a_key_with_more_slashes_is_another_one(url):
    keys = {"d/a": b"1", "e": b"2"}
    with serving(Store(keys)) as hither:
        done = hither("rm", "-r", url, "--no-store")
    assert (done.code != 0, list(keys)) == (True, ["d/a", "e"]), done.err


def test_a_folder_object_alone_is_an_empty_directory():
    with serving(Store({"d/": b"", "e/x/": b""})) as hither:
        for verb, shown in {"find": ["s3://bucket/d"], "ls": [], "du": ["0\ts3://bucket/d"]}.items():
            done = hither(verb, "s3://bucket/d", "--no-store")
            assert (done.code, done.out.splitlines()) == (0, shown), done.err
        assert hither("ls", "-R", "s3://bucket/e", "--no-store").code == 0
        assert hither("ls", "s3://bucket/none", "--no-store").code == NOT_FOUND


def test_a_key_that_a_url_cannot_name_is_left_and_said():
    keys = {"d/f": b"1", "d/../e": b"2", "e": b""}
    with serving(Store(keys)) as hither:
        done = hither("rm", "-r", "s3://bucket/d", "--no-store")
    assert done.code != 0
    assert {"d/../e", "e"} <= keys.keys()


def test_what_a_store_lists_beside_a_folder_is_not_removed(tmp_path):
    keys = {"d/f": b"1", "e": b"2"}
    with serving(Store(keys, ignored="prefix")) as hither:
        done = hither("rm", "-r", "s3://bucket/d", "--no-store")
        assert hither("cp", "-r", "s3://bucket/d", tmp_path, "--no-store").code != 0
    assert (done.code != 0, list(keys)) == (True, ["d/f", "e"])


def test_an_upload_that_its_bucket_has_aborted_is_begun_anew_by_the_next_run(tmp_path):
    content = bytes(range(256)) * (6 << 12)
    (tmp_path / "f").write_bytes(content)
    forbidden = (403, b"<Error><Code>AccessDenied</Code></Error>")
    store = Store({}, answers={"LIST PARTS": forbidden, "PART 2": forbidden})
    with serving(store) as hither:
        assert hither("cp", tmp_path / "f", "s3://bucket/f").code == FORBIDDEN
        store.answers["PART 2"] = (404, b"<Error><Code>NoSuchUpload</Code></Error>")
        gone = hither("cp", tmp_path / "f", "s3://bucket/f")
        assert (gone.code, "begins anew" in gone.err) == (NOT_FOUND, True), gone.err
        del store.answers["PART 2"]
        done = hither("cp", tmp_path / "f", "s3://bucket/f")
    assert done.code == 0, done.err
    assert (store.log.count("POST"), store.objects["f"] == content) == (2, True)


DELETIONS = {
    "of another key": "<DeleteResult><Deleted><Key>other</Key></Deleted></DeleteResult>",
    "of none": "<DeleteResult/>",
    "another document": "<html/>",
}


@pytest.mark.parametrize("document", DELETIONS.values(), ids=DELETIONS)
def test_what_is_said_to_be_removed_is_removed(document):
    keys = {"a": b"1", "b": b"2"}
    with serving(Store(keys, answers={"DELETE MANY": (200, document.encode())})) as hither:
        removed = hither("rm", "s3://bucket/a", "--no-store")
        assert (removed.code == 0) == ("a" not in keys), removed.err
        moved = hither("mv", "s3://bucket/b", "s3://bucket/c", "--no-store")
        assert (moved.code == 0) == ("b" not in keys), moved.err
