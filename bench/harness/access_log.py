"""What a server was asked, read from its access log, whichever of servers.py it is."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Logged:
    """One request, as the server logged it. xrootd's trace says nothing of connections and sizes."""

    connection: str
    method: str
    uri: str
    status: int
    bytes_sent: int
    ranges: str
    """The Range header as sent; "-" if there was none."""

    @property
    def range_count(self) -> int:
        return 0 if self.ranges == "-" else self.ranges.count(",") + 1


def read(log: Path, uri: str) -> list[Logged]:
    """The requests for a path, in the order in which they were logged (most servers log when an answer is complete)."""
    text = log.read_text(errors="replace") if log.exists() else ""
    rows = json_rows(text) if text.startswith("{") else trace_rows(text) if "got hdr line" in text else table_rows(text)
    return [row for row in rows if row.uri == uri]


def table_rows(text: str) -> Iterator[Logged]:
    """nginx, Apache and lighttpd, in the format that servers.py sets."""
    for line in text.splitlines():
        connection, _, method, uri, status, sent, ranges = line.split("\t")
        yield Logged(connection, method, uri, int(status), int(sent), ranges)


def json_rows(text: str) -> Iterator[Logged]:
    """Caddy. Its sizes are those of the bodies."""
    for line in text.splitlines():
        entry = json.loads(line)
        request = entry["request"]
        ranges = request["headers"].get("Range", ["-"])[0]
        yield Logged(request["remote_port"], request["method"], request["uri"], entry["status"], entry["size"], ranges)


HEADER = re.compile(r"^\S+ \S+ (\d+) .*got hdr line: (.*)$")
ANSWER = re.compile(r"^\S+ \S+ (\d+) .*Sending resp: (\d+)")
REQUEST = re.compile(r"^([A-Z]+) (\S+) HTTP/1")


def trace_rows(text: str) -> Iterator[Logged]:
    """xrootd: one line for each line of a header, marked with the thread; the head of the answer ends a request."""
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
