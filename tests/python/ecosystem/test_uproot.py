"""uproot with hither: values, requests, pickles."""

import io
import json
import pickle
import queue
import re
import subprocess
import sys

import pytest
from needs import python_package, require_network_namespaces, sample

ak = python_package("awkward")
uproot = python_package("uproot")

import numpy as np  # noqa: E402
from samples import SAMPLES  # noqa: E402
from serving import (  # noqa: E402
    LINKS,
    Loopback,
    Wan,
    access_log,
    servers,
    serving,
    talkfile,
)

import hither  # noqa: E402
import hither.uproot  # noqa: E402
from hither.fsspec import HitherFileSystem  # noqa: E402


@pytest.fixture(scope="session")
def small():
    """The talk's file with 3,000 events, and ROOT's results for it."""
    path = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    return path, talkfile.ensure(path, events=3000)


@pytest.fixture
def installed():
    hither.uproot.install()
    hither.uproot.install()
    yield
    hither.uproot.uninstall()


def test_every_sample_reads_as_from_disk(client):
    """All trees of all sample files, with uproot's own interpretation."""
    samples = sorted(sample(SAMPLES).rglob("*.root"))
    assert samples
    with serving("nginx", SAMPLES) as url:
        for path in samples[:25]:
            name = path.relative_to(SAMPLES)
            with (
                uproot.open(path) as near,
                uproot.open(f"{url}/{name}", handler=hither.uproot.Source, client=client) as far,
            ):
                assert near.classnames() == far.classnames(), name
                for key, kind in near.classnames().items():
                    if kind != "TTree" or near[key].num_entries > 100_000:
                        continue
                    assert_same_columns(near[key], far[key], f"{name}:{key}")


def assert_same_columns(near, far, where):
    assert near.keys() == far.keys(), where
    for branch in near.keys():  # noqa: SIM118 (a tree iterates over something else)
        try:
            wanted = values(near[branch])
        except Exception as error:  # noqa: BLE001
            with pytest.raises(type(error)):
                values(far[branch])
            continue
        found = values(far[branch])
        is_same = found == wanted if isinstance(wanted, str) else ak.array_equal(found, wanted, equal_nan=True)
        assert is_same, f"{where}/{branch}"


def values(branch):
    """An Awkward array; of objects that none can hold, a text of all without addresses."""
    try:
        return branch.array()
    except Exception:  # noqa: BLE001
        return re.sub(r" at 0x[0-9a-f]+", "", repr(branch.array(library="np").tolist()))


def test_chunks_are_reported_as_they_arrive(site, client, content):
    source = hither.uproot.Source(site.put("f", content), client=client)
    told = queue.Queue()
    ranges = [(900, 1000), (0, 4), (50, 60)]
    chunks = source.chunks(ranges, told)
    assert {id(told.get(timeout=60)) for _ in ranges} == {id(chunk) for chunk in chunks}
    for chunk, (start, stop) in zip(chunks, ranges, strict=True):
        assert chunk.raw_data.tobytes() == content[start:stop]
    assert source.chunks([], told) == []
    assert source.chunk(5, 9).raw_data.tobytes() == content[5:9]
    assert source.num_bytes == len(content)
    counted = source.performance_counters
    assert (counted.num_requests, counted.num_requested_chunks, counted.num_requested_bytes) == (2, 4, 118)
    source.close()
    assert source.closed
    with pytest.raises((OSError, ValueError), match="closed"):
        source.chunks(ranges, told)


def test_failures_are_raised_when_a_chunk_is_awaited(site, client, content):
    told = queue.Queue()
    with hither.uproot.Source(site.put("f", content), client=client) as source:
        (chunk,) = source.chunks([(len(content) - 4, len(content) + 4)], told)
        assert told.get(timeout=60) is chunk
        with pytest.raises(OSError, match="are wanted"):
            chunk.wait()
        short = source.chunk(len(content) - 4, len(content) + 4)
        with pytest.raises(OSError, match="expected Chunk"):
            _ = short.raw_data
    with pytest.raises(FileNotFoundError):
        uproot.open(site.url("gone.root"), handler=hither.uproot.Source, client=client)


def test_sources_and_trees_pickle(small, client):
    path, facts = small
    with serving("nginx", path.parent) as url:
        tree = uproot.open(f"{url}/{path.name}:{facts['tree']}", handler=hither.uproot.Source, client=client)
        wanted = tree["E33"].array(library="np")
        again = pickle.loads(pickle.dumps(tree))
        assert again["E33"].array(library="np").tolist() == wanted.tolist()
        source = pickle.loads(pickle.dumps(tree.file.source))
        assert source.chunk(0, 4).raw_data.tobytes() == b"root"


