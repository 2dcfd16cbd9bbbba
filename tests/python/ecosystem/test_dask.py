"""Files, filesystems, uproot's trees and datasets on the workers of a Dask cluster."""

import re
import shutil
import sys

import pytest
from needs import python_package, sample

distributed = python_package("distributed")
fsspec = python_package("fsspec")
uproot = python_package("uproot")
ak = python_package("awkward")
dask_awkward = python_package("dask_awkward")

from samples import SAMPLES  # noqa: E402
from serving import access_log, serving, talkfile  # noqa: E402

import hither  # noqa: E402
import hither.uproot  # noqa: E402
from hither.fsspec import HitherFileSystem  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as dask,
    ):
        yield dask


def head(file, at):
    return bytes(file.read_at(at, 8))


def test_files_and_filesystems_open_again_on_workers(cluster, site, client, content):
    path = site.put("f", content)
    with client.open(path) as file:
        assert head(file, 0) == content[:8]
        found = cluster.gather([cluster.submit(head, file, at) for at in range(0, 800, 8)])
    assert b"".join(found) == content[:800]
    fs = HitherFileSystem(client=client, skip_instance_cache=True)
    (found,) = cluster.submit(fs.cat_ranges, [path], [40], [60]).result()
    assert found == content[40:60]


def test_dask_reads_blocks(cluster, site, content):
    bytes_of = python_package("dask.bytes")
    _, blocks = bytes_of.read_bytes("hither" + site.put("f", content), blocksize=300_000, sample=False, store=False)
    parts = cluster.gather(cluster.compute(blocks[0]))
    assert b"".join(parts) == content


def total(tree, start, stop):
    return int(sum(row.sum() for row in tree["E33"].array(entry_start=start, entry_stop=stop, library="np")))


def test_uproots_trees_open_again_on_workers(cluster, client):
    path = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    facts = talkfile.ensure(path, events=3000)
    with serving("nginx", path.resolve().parent) as url:
        tree = uproot.open(f"{url}/{path.name}:{facts['tree']}", handler=hither.uproot.Source, client=client)
        near = uproot.open(f"{path}:{facts['tree']}")
        spans = [(start, start + 500) for start in range(0, 3000, 500)]
        found = cluster.gather([cluster.submit(total, tree, *span) for span in spans])
        assert found == [total(near, *span) for span in spans]


@pytest.fixture(scope="module")
def small():
    path = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    talkfile.ensure(path, events=3000)
    return path


@pytest.fixture
def files(site, client, small):
    return hither.dataset([site.put(f"{at}.root", small.read_bytes()) for at in range(3)], "T", client=client)


def same(ours, theirs):
    assert ak.array_equal(ours, theirs, equal_nan=True)


def test_a_dataset_is_a_collection_with_the_values_of_arrays(files):
    lazy = files.to_dask_awkward(["rawtr", "ntrack", "2*ntrack"], step_size=1000)
    assert lazy.npartitions == 9
    assert lazy.divisions == tuple(range(0, 9001, 1000))
    whole = files.arrays(["rawtr", "ntrack", "2*ntrack"])
    same(lazy.compute(scheduler="threads"), whole)
    same(lazy.rawtr[lazy.ntrack > 12].compute(scheduler="threads"), whole.rawtr[whole.ntrack > 12])


def bytes_of(compute, client):
    """Returns the result of a computation, and the number of file bytes that it fetched."""
    before = client.report.bytes_payload
    return compute(), client.report.bytes_payload - before


def test_only_touched_columns_are_fetched(small, tmp_path, client):
    # A server that accepts many ranges per request: with one range per request, gaps may cost less
    # than requests.
    for at in range(3):
        shutil.copy(small, tmp_path / f"{at}.root")
    with serving("nginx", tmp_path) as url:
        files = hither.dataset([f"{url}/{at}.root" for at in range(3)], "T", client=client)
        lazy = files.to_dask_awkward()
        assert len(lazy.fields) == 152
        everything, all_bytes = bytes_of(lambda: lazy.compute(scheduler="sync"), client)
        total, few_bytes = bytes_of(lambda: ak.sum(lazy.E33, axis=None).compute(scheduler="sync"), client)
        assert total == ak.sum(everything.E33, axis=None)
        needed = sum(tree["E33"].info.compressed_bytes for tree in files)
        opening = 3 * 100_000
        assert few_bytes < needed + opening < all_bytes / 5
        # Counting entries needs none of them.
        count, no_bytes = bytes_of(lambda: dask_awkward.num(lazy, axis=0).compute(scheduler="sync"), client)
        assert (count, no_bytes) == (9000, 0)


def requested_columns(path, asked):
    """The columns of a file of which a whole basket was requested from a server."""
    ranges = [tuple(map(int, it)) for row in asked for it in re.findall(r"(\d+)-(\d+)", row.ranges)]

    def is_requested(branch):
        baskets = zip(branch.member("fBasketSeek"), branch.member("fBasketBytes"), strict=True)
        # Unused places of both lists are 0.
        return any(first <= at < at + size <= last + 1 for at, size in baskets for first, last in ranges)

    return {name for name, branch in uproot.open(path)["T"].items() if is_requested(branch)}


def test_untouched_columns_are_not_requested(small, tmp_path, client):
    shutil.copy(small, tmp_path / "f.root")
    with serving("nginx", tmp_path, tmp_path / "access.log") as url:
        lazy = hither.dataset(f"{url}/f.root", "T", client=client).to_dask_awkward()
        ak.sum(lazy.ntrack, axis=None).compute(scheduler="sync")
    assert requested_columns(small, access_log.read(tmp_path / "access.log", "/f.root")) == {"ntrack"}


def test_partitions_end_where_clusters_do(client):
    files = hither.dataset(sample(SAMPLES / "uproot-HZZ-zstd.root"), "events", client=client)
    lazy = files.to_dask_awkward(["Muon_Px"], step_size=500)
    assert lazy.divisions[0] == 0
    assert lazy.divisions[-1] == files.num_entries
    same(lazy.Muon_Px.compute(scheduler="sync"), files.arrays("Muon_Px").Muon_Px)


def test_collections_are_computed_on_workers(cluster, files):
    lazy = files.to_dask_awkward(step_size=1500)
    assert lazy.npartitions == 6
    total = cluster.compute(ak.sum(lazy.E33[lazy.ntrack > 12], axis=None)).result()
    whole = files.arrays(["E33", "ntrack"])
    assert total == pytest.approx(ak.sum(whole.E33[whole.ntrack > 12], axis=None))


def test_without_dask_awkward_the_error_names_it(files, monkeypatch):
    monkeypatch.delitem(sys.modules, "hither._tree.dask_awkward", raising=False)
    monkeypatch.setitem(sys.modules, "dask_awkward", None)
    with pytest.raises(ImportError, match="pip install dask-awkward"):
        files.to_dask_awkward()


def test_a_missing_column_is_an_error_at_once(files):
    with pytest.raises(KeyError, match="rawtr"):
        files.to_dask_awkward(["rawt"])
