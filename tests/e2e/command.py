"""Runs of the built command, at the client's end of a link."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass

from bench.harness.contenders import timed
from bench.harness.links import Loopback
from bench.harness.paths import HITHER

# Long enough for a slow machine, and finite, so that a hanging test ends.
TIMEOUT = 300


@dataclass
class Finished:
    """The result of a run of the command."""

    code: int
    out: str
    err: str
    peak_mb: float | None = None
    """The most memory that it took, where a link was given."""

    @property
    def json(self) -> dict:
        return json.loads(self.out)


def run_hither(*arguments, where: Loopback | None = None) -> Finished:
    """Runs the command to its end, at the client's end of a link if one is given."""
    return run([HITHER, *arguments], where)


def run(command: list, where: Loopback | None = None) -> Finished:
    command = [str(word) for word in command]
    late = f"{' '.join(command)} did not end within {TIMEOUT} s"
    if where is None:
        # A Python between, which measures, would take longer than most commands.
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, start_new_session=True) as process:
            try:
                out, err = process.communicate(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise AssertionError(late) from None
        return Finished(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
    told = timed(where, command, TIMEOUT)
    assert not told["timeout"], late
    return Finished(told["exit"], told["stdout"], told["stderr"], told["peak_mb"])
