"""Generates a file of 1 GB with 1,500 branches, of which an analysis reads seven; by eventfile.cxx.

wide.json beside wide.root holds the facts, among them uproot's answer for the seven branches of the
local file.
"""

import json
from pathlib import Path

from bench.generators.eventfile import SCRIPT, write_events
from bench.generators.generate_once import generate_once, recipe
from bench.harness.paths import DATA

DEFAULT_OUTPUT = DATA / "wide.root"
TREE = "Events"
EVENTS = 6_700
BRANCHES = 1_500
WANTED = tuple(f"b{n}" for n in range(100, BRANCHES, 200))


def ensure(output: Path = DEFAULT_OUTPUT) -> dict:
    """Writes the file unless it exists; returns its facts."""

    def write(part: Path) -> dict:
        write_events(part, EVENTS, BRANCHES)
        return {"tree": TREE, "entries": EVENTS, "branches": BRANCHES, **job_facts(part)}

    return generate_once(output, recipe(Path(__file__), SCRIPT), write)


def job_facts(path: Path) -> dict:
    """The bytes that the job needs, and the answer."""
    import uproot

    with uproot.open(path) as file:
        tree = file[TREE]
        arrays = tree.arrays(list(WANTED), library="np")
        key = file.key(TREE)
        values = sum(array.size for array in arrays.values())
        return {
            "job_bytes": sum(tree[name].compressed_bytes for name in WANTED),
            "tree_bytes": int(key.fNbytes),
            "tree_offset": int(key.fSeekKey),
            "values": int(values),
            "mean": sum(float(array.sum(dtype="f8")) for array in arrays.values()) / values,
        }


if __name__ == "__main__":
    print(json.dumps(ensure(), indent=1))
