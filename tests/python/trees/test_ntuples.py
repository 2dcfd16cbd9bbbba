"""RNTuples are read through uproot, with the methods for trees."""

import sys
import warnings
from pathlib import Path

import awkward as ak
import pytest
import uproot
from needs import sample
from samples import SAMPLES

import hither
from hither._tree.library import objects
from hither.exceptions import ThroughUprootWarning

FILES = sorted(SAMPLES.glob("*rntuple*.root"))
# It has a thousand fields, which uproot lists in eight seconds, once for hither and once for the
# comparison.
LARGE = SAMPLES / "uproot-physlite-rntuple_v1-0-0-0.root", "EventData"
STAFF = SAMPLES / "ntpl001_staff_rntuple_v1-0-0-0.root"


@pytest.fixture(autouse=True)
def _need_samples():
    sample(STAFF)


def ntuples_of(path):
    """Yields the RNTuples of a file: path, uproot's RNTuple."""
    file = uproot.open(path)
    for key, classname in file.classnames(recursive=True).items():
        if classname == "ROOT::RNTuple":
            yield key.rpartition(";")[0], file[key]


def same(ours, theirs):
    assert ours.type == theirs.type
    assert ak.array_equal(ours, theirs, equal_nan=True) or ours.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    ("path", "is_large"),
    [*((path, False) for path in FILES), pytest.param(LARGE[0], True, marks=pytest.mark.soak)],
    ids=lambda value: value.name if isinstance(value, Path) else LARGE[1] if value else "others",
)
def test_every_field_is_that_of_uproot_after_one_warning(path, is_large, client):
    found = {name: theirs for name, theirs in ntuples_of(path) if ((path, name) == LARGE) == is_large}
    assert found
    assert set(found) <= set(hither.open_root(path, client=client))
    for name, theirs in found.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tree = hither.open_tree(path, name, client=client)
            assert tree.keys() == theirs.keys()
            assert tree.num_entries == theirs.num_entries
            stop = min(tree.num_entries, 1000)
            # A hundred of them one by one; all of them together below.
            for key in tree.keys()[:: -(-len(tree.keys()) // 100)]:
                same(tree[key].array(entry_stop=stop), theirs[key].array(entry_stop=stop))
            whole = tree.arrays(entry_stop=stop)
            same(whole, theirs.arrays(entry_stop=stop))
            assert tree.report.through_uproot == len(whole.fields)
            steps = list(tree.iterate(step_size=-(-stop // 3), entry_stop=stop))
            assert ak.concatenate(steps).tolist() == whole.tolist()
        ours = [str(it.message) for it in caught if it.category is ThroughUprootWarning]
        assert ours == [f"`{name}` is an RNTuple: hither reads it through uproot"]


@pytest.mark.filterwarnings("ignore::hither.exceptions.ThroughUprootWarning")
@pytest.mark.parametrize("library", ["np", "pd", "arrow"])
def test_an_rntuple_of_a_server_needs_no_name_and_comes_in_every_library(site, client, library):
    tree = hither.open_tree(site.put("staff.root", STAFF.read_bytes()), client=client)
    assert tree.name == "Staff"
    assert tree.typenames(filter_name="Age") == {"Age": "std::int32_t (through uproot)"}
    found = tree.arrays(["Age", "Nation"], library=library, entry_stop=9)
    wanted = uproot.open(STAFF)["Staff"].arrays(entry_stop=9)
    for field in ("Age", "Nation"):
        column = found[field]
        assert (column.to_pylist() if library == "arrow" else column.tolist()) == wanted[field].tolist()
    assert sum(len(step) for step in tree.iterate("Age", step_size="1 kB", library="pd")) == tree.num_entries


@pytest.mark.filterwarnings("ignore::hither.exceptions.ThroughUprootWarning")
@pytest.mark.parametrize("stop", [1, 2, None])
@pytest.mark.parametrize("library", ["np", "pd"])
def test_every_field_of_an_rntuple_is_a_column_whatever_its_lengths(client, library, stop):
    """Also where all lists that are read have one length."""
    path = sample(SAMPLES / "test_stl_containers_rntuple_v1-0-0-0.root")
    tree = hither.open_tree(path, client=client)
    for name in tree:
        wanted = tree.arrays([name], entry_stop=stop)[name]
        found = tree.arrays([name], library=library, entry_stop=stop)[name]
        assert len(found) == len(wanted)
        if "var *" in str(wanted.type):
            assert found.dtype == object
            assert list(found) == wanted.tolist()


def test_missing_values_are_none():
    assert objects(ak.Array([1, None, 3]).layout).tolist() == [1, None, 3]


@pytest.mark.filterwarnings("ignore::hither.exceptions.ThroughUprootWarning")
def test_a_dataset_of_rntuples_is_their_entries_one_after_the_other(tmp_path, client):
    for name in ("a.root", "b.root"):
        (tmp_path / name).symlink_to(STAFF)
    files = hither.dataset(tmp_path / "*.root", "Staff", client=client)
    theirs = uproot.open(STAFF)["Staff"].arrays(["Age", "Nation"])
    assert files.num_entries == 2 * len(theirs)
    same(files.arrays(["Age", "Nation"]), ak.concatenate([theirs, theirs]))
    same(ak.concatenate(list(files.iterate(["Age", "Nation"], step_size=1000))), ak.concatenate([theirs, theirs]))


@pytest.mark.filterwarnings("ignore::hither.exceptions.ThroughUprootWarning")
def test_what_uproot_cannot_do_for_an_rntuple_is_refused(client):
    tree = hither.open_tree(STAFF, "Staff", client=client)
    with pytest.raises(NotImplementedError, match="no expressions over an RNTuple"):
        tree.arrays("Age", "Age > 30")
    with pytest.raises(NotImplementedError, match="`Staff` is an RNTuple"):
        tree.arrays("Age", native=True)
    with pytest.raises(KeyError, match="no field `age`; did you mean `Age`"):
        tree.arrays("age")


def test_without_uproot_an_rntuple_is_refused_with_the_way_to_read_it(client, monkeypatch):
    monkeypatch.setitem(sys.modules, "uproot", None)
    with pytest.raises(NotImplementedError, match="install uproot"):
        hither.open_tree(STAFF, "Staff", client=client).keys()
