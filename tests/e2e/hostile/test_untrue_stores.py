"""A store that confirms changes that it has not made, and one whose objects change meanwhile: responses are verified,
and no object is lost."""

import pytest
from object_store import Store, serving

LARGE = bytes(range(256)) * (6 << 12)
"""More than one part of an upload."""
ERROR = b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"
OLD = {"d/a": b"old", "d/b": b"two"}


@pytest.mark.parametrize(
    ("untrue", "objects", "verb"),
    [
        ("PUT", {}, ["cp", "new", "s3://bucket/d/a"]),
        ("PUT", OLD, ["cp", "new", "s3://bucket/d/a"]),
        ("COMPLETE", {}, ["cp", "large", "s3://bucket/d/a"]),
        ("COMPLETE", {"d/a": LARGE[::-1]}, ["cp", "large", "s3://bucket/d/a"]),
        ("COPY", OLD, ["mv", "s3://bucket/d/a", "s3://bucket/d/c"]),
        ("COPY", OLD, ["mv", "s3://bucket/d/a", "s3://bucket/d/b"]),
        ("DELETE", OLD, ["mv", "s3://bucket/d/a", "s3://bucket/d/c"]),
        ("DELETE", OLD, ["rm", "s3://bucket/d/a"]),
        ("DELETE", OLD, ["rm", "-r", "s3://bucket/d"]),
    ],
)
def test_a_confirmed_change_that_a_look_contradicts_is_an_error(tmp_path, untrue, objects, verb):
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "large").write_bytes(LARGE)
    store = Store(dict(objects), untrue=untrue)
    verb = [str(tmp_path / word) if word in ("new", "large") else word for word in verb]
    with serving(store) as hither:
        done = hither(*verb, "--no-store")
    assert done.code != 0, store.log
    assert "may show changes late" in done.err, done.err
    if untrue != "DELETE" or verb[0] == "rm":
        assert store.objects == objects
    assert store.log.count(untrue) == (len(objects) if "-r" in verb else 1), store.log


CLAIMS = {
    "an error": (200, ERROR),
    "no code": (200, b"<Error><Message>no</Message></Error>"),
    "nothing": (200, b""),
    "accepted": (202, b""),
    "another document": (200, b"<ListBucketResult/>"),
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS.keys())
@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("COPY", ["mv", "s3://bucket/d/a", "s3://bucket/d/c"]),
        ("COMPLETE", ["cp", "large", "s3://bucket/d/c"]),
        ("DELETE", ["rm", "s3://bucket/d/a"]),
    ],
)
def test_a_success_without_the_document_of_one_is_not_believed(tmp_path, claim, name, verb):
    (tmp_path / "large").write_bytes(LARGE)
    store = Store(dict(OLD), answers={name: claim})
    with serving(store) as hither:
        done = hither(*(str(tmp_path / "large") if word == "large" else word for word in verb), "--no-store")
    assert done.code != 0, done.err
    assert store.objects == OLD
    assert store.log.count(name) == 1, store.log


@pytest.mark.parametrize("has_conditions", [True, False])
@pytest.mark.parametrize("moment", ["COPY", "DELETE"])
def test_a_rename_removes_only_the_version_that_it_has_copied(has_conditions, moment):
    store = Store(
        dict(OLD), before={moment: lambda objects: objects.update({"d/a": b"newer"})}, has_conditions=has_conditions
    )
    with serving(store) as hither:
        done = hither("mv", "s3://bucket/d/a", "s3://bucket/d/c", "--no-store")
    if moment == "DELETE" and not has_conditions:
        # No check can detect a change between itself and the request.
        assert (done.code, store.objects) == (0, {"d/b": b"two", "d/c": b"old"})
        return
    assert done.code != 0
    assert "changed" in done.err, done.err
    assert store.objects["d/a"] == b"newer"


def test_a_rename_takes_seven_requests():
    store = Store(dict(OLD))
    with serving(store) as hither:
        done = hither("mv", "s3://bucket/d/a", "s3://bucket/d/c", "--no-store")
    assert (done.code, store.objects) == (0, {"d/b": b"two", "d/c": b"old"}), done.err
    # The command has checked for directories before.
    assert store.log == ["HEAD", "LIST", "HEAD", "HEAD", "COPY", "HEAD", "HEAD", "DELETE", "HEAD"]


def test_a_tree_is_looked_at_by_lists(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    for number in range(20):
        (folder / f"file{number}").write_bytes(b"%d" % number)
    store = Store({})
    with serving(store) as hither:
        assert hither("cp", "-r", folder, "s3://bucket/d", "--no-store").code == 0
        assert len(store.objects) == 20
        heads = store.log.count("HEAD")
        store.log.clear()
        assert hither("rm", "-r", "s3://bucket/d", "--no-store").code == 0
    assert store.objects == {}
    assert heads <= 4, heads
    assert (store.log.count("LIST"), store.log.count("DELETE")) == (2, 20), store.log
