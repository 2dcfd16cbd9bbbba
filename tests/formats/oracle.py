"""Compares the values that the reader and uproot read from ROOT files, value by value.

    python tests/formats/oracle.py [--verbose] [FILE ...]

Needs uproot, awkward and numpy, and `hither-bench` (`make build`). Without files it reads all of
../shared/testdata/root, next to the repository.

A branch is compared if uproot can read its values; it is native if the reader has each of its numbers and strings, in
columns of the same lists and values (by digest; truncated numbers to the precision of their range). The reader must
report all other branches as unsupported, with branch and type.
"""

import argparse
import collections
import concurrent.futures
import functools
import gc
import json
import multiprocessing
import os
import pathlib
import resource
import subprocess
import sys
import warnings

import numpy as np
import uproot
import xxhash

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bench.harness.paths import HITHER_BENCH

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DATA = REPOSITORY.parent / "shared" / "testdata" / "root"
TREES = ("TTree", "TNtuple", "TNtupleD")
# Relative to the largest value: 32 bits of a range are coarser than single precision.
TRUNCATED = 3e-7
MAX_MEMORY = 3 << 30


def digest(array):
    array = np.ascontiguousarray(array)
    if array.dtype == bool:
        # uproot passes on the bytes of the file for true
        array = (array.view(np.uint8) != 0).view(np.uint8)
    return xxhash.xxh64(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()).hexdigest()


def columns(layout, suffix="", lists=()):
    """(suffix of the column's name, the expected text of the reader, the values) for each number and string in an
    array."""
    if layout.is_indexed or layout.is_option:
        layout = layout.project()
    kind = layout.parameter("__array__")
    if layout.is_list and kind in ("string", "bytestring"):
        layout = layout.to_ListOffsetArray64(start_at_zero=True)
        offsets = np.asarray(layout.offsets)
        content = np.asarray(layout.content.data)[: offsets[-1]]
        yield suffix, {"values": len(layout), "lists": list(lists), "texts": digest(offsets), "digest": digest(content)}, None
    elif layout.is_regular:
        yield from columns(layout.content[: len(layout) * layout.size], suffix, lists)
    elif layout.is_list:
        layout = layout.to_ListOffsetArray64(start_at_zero=True)
        offsets = np.asarray(layout.offsets)
        yield from columns(layout.content[: offsets[-1]], suffix, (*lists, digest(offsets)))
    elif layout.is_record:
        names = ("first", "second") if kind == "sorted_map" or layout.is_tuple else layout.fields
        for name, field in zip(names, layout.fields, strict=True):
            if name not in ("@num_bytes", "@instance_version", "@pidf"):
                dot = "." if suffix else ""
                yield from columns(layout.content(field)[: len(layout)], f"{suffix}{dot}{name.lstrip('@')}", lists)
    elif layout.is_numpy:
        data = np.asarray(layout.data)
        yield suffix, {"values": data.size, "lists": list(lists), "digest": digest(data)}, data.reshape(-1)
    elif layout.is_unknown:
        yield suffix, {"values": 0, "lists": list(lists)}, np.zeros(0)
    else:
        raise TypeError(f"an array of {type(layout).__name__}")


def newest_trees(file):
    """Path -> uproot key of the highest cycle, for every tree."""
    found = {}
    for key, classname in file.classnames(recursive=True).items():
        if classname in TREES:
            path, _, cycle = key.rpartition(";")
            if path not in found or int(cycle) > found[path]:
                found[path] = int(cycle)
    return {path: f"{path};{cycle}" for path, cycle in found.items()}


def trees_of(file):
    """Yields name and tree of each tree of a file; the exception instead of a tree that uproot cannot read."""
    for name, key in sorted(newest_trees(file).items()):
        try:
            yield name, file[key]
        except Exception as error:  # whatever uproot cannot do
            yield name, error


def arrays_of(tree):
    """Name, branch and array of each branch; the exception instead of an array that uproot cannot read."""
    found = []
    for name, branch in tree.iteritems(recursive=True):
        try:
            found.append((name, branch, branch.array(library="ak")))
        except Exception as error:  # whatever uproot cannot do
            found.append((name, branch, error))
    return found


