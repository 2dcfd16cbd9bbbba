"""A server over a folder with the talk's files."""

from dataclasses import dataclass
from pathlib import Path

from bench.harness import access_log, servers
from bench.harness.links import Loopback


@dataclass(frozen=True)
class Data:
    """A generated file, and ROOT's results for it."""

    path: Path
    facts: dict


class Site:
    """A server over a folder, with its access log."""

    def __init__(self, where: Loopback, port: int, folder: Path, log: Path):
        self.where = where
        self.port = port
        self.folder = folder
        self.log = log

    def url(self, name: str) -> str:
        host, port = self.where.reach(self.port)
        return f"http://{host}:{port}/{name}"

    def link_in(self, data: Data) -> str:
        """Links a generated file into the folder; returns its URL."""
        target = self.folder / data.path.name
        if not target.exists():
            target.symlink_to(data.path)
        return self.url(data.path.name)

    def put(self, name: str, content: bytes) -> str:
        (self.folder / name).write_bytes(content)
        return self.url(name)

    def requests(self, uri: str) -> list[access_log.Logged]:
        """Returns the log lines of a path."""
        servers.settle(self.where, self.port)
        return access_log.read(self.log, uri)


LOCATIONS = """
        location /forbidden { return 403; }
        location /login { return 401; }
        location /broken { return 500; }
        # Too long to be waited for.
        location /busy { add_header Retry-After 3600 always; return 503; }
"""
