"""1,000 files with `hither.dataset` at 80 ms: opening, and reading a branch; cold, then warm.

Warm is a second process with the store that the first one left. nginx serves the files of
reads/open_ahead.py. Needs root, for the link.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.harness import interleaved, servers
from bench.harness.arguments import Arguments
from bench.harness.contenders import Run, peer
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Wan
from bench.harness.paths import temporary_folder
from bench.reads import open_ahead

LINK = Link("x", 80, 1000, "across an ocean")
# Seconds from the start to all values, cold.
MAX_SECONDS = 8
COUNT = 1000
TREE, BRANCH = "events", "column3"
WAYS = {"entries": "num_entries", "arrays": "arrays of a branch"}


def answer(names: list[str]) -> dict:
    """The number of values of the branch in all files, and their mean, by uproot from disk."""
    kept = open_ahead.FILES / f"answer-{len(names)}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    import numpy as np
    import uproot

    parts = []
    for name in names:
        with uproot.open(open_ahead.FILES / name) as file:
            parts.append(file[TREE][BRANCH].array(library="np"))
    values = np.concatenate(parts)
    found = {"values": len(values), "mean": float(values.mean(dtype="f8"))}
    kept.write_text(json.dumps(found))
    return found


def entrants(listed: Path, folder: Path, right: dict) -> list[Entrant]:
    """Each way cold, and warm directly after it."""

    def check(run: Run) -> str | None:
        return run.disagreement(right["values"], right["mean"])

    all_of_them = []
    for way, name in WAYS.items():
        store = folder / f"store-{way}"
        command = peer("columns.dataset_read", listed, way, TREE, BRANCH, store)
        forget = partial(shutil.rmtree, store, ignore_errors=True)
        all_of_them.append(Entrant(f"{name}, cold", command, check, forget))
        all_of_them.append(Entrant(f"{name}, warm", command, check))
    return all_of_them


def check_targets(played: Rounds, count: int) -> Iterator[str]:
    at = LINK.label
    for name in WAYS.values():
        for when in ("cold", "warm"):
            which = f"{name}, {when}"
            taken, connections, requests = (
                played.median(at, "", which, figure) for figure in ("seconds", "connections", "requests")
            )
            if not taken or not connections or requests is None:
                continue
            if when == "cold":
                yield interleaved.target_line(
                    f"{which}: {taken:.2f} s, at most {MAX_SECONDS} s ({connections:.0f} connections)",
                    taken <= MAX_SECONDS,
                )
            else:
                yield f"{which}: {requests / count:.2f} requests for each file"


def main() -> int:
    parser = Arguments(__doc__, "python_api/dataset")
    parser.add_argument("--files", type=int, default=COUNT, help="default %(default)s")
    options = parser.parse()
    names = open_ahead.ensure(options.files)
    right = answer(names)
    played = Rounds(options.runs)
    with (
        interleaved.until_interrupted(),
        temporary_folder() as folder,
        Wan(LINK) as where,
        servers.nginx(where, open_ahead.FILES) as port,
    ):
        listed = folder / "urls"
        listed.write_text("".join(f"http://{where.server_host}:{port}/{name}\n" for name in names))
        # In order: a warm run follows its cold one.
        for number in range(played.count):
            played.round(where, LINK.label, "", entrants(listed, folder, right), number)
    size = sum((open_ahead.FILES / name).stat().st_size for name in names) / len(names)
    notes = [
        f"{len(names)} ROOT files of {size / 1e3:.0f} KB, a tree of eight columns each, nginx. Imports not counted; requests as the program",
        "reports them, connections and round trips as the link counts them.",
    ]
    targets = check_targets(played, len(names))
    return interleaved.write(played, options.output, "Many files from Python", notes, targets)


if __name__ == "__main__":
    sys.exit(main())
