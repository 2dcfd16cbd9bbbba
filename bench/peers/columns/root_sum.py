"""Half of the branches of a tree, read by ROOT: TTreeCache, GetEntry, and a sum over all values.

    python -m bench.peers.columns.root_sum URL [--cache BYTES] [--threads]

Timed in C++ (bench/generators/eventfile.cxx) from TFile::Open on; loading libraries and compiling
is not. `--threads` lets ROOT decompress branches in parallel.
"""

import argparse
import json
import sys

from bench.generators import eventfile
from bench.harness.pyroot import root_with


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--cache", type=int, default=-1)
    parser.add_argument("--threads", action="store_true")
    arguments = parser.parse_args()
    ROOT, web = root_with(eventfile.SCRIPT.read_text(), arguments.url)
    if arguments.threads:
        ROOT.EnableImplicitMT()
    result = ROOT.events.sum(arguments.url, web, arguments.cache)
    if result.values < 0:
        sys.exit(f"root_sum: ROOT can't read {arguments.url}")
    seconds = result.open + result.read
    report = {"seconds": seconds, "open": result.open, "requests": result.reads, "bytes_used": result.bytes}
    print(json.dumps({"selected": result.values, "mean": result.sum / result.values, "report": report}))


if __name__ == "__main__":
    main()
