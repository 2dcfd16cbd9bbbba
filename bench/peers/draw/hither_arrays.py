"""The talk's query with the Python package: both columns as one Awkward array, then NumPy.

    python -m bench.peers.draw.hither_arrays URL WARM_UP_FILE [--entries N] [--store FOLDER]

`--entries` reads only the first ones. Imports are not timed, nor is a first read of a small local
file, which loads what is loaded late.
"""

import argparse
import json
import time


def query(client, hither, url: str, entries: int | None = None) -> tuple[int, float, dict]:
    import numpy as np

    tree = hither.open_tree(url, "T", client=client)
    arrays = tree.arrays(["rawtr", "E33"], entry_stop=entries)
    values = np.asarray(arrays["rawtr"])[np.asarray(arrays["E33"]) > 5].astype("f8")
    return len(values), float(values.mean()) if len(values) else 0.0, tree.report.as_dict()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("warm_up")
    parser.add_argument("--entries", type=int)
    parser.add_argument("--store", default=False)
    chosen = parser.parse_args()
    import hither

    with hither.Client(store=False, anonymous=True) as client:
        query(client, hither, chosen.warm_up)
    client = hither.Client(store=chosen.store, anonymous=True)
    started = time.monotonic()
    selected, mean, report = query(client, hither, chosen.url, chosen.entries)
    report["seconds"] = time.monotonic() - started
    print(json.dumps({"selected": selected, "mean": mean, "report": report}))


if __name__ == "__main__":
    main()
