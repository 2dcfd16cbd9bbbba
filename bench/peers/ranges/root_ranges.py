"""Many ranges of one file in one call of ROOT (TFile::ReadBuffers, as TTreeCache), timed in C++.

    python -m bench.peers.ranges.root_ranges URL RANGES OUTPUT    RANGES: lines of OFFSET LENGTH

The file has to be a ROOT file. Loading libraries is not timed, opening the file is.
"""

import json
import sys

from bench.harness.pyroot import root_with

CODE = r"""
#include <chrono>
#include <fstream>
#include <memory>
#include <vector>

// Seconds, or -1 if it failed.
double ranges_read(const char *url, bool web, const char *list, const char *output)
{
   std::vector<Long64_t> first;
   std::vector<Int_t> length;
   std::size_t total = 0;
   std::ifstream ranges(list);
   for (Long64_t f, l; ranges >> f >> l; total += l) {
      first.push_back(f);
      length.push_back(static_cast<Int_t>(l));
   }
   std::vector<char> bytes(total);
   const auto started = std::chrono::steady_clock::now();
   std::unique_ptr<TFile> file(open_url(url, web));
   if (!file || file->IsZombie()) return -1;
   // Returns true if it failed.
   if (file->ReadBuffers(bytes.data(), first.data(), length.data(), static_cast<Int_t>(first.size()))) return -1;
   const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
   std::ofstream(output, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(total));
   return took.count();
}
"""


def main() -> None:
    url, ranges, output = sys.argv[1:]
    ROOT, web = root_with(CODE, url)
    seconds = ROOT.ranges_read(url, web, ranges, output)
    if seconds < 0:
        sys.exit(f"root_ranges: ROOT can't read the ranges of {url}")
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
