"""Names of directories in URLs and on nodes."""

import pytest

from hither.cluster._names import below, contents, is_within, last_name


@pytest.mark.parametrize(
    ("path", "directory", "last", "file"),
    [
        ("/data/run 1/.", "/data/run 1", "run 1", "/data/run 1/a b"),
        ("https://h/data/run%201/", "https://h/data/run%201", "run 1", "https://h/data/run%201/a%20b"),
        ("https://h/run?authz=a/b", "https://h/run?authz=a/b", "run", "https://h/run/a%20b?authz=a/b"),
        ("https://h/run/.?authz=a/b", "https://h/run?authz=a/b", "run", None),
        ("root://h//data/run%201", "root://h//data/run%201", "run%201", "root://h//data/run%201/a b"),
        ("s3://bucket/a?b", "s3://bucket/a?b", "a?b", "s3://bucket/a?b/a b"),
    ],
)
def test_a_query_is_no_part_of_a_name(path, directory, last, file):
    assert contents(path) == directory
    assert last_name(path) == last
    if file is not None:
        assert below(path.removesuffix("/."), "a b") == file


def test_a_directory_is_within_itself_whatever_its_query():
    assert is_within("https://h/a/b?authz=1", "https://h/a?authz=2")
    assert not is_within("https://h/ab?authz=1", "https://h/a?authz=2")
    assert is_within("https://h/a%20b/c", "https://h/a b")
