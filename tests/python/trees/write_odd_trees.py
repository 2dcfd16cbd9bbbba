"""Writes ROOT files with branches that cannot be read completely.

    python write_odd_trees.py FOLDER

- `both.root`: `a` has `n` values per entry; from entry 600 of 1,200 on, the positions of entries
  are omitted (`kGenerateOffsetMap`), which hither does not support. `word` is a string (`/C`),
  empty in every other entry.
- `late.root`: `late` was added when `x` had 5 entries of 10, and has no values for these.
- `bare.root`: `bare` was added after the 10 entries of `x`, and has no basket.
- `empty.root`: `text` is a string (`/C`), which is empty in all entries but two, and `none` in all.
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
    word = bytearray(8)
    tree.Branch("word", word, "word/C")
    for entry in range(first, first + 600):
        n[0] = entry % 7
        for at in range(n[0]):
            a[at] = entry + at / 8
        word[:2] = b"w\0" if entry % 2 else b"\0\0"
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

file = ROOT.TFile(str(folder / "late.root"), "RECREATE")
tree = ROOT.TTree("t", "")
x = array("i", [0])
tree.Branch("x", x, "x/I")
for entry in range(10):
    if entry == 5:
        tree.Branch("late", x, "late/I")
    x[0] = entry
    tree.Fill()
file.Write()
file.Close()

file = ROOT.TFile(str(folder / "bare.root"), "RECREATE")
tree = ROOT.TTree("t", "")
tree.Branch("x", x, "x/I")
for entry in range(10):
    x[0] = entry
    tree.Fill()
tree.Branch("bare", x, "bare/I")
file.Write()
file.Close()

file = ROOT.TFile(str(folder / "empty.root"), "RECREATE")
tree = ROOT.TTree("t", "")
text, none = bytearray(16), bytearray(1)
tree.Branch("text", text, "text/C")
tree.Branch("none", none, "none/C")
for word in (b"", b"a", b"", b"", b"word", b""):
    text[: len(word) + 1] = word + b"\0"
    tree.Fill()
file.Write()
file.Close()
