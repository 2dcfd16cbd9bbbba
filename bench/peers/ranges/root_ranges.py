"""Many ranges of one file in one call of ROOT (TFile::ReadBuffers, the call behind TTreeCache), timed in C++.

    python root_ranges.py URL RANGES OUTPUT       RANGES: a line for each range, with its first byte and its length

The file has to be a ROOT file. Loading libraries is not timed, opening the file is.
"""

import json
import sys
import warnings

CODE = r"""
#include <chrono>
#include <fstream>
#include <memory>
#include <vector>
#include "TFile.h"
#if __has_include("TWebFile.h")
#include "TWebFile.h"
#endif

// Seconds, or -1 where it failed.
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
   std::unique_ptr<TFile> file;
#if __has_include("TWebFile.h")
   // The plug-in for http names a constructor that does not exist (ROOT 6.40's wheel); the class works.
   if (web) file.reset(new ROOT::Deprecated::TWebFile(url, ""));
#endif
   if (!file) file.reset(TFile::Open(url));
   if (!file || file->IsZombie()) return -1;
   // Returns true where it failed.
   if (file->ReadBuffers(bytes.data(), first.data(), length.data(), static_cast<Int_t>(first.size()))) return -1;
   const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
   std::ofstream(output, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(total));
   return took.count();
}
"""


def main() -> None:
    url, ranges, output = sys.argv[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ROOT
    ROOT.gROOT.SetBatch(True)
    ROOT.gErrorIgnoreLevel = ROOT.kError
    handler = ROOT.gROOT.GetPluginManager().FindHandler("TFile", url)
    web = bool(handler) and handler.GetClass() == "ROOT::Deprecated::TWebFile"
    if web:
        ROOT.gSystem.Load("libNet")
    elif handler:
        handler.LoadPlugin()
    ROOT.gInterpreter.Declare(CODE)
    seconds = ROOT.ranges_read(url, web, ranges, output)
    if seconds < 0:
        sys.exit(f"root_ranges: ROOT can't read the ranges of {url}")
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
