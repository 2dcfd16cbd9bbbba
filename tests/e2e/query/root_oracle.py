"""Queries ROOT in a separate process.

    python root_oracle.py < TASKS

TASKS is JSON: {"write": {FILE: COMPRESSION}, "draw": [[FILE, TREE, QUERIES], ...]}. `write` writes a small tree with every
shape of leaf to each file; QUERIES are [[expression, cut, bins, lo, hi], ...]. Prints the results of each `draw` as JSON.
"""

import json
import sys
import warnings

WRITE = r"""
#include "TFile.h"
#include "TTree.h"
void write_shapes(const char *path, int compression)
{
   TFile file((std::string(path) + "?reproducible=shapes.root").c_str(), "RECREATE", "", compression);
   TTree tree("shapes", "");
   tree.SetAutoFlush(0);
   int n;
   float jagged[9], matrix[3][2];
   double number;
   Short_t small[4];
   Bool_t flag;
   Long64_t large;
   UChar_t byte;
   tree.Branch("n", &n, "n/I", 2000);
   tree.Branch("jagged", jagged, "jagged[n]/F", 2000);
   tree.Branch("matrix", matrix, "matrix[3][2]/F", 2000);
   tree.Branch("number", &number, "number/D", 2000);
   tree.Branch("small", small, "small[4]/S", 2000);
   tree.Branch("flag", &flag, "flag/O", 2000);
   tree.Branch("large", &large, "large/L", 2000);
   tree.Branch("byte", &byte, "byte/b", 2000);
   unsigned state = 1;
   auto next = [&state] { return (state = state * 1664525u + 1013904223u) >> 8; };
   for (int entry = 0; entry < 5000; ++entry) {
      n = next() % 10;
      for (int i = 0; i < n; ++i) jagged[i] = next() % 1000 / 8.0f;
      for (auto &row : matrix) for (auto &x : row) x = next() % 100 / 4.0f - 10;
      number = next() % 100000 / 1000.0;
      for (auto &x : small) x = static_cast<Short_t>(next() % 200) - 100;
      flag = next() % 3 == 0;
      large = 1000000007ll * (next() % 1000);
      byte = next() % 256;
      tree.Fill();
   }
   file.Write();
}
"""


def main() -> None:
    tasks = json.load(sys.stdin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ROOT
    ROOT.gROOT.SetBatch(True)
    ROOT.gErrorIgnoreLevel = ROOT.kError
    ROOT.gInterpreter.Declare(WRITE)
    for path, compression in tasks["write"].items():
        ROOT.write_shapes(path, compression)
    print(json.dumps([draw(ROOT, *task) for task in tasks["draw"]]))


def draw(ROOT, path: str, name: str, questions: list) -> list[dict]:  # noqa: N803
    file = ROOT.TFile.Open(path)
    tree = file.Get(name)
    answers = []
    for expression, cut, bins, lo, hi in questions:
        selected = tree.Draw(f"{expression}>>h({bins},{lo},{hi})", cut, "goff")
        h = ROOT.gDirectory.Get("h")
        answers.append(
            {
                "selected": int(selected),
                "mean": h.GetMean(),
                "stddev": h.GetStdDev(),
                "underflow": h.GetBinContent(0),
                "overflow": h.GetBinContent(bins + 1),
                "counts": [h.GetBinContent(i + 1) for i in range(bins)],
            }
        )
        h.Delete()
    file.Close()
    return answers


if __name__ == "__main__":
    main()
