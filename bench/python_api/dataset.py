"""1,000 files of a tree through `hither.dataset`, at 150 ms: opening all, and reading a branch of all; cold, then warm.

Warm is a second process with the store that the first one left. nginx serves the files of reads/open_ahead.py. Needs root, for the link.
"""

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.harness import interleaved, servers
from bench.harness.contenders import Run, peer
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Wan, is_root
from bench.harness.paths import RESULTS
from bench.reads import open_ahead

LINK = Link("x", 150, 1000, "across an ocean")
COUNT = 1000
TREE, BRANCH = "events", "column3"
WAYS = {"entries": "num_entries", "arrays": "arrays of a branch"}


def answer(names: list[str]) -> dict:
    """Values of the branch in all files, and their mean, by uproot from disk."""
    kept = open_ahead.DATA / f"answer-{len(names)}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    import numpy
    import uproot

    parts = []
    for name in names:
        with uproot.open(open_ahead.DATA / name) as file:
            parts.append(file[TREE][BRANCH].array(library="np"))
    values = numpy.concatenate(parts)
    found = {"values": len(values), "mean": float(values.mean(dtype="f8"))}
    kept.write_text(json.dumps(found))
    return found


def check(right: dict, run: Run) -> str | None:
    if run.selected != right["values"] or (run.mean is not None and not math.isclose(run.mean, right["mean"], rel_tol=1e-9)):
        return f"{run.selected} values of mean {run.mean} instead of {right['values']} and {right['mean']}"
    return None


def entrants(listed: Path, folder: Path, right: dict) -> list[Entrant]:
    """Each way cold, and warm right after it."""
    all_of_them = []
    for way, name in WAYS.items():
        store = folder / f"store-{way}"
        command = peer("columns.dataset_read", listed, way, TREE, BRANCH, store)
        forget = partial(shutil.rmtree, store, ignore_errors=True)
        all_of_them.append(Entrant(f"{name}, cold", command, partial(check, right), forget))
        all_of_them.append(Entrant(f"{name}, warm", command, partial(check, right)))
    return all_of_them


def verdicts(played: Rounds, count: int) -> Iterator[str]:
    at = LINK.label
    for name in WAYS.values():
        for when in ("cold", "warm"):
            which = f"{name}, {when}"
            taken, lanes = played.median(at, "", which), played.median(at, "", which, "connections")
            requests = played.median(at, "", which, "requests")
            if not taken or not lanes or requests is None:
                continue
            if when == "cold":
                most = count * 3 * LINK.rtt_ms / 1e3 / lanes + 5
                yield f"{which}: {taken:.2f} s, at most {most:.2f} s ({count} x 3 round trips / {lanes:.0f} connections + 5 s): {'kept' if taken <= most else 'MISSED'}"
            else:
                yield f"{which}: {requests / count:.2f} requests for each file"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--files", type=int, default=COUNT)
    parser.add_argument("--quick", action="store_true", help="one run each")
    parser.add_argument("--output", type=Path, default=RESULTS / "python_api" / "dataset")
    options = parser.parse_args()
    if not is_root():
        sys.exit("dataset: the link needs root (network namespaces)")
    names = open_ahead.ensure(options.files)
    right = answer(names)
    played = Rounds(1 if options.quick else options.runs)
    with interleaved.until_interrupted(), tempfile.TemporaryDirectory(prefix="hither-dataset-") as name:
        folder = Path(name)
        with Wan(LINK) as where, servers.nginx(where, open_ahead.DATA) as port:
            listed = folder / "urls"
            listed.write_text("".join(f"http://{where.server_host}:{port}/{name}\n" for name in names))
            # A cold run is followed by its warm one: rounds are not turned.
            for number in range(played.count):
                part = Rounds(1, played.timeout)
                part.play(where, LINK.label, "", entrants(listed, folder, right))
                for run in part.runs:
                    run.number = number
                played.runs += part.runs
                played.wrong += part.wrong
    size = sum((open_ahead.DATA / name).stat().st_size for name in names) / len(names)
    notes = [
        f"{len(names)} ROOT files of {size / 1e3:.0f} KB, a tree of eight columns each, nginx. Imports not counted; requests by the program's",
        "report, connections and flights by the link's own count. Client, server and link share two cores, cubic, medians.",
    ]
    interleaved.write(played, options.output, "Many files from Python", notes, verdicts(played, len(names)), None)
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
