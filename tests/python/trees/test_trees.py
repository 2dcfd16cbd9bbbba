"""Trees as arrays, with uproot's names, types and values."""

import asyncio
import os
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot
from needs import missing, sample
from samples import REPOSITORY, SAMPLES
from serving import serving

import hither
from hither._tree.library import concatenate, merge_fields

NESTED = SAMPLES / "uproot-vectorVectorDouble.root"


@pytest.fixture(scope="session")
def path():
    """The talk's tree with 3,000 entries; created if it is missing."""
    data = REPOSITORY / "target" / "data"
    program = (
        "import sys; from pathlib import Path; from bench.generators import talkfile;"
        "talkfile.ensure(Path(sys.argv[1]), events=3000)"
    )
    subprocess.run([sys.executable, "-c", program, str(data / "small.root")], cwd=REPOSITORY, check=True)
    return data / "small.root"


@pytest.fixture(scope="session")
def theirs(path):
    return uproot.open(f"{path}:T")


@pytest.fixture
def tree(path, client):
    return hither.open_tree(path, "T", client=client)


def same(ours, theirs):
    assert ours.type == theirs.type
    assert ak.array_equal(ours, theirs, equal_nan=True)


def test_names_types_and_entries_are_those_of_uproot(tree, theirs):
    assert tree.num_entries == theirs.num_entries
    assert tree.keys() == theirs.keys()
    assert tree.keys(filter_name="E*") == theirs.keys(filter_name="E*")
    assert tree.keys(filter_name="/^e3./i") == theirs.keys(filter_name="/^e3./i")
    assert tree.keys(filter_name=["run", "raw*"]) == theirs.keys(filter_name=["run", "raw*"])
    assert tree.typenames() == theirs.typenames()
    assert len(tree) == len(theirs)
    assert "rawtr" in tree
    assert tree["rawtr"].typename == "float[17]"


def test_all_branches_are_those_of_uproot(tree, theirs):
    same(tree.arrays(native=True), theirs.arrays())


@pytest.mark.parametrize(
    ("columns", "cut"),
    [
        (["rawtr", "E33"], None),
        (["rawtr", "E33"], "E33>5"),
        (["rawtr", "ntrack"], "ntrack>5"),
        (["ntrack"], "(ntrack>5) & (nvertex<3)"),
        ("rawtr", "ntrack>100000"),
    ],
)
@pytest.mark.parametrize(("start", "stop"), [(None, None), (100, 2999), (-5, None), (3000, 3000)])
def test_cuts_select_the_same_entries_as_in_uproot(tree, theirs, columns, cut, start, stop):
    ours = tree.arrays(columns, cut, entry_start=start, entry_stop=stop)
    same(ours, theirs.arrays(columns, cut=cut, entry_start=start, entry_stop=stop))


def test_expressions_are_computed_in_double_precision(tree, theirs):
    ours = tree.arrays(["rawtr*E33", "ntrack+1", "ntrack>12", "Sum$(rawtr)"])
    raw = theirs.arrays(["rawtr", "E33", "ntrack"])
    assert str(ours["rawtr*E33"].type) == "3000 * 17 * float64"
    assert (
        ours["rawtr*E33"].tolist() == (ak.values_astype(raw.rawtr, float) * ak.values_astype(raw.E33, float)).tolist()
    )
    assert ours["ntrack+1"].tolist() == (raw.ntrack + 1).tolist()
    assert ours["ntrack>12"].tolist() == (raw.ntrack > 12).tolist()
    assert np.allclose(ours["Sum$(rawtr)"], ak.sum(ak.values_astype(raw.rawtr, float), axis=1))


def test_libraries_have_the_same_values(tree):
    columns = ["rawtr", "ntrack"]
    wanted = tree.arrays(columns)
    as_np = tree.arrays(columns, library="np")
    assert as_np["rawtr"].shape == (3000, 17)
    assert np.array_equal(as_np["rawtr"], wanted.rawtr)
    as_pd = tree.arrays(columns, library="pd")
    assert list(as_pd.columns) == columns
    assert as_pd["ntrack"].tolist() == wanted.ntrack.tolist()
    as_arrow = tree.arrays(columns, library="arrow")
    assert as_arrow.to_pylist()[:7] == wanted[:7].tolist()


