"""What goes to the workers of a cluster: files, filesystems and uproot's trees open again there."""

import pytest

distributed = pytest.importorskip("distributed")
fsspec = pytest.importorskip("fsspec")
uproot = pytest.importorskip("uproot")

from serving import serving, talkfile  # noqa: E402

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
    bytes_of = pytest.importorskip("dask.bytes")
    _, blocks = bytes_of.read_bytes("hither+" + site.put("f", content), blocksize=300_000, sample=False, store=False)
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
