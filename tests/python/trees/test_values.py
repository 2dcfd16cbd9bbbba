"""Native branches of all sample files have uproot's values and uproot's awkward types.

The same call reads branches that are not native through uproot, and the report says so.

Allowed differences:
- A split collection is the record of its members in uproot, and their number in hither.
- uproot keeps names of standard types (`set`, `bitset`) as parameters of lists.
- A member that counts another (`kCounter`) is `int` in ROOT and hither, unsigned in uproot.
- uproot rounds truncated numbers (`Double32_t`) differently: single precision is compared.
- If a branch and its tree have different numbers of entries, uproot reads those of the branch,
  hither those of the tree.
- The bits of referenced objects take six bytes, which uproot reads as one and a half numbers.
"""

import collections
import re
import sys
import warnings

import awkward as ak
import numpy as np
import pytest
import uproot
from samples import REPOSITORY, SAMPLES, coffea_samples

import hither

sys.path.insert(0, str(REPOSITORY / "tests" / "formats"))

# `TVirtualStreamerInfo::kCounter`.
COUNTER = 6
# `TObject::kIsReferenced`.
IS_REFERENCED = 1 << 4
# Entries to read of branches left to uproot.
ENTRIES = 3
FILES = sorted(SAMPLES.glob("*.root"))


NAMED = re.compile(r', parameters=\{"__array__": "(set|bitset)"\}\]')


def kind(array):
    """Return the type without the allowed differences."""
    return NAMED.sub("", str(array.type)).replace("* [var", "* var")


def difference(branch, ours, theirs):
    """Return a description of the first difference that is not allowed, or None."""
    if kind(ours) != kind(theirs):
        is_counter = branch.member("fStreamerType", none_if_missing=True) == COUNTER
        if not is_counter or str(ours.type) != str(theirs.type).replace("uint", "int"):
            return f"{ours.type} for {theirs.type}"
    if ak.array_equal(ours, theirs, equal_nan=True, check_parameters=False) or ours.tolist() == theirs.tolist():
        return None
    if branch.name.endswith("fBits") and ak.any(theirs & IS_REFERENCED):
        return None
    flat = [np.asarray(ak.flatten(it, axis=None)) for it in (ours, theirs)]
    if flat[0].dtype.kind == "f" and len(flat[0]) == len(flat[1]):
        largest = np.nanmax(np.abs(flat[1]), initial=0)
        if np.allclose(*flat, rtol=3e-7, atol=3e-7 * largest, equal_nan=True):
            return None
    return "other values"


def at_once(tree, names):
    """Return all branches, or None if one fails."""
    try:
        found = tree.arrays(names, native=True)
        return {name: found[name] for name in found.fields}
    except hither.HitherError:
        return None


def trees_of(path):
    """Yield the trees of a file that uproot can open: name, uproot's file, key of newest cycle."""
    import oracle

    try:
        file = uproot.open(path)
        trees = oracle.newest_trees(file)
    except Exception:  # noqa: BLE001  whatever uproot cannot do
        return
    for name, key in trees.items():
        yield name, file, key


def compare(path, client, counts):
    """Yield the differences in a file."""
    for name, file, key in trees_of(path):
        try:
            theirs = file[key]
            branches = hither.open_tree(path, name, client=client).branches
        except Exception:  # noqa: BLE001  whatever uproot cannot do, and tests/formats tells about trees
            continue
        tree = hither.open_tree(path, name, client=client)
        listed = collections.Counter(info.name for info in branches)
        keys = set(theirs.keys(full_paths=True))
        own = [info.name for info in branches if not info.unsupported and info.name in keys]
        together = at_once(tree, own)
        for info in branches:
            if info.unsupported or listed[info.name] > 1 or info.name not in keys:
                continue
            try:
                branch = theirs[info.name]
                if isinstance(branch.interpretation, uproot.AsGrouped) or branch.num_entries != tree.num_entries:
                    continue
                wanted = branch.array()
            except Exception:  # noqa: BLE001  whatever uproot cannot do
                continue
            try:
                found = (together or tree.arrays([info.name], native=True))[info.name]
            except NotImplementedError:
                continue
            except Exception as error:  # noqa: BLE001  any other failure is one
                yield f"{name} {info.name}: {type(error).__name__}: {error}"
                continue
            counts["compared"] += 1
            wrong = difference(branch, found, wanted)
            if wrong:
                yield f"{name} {info.name} ({info.typename}, {branch.typename}): {wrong}"


@pytest.mark.slow
def test_every_native_branch_has_the_values_and_the_type_of_uproot():
    if not FILES:
        pytest.skip(f"no sample files in {SAMPLES}")
    warnings.simplefilter("ignore")
    counts = collections.Counter()
    with hither.Client(store=False) as client:
        wrong = [f"{path.name}: {line}" for path in FILES for line in compare(path, client, counts)]
    assert not wrong, "\n".join(wrong)
    assert counts["compared"] > 15_000


def left_to_uproot(path, client, counts):
    """Yield errors in branches left to uproot, which the same call must read and report."""
    for name, file, key in trees_of(path):
        tree = hither.open_tree(path, name, client=client)
        native = {info.name for info in tree.branches if not info.unsupported}
        wanted = {}
        for branch_name, branch in file[key].iteritems(full_paths=True):
            if branch_name in native or isinstance(branch.interpretation, uproot.AsGrouped):
                continue
            try:
                wanted[branch_name] = branch.array(entry_stop=ENTRIES)
            except Exception:  # noqa: BLE001  whatever uproot cannot do
                continue
        counts["native"] += len(native)
        counts["foreign"] += len(wanted)
        if not wanted:
            continue
        types = tree.typenames()
        found = tree.arrays(list(wanted), entry_stop=ENTRIES)
        notices = ", ".join(tree.report.notices) + ","
        for branch_name, theirs in wanted.items():
            if found[branch_name].tolist() != theirs.tolist():
                yield f"{name} {branch_name}: other values"
            if f" {branch_name}," not in notices:
                yield f"{name} {branch_name}: the report does not say that uproot read it"
            if not types.get(branch_name, "(through uproot)").endswith("(through uproot)"):
                yield f"{name} {branch_name}: its type does not say that uproot reads it"


@pytest.mark.slow
def test_coffeas_files_are_read_natively_or_reported_as_read_by_uproot():
    warnings.simplefilter("ignore")
    compared, left = collections.Counter(), collections.Counter()
    files = sorted(coffea_samples().glob("*.root"))
    with hither.Client(store=False) as client:
        for path in files:
            wrong = [f"{path.name}: {line}" for line in compare(path, client, compared)]
            wrong += [f"{path.name}: {line}" for line in left_to_uproot(path, client, left)]
            assert not wrong, "\n".join(wrong)
    assert compared["compared"] > 12_000
    share = left["native"] / (left["native"] + left["foreign"])
    print(f"{share:.1%} of {left.total()} branches are native", file=sys.stderr)
    assert share >= 0.96
