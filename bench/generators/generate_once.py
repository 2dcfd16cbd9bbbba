"""Generates a sample file once, and again only if its recipe or the file has changed."""

import fcntl
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path


def recipe(*sources: Path | str, **numbers: int) -> str:
    """A name for how a file is made: it changes with the scripts, the texts and the numbers."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes() if isinstance(source, Path) else source.encode())
    return "-".join([digest.hexdigest()[:16], *map(str, numbers.values())])


def generate_once(output: Path, recipe: str, write: Callable[[Path], dict], *, quiet: bool = False) -> dict:
    """Returns the facts about `output`, made first if it is missing or another recipe made it.

    `write` gets a path beside `output` and returns what is in the file. That, the recipe and the
    number of bytes are kept in a .json beside the file. Processes take turns: a file that is there
    is not replaced while others read it.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.with_name(f".{output.name}.lock").open("ab") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        return known(output, recipe) or written(output, recipe, write, quiet=quiet)


def known(output: Path, recipe: str) -> dict | None:
    sidecar = output.with_suffix(".json")
    if not (output.exists() and sidecar.exists()):
        return None
    facts = json.loads(sidecar.read_text())
    return facts if facts["recipe"] == recipe and facts["bytes"] == output.stat().st_size else None


def written(output: Path, recipe: str, write: Callable[[Path], dict], *, quiet: bool) -> dict:
    if not quiet:
        print(f"writing {output} ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    sidecar = output.with_suffix(".json")
    part = output.with_name(f".{output.name}.{os.getpid()}.root")
    part_facts = sidecar.with_name(f".{sidecar.name}.{os.getpid()}")
    try:
        contents = write(part)
        facts = {"recipe": recipe, "bytes": part.stat().st_size, **contents}
        part_facts.write_text(json.dumps(facts, indent=1) + "\n")
        part.replace(output)
        part_facts.replace(sidecar)
    finally:
        part.unlink(missing_ok=True)
        part_facts.unlink(missing_ok=True)
    if not quiet:
        print(f"wrote {output} in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return facts