@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["opened again", "open"])
@pytest.mark.parametrize("way", ["source", "filesystem"])
def test_an_open_file_is_never_read_in_two_versions(small, site, client, monkeypatch, way, seconds):
    monkeypatch.setattr("hither.fsspec._versions.STAT_SECONDS", seconds)
    HitherFileSystem.clear_instance_cache()
    path, facts = small
    url = site.put("f.root", path.read_bytes())
    near = uproot.open(path)[facts["tree"]]
    whole = near["ntrack"].array(library="np").tolist()
    options = {"handler": hither.uproot.Source} if way == "source" else {}
    with uproot.open(url if way == "source" else f"hither{url}", client=client, **options) as file:
        tree = file[facts["tree"]]
        assert tree["ntrack"].array(library="np").tolist() == whole
        site.tag = '"2"'
        for _ in range(2):
            # cat_ranges returns exceptions, which uproot tries to slice.
            with pytest.raises((hither.exceptions.ChangedError, TypeError), match=r"[Cc]hanged"):
                tree["E33"].array()
    with uproot.open(url if way == "source" else f"hither{url}", client=client, **options) as file:
        assert file[facts["tree"]]["ntrack"].array(library="np").tolist() == whole


@pytest.mark.usefixtures("installed")
def test_the_installed_source_reads_remote_files_only(small):
    path, facts = small
    with serving("nginx", path.parent) as url:
        for name in (f"{url}/{path.name}", f"hither{url}/{path.name}"):
            with uproot.open(name) as file:
                assert isinstance(file.file.source, hither.uproot.Source)
        near = uproot.open(f"{path}:{facts['tree']}")
        assert not isinstance(near.file.source, hither.uproot.Source)
        assert uproot.open(io.BytesIO(path.read_bytes()))[facts["tree"]].num_entries == near.num_entries
        with uproot.open(f"{url}/{path.name}", handler=uproot.source.fsspec.FSSpecSource) as file:
            assert not isinstance(file.file.source, hither.uproot.Source)
        found = uproot.concatenate(f"{url}/{path.name}:{facts['tree']}", ["E33"], library="np")
        assert found["E33"].tolist() == near["E33"].array(library="np").tolist()
    hither.uproot.uninstall()
    assert uproot._util.file_path_to_source_class.__module__ == "uproot._util"


COLUMNS = ["rawtr", "E33"]


QUERY = """
import json, sys, hither, numpy, uproot, hither.uproot
from uproot.source.coalesce import CoalesceConfig
way, url, tree, *columns = sys.argv[1:]
client = hither.Client(store=False, anonymous=True)
if way == "source":
    file = uproot.open(url, handler=hither.uproot.Source, client=client)
else:
    file = uproot.open("hither" + url, client=client, coalesce_config=CoalesceConfig(max_range_gap=0))
arrays = file[tree].arrays(columns, library="np")
told = client.report.as_dict()
told["selected"] = int((numpy.concatenate(arrays["E33"]) > 5).sum())
print(json.dumps(told))
"""


def queried(where, way, url, facts):
    words = [sys.executable, "-c", QUERY, way, url, facts["tree"], *COLUMNS]
    done = subprocess.run(where.client(words), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", ["source", "filesystem"])
def test_the_talks_query_fetches_what_it_needs(way, tmp_path):
    path, facts = talkfile.DEFAULT_OUTPUT, talkfile.ensure(talkfile.DEFAULT_OUTPUT)
    needed = facts["query_bytes"] + facts["tree_bytes"]
    with serving("nginx", path.resolve().parent, tmp_path / "access.log") as base:
        told = queried(Loopback(), way, f"{base}/{path.name}", facts)
    logged = access_log.read(tmp_path / "access.log", f"/{path.name}")
    print(
        f"{way}: {told['bytes_payload']} of {needed} bytes, {told['round_trips']} round trips, {len(logged)} requests"
    )
    assert told["selected"] == facts["selected"]
    assert told["requests"] == len(logged)
    # The bytes fetched between baskets depend on the measured round-trip time, and are at most a
    # quarter.
    assert told["bytes_payload"] <= 1.25 * needed


@pytest.mark.netns
def test_the_talks_query_takes_as_many_round_trips_as_hithers_own():
    """The ends of the file, the tree, the data."""
    require_network_namespaces()
    path, facts = talkfile.DEFAULT_OUTPUT, talkfile.ensure(talkfile.DEFAULT_OUTPUT)
    where = Wan(LINKS["G"], real_time=True)
    with where, servers.nginx(where, path.resolve().parent) as port:
        host, reached = where.reach(port)
        for way in ("source", "filesystem"):
            told = queried(where, way, f"http://{host}:{reached}/{path.name}", facts)
            assert told["selected"] == facts["selected"]
            assert told["round_trips"] <= 4, (way, told)


def test_threads_of_uproot_read_at_once(small, client):
    path, facts = small
    with serving("nginx", path.parent) as url:
        with uproot.open(f"{url}/{path.name}:{facts['tree']}", handler=hither.uproot.Source, client=client) as tree:
            steps = list(tree.iterate(["E33"], step_size=500, library="np"))
        near = uproot.open(f"{path}:{facts['tree']}")["E33"].array(library="np")
        assert np.concatenate([step["E33"] for step in steps]).tolist() == near.tolist()
