"""Branches that group others, objects, maps and sets, as records, in steps and in libraries."""

import awkward as ak
import pytest
import uproot
from needs import sample
from samples import SAMPLES

import hither

# File, tree, and branches: nested groups, objects, lists of objects, a map, bits.
CASES = [
    ("uproot-issue283.root", "sn_all", ["sn_all_data"]),
    ("uproot-issue-880.root", "Z", ["Event/pK", "Event/xK"]),
    ("uproot-issue-643.root", "ntuple0/objects", ["pf", "calo"]),
    ("issue367b.root", "tree", ["weights"]),
    ("uproot-issue-40.root", "tree", ["bitset8"]),
]


@pytest.fixture(params=CASES, ids=lambda case: case[0])
def case(request, client):
    """Returns hither's tree, uproot's tree and the names of branches."""
    file, name, branches = request.param
    path = sample(SAMPLES / file)
    return hither.open_tree(path, name, client=client), uproot.open(path)[name], branches


@pytest.mark.parametrize("step", ["a third", "20 kB"])
def test_the_steps_of_records_are_the_whole(case, step):
    tree, theirs, names = case
    size = -(-tree.num_entries // 3) if step == "a third" else step
    steps = list(tree.iterate(names, step_size=size, native=True))
    assert len(steps) >= min(3, tree.num_entries)
    assert {str(one.type.content) for one in steps} == {str(tree.arrays(names).type.content)}
    assert ak.concatenate(steps).tolist() == theirs.arrays(names).tolist()


@pytest.mark.parametrize("library", ["np", "pd", "arrow"])
def test_records_have_the_same_values_in_every_library(case, library):
    tree, theirs, names = case
    found = tree.arrays(names, library=library, native=True, entry_stop=20)
    wanted = theirs.arrays(names, entry_stop=20)
    assert list(found.column_names if library == "arrow" else found) == names

    def plain(value):
        """Returns nested lists; records and maps by their values."""
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, dict):
            value = list(value.values())
        return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value

    for name in names:
        column = found[name]
        assert plain(column.to_pylist() if library == "arrow" else list(column)) == plain(wanted[name].tolist())


def test_a_cut_selects_entries_of_records(case):
    tree, theirs, names = case
    found = tree.arrays(names, "Entry$ % 2 == 1", native=True)
    assert found.tolist() == theirs.arrays(names)[1::2].tolist()


def test_the_size_of_a_collection_is_asked_for_by_name(client):
    path = sample(SAMPLES / "uproot-issue-643.root")
    tree = hither.open_tree(path, "ntuple0/objects", client=client)
    found = tree.arrays(["@pf.size()", "pf"])
    assert found["@pf.size()"].tolist() == ak.num(found.pf).tolist()


def test_a_read_of_all_branches_has_each_value_once(client):
    path = sample(SAMPLES / "uproot-issue-643.root")
    tree = hither.open_tree(path, "ntuple0/objects", client=client)
    fields = tree.arrays(entry_stop=1).fields
    records = [info for info in tree.branches if info.record]
    columns = {inner.name for inner in tree.branches for info in records if inner.name.startswith(f"{info.name}.")}
    assert columns
    assert {info.name for info in records}.isdisjoint(fields) != columns.isdisjoint(fields)
