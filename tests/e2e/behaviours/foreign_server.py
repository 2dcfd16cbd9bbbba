"""A WebDAV server in memory. For each request its behaviour is called first, and may respond with `Exchange.answer`."""

import re
import socket
import unicodedata
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import ClassVar

from e2e.loopback_server import LoopbackServer, QuietHandler

MODIFIED = 1_700_000_000
"""The time of all files."""
FOLDS = {
    "upper case": str.upper,
    "case folding": str.casefold,
    "NFKC": lambda name: unicodedata.normalize("NFKC", name).casefold(),
}
RENAMES = {
    "end": lambda name: name.rstrip(". "),
    "colon": lambda name: name.replace(":", "_"),
    "plus": lambda name: name.replace("+", " "),
    "unforeseen": lambda name: name.replace("@", "-at-"),
}


@dataclass
class Site:
    """The files of a server by path; directories end with a slash and have no bytes."""

    files: dict[str, bytes | None]
    behaviour: "Callable[[Exchange], bool]"
    requests: list[tuple[str, str]] = field(default_factory=list)

    ignores_case: bool = False
    ignores_case_below: str = "/"
    """The directory of a file system that ignores case."""
    fold: Callable[[str], str] | None = None
    """Maps all names of a file to one text."""
    renames: Callable[[str], str] | None = None
    """Maps a name to the one under which the server stores it."""

    def held(self, path: str) -> str:
        """Returns the name under which the server stores a path, or would store it."""
        if self.renames:
            path = "/".join(map(self.renames, path.split("/")))
        if (fold := self.fold) and path not in self.files:
            return next((name for name in self.files if fold(name) == fold(path)), path)
        if path in self.files or not self.ignores_case or not path.startswith(self.ignores_case_below):
            return path
        return next((name for name in self.files if name.casefold() == path.casefold()), path)

    def within(self, path: str) -> list[str]:
        """Returns the direct members of a directory."""
        return [name for name in self.files if name.startswith(path) and re.fullmatch("[^/]+/?", name[len(path) :])]


class Exchange(QuietHandler):
    """One request and its response."""

    site: Site
    is_silent = False
    """Nothing is sent."""
    more_fields: ClassVar[dict[str, str]] = {}
    """Fields of each response, if it has no others of these names."""

    def handle_request(self) -> None:
        self.asked = urllib.parse.unquote(self.path.split("?")[0])
        self.name = self.site.held(self.asked)
        self.content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.site.requests.append((self.command, self.name))
        if not self.site.behaviour(self):
            self.carry_out()

    def carry_out(self) -> bool:
        return getattr(self, f"answer_{self.command.lower()}", self.refuse)()

    def carried_out(self) -> bool:
        """Carries out the request without a response. Returns true if that has succeeded."""
        self.is_silent = True
        self.carry_out()
        self.is_silent = False
        return self.status < HTTPStatus.MULTIPLE_CHOICES

    do_GET = do_HEAD = do_PUT = do_DELETE = do_MKCOL = do_MOVE = do_PROPFIND = do_OPTIONS = do_QUERY = handle_request

    def answer(self, status: int, body: bytes = b"", **fields: object) -> bool:
        """Sends a response without the fields that are None."""
        self.status = status
        if self.is_silent:
            return True
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        fields = {"Content-Length": len(body), **self.more_fields, **named}
        self.send_response(status)
        for name, value in fields.items():
            if value is not None:
                self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        return True

    def stream(self, body: bytes, *, whole: bool = True, **fields: object) -> bool:
        """Sends a response without a length, which ends with the connection; if not `whole`, its end is cut off."""
        self.close_connection = True
        return self.answer(
            200, body if whole else body[: len(body) // 2], Content_Length=None, Connection="close", **fields
        )

    def html(self, body: str, status: int = 200) -> bool:
        return self.answer(status, body.encode(), Content_Type="text/html")

    def multistatus(self, inner: str) -> bool:
        text = f'<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">{inner}</D:multistatus>'
        return self.answer(207, text.encode(), Content_Type="application/xml")

    def refuse(self) -> bool:
        return self.answer(405)

    def answer_get(self) -> bool:
        data = self.site.files.get(self.name)
        if data is None:
            return self.answer(404)
        fields = {"Last-Modified": formatdate(MODIFIED, usegmt=True), "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and not data:
            return self.answer(416, Content_Range="bytes */0")
        if asked:
            first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
            if first >= len(data):
                return self.answer(416, Content_Range=f"bytes */{len(data)}")
            return self.answer(206, data[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(data)}", **fields)
        return self.answer(200, data, **fields)

    answer_head = answer_get

    def answer_propfind(self) -> bool:
        name = self.name if self.name in self.site.files else self.site.held(self.name + "/")
        if name not in self.site.files:
            return self.answer(404)
        inside = self.site.within(name) if name.endswith("/") and self.headers.get("Depth") == "1" else []
        return self.multistatus("".join(map(self.properties, [name, *inside])))

    def answer_put(self) -> bool:
        is_new = self.name not in self.site.files
        self.site.files[self.name] = self.content
        return self.answer(201 if is_new else 204)

    def break_off(self) -> bool:
        """Closes the connection without a response."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
        return True

    def answer_mkcol(self) -> bool:
        name = self.site.held(self.name.rstrip("/") + "/")
        if name in self.site.files:
            return self.answer(405)
        self.site.files[name] = None
        return self.answer(201)

    def answer_delete(self) -> bool:
        name = self.name if self.name in self.site.files else self.site.held(self.name + "/")
        if name not in self.site.files:
            return self.answer(404)
        for path in [path for path in self.site.files if path == name or (name[-1] == "/" and path.startswith(name))]:
            del self.site.files[path]
        return self.answer(204)

    def answer_move(self) -> bool:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.headers["Destination"]).path)
        target = self.site.held(path)
        if self.name not in self.site.files:
            return self.answer(404)
        is_new = target not in self.site.files
        if not is_new and self.headers.get("Overwrite") == "F":
            return self.answer(412)
        self.site.files[target] = self.site.files.pop(self.name)
        return self.answer(201 if is_new else 204)

    def properties(self, path: str, **changed: str | None) -> str:
        """The `response` of a path, without the properties that are None."""
        data = self.site.files[self.site.held(path)]
        # Like Apache, it uses the names of the request in URLs.
        href = self.asked + path[len(self.name) :]
        kind = "<D:collection/>" if data is None else ""
        told = {
            "resourcetype": kind,
            "getcontentlength": None if data is None else str(len(data)),
            "getlastmodified": formatdate(MODIFIED, usegmt=True),
            **changed,
        }
        inner = "".join(f"<D:{name}>{value}</D:{name}>" for name, value in told.items() if value is not None)
        return (
            f"<D:response><D:href>{urllib.parse.quote(href)}</D:href><D:propstat><D:prop>{inner}</D:prop>"
            "<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        )


def serving(site: Site, exchange: type[Exchange] = Exchange) -> LoopbackServer:
    """Serves `site` until the end of the block, with the responses of `exchange`."""
    return LoopbackServer(type("OwnExchange", (exchange,), {"site": site}))
