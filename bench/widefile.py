#!/usr/bin/env python3
"""Generates a file of 1 GB with 1,500 branches, of which an analysis reads seven; written by ROOT as eventfile.cxx does.

Beside wide.root a wide.json says what is in it, and what uproot makes of the seven branches on the local file.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

from talkfile import import_root

HERE = Path(__file__).resolve().parent
DEFAULT_OUTPUT = HERE.parent / "target" / "data" / "wide.root"
TREE = "Events"
EVENTS = 6_700
BRANCHES = 1_500
WANTED = tuple(f"b{n}" for n in range(100, BRANCHES, 200))


def ensure(output: Path = DEFAULT_OUTPUT) -> dict:
    """Writes the file unless it is there already; returns its facts."""
    sidecar = output.with_suffix(".json")
    source = (HERE / "widefile.py").read_bytes() + (HERE / "eventfile.cxx").read_bytes()
    recipe = hashlib.sha256(source).hexdigest()[:16]
    if output.exists() and sidecar.exists():
        facts = json.loads(sidecar.read_text())
        if facts["recipe"] == recipe and facts["bytes"] == output.stat().st_size:
            return facts
    root = import_root()
    if root is None:
        raise RuntimeError("the wide file is written by ROOT, which is not installed (tools/setup-peers)")
    print(f"widefile: writing {output} ...", file=sys.stderr, flush=True)
    root.gInterpreter.Declare((HERE / "eventfile.cxx").read_text())
    output.parent.mkdir(parents=True, exist_ok=True)
    part = output.with_name(f".{output.name}.{os.getpid()}.root")
    try:
        if root.events.write(str(part), EVENTS, BRANCHES) != 0:
            raise RuntimeError(f"ROOT can't write {part}")
        facts = {"recipe": recipe, "bytes": part.stat().st_size, "tree": TREE, "entries": EVENTS, "branches": BRANCHES, **described(part)}
        os.replace(part, output)
    finally:
        part.unlink(missing_ok=True)
    sidecar.write_text(json.dumps(facts, indent=1) + "\n")
    return facts


def described(path: Path) -> dict:
    """How much of it the job needs, and the answer."""
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
