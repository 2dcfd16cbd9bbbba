"""Runs of the built command, at the client's end of a link."""

import json
from dataclasses import dataclass

from bench.harness.contenders import timed
from bench.harness.links import Loopback
from bench.harness.paths import HITHER

# Long enough for a slow machine, and finite, so that a hanging test ends.
TIMEOUT = 120


@dataclass
class Finished:
    """The result of a run of the command."""

    code: int
    out: str
    err: str
    peak_mb: float

    @property
    def json(self) -> dict:
        return json.loads(self.out)


def run_hither(*arguments, where: Loopback | None = None) -> Finished:
    """Runs the command to its end, at the client's end of a link if one is given."""
    return run([HITHER, *arguments], where)


def run(command: list, where: Loopback | None = None) -> Finished:
    command = [str(word) for word in command]
    told = timed(where or Loopback(), command, TIMEOUT)
    assert not told["timeout"], f"{' '.join(command)} did not end within {TIMEOUT} s"
    return Finished(told["exit"], told["stdout"], told["stderr"], told["peak_mb"])