def parents(column):
    """Returns the columns that a column is a member of, innermost first."""
    while "." in column:
        column = column.rpartition(".")[0]
        yield column
        yield column + "."


class File:
    """The comparison of one file."""

    def __init__(self, path):
        self.path = path
        self.name = pathlib.Path(path).name
        # branches that uproot reads, native ones, and the others by (type, reason)
        self.read, self.native = 0, 0
        self.unsupported = collections.Counter()
        self.wrong = []
        self.lines = []

    def run(self, also=None):
        """Compares; `also` is called with the name of each tree that uproot reads, the tree and `arrays_of` it."""
        warnings.filterwarnings("ignore")
        report = self.dump()
        if report is None:
            return self
        if "error" in report:
            self.wrong.append(report["error"]["text"])
            return self
        with uproot.open(self.path, handler=uproot.MemmapSource) as file:
            trees = newest_trees(file)
            for name in set(trees) ^ set(report["trees"]):
                self.wrong.append(f"trees {sorted(report['trees'])}, uproot finds {sorted(trees)}: {name}")
            for name, tree in trees_of(file):
                if isinstance(tree, Exception):
                    self.lines.append(f"{name}: uproot fails: {type(tree).__name__}")
                    continue
                arrays = arrays_of(tree)
                if name in report["trees"]:
                    self.tree(name, tree, arrays, report["trees"][name])
                if also:
                    also(name, tree, arrays)
        return self

    def dump(self, *options):
        run = subprocess.run([HITHER_BENCH, "dump-columns", *options, self.path], capture_output=True, text=True)
        if run.returncode != 0:
            self.wrong.append(f"the reader ended with {run.returncode}: {run.stderr.strip()[:300]}")
            return None
        return json.loads(run.stdout)["report"]

    @functools.cached_property
    def with_values(self):
        return self.dump("--values")

    def tree(self, path, tree, arrays, report):
        if "error" in report:
            if report["error"]["kind"] != "Unsupported":
                self.wrong.append(f"{path}: {report['error']['text']}")
            return
        if tree.num_entries != report["entries"]:
            self.wrong.append(f"{path}: {report['entries']} entries, uproot has {tree.num_entries}")
        ours = collections.defaultdict(list)
        for index, (name, column) in enumerate(report["columns"]):
            ours[name].append((index, column))
            error = column.get("error")
            if error and (error["kind"] != "Unsupported" or f"`{name}`" not in error["text"]):
                self.wrong.append(f"{path} {name}: {error}")
        for name, branch, array in arrays:
            if isinstance(array, Exception):
                self.lines.append(f"{path} {name}: uproot fails: {type(array).__name__}: {str(array)[:80]!r}")
                continue
            if isinstance(branch.interpretation, uproot.AsGrouped):
                continue
            try:
                wanted = list(columns(array.layout))
            except Exception as error:  # whatever cannot be compared
                self.lines.append(f"{path} {name}: {type(error).__name__}: {str(error)[:80]!r}")
                continue
            if wanted:
                self.branch(path, name, branch, wanted, len(array), ours)

    def branch(self, path, name, branch, wanted, entries, ours):
        self.read += 1
        reasons, wrong = [], []
        for suffix, theirs, values in wanted:
            column = f"{name.removesuffix('.')}.{suffix}" if suffix else name
            found = ours.get(column)
            if not found:
                whole = next((self.error(ours, parent) for parent in parents(column) if parent in ours), None)
                reasons.append(whole["text"] if whole else None)
                if not whole:
                    wrong.append(f"{path} {column} is not listed; uproot has {branch.typename}")
                continue
            index, column = found.pop(0) if len(found) > 1 else found[0]
            if "error" in column:
                reasons.append(column["error"]["text"])
            elif not self.same(path, index, column, theirs, values, entries):
                wrong.append(f"{path} {name} {suffix}: {column}; uproot has {theirs} of {branch.typename}")
        if not reasons and not wrong:
            self.native += 1
            return
        self.wrong += wrong
        for reason in reasons[:1]:
            self.unsupported[(branch.typename, (reason or "").partition(" is unsupported: ")[2])] += 1
            self.lines.append(f"{path} {name} ({branch.typename}): {reason}")

    @staticmethod
    def error(ours, column):
        return ours[column][0][1].get("error")

    def same(self, path, index, column, theirs, values, entries):
        if column["entries"] != entries:
            return False
        if entries == 0 or all(column.get(field) == theirs[field] for field in theirs):
            return True
        if theirs["lists"][:1] == [digest(np.arange(entries + 1))] and column["lists"] == theirs["lists"][1:]:
            # a fixed array of objects: uproot adds a list around it
            theirs = {**theirs, "lists": column["lists"]}
        if values is not None and column["digest"] == digest(values.byteswap()) and theirs["lists"] == column["lists"]:
            # an object that is a separate branch: uproot leaves its members in the byte order of the file
            return True
        apart = [field for field in theirs if column.get(field) != theirs[field]]
        if not apart:
            return True
        if apart == ["lists"] and not any(theirs["lists"]) and theirs["values"] == 0:
            return True
        if apart != ["digest"] or values is None or values.dtype.kind != "f":
            return False
        # truncated numbers: uproot rounds differently from ROOT
        ours = bytes.fromhex(self.with_values["trees"][path]["columns"][index][1]["hex"])
        ours = np.frombuffer(ours, values.dtype.newbyteorder("<"))
        return len(ours) == len(values) and np.allclose(
            ours, values, rtol=TRUNCATED, atol=TRUNCATED * np.nanmax(np.abs(values), initial=0), equal_nan=True
        )


