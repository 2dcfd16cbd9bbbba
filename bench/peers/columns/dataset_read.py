"""Reads a tree in many files with hither.dataset.

    python -m bench.peers.columns.dataset_read LIST_OF_URLS WAY TREE BRANCH STORE

WAY is `entries` (opens every file) or `arrays`. Imports are not timed.
"""

import json
import sys
import time
from pathlib import Path

import hither


def main() -> None:
    listed, way, tree, branch, store = sys.argv[1:6]
    urls = Path(listed).read_text().split()
    import awkward as ak

    client = hither.Client(store=store, anonymous=True)
    started = time.monotonic()
    dataset = hither.dataset(urls, tree, client=client)
    if way == "entries":
        values, mean = dataset.num_entries, None
    else:
        found = ak.to_numpy(dataset.arrays([branch])[branch])
        values, mean = len(found), float(found.mean(dtype="f8"))
    seconds = time.monotonic() - started
    print(json.dumps({"selected": values, "mean": mean, "report": {**client.report.as_dict(), "seconds": seconds}}))


if __name__ == "__main__":
    main()
