#!/usr/bin/env python3
"""Generates a file of 700 MB with 12,000 events, of which a job reads half of the branches.

That is the job of the talk on davix (Devresse, Furano: "Efficient HTTP based I/O on very large datasets"). Its file is
not public; this one has 600 branches of 38 floats with 11 bits of mantissa, and everything else as ROOT chooses: zlib
level 1, baskets and clusters of its own. Needs ROOT. Beside events.root an events.json says what is in it, and what the
sum of every second branch is according to ROOT.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

from talkfile import import_root

HERE = Path(__file__).resolve().parent
DEFAULT_OUTPUT = HERE.parent / "target" / "data" / "events.root"
TREE = "Events"
EVENTS = 12_000
BRANCHES = 600


def names() -> list[str]:
    """The branches that the job reads."""
    return [f"b{n}" for n in range(0, BRANCHES, 2)]


def expression() -> str:
    """Their sum, element by element; as a tree of sums, since an expression may only be so deep."""
    terms = names()
    while len(terms) > 1:
        pairs = [f"({left}+{right})" for left, right in zip(terms[::2], terms[1::2])]
        terms = pairs + terms[len(pairs) * 2 :]
    return terms[0]


def ensure(output: Path = DEFAULT_OUTPUT, events: int = EVENTS) -> dict:
    """Writes the file unless it is there already; returns its facts."""
    sidecar = output.with_suffix(".json")
    digest = hashlib.sha256()
    for source in (HERE / "eventfile.py", HERE / "eventfile.cxx"):
        digest.update(source.read_bytes())
    wanted = f"{digest.hexdigest()[:16]}-{events}"
    if output.exists() and sidecar.exists():
        facts = json.loads(sidecar.read_text())
        if facts["recipe"] == wanted and facts["bytes"] == output.stat().st_size:
            return facts
    ROOT = import_root()
    if ROOT is None:
        raise RuntimeError("the file of events is written by ROOT, which is not installed (tools/setup-peers)")
    print(f"eventfile: writing {output} ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    ROOT.gInterpreter.Declare((HERE / "eventfile.cxx").read_text())
    output.parent.mkdir(parents=True, exist_ok=True)
    part = output.with_name(f".{output.name}.{os.getpid()}.root")
    try:
        if ROOT.events.write(str(part), events, BRANCHES) != 0:
            raise RuntimeError(f"ROOT can't write {part}")
        answer = ROOT.events.sum(str(part), False, -1)
        facts = {
            "recipe": wanted,
            "bytes": part.stat().st_size,
            "tree": TREE,
            "entries": events,
            "branches": BRANCHES,
            "values": answer.values,
            "sum": answer.sum,
            "job_bytes": answer.bytes,
        }
        os.replace(part, output)
    finally:
        part.unlink(missing_ok=True)
    sidecar.write_text(json.dumps(facts, indent=1) + "\n")
    print(f"eventfile: done in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return facts


if __name__ == "__main__":
    print(json.dumps(ensure(), indent=1))
