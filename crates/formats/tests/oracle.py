"""Compares what the reader makes of ROOT files with what uproot makes of them, value by value.

    python tests/oracle.py [--dump PATH] [--verbose] [FILE ...]

Needs uproot, awkward and numpy, and the example `dump_columns` (built in release if --dump is not given). Without
files it takes all of ../shared/testdata/root, next to the repository; where that does not exist it says so and passes.

Each column of each tree is one of:
  matched      same type, shape, values and offsets (by digest)
  unsupported  the reader says so, and names branch and type
  unverified   the reader has values, uproot fails on the branch
  WRONG        anything else
"""

import argparse
import json
import pathlib
import subprocess
import sys
import warnings

import awkward as ak
import numpy as np
import uproot
import xxhash

warnings.filterwarnings("ignore")

CRATE = pathlib.Path(__file__).resolve().parent.parent
DATA = CRATE.parent.parent.parent / "shared" / "testdata" / "root"
TREES = ("TTree", "TNtuple", "TNtupleD")


def digest(array):
    array = np.ascontiguousarray(array)
    if array.dtype == bool:
        array = array.view(np.uint8)
    return xxhash.xxh64(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()).hexdigest()


def expected(branch):
    """(suffix of the column's name, dict of what the reader should say) for each column of a branch; None where
    uproot itself finds no numbers."""
    interpretation = branch.interpretation
    if isinstance(interpretation, uproot.AsDtype):
        array = branch.array(library="np")
        if array.dtype.names is None:
            yield "", flat(array)
        else:
            for name in array.dtype.names:
                yield "." + name, flat(array[name])
    elif isinstance(interpretation, uproot.AsJagged) and isinstance(interpretation.content, uproot.AsDtype):
        array = branch.array(library="ak")
        counts = ak.to_numpy(ak.num(array, axis=1)).astype(np.int64)
        content = ak.to_numpy(ak.flatten(array, axis=1))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        out = flat(content)
        out.update(entries=len(array), offsets=digest(offsets))
        yield "", out
    else:
        yield "", None


def flat(array):
    return {"entries": len(array), "values": array.size, "digest": digest(array), "offsets": None}


def same(ours, theirs):
    if theirs["entries"] == 0:
        return ours["entries"] == 0
    return all(ours.get(field) == theirs[field] for field in theirs)


def newest_trees(file):
    """Path -> uproot key of the highest cycle, for every tree."""
    found = {}
    for key, classname in file.classnames(recursive=True).items():
        if classname in TREES:
            path, _, cycle = key.rpartition(";")
            if path not in found or int(cycle) > found[path]:
                found[path] = int(cycle)
    return {path: f"{path};{cycle}" for path, cycle in found.items()}


def compare_tree(tree, report, say):
    counts = dict.fromkeys(("matched", "unsupported", "unverified", "wrong"), 0)
    if "error" in report:
        kind = report["error"]["kind"]
        say(kind, "", f"tree: {report['error']['text']}")
        counts["unsupported" if kind == "Unsupported" else "wrong"] += 1
        return counts
    ours = {}
    for name, column in report["columns"]:
        ours.setdefault(name, []).append(column)
    if tree.num_entries != report["entries"]:
        counts["wrong"] += 1
        say("WRONG", "", f"{report['entries']} entries, uproot has {tree.num_entries}")
    for name, branch in tree.iteritems(recursive=True, full_paths=True):
        try:
            wanted = list(expected(branch))
        except Exception as error:  # whatever uproot cannot do
            wanted = [(suffix, error) for suffix in suffixes(name, ours)]
        for suffix, theirs in wanted:
            columns = ours.get(name + suffix)
            if not columns:
                counts["wrong"] += 1
                say("WRONG", name + suffix, f"is not listed; {branch.typename}")
                continue
            column = columns.pop(0)
            verdict, text = judge(column, theirs, branch)
            counts[verdict] += 1
            if verdict != "matched":
                say(verdict, name + suffix, text)
    for name, left in ours.items():
        for column in left:
            counts["unsupported" if column.get("error", {}).get("kind") == "Unsupported" else "wrong"] += 1
            say("extra", name, f"uproot does not have it: {column}")
    return counts