@pytest.mark.parametrize("library", ["ak", "np", "pd", "arrow"])
def test_lists_of_lists_are_lists_of_lists_everywhere(client, library):
    sample(NESTED)
    wanted = uproot.open(NESTED)["t"].arrays(["x"]).x.tolist()
    found = hither.open_tree(NESTED, "t", client=client).arrays(["x"], library=library, native=True)["x"]
    plain = found.tolist() if library != "arrow" else found.to_pylist()

    def lists(value):
        return [lists(one) for one in value] if hasattr(value, "__len__") else value

    assert lists(plain) == wanted


@pytest.mark.parametrize("library", ["ak", "pd", "arrow"])
def test_a_library_that_is_not_installed_is_named_before_anything_is_read(tree, library, monkeypatch):
    package = {"ak": "awkward", "pd": "pandas", "arrow": "pyarrow"}[library]
    tree.keys()
    read = tree.report.requests
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install {package}") as error:
        tree.arrays(["weight"], library=library)
    assert (error.value.name, tree.report.requests) == (package, read)
    assert len(tree.arrays(["weight"], library="np")["weight"]) == 3000


def test_arrays_are_over_the_memory_of_the_library(tree):
    array = tree.arrays(["weight"], library="np")["weight"]
    assert not array.flags.owndata
    assert array.flags.writeable
    found = ak.to_numpy(tree.arrays(["weight"]).weight)
    assert not found.flags.owndata
    del tree
    assert np.array_equal(array, found)


@pytest.mark.parametrize("step", [1, 700, 1000, 5000, "20 kB", "100 MB"])
@pytest.mark.parametrize("cut", [None, "ntrack>12"])
def test_the_steps_of_an_iteration_are_the_whole(tree, step, cut):
    limits = {"entry_start": 5, "entry_stop": 55} if step == 1 else {}
    steps = list(tree.iterate(["rawtr", "ntrack"], cut, step_size=step, **limits))
    same(ak.concatenate(steps), tree.arrays(["rawtr", "ntrack"], cut, **limits))
    if isinstance(step, int) and cut is None:
        count = 50 if limits else 3000
        assert [len(one) for one in steps] == [min(step, count - at) for at in range(0, count, step)]


def test_an_iteration_can_be_left(tree):
    for step in tree.iterate(["rawtr"], step_size=10):
        assert len(step) == 10
        break
    assert len(tree.arrays(["rawtr"])) == 3000


def test_async_reads_give_the_same_arrays(tree):
    async def use():
        whole = await tree.arrays_async(["rawtr"], "ntrack>12")
        steps = [step async for step in tree.iterate_async(["rawtr"], "ntrack>12", step_size=900)]
        return whole, steps

    whole, steps = asyncio.run(use())
    same(whole, tree.arrays(["rawtr"], "ntrack>12"))
    same(ak.concatenate(steps), whole)


def test_missing_names_are_key_errors_with_suggestions(tree, path, client):
    for use in (lambda: tree["rawt"], lambda: tree.arrays(["rawt"]), lambda: tree.arrays(["2*rawt"])):
        with pytest.raises(KeyError, match="rawtr") as raised:
            use()
        assert isinstance(raised.value, hither.HitherError)
    with pytest.raises(KeyError, match="`T`"):
        _ = hither.open_tree(path, "t", client=client).num_entries
    with pytest.raises(KeyError, match="no tree"):
        hither.open_root(path, client=client)["U"]
    with pytest.raises(FileNotFoundError):
        hither.open_tree(path.with_name("none.root"), "T", client=client)


