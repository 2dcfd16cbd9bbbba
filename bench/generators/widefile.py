"""Generates a file of 1 GB with 1,500 branches, by eventfile.cxx. Needs ROOT."""

import json
from pathlib import Path

from bench.generators.eventfile import SCRIPT, write_events
from bench.generators.generate_once import generate_once, recipe
from bench.harness.paths import DATA

DEFAULT_OUTPUT = DATA / "wide.root"
TREE = "Events"
EVENTS = 6_700
BRANCHES = 1_500


def ensure(output: Path = DEFAULT_OUTPUT) -> dict:
    """Writes the file unless it exists; returns its facts."""

    def write(part: Path) -> dict:
        write_events(part, EVENTS, BRANCHES)
        return {"tree": TREE, "entries": EVENTS, "branches": BRANCHES}

    return generate_once(output, recipe(Path(__file__), SCRIPT), write)


if __name__ == "__main__":
    print(json.dumps(ensure(), indent=1))