def suffixes(name, ours):
    if name in ours:
        return [""]
    return [key[len(name) :] for key in ours if key.startswith(name + ".")] or [""]


def judge(column, theirs, branch):
    if "error" in column:
        verdict = "unsupported" if column["error"]["kind"] == "Unsupported" else "wrong"
        if isinstance(theirs, Exception):
            verdict = "unsupported"
        numbers = " (uproot: NUMBERS)" if isinstance(theirs, dict) else ""
        return verdict, column["error"]["text"] + numbers
    if isinstance(theirs, Exception):
        return "unverified", f"{type(theirs).__name__}: {str(theirs).strip().splitlines()[:1]}"
    if theirs is None:
        return "wrong", f"{column}; uproot says {branch.interpretation}"
    if not same(column, theirs):
        return "wrong", f"{column}; uproot has {theirs}, {branch.typename}"
    typename = branch.typename
    if column["type"] != typename and not typename.startswith("struct"):
        return "matched", f"type {column['type']}, uproot says {typename}"
    return "matched", ""


def dump_program():
    command = ["cargo", "build", "--release", "-p", "hither-formats", "--example", "dump_columns", "--message-format=json"]
    out = subprocess.run(command, cwd=CRATE, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [m["executable"] for m in map(json.loads, out.splitlines()) if m.get("executable")][-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump")
    parser.add_argument("--verbose", action="store_true", help="print every column that is not matched")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    files = options.files or sorted(map(str, DATA.glob("*.root")))
    if not files:
        print(f"skipped: no test data in {DATA}", file=sys.stderr)
        return 0
    program = options.dump or dump_program()
    total = dict.fromkeys(("matched", "unsupported", "unverified", "wrong"), 0)
    shares = []
    for path in files:
        run = subprocess.run([program, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        label = pathlib.Path(path).name

        def say(verdict, column, text):
            if verdict in ("wrong", "WRONG") or options.verbose:
                print(f"  {verdict:12} {label} {column}: {text}")

        if run.returncode != 0:
            print(f"  WRONG        {label}: the reader ended with {run.returncode}: {run.stderr.strip()[:300]}")
            total["wrong"] += 1
            continue
        report = json.loads(run.stdout)["report"]
        counts = dict.fromkeys(total, 0)
        with uproot.open(path) as file:
            trees = newest_trees(file)
            if "error" in report:
                counts["wrong"] += 1
                say("wrong", "", report["error"]["text"])
            else:
                for name in set(trees) ^ set(report["trees"]):
                    counts["wrong"] += 1
                    say("wrong", name, f"trees {sorted(report['trees'])}, uproot finds {sorted(trees)}")
                for name in sorted(set(trees) & set(report["trees"])):
                    try:
                        tree = file[trees[name]]
                    except Exception as error:
                        counts["unverified"] += 1
                        say("unverified", name, f"{type(error).__name__} {error}")
                        continue
                    for verdict, n in compare_tree(tree, report["trees"][name], say).items():
                        counts[verdict] += n
        columns = sum(counts.values())
        if columns:
            shares.append(counts["matched"] / columns)
        print(
            f"{label:60} {counts['matched']:5} matched {counts['unsupported']:5} unsupported"
            f" {counts['unverified']:3} unverified {counts['wrong']:3} WRONG",
            flush=True,
        )
        for verdict, n in counts.items():
            total[verdict] += n
    mean = 100 * sum(shares) / max(len(shares), 1)
    print(
        f"{len(files)} files, {len(shares)} with trees; {total['unsupported']} columns unsupported,"
        f" {total['unverified']} unverified; on average {mean:.1f} % of a file's columns matched"
    )
    print(f"{total['matched']} passed, {total['wrong']} failed")
    return 1 if total["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
