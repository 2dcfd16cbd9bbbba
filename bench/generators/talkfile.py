"""Generates the talk's file: one tree of 152 branches, of which a query needs two.

The talk (CHEP 2007, "Efficient access to remote data in high energy physics") times
`Tree.Draw("rawtr", "E33>5")` on a tree of 280 MB, where the two branches lie scattered in some
4,800 baskets of about 1.5 KB. That file is not public; this script writes one of the same shape:

- 152 branches, 8,000-byte basket buffers, zlib level 1, AutoFlush off, so every branch writes a
  basket whenever its own buffer is full;
- `rawtr` and `E33` are float[17], 23 % non-zero, exponential, in steps of 1/4. `E44`, of the same
  shape, stands between them, so that no two baskets of the query are neighbours in the file;
- the basket offsets of all branches make the TTree object about 1.2 MB, at the end of the file.

Deterministic: a fixed seed, and ROOT's "reproducible" files (fixed dates and UUID): the same ROOT
version writes the same bytes. Without ROOT, uproot writes an approximation: the same two columns
and cuts, but every branch flushes at the same entry (uproot has no basket buffers of its own), so
there are more and smaller baskets, and the file is some 320 MB.

FILE.json beside FILE.root holds the facts: sizes, baskets, and ROOT's answer to the query.
"""

import argparse
import hashlib
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.generators.generate_once import generate_once, recipe
from bench.harness.paths import DATA
from bench.harness.pyroot import declare, import_root

HERE = Path(__file__).resolve().parent
DEFAULT_OUTPUT = DATA / "talk.root"

TREE = "T"
EXPRESSION = "rawtr"
CUT = "E33>5"
EVENTS = 283_000
BASKET_BYTES = 8_000
HISTOGRAM = {"bins": 120, "lo": 0.0, "hi": 30.0}

SPARSE, GAUSSIAN, EXPONENTIAL, COUNT, FLAG, COUNTER = range(6)


@dataclass(frozen=True)
class Branch:
    """A branch: ROOT's leaf letter, its length, and the distribution that talkfile.cxx samples."""

    name: str
    type: str = "F"
    length: int = 1
    kind: int = GAUSSIAN
    scale: float = 1.0
    step: float = 0.25
    occupancy: float = 1.0


def query_branch(name: str) -> Branch:
    """A calorimeter sum like those of the query: 17 cells, few of them hit."""
    return Branch(name, "F", 17, SPARSE, scale=3.7, step=0.25, occupancy=0.23)


