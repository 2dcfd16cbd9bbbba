"""Real servers for the tests of the package, as the benchmarks and end-to-end tests start them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.generators import talkfile
from bench.harness import access_log, servers
from bench.harness.links import LINKS, Loopback, Wan, is_root
from bench.harness.paths import HITHER_WAN

__all__ = [
    "LINKS",
    "Loopback",
    "Wan",
    "access_log",
    "needs_network_namespaces",
    "servers",
    "serving",
    "talkfile",
]

PROGRAMS = {"apache": "apache2"}


def needs_network_namespaces() -> None:
    """Skip the test where namespaces cannot be made.

    Round trips are counted where they take time: on loopback an answer arrives before the next
    request is written.
    """
    if not (is_root() and HITHER_WAN.exists()):
        if os.environ.get("HITHER_REQUIRE_NETNS") == "1":
            pytest.fail("network namespaces are required here, which needs root and hither-wan")
        pytest.skip("network namespaces need root and hither-wan")


@contextlib.contextmanager
def serving(kind: str, folder: Path, log: Path | None = None) -> Iterator[str]:
    """Yield the URL of a server over ``folder``; skip the test where it is not installed."""
    program = PROGRAMS.get(kind, kind)
    if servers.program(program) is None:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have {program} (tools/setup-peers)")
        pytest.skip(f"{program} is not installed (tools/setup-peers installs it, as root)")
    start = {
        "apache": lambda: servers.apache(Loopback(), folder, log, webdav=True),
        "nginx": lambda: servers.nginx(Loopback(), folder, log),
        "rclone": lambda: servers.rclone(Loopback(), folder),
        "xrootd": lambda: servers.xrootd(Loopback(), folder, log),
    }[kind]
    with start() as port:
        yield f"root://127.0.0.1:{port}/" if kind == "xrootd" else f"http://127.0.0.1:{port}"
