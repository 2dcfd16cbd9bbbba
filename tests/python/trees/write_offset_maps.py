"""Writes a ROOT file whose branch `a` hither can read up to entry 600 of 1,200.

    python write_offset_maps.py FOLDER

`a` has `n` values per entry. The last entries come from a file that leaves out the positions of
entries (`kGenerateOffsetMap`).
"""

import sys
from array import array
from pathlib import Path

import ROOT


def write(path: Path, first: int, features: list[str]) -> None:
    file = ROOT.TFile(str(path), "RECREATE")
    tree = ROOT.TTree("t", "")
    if features:
        wanted = ROOT.ROOT.TIOFeatures()
        for feature in features:
            wanted.Set(feature)
        tree.SetIOFeatures(wanted)
    tree.SetAutoFlush(200)
    n, a = array("i", [0]), array("f", [0.0] * 8)
    tree.Branch("n", n, "n/I")
    tree.Branch("a", a, "a[n]/F")
    for entry in range(first, first + 600):
        n[0] = entry % 7
        for at in range(n[0]):
            a[at] = entry + at / 8
        tree.Fill()
    file.Write()
    file.Close()


folder = Path(sys.argv[1])
write(folder / "first.root", 0, [])
write(folder / "second.root", 600, ["kGenerateOffsetMap"])
chain = ROOT.TChain("t")
for name in ("first.root", "second.root"):
    chain.Add(str(folder / name))
chain.Merge(str(folder / "both.root"), "fast")