def branches() -> list[Branch]:
    """All 152 branches, in the order in which the tree has them."""
    event = [
        Branch("run", "I", 1, COUNTER, scale=1 / 5000),
        Branch("event", "I", 1, COUNTER, scale=1),
        Branch("lumi", "I", 1, COUNTER, scale=1 / 700),
        Branch("bunch", "I", 1, COUNT, scale=600),
        Branch("orbit", "I", 1, COUNTER, scale=37),
        Branch("time", "D", 1, COUNTER, scale=3),
        Branch("weight", "D", 1, GAUSSIAN, scale=1, step=1 / 256),
        Branch("luminosity", "D", 1, EXPONENTIAL, scale=30, step=1 / 64),
        Branch("trigger", "I", 8, FLAG, occupancy=0.2),
        Branch("quality", "I", 4, FLAG, occupancy=0.9),
        Branch("nvertex", "I", 1, COUNT, scale=3),
        Branch("ntrack", "I", 1, COUNT, scale=12),
        Branch("ncluster", "I", 1, COUNT, scale=20),
        Branch("njet", "I", 1, COUNT, scale=2),
    ]
    vertex = [Branch(f"vertex_{axis}", "D", 2, GAUSSIAN, scale=2, step=1 / 16) for axis in "xyz"]
    vertex += [
        Branch("vertex_chi2", "F", 3, EXPONENTIAL, scale=1.5, step=1 / 32),
        Branch("vertex_ndof", "I", 3, COUNT, scale=8),
    ]
    sums = [query_branch(name) for name in ("E11", "E22", "rawtr", "E44", "E33", "E55", "E66", "E77")]

    detectors: list[Branch] = []
    for detector in ("ecal", "hcal", "tail", "veto", "muon"):
        detectors += [
            Branch(f"{detector}_energy", "F", 10, SPARSE, scale=4, step=1 / 4, occupancy=0.3),
            Branch(f"{detector}_time", "F", 8, GAUSSIAN, scale=6, step=1),
            Branch(f"{detector}_noise", "F", 8, GAUSSIAN, scale=1, step=1 / 2),
            Branch(f"{detector}_sum", "F", 1, EXPONENTIAL, scale=40, step=1 / 8),
            Branch(f"{detector}_max", "F", 1, EXPONENTIAL, scale=9, step=1 / 8),
            Branch(f"{detector}_x", "F", 4, GAUSSIAN, scale=20, step=4),
            Branch(f"{detector}_y", "F", 4, GAUSSIAN, scale=20, step=4),
            Branch(f"{detector}_z", "F", 4, GAUSSIAN, scale=60, step=12),
            Branch(f"{detector}_cell", "I", 8, COUNT, scale=14),
            Branch(f"{detector}_status", "I", 8, FLAG, occupancy=0.05),
            Branch(f"{detector}_nhit", "I", 1, COUNT, scale=20),
            Branch(f"{detector}_pedestal", "D", 2, GAUSSIAN, scale=1, step=1 / 128),
        ]
    for tracker in ("inner", "outer", "forward"):
        detectors += [
            Branch(f"{tracker}_px", "F", 8, GAUSSIAN, scale=3, step=1 / 2),
            Branch(f"{tracker}_py", "F", 8, GAUSSIAN, scale=3, step=1 / 2),
            Branch(f"{tracker}_pz", "F", 8, GAUSSIAN, scale=9, step=3 / 2),
            Branch(f"{tracker}_charge", "I", 8, FLAG, occupancy=0.5),
            Branch(f"{tracker}_chi2", "F", 8, EXPONENTIAL, scale=2, step=1 / 4),
            Branch(f"{tracker}_nhit", "I", 8, COUNT, scale=5),
            Branch(f"{tracker}_dedx", "F", 8, EXPONENTIAL, scale=2, step=1 / 4),
            Branch(f"{tracker}_wire", "I", 12, COUNT, scale=14),
            Branch(f"{tracker}_drift", "F", 12, SPARSE, scale=2, step=1 / 4, occupancy=0.4),
            Branch(f"{tracker}_pulse", "F", 17, SPARSE, scale=8, step=1 / 2, occupancy=0.25),
        ]
    jets = []
    for algorithm in ("cone", "kt"):
        jets += [
            Branch(f"{algorithm}_pt", "F", 4, EXPONENTIAL, scale=12, step=1 / 8),
            Branch(f"{algorithm}_eta", "F", 4, GAUSSIAN, scale=1, step=1 / 32),
            Branch(f"{algorithm}_phi", "F", 4, GAUSSIAN, scale=2, step=1 / 32),
            Branch(f"{algorithm}_mass", "F", 4, EXPONENTIAL, scale=4, step=1 / 8),
            Branch(f"{algorithm}_tag", "I", 4, FLAG, occupancy=0.1),
        ]
    missing = 152 - sum(map(len, (event, vertex, sums, detectors, jets)))
    monitor = [
        Branch(f"monitor{i:02}", "FID"[i % 3], 2 if i % 3 == 2 else 4, GAUSSIAN, scale=6, step=1.0)
        for i in range(missing)
    ]
    # The query's branches lie in the middle of the rest, as they did in the talk's picture.
    return event + vertex + detectors[:45] + sums + detectors[45:] + jets + monitor


def write_with_root(ROOT, path: Path, events: int) -> None:
    declare(ROOT, "talk", (HERE / "talkfile.cxx").read_text())
    ROOT.talk.branches.clear()
    for b in branches():
        ROOT.talk.add(b.name, b.type, b.length, b.kind, b.scale, b.step, b.occupancy)
    if ROOT.talk.write(str(path), events, BASKET_BYTES) != 0:
        sys.exit(f"talkfile: ROOT cannot create {path}")


def facts_with_root(ROOT, path: Path) -> dict:
    """The contents of the file and the answer to the query, according to ROOT."""
    file = ROOT.TFile.Open(str(path))
    tree = file.Get(TREE)
    key = file.GetKey(TREE)
    per_branch = {}
    query = []
    for branch in tree.GetListOfBranches():
        count = branch.GetWriteBasket()
        per_branch[branch.GetName()] = count
        if branch.GetName() in ("rawtr", "E33"):
            sizes = branch.GetBasketBytes()
            query += [(branch.GetBasketSeek(i), sizes[i]) for i in range(count)]
    query.sort()
    adjacent = sum(a[0] + a[1] == b[0] for a, b in pairwise(query))

    tree.SetEstimate(tree.GetEntries() * 17)
    selected = tree.Draw(EXPRESSION, CUT, "goff")
    whole = ROOT.gDirectory.Get("htemp")
    mean, stddev = whole.GetMean(), whole.GetStdDev()
    h = HISTOGRAM
    tree.Draw(f"{EXPRESSION}>>ranged({h['bins']},{h['lo']},{h['hi']})", CUT, "goff")
    ranged = ROOT.gDirectory.Get("ranged")
    return {
        "writer": f"ROOT {ROOT.gROOT.GetVersion()}",
        "entries": int(tree.GetEntries()),
        "branches": len(per_branch),
        "baskets": sum(per_branch.values()),
        "query_baskets": len(query),
        "query_bytes": sum(size for _, size in query),
        "query_adjacent": adjacent,
        "tree_bytes": int(key.GetNbytes()),
        "tree_offset": int(key.GetSeekKey()),
        "selected": int(selected),
        "mean": mean,
        "stddev": stddev,
        "histogram": {
            **h,
            "mean": ranged.GetMean(),
            "stddev": ranged.GetStdDev(),
            "underflow": int(ranged.GetBinContent(0)),
            "overflow": int(ranged.GetBinContent(h["bins"] + 1)),
            "contents": [int(ranged.GetBinContent(i + 1)) for i in range(h["bins"])],
        },
    }


