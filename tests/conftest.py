"""Tests that run concurrently share no files that they write.

`make test` runs pytest three times: on several workers (pytest-xdist); then the tests with emulated links, which need the
machine to themselves, with the mark `netns`, one after the other; then those with machines of their own, with the mark
`pair`, four at a time. Each worker has its own user folders (configuration, data) and a range of ports
(`bench.harness.servers.free_port`). In the first run, all tests of a file run on one worker, because they share fixtures.
The slowest files come first (`LONGEST`, in the order of `pytest --durations`).
"""

import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest

# The programs of `make build`; set before `bench.harness.paths` is imported.
os.environ.setdefault("HITHER_BIN_DIR", str(Path(__file__).resolve().parent.parent / "target/ci"))

# Files that take more than half a minute, the longest first: if one of them started last, it would run alone at the
# end.
LONGEST = [
    "test_values.py",
    "test_third_party.py",
    "test_tree_uploads.py",
    "test_sync.py",
    "test_directory_trees.py",
    "test_oracle.py",
    "test_small_files.py",
    "test_snippets.py",
    "test_root_reading.py",
    "test_http2.py",
    "test_copy.py",
    "test_uproot.py",
    "test_ntuples.py",
    "test_docs.py",
    "test_faults.py",
    "test_source_addresses.py",
]

# More than these tests write. Containers often have less memory for files.
ROOM = 1 << 30


def pytest_configure() -> None:
    # A full collection visits a million objects of uproot and Awkward, and would come every second: 15 % of a long test.
    gc.set_threshold(100_000, 50, 100)
    folder = tempfile.mkdtemp(prefix="hither-tests-")
    for name in ("CACHE", "CONFIG", "STATE", "DATA"):
        os.environ[f"XDG_{name}_HOME"] = os.path.join(folder, name.lower())


@pytest.fixture(autouse=True)
def own_store(monkeypatch, tmp_path_factory):
    """Keeps what a test has learned of a server from others, whose server may get the same port."""
    folder = tmp_path_factory.mktemp("store")
    for name in ("CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))


def secrets() -> dict[str, str]:
    """The environment variables that programs use as credentials, or as the addresses of services that accept them."""
    return {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "BEARER_", "X509_"))}


@pytest.fixture(scope="module", autouse=True)
def leaves_no_secrets():
    """Fails a file that leaves credentials in the environment, which programs of later files would use."""
    before = secrets()
    yield
    assert secrets() == before


@pytest.fixture
def tmp_path(request, tmp_path):
    """In memory for tests that count packets, because a server that waits for a disk responds a round trip late, and for
    those of many files. No such test simulates a power loss."""
    from bench.harness.paths import MEMORY, temporary_folder

    is_in_memory = any(map(request.node.get_closest_marker, ("netns", "in_memory")))
    if not is_in_memory or shutil.disk_usage(MEMORY).free < ROOM:
        yield tmp_path
        return
    with temporary_folder(MEMORY) as folder:
        yield folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
