"""Waiting for a condition under a deadline: the one place where tests and benchmarks poll.

As a program it waits until HOST PORT accepts a connection; at the server's end, so the link counts
nothing.
"""

import selectors
import socket
import sys
import time
from collections.abc import Callable
from typing import IO, TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, timeout: float = 60, every: float = 0.01) -> T:
    """Returns the condition's first value that is true; the error of a timeout names `what`."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout} s")
        time.sleep(every)
    return value


def readable(file: IO | socket.socket | int, timeout: float) -> bool:
    """Returns true once a file, socket or descriptor can be read, false after `timeout` seconds.

    `select.select` takes no descriptor above 1023, which a process that runs tests may have.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(file, selectors.EVENT_READ)
        return bool(selector.select(timeout))


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    host, port = sys.argv[1], int(sys.argv[2])
    try:
        wait_until(lambda: accepts(host, port), f"a connection to {host}:{port}", 20)
    except TimeoutError as error:
        sys.exit(str(error))
