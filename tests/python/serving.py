"""Real servers for the tests of the package, started like those of the benchmarks and end-to-end
tests."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from needs import require

from bench.generators import talkfile
from bench.harness import access_log, servers
from bench.harness.links import LINKS, Loopback, Wan

__all__ = [
    "LINKS",
    "Loopback",
    "Wan",
    "access_log",
    "servers",
    "serving",
    "talkfile",
]


@contextlib.contextmanager
def serving(kind: str, folder: Path, log: Path | None = None) -> Iterator[str]:
    """Yields the URL of a server over ``folder``; skips the test if it is not installed.

    The log of nginx is complete at the end of the block.
    """
    require("apache2" if kind == "apache" else kind)
    start = {
        "apache": lambda: servers.apache(Loopback(), folder, log, webdav=True),
        "nginx": lambda: servers.nginx(Loopback(), folder, log),
        "rclone": lambda: servers.rclone(Loopback(), folder),
        "xrootd": lambda: servers.xrootd(Loopback(), folder, log),
    }[kind]
    with start() as port:
        yield f"root://127.0.0.1:{port}/" if kind == "xrootd" else f"http://127.0.0.1:{port}"
        if kind == "nginx" and log is not None:
            servers.settle(Loopback(), port)