def test_invalid_arguments_are_value_errors(tree):
    for use in (
        lambda: tree.arrays(["rawtr"], "E33>"),
        lambda: tree.arrays(["ntrack"], "E33>5"),
        lambda: tree.arrays(["rawtr"], library="cobol"),
        lambda: tree.arrays(["rawtr"], filter_name="E*"),
        lambda: tree.arrays(["rawtr[20]"]),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            use()


def test_over_http_two_branches_take_four_round_trips(site, client, path):
    tree = hither.open_tree(site.put("small.root", path.read_bytes()), "T", client=client)
    found = tree.arrays(["rawtr", "E33"], "E33>5")
    assert len(found) == 2981
    assert tree.report.requests <= len(site.requests)
    assert tree.report.bytes_used > 0
    assert tree.report.decode_seconds > 0


def test_root_files_are_mappings_of_their_trees(path, client):
    with hither.open_root(path, client=client) as file:
        assert list(file) == ["T"]
        assert len(file) == 1
        assert file["T"].num_entries == 3000
        assert file["T;1"].num_entries == 3000


def test_trees_pickle(tree):
    again = pickle.loads(pickle.dumps(tree))
    same(again.arrays(["ntrack"]), tree.arrays(["ntrack"]))


@pytest.mark.parametrize(
    ("file", "name", "foreign", "listed"),
    [
        ("uproot-nesteddirs.root", "three/tree", "evt/StdStr", True),
        ("uproot-small-dy-nooffsets.root", "tree", "Muon_pt", False),
    ],
)
@pytest.mark.parametrize("library", ["ak", "np"])
def test_branches_that_are_not_native_come_from_uproot(client, file, name, foreign, listed, library):
    path = sample(SAMPLES / file)
    theirs = uproot.open(path)[name]
    tree = hither.open_tree(path, name, client=client)
    own = next(info.name for info in tree.branches if not info.unsupported and info.name in theirs)
    assert tree.typenames()[foreign].endswith("(through uproot)") == listed
    found = tree.arrays([own, foreign], library=library)
    assert f"read by uproot: {foreign}" in tree.report.notices
    if library == "ak":
        same(found, theirs.arrays([own, foreign]))
    assert list(found if library == "np" else found.fields) == [own, foreign]
    with pytest.raises(NotImplementedError):
        tree.arrays([foreign], native=True)


MUONS = ("uproot-small-dy-nooffsets.root", "tree", ["nMuon", "Muon_pt"])
EVENTS = ("uproot-nesteddirs.root", "three/tree", ["evt/I32", "evt/StdStr"])


@pytest.mark.filterwarnings("ignore::hither.exceptions.ThroughUprootWarning")
@pytest.mark.parametrize(
    ("file", "name", "columns", "cut", "selects"),
    [
        (*MUONS, "nMuon", lambda it: it["nMuon"].array() != 0),
        (*MUONS, "nMuon*1", lambda it: it["nMuon"].array() != 0),
        (*MUONS, "nMuon > 1", lambda it: it["nMuon"].array() > 1),
        (*MUONS, "nMuon && nJet > 2", lambda it: (it["nMuon"].array() != 0) & (it["nJet"].array() > 2)),
        (*MUONS, "!nMuon", lambda it: it["nMuon"].array() == 0),
        (*MUONS, "nMuon - nMuon", lambda it: it["nMuon"].array() < 0),
        (*EVENTS, "evt/I32", lambda it: it["evt/I32"].array() != 0),
        (*EVENTS, "evt/N", lambda it: it["evt/N"].array() != 0),
    ],
)
@pytest.mark.parametrize("library", ["ak", "np", "pd", "arrow"])
def test_a_cut_selects_where_it_is_not_0_also_what_uproot_reads(client, file, name, columns, cut, selects, library):
    path = sample(SAMPLES / file)
    theirs = uproot.open(path)[name]
    tree = hither.open_tree(path, name, client=client)
    selected = selects(theirs)
    steps = list(tree.iterate(columns, cut, step_size=60, library=library))
    assert len(steps) == -(-len(selected) // 60)
    for found in (tree.arrays(columns, cut, library=library), concatenate(steps, library)):
        for column in columns:
            values = found[column].to_pylist() if library == "arrow" else found[column].tolist()
            found_lists = [it if isinstance(it, str) else np.asarray(it).tolist() for it in values]
            assert found_lists == theirs[column].array()[selected].tolist()


@pytest.mark.parametrize("library", ["ak", "np", "pd", "arrow"])
def test_parts_of_different_length_are_no_result(client, library):
    tree = hither.open_tree(sample(SAMPLES / "uproot-small-dy-nooffsets.root"), client=client)
    parts = [tree.arrays(name, entry_stop=stop, library=library) for name, stop in (("nMuon", 99), ("nJet", 100))]
    with pytest.raises(ValueError, match="99 and 100 entries"):
        merge_fields(parts, ["nMuon", "nJet"], library)


@pytest.mark.filterwarnings("ignore::hither.exceptions.ThroughUprootWarning")
@pytest.mark.parametrize("store", [False, True])
def test_an_open_tree_reads_branches_of_uproot_in_its_own_version(site, tmp_path, store):
    url = site.put("f.root", sample(SAMPLES / "uproot-nesteddirs.root").read_bytes())
    columns = ["evt/I32", "evt/StdStr"]
    options = {"store": str(tmp_path) if store else False, "anonymous": True}
    if store:
        with hither.Client(**options) as client:
            hither.open_tree(url, "three/tree", client=client).arrays(columns)
    with hither.Client(**options) as client:
        tree = hither.open_tree(url, "three/tree", client=client)
        assert tree.num_entries == 100
        site.tag = '"2"'
        for _ in range(2):
            with pytest.raises(hither.exceptions.ChangedError):
                tree.arrays(columns)
            with pytest.raises(hither.exceptions.ChangedError):
                list(tree.iterate(columns, step_size=30))
        again = hither.open_tree(url, "three/tree", client=client).arrays(columns)
        assert again[7].tolist() == {"evt/I32": 7, "evt/StdStr": "std-007"}


@pytest.fixture(scope="module")
def odd_trees(tmp_path_factory):
    """ROOT files with branches that cannot be read completely."""
    if find_spec("ROOT") is None:
        missing("ROOT")
    folder = tmp_path_factory.mktemp("odd")
    program = Path(__file__).with_name("write_odd_trees.py")
    subprocess.run([sys.executable, "-W", "ignore", program, folder], check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.mark.parametrize("columns", [None, ["n", "a", "word"]])
def test_steps_go_on_with_uproot_where_a_branch_turns_out_unsupported(odd_trees, client, columns):
    path = odd_trees / "both.root"
    theirs = uproot.open(path)["t"].arrays(["n", "a"])
    # uproot shifts what follows an empty string: the string is read natively beside it.
    theirs["word"] = ["w" if entry % 2 else "" for entry in range(1200)]
    tree = hither.open_tree(path, "t", client=client)
    assert not any(info.unsupported for info in tree.branches)
    with pytest.warns(hither.exceptions.ThroughUprootWarning, match="through uproot: a$"):
        steps = list(tree.iterate(columns, step_size=400))
    assert [len(step) for step in steps] == [400, 400, 400]
    same(ak.concatenate(steps), theirs)
    with pytest.raises(NotImplementedError, match="`a`"):
        list(tree.iterate(columns, step_size=400, native=True))
    files = hither.dataset([path, path], "t", client=client)
    with pytest.warns(hither.exceptions.ThroughUprootWarning):
        same(files.arrays(columns), ak.concatenate([theirs, theirs]))
    with pytest.warns(hither.exceptions.ThroughUprootWarning):
        same(ak.concatenate(list(files.iterate(columns, step_size=500))), ak.concatenate([theirs, theirs]))


@pytest.mark.parametrize(("name", "entries"), [("late", 5), ("bare", 0)])
def test_a_branch_without_some_of_its_entries_is_named(odd_trees, client, name, entries):
    path = odd_trees / f"{name}.root"
    tree = hither.open_tree(path, "t", client=client)
    for read in (tree.arrays, lambda: list(tree.iterate()), hither.dataset([path], "t", client=client).arrays):
        with pytest.raises(
            hither.exceptions.CorruptError, match=rf"{name}\.root: .*branch `{name}`.*{entries} entries.*expected 10"
        ):
            read()
    assert tree.arrays(["x"], library="np")["x"].tolist() == list(range(10))


def test_empty_strings_are_read_natively(odd_trees, client):
    tree = hither.open_tree(odd_trees / "empty.root", "t", client=client)
    for found in (tree.arrays(native=True), ak.concatenate(list(tree.iterate(step_size=2, native=True)))):
        assert found.to_list() == [{"text": text, "none": ""} for text in ("", "a", "", "", "word", "")]


@pytest.fixture
def served(tmp_path):
    """A folder, and its URL."""
    folder = tmp_path / "www"
    folder.mkdir()
    with serving("apache", folder) as url:
        yield folder, url.rstrip("/")


@pytest.mark.parametrize("remote", [False, True])
def test_a_dataset_of_a_name_with_brackets_is_that_file(client, served, remote):
    folder, url = served
    base = url if remote else folder
    for name in ("a[1].root", "a1.root"):
        (folder / name).write_bytes(b"x")
    assert hither.dataset(f"{base}/a[1].root", "T", client=client).urls == [f"{base}/a[1].root"]
    (folder / "a[1].root").unlink()
    assert hither.dataset(f"{base}/a[1].root", "T", client=client).urls == [f"{base}/a1.root"]


def test_a_dataset_passes_over_no_name_that_is_not_utf8(client, served):
    folder, url = served
    (folder / "a1.root").write_bytes(b"x")
    Path(os.fsdecode(os.fsencode(folder) + b"/a\xff.root")).touch()
    with pytest.raises(hither.exceptions.UnsupportedError, match="its name is not UTF-8"):
        hither.dataset(f"{url}/a*.root", "T", client=client)
    assert len(hither.dataset(f"{url}/a[0-9].root", "T", client=client).urls) == 1


def test_datasets_are_their_files_one_after_the_other(tmp_path, client, path, theirs):
    for name in ("a.root", "b.root", "c.root"):
        (tmp_path / name).symlink_to(path)
    files = hither.dataset(tmp_path / "*.root", "T", client=client)
    assert [url.rpartition("/")[2] for url in files.urls] == ["a.root", "b.root", "c.root"]
    assert (len(files), files.num_entries) == (3, 9000)
    one = theirs.arrays(["rawtr", "E33"], cut="E33>5")
    same(files.arrays(["rawtr", "E33"], "E33>5"), ak.concatenate([one] * 3))
    steps = list(files.iterate(["ntrack"], step_size=2000))
    assert [len(step) for step in steps] == [2000, 1000] * 3
    assert files.arrays(["ntrack"], library="np")["ntrack"].shape == (9000,)
    again = pickle.loads(pickle.dumps(files))
    assert again.urls == files.urls
    with pytest.raises(FileNotFoundError):
        hither.dataset(tmp_path / "*.none", "T", client=client)


def test_a_tree_is_named_behind_its_file(path, tree, site, client, tmp_path):
    url = site.put("small.root", path.read_bytes())
    for named in (f"{path}:T", f"{url}:T", f"{path}:T;1"):
        found = hither.open_tree(named, client=client)
        assert (found.url, found.num_entries) == (named.partition(".root")[0] + ".root", tree.num_entries)
        again = pickle.loads(pickle.dumps(found))
        assert (again.url, again.num_entries) == (found.url, tree.num_entries)
    colon = tmp_path / "a:b.root"
    colon.write_bytes(path.read_bytes())
    assert hither.open_tree(colon, client=client).num_entries == tree.num_entries
    assert hither.open_tree(f"{colon}:T", client=client).num_entries == tree.num_entries
    assert hither.open_tree(f"{colon}", "T", client=client).num_entries == tree.num_entries
    for name, end in (("scope:f.root.1", ""), ("scope:run7", ":"), ("x.ROOT.2", ":T")):
        url = site.put(name, path.read_bytes())
        found = hither.open_tree(url + end, client=client)
        assert (found.url, found.num_entries) == (url, tree.num_entries)


def test_a_dataset_takes_the_trees_of_its_files_as_filesets_have_them(path, tree, client):
    text = str(path)
    for files, name in (
        ([f"{text}:T", f"{text}:T"], None),
        (f"{text.replace('small', 's[m]all')}:T", None),
        ({text: "T"}, None),
        ({path: {"object_path": "T", "steps": [[0, 10]]}}, None),
        ({text: None}, "T"),
        ({f"{text}:T": None}, None),
    ):
        found = hither.dataset(files, name, client=client)
        assert (found.path, set(found.urls)) == ("T", {text}), files
        assert found.num_entries == len(found) * tree.num_entries
        assert pickle.loads(pickle.dumps(found)).num_entries == found.num_entries
    two = hither.dataset({text: "T", str(NESTED): "t"}, client=client)
    assert (two.path, [each.name for each in two]) == (None, ["T", "t"])
    with pytest.raises(ValueError, match="pass the files of one data set"):
        hither.dataset({"data": {"files": {text: "T"}}}, client=client)
