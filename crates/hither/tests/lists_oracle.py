#!/usr/bin/env python3
"""Regenerates data/lists.root and data/lists_oracle.json: vectors, vectors of vectors, maps and objects in a tree that
ROOT wrote, and what TTree::Draw answers for a table of expressions and cuts.

Needs PyROOT (the PyPI package `ROOT`). The Rust test `oracle::lists` reads the file and evaluates the same cases.
"""

import json
import pathlib
from array import array

import ROOT

DATA = pathlib.Path(__file__).parent / "data"
# per entry: what is in vv, and what is in v
ENTRIES = [([[1, 2], [], [3]], [0.5, 1.5]), ([], []), ([[4]], [2.5, 3.5, 4.5]), ([[], [5, 6, 7]], [1])]
CASES = """
v; v[1]; v+x; v*i; v | vb; vb; vb | v>1; vd; v | vd>2; Length$(v); Sum$(v); Max$(v); v | i>1
vv; vv | vv>2; vv*i; Sum$(vv); Length$(vv); Max$(vv); vv | i>1; i | vv>2; Entry$ | vv>0
Iteration$ | vv>0; vv-Sum$(vv)
m.second; st; st | st>2; vt.fP.fX; vt.fE | vt.fP.fX>1; vt.fE/vt.fP.fZ
"""


def make_tree():
    """Writes the tree."""
    vector = ROOT.std.vector
    branches = {
        "vv": vector("vector<int>")(),
        "v": vector("float")(),
        "vb": vector("bool")(),
        "s": ROOT.std.string(),
        "vd": vector("Double32_t")(),
        "vs": vector("string")(),
        "m": ROOT.std.map("string", "double")(),
        "st": ROOT.std.set("int")(),
        "vt": vector("TLorentzVector")(),
    }
    file = ROOT.TFile(str(DATA / "lists.root"), "recreate")
    tree = ROOT.TTree("T", "lists")
    i, x = array("i", [0]), array("f", [0] * 3)
    tree.Branch("i", i, "i/I")
    tree.Branch("x", x, "x[3]/F")
    for name, variable in branches.items():
        tree.Branch(name, variable, 32000, 0 if name == "vt" else 99)
    for number, (lists, numbers) in enumerate(ENTRIES):
        for variable in branches.values():
            variable.clear()
        for values in lists:
            inner = vector("int")()
            for value in values:
                inner.push_back(value)
            branches["vv"].push_back(inner)
        for value in numbers:
            branches["v"].push_back(value)
            branches["vb"].push_back(value > 1)
            branches["vd"].push_back(value + 0.125)
            branches["vs"].push_back(f"{value:g}")
            branches["m"][f"k{value:g}"] = value
            branches["st"].insert(int(2 * value))
            branches["vt"].push_back(ROOT.TLorentzVector(value, 2 * value, 3 * value, 4 * value))
        branches["s"].assign("abc" * number)
        i[0] = number + 1
        for place in range(3):
            x[place] = 10 * number + place
        tree.Fill()
    tree.Write()
    file.Close()


def main():
    """Writes the file and the answers."""
    ROOT.gROOT.SetBatch(True)
    ROOT.gErrorIgnoreLevel = ROOT.kFatal
    make_tree()
    file = ROOT.TFile(str(DATA / "lists.root"))
    tree = file.Get("T")
    results = []
    for case in CASES.replace("\n", ";").split(";"):
        expression, _, cut = (part.strip() for part in case.partition(" | "))
        if expression:
            n = tree.Draw(expression, cut, "goff")
            values = [tree.GetV1()[place] for place in range(n)]
            results.append({"expression": expression, "cut": cut, "values": values})
    file.Close()
    lines = ",\n".join(f"    {json.dumps(result)}" for result in results)
    text = f'{{\n  "root": {json.dumps(ROOT.gROOT.GetVersion())},\n  "cases": [\n{lines}\n  ]\n}}\n'
    (DATA / "lists_oracle.json").write_text(text)


if __name__ == "__main__":
    main()
