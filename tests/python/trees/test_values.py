"""Every branch of every sample file has uproot's values, in the reader and in the Python package.

The reader has them or says `unsupported`, as tests/formats/oracle.py compares. The table of
unsupported types is in docs/formats.md; HITHER_WRITE_TABLE=1 rewrites it.

The package reads every key that uproot lists, with uproot's values and awkward types: natively, or
through uproot, with a warning and a count in the report. No key is refused. Both are compared with
the same arrays, because uproot takes longer than the reader and the package.

Allowed differences:
- A member that counts another (`kCounter`) is `int` in ROOT and hither, unsigned in uproot.
- uproot rounds truncated numbers (`Double32_t`) differently: single precision is compared.
- If a branch and its tree have different numbers of entries, uproot reads those of the branch,
  hither those of the tree.
- uproot adds a list around a fixed array of objects.
- uproot leaves the members of an object that is a separate branch in the byte order of the file.
- The bits of referenced objects take six bytes, which uproot reads as one and a half numbers.
"""

import collections
import os
import sys
import warnings

import awkward as ak
import numpy as np
import pytest
import uproot
from needs import sample
from samples import REPOSITORY, SAMPLES, coffea_samples

import hither

sys.path.insert(0, str(REPOSITORY / "tests" / "formats"))

import oracle

# `TVirtualStreamerInfo::kCounter`.
COUNTER = 6
# `TObject::kIsReferenced`.
IS_REFERENCED = 1 << 4
# Number of entries to read of branches that are read through uproot.
ENTRIES = 3
# Of coffea's files, one for each program that wrote some, and one without entries.
PRODUCERS = [
    "bad_delphes",
    "delphes",
    "edm4hep_ILD_*",
    "edm4hep_example_v01-01_*",
    "nano_dy_empty",
    "nano_tt_v15",
    "p8_ee_WW_*",
    "pduneana",
    "scouting_nano",
    "test_FCC_Spring2021",
    "treemaker",
]
TABLE = REPOSITORY / "docs" / "formats.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
# Share of the branches that are native, averaged over files.
LEAST = 0.90


def difference(branch, ours, theirs):
    """Returns a description of the first difference that is not allowed, or None."""
    if theirs.fields and theirs.ndim > ours.ndim and ak.all(ak.num(theirs) == 1):
        theirs = theirs[:, 0]
    if theirs.fields and ours.fields == theirs.fields:
        inner = (difference(part(branch, field), ours[field], theirs[field]) for field in theirs.fields)
        return next((f"{field}: {wrong}" for field, wrong in zip(theirs.fields, inner, strict=True) if wrong), None)
    if str(ours.type) != str(theirs.type):
        is_counter = branch.member("fStreamerType", none_if_missing=True) == COUNTER
        if not is_counter or str(ours.type) != str(theirs.type).replace("uint", "int"):
            return f"{ours.type} for {theirs.type}"
    # The first comparison is the fastest, and usually sufficient.
    if (
        ours.layout.is_equal_to(theirs.layout)
        or ak.array_equal(ours, theirs, equal_nan=True, check_parameters=False)
        or ours.tolist() == theirs.tolist()
    ):
        return None
    is_referenced = branch.name.endswith("fBits") and ak.any(theirs & IS_REFERENCED)
    flat = [np.asarray(ak.flatten(it, axis=None)) for it in (ours, theirs)]
    if is_referenced or np.array_equal(flat[0], flat[1].byteswap()):
        return None
    if flat[0].dtype.kind == "f" and len(flat[0]) == len(flat[1]):
        largest = np.nanmax(np.abs(flat[1]), initial=0)
        if np.allclose(*flat, rtol=3e-7, atol=3e-7 * largest, equal_nan=True):
            return None
    return "other values"


def part(branch, field):
    """Returns the branch of a field; the branch itself if it has all its members."""
    found = [inner for inner in branch.branches if inner.name == field]
    return found[0] if found else branch


def at_once(tree, names):
    """Returns all branches, or None if one fails."""
    try:
        found = tree.arrays(names, native=True)
        return {name: found[name] for name in found.fields}
    except hither.HitherError:
        return None


def readable(tree, arrays):
    """Returns the branches that uproot can read by their keys, with their arrays."""
    several = collections.Counter(name for name, _, _ in arrays)
    return {
        name: (branch, array)
        for name, branch, array in arrays
        if not isinstance(array, Exception) and several[name] == 1 and len(array) == tree.num_entries
    }


def compare(path, name, wanted, client, counts):
    """Yields the differences in a tree, of which `wanted` has the readable branches."""
    tree = hither.open_tree(path, name, client=client)
    try:
        native = {info.name for info in tree.branches if not info.unsupported}.intersection(wanted)
    except hither.HitherError as error:
        yield f"{name}: {error}"
        return
    together = at_once(tree, list(native))
    foreign = {}
    for key, (branch, array) in wanted.items():
        if key not in native:
            foreign[key] = array
            continue
        try:
            found = (together or tree.arrays([key], native=True))[key]
        except NotImplementedError:
            foreign[key] = array
            continue
        except Exception as error:  # noqa: BLE001  any other failure is one
            yield f"{name} {key}: {type(error).__name__}: {error}"
            continue
        counts["native"] += 1
        wrong = difference(branch, found, array)
        if wrong:
            yield f"{name} {key} ({branch.typename}): {wrong}"
    counts["through uproot"] += len(foreign)
    if foreign:
        yield from left_to_uproot(tree, name, foreign)