def draw_numpy(b: Branch, first: int, count: int, random):
    """The distributions of talkfile.cxx, from numpy's generator (other numbers, same shape)."""
    import numpy as np

    shape = (count,) if b.length == 1 else (count, b.length)
    if b.kind == SPARSE:
        values = b.step * (1 + np.floor(random.exponential(b.scale, shape) / b.step))
        values[random.random(shape) >= b.occupancy] = 0
    elif b.kind == GAUSSIAN:
        values = b.step * np.round(random.logistic(0, 0.5513 * b.scale, shape) / b.step)
    elif b.kind == EXPONENTIAL:
        values = b.step * np.floor(random.exponential(b.scale, shape) / b.step)
    elif b.kind == COUNT:
        values = np.floor(random.exponential(b.scale, shape))
    elif b.kind == FLAG:
        values = random.random(shape) < b.occupancy
    else:
        values = np.broadcast_to((np.arange(first, first + count) * b.scale).astype("i8"), shape)
    return values.astype({"F": "f4", "D": "f8", "I": "i4"}[b.type])


def write_with_uproot(path: Path, events: int) -> dict:
    """Writes the approximation; returns its facts, computed from the numbers written."""
    import numpy as np
    import uproot

    random = np.random.default_rng(20070903)
    plan = branches()
    dtypes = {"F": "f4", "D": "f8", "I": "i4"}
    kept = []
    step = (BASKET_BYTES - 80) // (17 * 4)
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        tree = file.mktree(
            TREE,
            {b.name: np.dtype((dtypes[b.type], (b.length,) if b.length > 1 else ())) for b in plan},
            initial_basket_capacity=events // step + 2,
        )
        for first in range(0, events, step):
            count = min(step, events - first)
            chunk = {b.name: draw_numpy(b, first, count, random) for b in plan}
            kept.append(chunk[EXPRESSION][chunk["E33"] > 5])
            tree.extend(chunk)
    with uproot.open(path) as file:
        key = file.key(TREE)
        tree = file[TREE]
        sizes = [int(tree[n].basket_key(i).fNbytes) for n in ("rawtr", "E33") for i in range(tree[n].num_baskets)]
        tree_bytes, tree_offset = int(key.fNbytes), int(key.fSeekKey)
        baskets = sum(tree[b.name].num_baskets for b in plan)
    values = np.concatenate(kept).astype("f8")
    h = HISTOGRAM
    edges = np.linspace(h["lo"], h["hi"], h["bins"] + 1)
    # ROOT puts a value at an upper edge into the next bin; numpy would put the last edge into the
    # last bin.
    inside = values[(values >= h["lo"]) & (values < h["hi"])]
    return {
        "writer": f"uproot {uproot.__version__} (approximation)",
        "entries": events,
        "branches": len(plan),
        "baskets": baskets,
        "query_baskets": len(sizes),
        "query_bytes": sum(sizes),
        "query_adjacent": 0,
        "tree_bytes": tree_bytes,
        "tree_offset": tree_offset,
        "selected": len(values),
        "mean": float(values.mean()),
        "stddev": float(values.std()),
        "histogram": {
            **h,
            "mean": float(inside.mean()),
            "stddev": float(inside.std()),
            "underflow": int((values < h["lo"]).sum()),
            "overflow": int((values >= h["hi"]).sum()),
            "contents": [int(n) for n in np.histogram(inside, edges)[0]],
        },
    }


def ensure(
    output: Path = DEFAULT_OUTPUT, events: int = EVENTS, force_uproot: bool = False, quiet: bool = False
) -> dict:
    """Writes the file unless it exists; returns its facts."""

    def write(part: Path) -> dict:
        ROOT = None if force_uproot else import_root()
        if ROOT:
            write_with_root(ROOT, part, events)
            facts = facts_with_root(ROOT, part)
        else:
            facts = write_with_uproot(part, events)
        sha256 = hashlib.sha256(part.read_bytes()).hexdigest()
        return {"sha256": sha256, "tree": TREE, "expression": EXPRESSION, "cut": CUT, **facts}

    made_by = recipe(HERE / "talkfile.py", HERE / "talkfile.cxx", events=events)
    return generate_once(output, made_by, write, quiet=quiet)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="default: %(default)s")
    parser.add_argument("--events", type=int, default=EVENTS, help="default: %(default)s")
    parser.add_argument("--uproot", action="store_true", help="write the approximation even if ROOT is installed")
    arguments = parser.parse_args()
    facts = ensure(arguments.output, arguments.events, arguments.uproot)
    for name, value in facts.items():
        if name != "histogram":
            print(f"{name:16} {value}")


if __name__ == "__main__":
    main()
