"""The requests that a server got, read from the access log of any server of servers.py."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SETTLE = "/settle"
"""The path of requests after which the lines of earlier ones are written. Not among the rows."""


@dataclass(frozen=True)
class Logged:
    """One request, as the server logged it. xrootd's trace holds no connections and no sizes."""

    connection: str
    method: str
    uri: str
    status: int
    bytes_sent: int
    ranges: str
    """The Range header; "-" if there was none."""

    @property
    def range_count(self) -> int:
        return 0 if self.ranges == "-" else self.ranges.count(",") + 1


def read(log: Path, uri: str) -> list[Logged]:
    """The requests for a path, in the order of the log (mostly that of complete responses)."""
    text = whole_lines(log) if log.exists() else ""
    rows = json_rows(text) if text.startswith("{") else trace_rows(text) if "got hdr line" in text else table_rows(text)
    return [row for row in rows if row.uri == uri]


def whole_lines(log: Path) -> str:
    """The text of a log whose server may be in the middle of a line."""
    return log.read_text(errors="replace").rpartition("\n")[0]


@dataclass
class Counter:
    """The requests for a path since `start`, of a server that keeps a log."""

    log: Path | None
    uri: str
    before: int = 0

    def start(self) -> None:
        self.before = len(read(self.log, self.uri)) if self.log else 0

    def requests(self) -> list[Logged]:
        return read(self.log, self.uri)[self.before :] if self.log else []


def table_rows(text: str) -> Iterator[Logged]:
    """nginx, Apache and lighttpd, in the format that servers.py sets."""
    for line in text.splitlines():
        connection, _, method, uri, status, sent, ranges = line.split("\t")
        if uri != SETTLE:
            yield Logged(connection, method, uri, int(status), int(sent), ranges)


def json_rows(text: str) -> Iterator[Logged]:
    """Caddy, which logs the sizes of bodies."""
    for line in text.splitlines():
        entry = json.loads(line)
        request = entry["request"]
        ranges = request["headers"].get("Range", ["-"])[0]
        yield Logged(request["remote_port"], request["method"], request["uri"], entry["status"], entry["size"], ranges)


HEADER = re.compile(r"^\S+ \S+ (\d+) .*got hdr line: (.*)$")
ANSWER = re.compile(r"^\S+ \S+ (\d+) .*Sending resp: (\d+)")
REQUEST = re.compile(r"^([A-Z]+) (\S+) HTTP/1")


def trace_rows(text: str) -> Iterator[Logged]:
    """The trace of xrootd: header lines with their thread; a response's head ends a request."""
    begun: dict[str, tuple[str, str, str]] = {}
    for line in text.splitlines():
        if header := HEADER.match(line):
            thread, content = header.groups()
            if request := REQUEST.match(content):
                begun[thread] = (request[1], request[2], "-")
            elif content.lower().startswith("range:") and thread in begun:
                begun[thread] = (*begun[thread][:2], content.partition(":")[2].strip())
        elif (answer := ANSWER.match(line)) and answer[1] in begun:
            method, uri, ranges = begun.pop(answer[1])
            yield Logged("", method, uri, int(answer[2]), 0, ranges)
