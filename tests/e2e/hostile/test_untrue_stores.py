"""A store whose objects are not those that were uploaded, or change meanwhile: no object is lost. The table of
`behaviours/changes` has the other responses to changes."""

import pytest
from behaviours.storages.object_store import Store, serving

LARGE = bytes(range(256)) * (6 << 12)
"""More than one part of an upload."""
OLD = {"d/a": b"old", "d/b": b"two"}


def test_an_object_of_the_same_size_is_not_the_one_that_was_uploaded(tmp_path):
    (tmp_path / "large").write_bytes(LARGE)
    store = Store({"d/a": LARGE[::-1]}, untrue="COMPLETE")
    with serving(store) as hither:
        done = hither("cp", str(tmp_path / "large"), "s3://bucket/d/a", "--no-store")
    assert (done.code != 0, "may show changes late" in done.err) == (True, True), done.err
    assert store.objects == {"d/a": LARGE[::-1]}
    assert store.log.count("COMPLETE") == 1, store.log


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
