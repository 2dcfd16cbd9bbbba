"""The talk's query with ROOT: TTree::Draw("rawtr", "E33>5") on a URL, timed in C++.

    python -m bench.peers.draw.root_draw URL [--cache BYTES] [--entries N]

TFile::Open, the tree and Draw are timed. Start-up is not: libraries and the plug-in of the protocol
are loaded, and the formula's code is compiled on a small tree in memory, before.
"""

import argparse
import json
import sys

from bench.harness.pyroot import root_with

CODE = r"""
#include <chrono>
#include <memory>
#include "TH1.h"
#include "TTree.h"

struct TalkResult {
   double open = 0, tree = 0, draw = 0, mean = 0, stddev = 0;
   long long selected = -1, reads = 0, reads_opening = 0, bytes = 0;
};

// cache < 0 keeps ROOT's default.
TalkResult talk_draw(const char *url, bool web, long long cache, long long entries)
{
   using Clock = std::chrono::steady_clock;
   const auto since = [](Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); };
   TalkResult result;
   auto mark = Clock::now();
   std::unique_ptr<TFile> file(open_url(url, web));
   result.open = since(mark);
   if (!file || file->IsZombie()) return result;
   mark = Clock::now();
   auto tree = file->Get<TTree>("T");
   result.tree = since(mark);
   result.reads_opening = file->GetReadCalls();
   if (!tree) return result;
   mark = Clock::now();
   if (cache >= 0) tree->SetCacheSize(cache);
   // Draw buffers this many values before it chooses the histogram's range: all, so that mean and deviation are
   // those of the values and not of bins.
   tree->SetEstimate(tree->GetEntries() * 17 + 1);
   result.selected = tree->Draw("rawtr", "E33>5", "goff", entries);
   result.draw = since(mark);
   if (auto h = dynamic_cast<TH1 *>(gDirectory->Get("htemp"))) {
      result.mean = h->GetMean();
      result.stddev = h->GetStdDev();
   }
   result.reads = file->GetReadCalls();
   result.bytes = file->GetBytesRead();
   return result;
}

void talk_warm_up()
{
   TTree tree("T", "");
   tree.SetDirectory(nullptr);
   float rawtr[17] = {0}, e33[17] = {0};
   tree.Branch("rawtr", rawtr, "rawtr[17]/F");
   tree.Branch("E33", e33, "E33[17]/F");
   e33[3] = 6;
   for (int i = 0; i < 300; ++i) tree.Fill();
   tree.Draw("rawtr", "E33>5", "goff");
}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--cache", type=int, default=-1)
    parser.add_argument("--entries", type=int, default=1_000_000_000, help="draw only the first ones")
    arguments = parser.parse_args()

    ROOT, web = root_with(CODE, arguments.url)
    ROOT.talk_warm_up()

    result = ROOT.talk_draw(arguments.url, web, arguments.cache, arguments.entries)
    if result.selected < 0:
        sys.exit(f"root_draw: ROOT can't draw from {arguments.url}")
    print(
        json.dumps(
            {
                "seconds": result.open + result.tree + result.draw,
                "open": result.open,
                "tree": result.tree,
                "draw": result.draw,
                "selected": result.selected,
                "mean": result.mean,
                "stddev": result.stddev,
                "reads": result.reads,
                "reads_opening": result.reads_opening,
                "bytes": result.bytes,
            }
        )
    )


if __name__ == "__main__":
    main()
