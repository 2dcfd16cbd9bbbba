"""The options of a client come from one table, both in Python and on the command line."""

import os
import pty
import re
import subprocess
import sys
import termios

import pytest

import hither
from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until
from hither import _core

TABLE = [row for row in _core.client_option_table() if row["python"]]
BY_NAME = {row["python"]: row for row in TABLE}
# Sizes in Python have their own units, as in "64 MiB"; a user name without a password prompts for
# one.
COMPARED = [
    row for row in TABLE if row["flag"] and row["shape"] != "Switch" and row["python"] not in ("disk_cache", "user")
]
VALUES = ["?", "0", "1025", "-1", "1e9", "maybe"]


def refused_by_python(name, value):
    try:
        hither.Client(**{name: value})
    except (ValueError, OSError) as error:
        found = re.match(rf"{name}(?: is .+?,|:) (expected .+)", str(error))
        return found and found[1]


def refused_by_command(flag, value):
    command = [HITHER, "options", f"--{flag}={value}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    found = re.search(rf"for '--{flag} <[^>]*>': (expected .+)", ended.stderr)
    return found and found[1]


def test_every_option_is_a_typed_keyword():
    assert list(hither.ClientOptions.__annotations__) == list(BY_NAME)

    for name, row in BY_NAME.items():
        hint = hither.ClientOptions.__annotations__[name].__forward_arg__
        assert (hint == "bool") == (row["shape"] == "Switch"), name


@pytest.mark.parametrize("row", COMPARED, ids=lambda row: row["name"])
def test_a_keyword_and_a_flag_refuse_the_same_values_with_the_same_sentence(row):
    wrap = (lambda value: [value]) if row["shape"] == "Repeated" and row["name"] != "headers" else lambda value: value
    refused = {value: refused_by_python(row["python"], wrap(value)) for value in VALUES}
    if row["name"] == "headers":
        assert set(refused.values()) == {"expected a list or a table"}
    else:
        assert refused == {value: refused_by_command(row["flag"], value) for value in VALUES}


def test_numbers_have_the_bounds_of_text():
    for value in (0, -1, 1025):
        with pytest.raises(ValueError, match=f"max_connections is {value}, expected at least 1 and at most 1024"):
            hither.Client(max_connections=value)
    for value in (0, 0.0, 86_401, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"connect_timeout is .*, expected 0.001 to 86400 seconds"):
            hither.Client(connect_timeout=value)
    for value in (-0.5, "1w"):
        with pytest.raises(ValueError, match=r"staleness is .*, expected seconds, or as in 90s"):
            hither.Client(staleness=value)
    for value in (0, 0.5, "30m", None):
        assert hither.Client(staleness=value)


def test_wrong_types_are_refused():
    for name, value in [("token", 3), ("store", 3), ("cert", True), ("insecure", 1), ("share_credentials", "host")]:
        with pytest.raises(ValueError, match=f"^{name}"):
            hither.Client(**{name: value})
    with pytest.raises(ValueError, match="mirrors: expected a prefix and a list of prefixes elsewhere"):
        hither.Client(mirrors={"http://a/": "http://b/"})


def test_an_unknown_option_is_a_type_error_that_suggests():
    with pytest.raises(TypeError, match='there is no option "max_connection"; did you mean `max_connections`'):
        hither.Client(max_connection=3)


def test_a_password_is_asked_for_once():
    code = "import hither; client = hither.Client(user='me', store=False); client.report; print('done')"
    process, terminal = pty.fork()
    if process == 0:
        os.environ.pop("HITHER_PASSWORD", None)
        os.execvp("timeout", ["timeout", "--foreground", "60", sys.executable, "-c", code])
    shown = b""
    answers = 0
    try:
        while chunk := os.read(terminal, 1024):
            shown += chunk
            if shown.count(b"Password of me: ") > answers:
                answers += 1
                # Input typed before this is discarded.
                wait_until(lambda: not termios.tcgetattr(terminal)[3] & termios.ECHO, "a terminal without echo")
                os.write(terminal, b"hush\n")
    except OSError:
        pass  # The end of a terminal.
    os.close(terminal)
    os.waitpid(process, 0)
    assert b"done" in shown
    assert shown.count(b"Password of me: ") == 1