def left_to_uproot(tree, name, wanted):
    """Yields errors in keys that are read through uproot: the same call must read them, warn and
    count them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", hither.exceptions.ThroughUprootWarning)
        try:
            found = tree.arrays(list(wanted), entry_stop=ENTRIES)
        except Exception as error:  # noqa: BLE001  every failure is one
            yield f"{name}: {type(error).__name__}: {error}"
            return
    told = [str(it.message) + "," for it in caught if it.category is hither.exceptions.ThroughUprootWarning]
    if len(told) != 1 or tree.report.through_uproot != len(wanted):
        yield f"{name}: {len(told)} warnings, {tree.report.through_uproot} columns through uproot, expected {len(wanted)}"
        return
    # The content of the other branches is known only from their data.
    unsupported = {info.name for info in tree.branches if info.unsupported}
    types = {name: type_ for name, type_ in tree.typenames().items() if name in unsupported}
    for key, theirs in wanted.items():
        if found[key].tolist() != theirs[:ENTRIES].tolist():
            yield f"{name} {key}: other values"
        if f" {key}," not in told[0]:
            yield f"{name} {key}: the warning does not name it"
        if not types.get(key, "(through uproot)").endswith("(through uproot)"):
            yield f"{name} {key}: its type does not say that uproot reads it"


class Package:
    """The comparison of the package's values in one file."""

    def __init__(self, path, client):
        self.path, self.client = path, client
        # Keys by way of reading.
        self.counts, self.wrong = collections.Counter(), []

    def tree(self, name, tree, arrays):
        found = compare(self.path, name, readable(tree, arrays), self.client, self.counts)
        self.wrong += [f"{self.path.name}: {line}" for line in found]


def compare_both(path):
    """Returns the comparisons of the reader and of the package."""
    warnings.simplefilter("ignore")
    with hither.Client(store=False) as client:
        package = Package(path, client)
        return oracle.File(path).run(package.tree), (package.wrong, package.counts)


def compare_package(path):
    """Returns the comparison of the package."""
    warnings.simplefilter("ignore")
    try:
        file = uproot.open(path, handler=uproot.MemmapSource)
    except Exception:  # noqa: BLE001  whatever uproot cannot do
        return [], collections.Counter()
    with file, hither.Client(store=False) as client:
        package = Package(path, client)
        for name, tree in oracle.trees_of(file):
            if not isinstance(tree, Exception):
                package.tree(name, tree, oracle.arrays_of(tree))
    return package.wrong, package.counts


def read_as_uproot_reads(results):
    """Checks that there are no differences; returns the numbers of keys by way of reading."""
    wrong = [line for lines, _ in results for line in lines]
    assert not wrong, "\n".join(wrong)
    total = sum((counts for _, counts in results), collections.Counter())
    print(dict(total), file=sys.stderr)
    return total


@pytest.fixture(scope="module")
def results():
    """The comparisons of the reader and of the package with what uproot reads once."""
    return list(oracle.in_processes(compare_both, sample(SAMPLES).glob("*.root")))


# The first of them that runs does as much work as a hundred other tests.
compares_samples = pytest.mark.timeout(900)


@compares_samples
@pytest.mark.slow
def test_no_value_of_the_reader_is_wrong(results):
    wrong = [f"{reader.name}: {line}" for reader, _ in results for line in reader.wrong]
    assert not wrong, "\n".join(wrong)


@compares_samples
def test_nine_branches_in_ten_are_native(results):
    assert oracle.share([reader for reader, _ in results]) >= LEAST


@compares_samples
def test_the_table_of_what_is_unsupported_is_that_of_the_docs(results):
    text = TABLE.read_text()
    before, _, rest = text.partition(BEGIN)
    committed, _, after = rest.partition(END)
    table = oracle.table([reader for reader, _ in results])
    if os.environ.get("HITHER_WRITE_TABLE"):
        TABLE.write_text(before + BEGIN + table + END + after)
        committed = table
    assert committed == table, "HITHER_WRITE_TABLE=1 writes it anew"


@compares_samples
def test_every_key_of_uproot_is_read_natively_or_reported_as_read_by_uproot(results):
    total = read_as_uproot_reads([package for _, package in results])
    assert total["native"] > 18_000
    assert total["native"] >= 0.97 * total.total()
    # Links, maps, sets and vectors of vectors.
    (physlite,) = [counts for reader, (_, counts) in results if reader.name == "uproot-issue-798.root"]
    assert physlite["native"] >= 0.99 * physlite.total()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patterns", "least"),
    [(PRODUCERS, 8_000), pytest.param(["*"], 12_000, marks=pytest.mark.soak)],
    ids=["a file of each producer", "all"],
)
def test_coffeas_files_are_read_natively_or_reported_as_read_by_uproot(patterns, least):
    found = {pattern: list(coffea_samples().glob(f"{pattern}.root")) for pattern in patterns}
    assert all(found.values()), found
    files = [path for paths in found.values() for path in paths]
    total = read_as_uproot_reads(list(oracle.in_processes(compare_package, files)))
    assert total["native"] > least
    assert total["native"] >= 0.96 * total.total()
