"""The polling helper."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench.harness import waiting


def test_the_first_true_value_is_returned():
    values = iter([None, 0, "", "value", "another"])
    assert waiting.wait_until(lambda: next(values), "a value", every=0) == "value"


def test_a_timeout_says_what_was_awaited():
    with pytest.raises(TimeoutError, match="a value: not within 0 s"):
        waiting.wait_until(lambda: False, "a value", timeout=0)


def test_a_condition_that_holds_already_needs_no_time():
    assert waiting.wait_until(lambda: True, "nothing", timeout=-1)


def test_the_program_ends_when_the_port_accepts_connections():
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, Path(waiting.__file__), "127.0.0.1", str(server.getsockname()[1])]
        assert subprocess.run(command, timeout=60).returncode == 0
