"""RDataFrame over many files: number and mean of `rawtr` where E33 > 5, timed in C++.

    python -m bench.peers.draw.root_frame [--threads N] [--files N] URL_WITH_{}

Timed from the RDataFrame to the results. Start-up is not: everything is compiled on a local file
before.
"""

import argparse
import json
import sys

from bench.generators import talkfile
from bench.harness.pyroot import root_with

CODE = r"""
#include <chrono>
#include <string>
#include <vector>
#include "ROOT/RDataFrame.hxx"

struct FrameResult { double seconds, selected, sum; };

FrameResult frame_sum(const std::vector<std::string> &files)
{
   using Floats = ROOT::RVec<float>;
   const auto mark = std::chrono::steady_clock::now();
   ROOT::RDataFrame frame("T", files);
   auto chosen = frame.Define("chosen", [](const Floats &rawtr, const Floats &e33) { return Floats(rawtr[e33 > 5]); },
                              {"rawtr", "E33"});
   const auto count = [](const Floats &v) { return double(v.size()); };
   const auto total = [](const Floats &v) {
      double sum = 0;
      for (const float value : v) sum += value;
      return sum;
   };
   auto selected = chosen.Define("count", count, {"chosen"}).Sum<double>("count");
   auto sum = chosen.Define("total", total, {"chosen"}).Sum<double>("total");
   const double found = *selected;
   const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - mark;
   return {seconds.count(), found, *sum};
}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url", help="with {} for the number of the file")
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--threads", type=int, default=0, help="implicit threads; 0 for none")
    arguments = parser.parse_args()
    ROOT, _ = root_with(CODE, arguments.url)
    if arguments.threads:
        ROOT.EnableImplicitMT(arguments.threads)
    ROOT.frame_sum([str(talkfile.DEFAULT_OUTPUT.with_name("warm.root"))])
    found = ROOT.frame_sum([arguments.url.format(number) for number in range(arguments.files)])
    if found.selected == 0:
        sys.exit(f"root_frame: nothing was read from {arguments.url}")
    mean = found.sum / found.selected
    print(json.dumps({"seconds": found.seconds, "selected": int(found.selected), "mean": mean}), flush=True)


if __name__ == "__main__":
    main()
