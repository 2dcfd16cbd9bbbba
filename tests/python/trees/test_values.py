"""Every key that uproot lists in the sample files is read with uproot's values and awkward types.

It is read natively, or through uproot, with a warning and a count in the report. No key is refused.

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
import contextlib
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

# `TVirtualStreamerInfo::kCounter`.
COUNTER = 6
# `TObject::kIsReferenced`.
IS_REFERENCED = 1 << 4
# Number of entries to read of branches that are read through uproot.
ENTRIES = 3
FILES = sorted(SAMPLES.glob("*.root"))


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


def trees_of(path):
    """Yields the trees of a file that uproot can open: name, uproot's tree."""
    import oracle

    try:
        file = uproot.open(path, handler=uproot.MemmapSource)
        trees = oracle.newest_trees(file)
    except Exception:  # noqa: BLE001  whatever uproot cannot do
        return
    for name, key in trees.items():
        tree = None
        with contextlib.suppress(Exception):  # whatever uproot cannot do
            tree = file[key]
        if tree is not None:
            yield name, tree


def readable(tree):
    """Returns the branches that uproot can read by their keys, with their arrays."""
    several = collections.Counter(tree.keys(recursive=True))
    found = {}
    for key, branch in tree.iteritems(recursive=True):
        with contextlib.suppress(Exception):  # whatever uproot cannot do
            array = branch.array()
            if several[key] == 1 and len(array) == tree.num_entries:
                found[key] = branch, array
    return found


def compare(path, client, counts):
    """Yields the differences in a file."""
    for name, theirs in trees_of(path):
        wanted = readable(theirs)
        tree = hither.open_tree(path, name, client=client)
        try:
            native = {info.name for info in tree.branches if not info.unsupported}.intersection(wanted)
        except hither.HitherError as error:
            yield f"{name}: {error}"
            continue
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


def compare_file(path):
    """Returns the name and the differences of a file, and the numbers of keys by way of reading."""
    warnings.simplefilter("ignore")
    counts = collections.Counter()
    with hither.Client(store=False) as client:
        return path.name, [f"{path.name}: {line}" for line in compare(path, client, counts)], counts


def compare_all(files):
    """Checks that there are no differences; returns how the keys of each file were read."""
    import oracle

    results = list(oracle.in_processes(compare_file, files))
    wrong = [line for _, lines, _ in results for line in lines]
    assert not wrong, "\n".join(wrong)
    return {name: counts for name, _, counts in results}


# As much work as a hundred other tests.
@pytest.mark.timeout(900)
@pytest.mark.slow
def test_every_key_of_uproot_is_read_natively_or_reported_as_read_by_uproot():
    sample(SAMPLES)
    counts = compare_all(FILES)
    total, physlite = sum(counts.values(), collections.Counter()), counts["uproot-issue-798.root"]
    print(dict(total), dict(physlite), file=sys.stderr)
    assert total["native"] > 18_000
    assert total["native"] >= 0.97 * total.total()
    # Links, maps, sets and vectors of vectors.
    assert physlite["native"] >= 0.99 * physlite.total()


@pytest.mark.slow
def test_coffeas_files_are_read_natively_or_reported_as_read_by_uproot():
    counts = compare_all(sorted(coffea_samples().glob("*.root")))
    total = sum(counts.values(), collections.Counter())
    print(dict(total), file=sys.stderr)
    assert total["native"] > 12_000
    assert total["native"] >= 0.96 * total.total()
