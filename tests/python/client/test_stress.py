"""A few rounds of `stress.py`."""

import os

import pytest
import stress

ROUNDS = {"fork": 30, "threads": 30, "loop": 30, "interrupt": 10, "spawn": 3, "end": 10}


@pytest.mark.parametrize("kind", ROUNDS)
def test_processes_threads_loops_and_signals_do_no_harm(kind):
    stress.run(kind, int(os.environ.get("HITHER_ROUNDS", ROUNDS[kind])))