def begin_process():
    # as in conftest.py
    gc.set_threshold(100_000, 50, 100)
    # damaged offsets determine how much memory uproot allocates
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))


def in_processes(function, files):
    """The results of a function for all files, the largest first, from two processes of bounded memory."""
    files = sorted(files, key=lambda path: -os.path.getsize(path))
    # A forked child would wait for threads of fsspec that only its parent has, and would inherit its parent's address
    # space.
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=2, mp_context=spawn, initializer=begin_process) as pool:
        yield from pool.map(function, files)


def compare(path):
    return File(path).run()


def compare_all(files):
    """The comparisons of all files, the largest first."""
    return in_processes(compare, files)


def share(results):
    """The native share of the branches that uproot reads, averaged over files."""
    shares = [result.native / result.read for result in results if result.read]
    return sum(shares) / max(len(shares), 1)


def table(results):
    """Returns the unsupported types as Markdown: for each type the reason, and the numbers of branches and files."""
    branches, files = collections.Counter(), collections.Counter()
    for result in results:
        for kind, count in result.unsupported.items():
            branches[kind] += count
            files[kind] += 1
    native, read = (sum(getattr(result, field) for result in results) for field in ("native", "read"))
    lines = [
        f"Of the {read} branches that uproot {uproot.__version__} reads in the {len(results)} sample files, {native} are"
        f" native, {100 * share(results):.1f} % of a file on average.",
        "The others:",
        "",
        "| type | why | branches | files |",
        "|---|---|---|---|",
    ]
    for kind in sorted(branches, key=lambda kind: (-branches[kind], kind)):
        name, why = (text.replace("|", "\\|") for text in kind)
        lines.append(f"| `{name}` | {why} | {branches[kind]} | {files[kind]} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--verbose", action="store_true", help="print every branch that is not native")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    files = options.files or sorted(map(str, DATA.glob("*.root")))
    if not files:
        print(f"skipped: no test data in {DATA}", file=sys.stderr)
        return 0
    results = []
    for result in compare_all(files):
        results.append(result)
        print(f"{result.name:50} {result.native:5} of {result.read:5} branches native, {len(result.wrong):3} WRONG", flush=True)
        for line in result.wrong:
            print(f"  WRONG {line}")
        for line in result.lines if options.verbose else []:
            print(f"  {line}")
    wrong = sum(len(result.wrong) for result in results)
    native, read = (sum(getattr(result, field) for result in results) for field in ("native", "read"))
    print(f"{len(files)} files; {native} of {read} branches native, on average {100 * share(results):.1f} % of a file; {wrong} WRONG")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
