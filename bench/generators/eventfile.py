"""Generates a file of 700 MB with 12,000 events.

It resembles the file of the talk on davix (Devresse, Furano: "Efficient HTTP based I/O on very
large datasets"), which is not public: it has 600 branches of 38 floats with 11 bits of mantissa,
and everything else is as ROOT chooses: zlib level 1, baskets and clusters of its own. Needs ROOT.
events.json beside events.root holds the facts.
"""

import json
from pathlib import Path

from bench.generators.generate_once import generate_once, recipe
from bench.harness.paths import DATA
from bench.harness.pyroot import declare, import_root

SCRIPT = Path(__file__).with_suffix(".cxx")
DEFAULT_OUTPUT = DATA / "events.root"
TREE = "Events"
EVENTS = 12_000
BRANCHES = 600


def ensure(output: Path = DEFAULT_OUTPUT, events: int = EVENTS) -> dict:
    """Writes the file unless it exists; returns its facts."""

    def write(part: Path) -> dict:
        write_events(part, events, BRANCHES)
        return {"tree": TREE, "entries": events, "branches": BRANCHES}

    return generate_once(output, recipe(Path(__file__), SCRIPT, events=events), write)


def write_events(path: Path, events: int, branches: int) -> None:
    """Writes such a file with ROOT."""
    ROOT = import_root()
    if ROOT is None:
        raise RuntimeError(f"{path} is written by ROOT, which is not installed (tools/setup-peers)")
    declare(ROOT, "events", SCRIPT.read_text())
    if ROOT.events.write(str(path), events, branches) != 0:
        raise RuntimeError(f"ROOT cannot write {path}")


if __name__ == "__main__":
    print(json.dumps(ensure(), indent=1))
