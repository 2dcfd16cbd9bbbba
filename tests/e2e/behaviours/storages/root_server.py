"""A server of `root://` in memory, for the table of behaviours: `Site` with the requests of XRootD.

As in `foreign_server`, its behaviour is called first for each request, and may respond.
"""

import socket
import struct
from socketserver import StreamRequestHandler

from behaviours.foreign_server import MODIFIED, Site

REQUESTS = {
    3001: "query",
    3003: "close",
    3004: "dirlist",
    3006: "protocol",
    3007: "login",
    3008: "mkdir",
    3009: "mv",
    3010: "open",
    3011: "ping",
    3013: "read",
    3014: "rm",
    3015: "rmdir",
    3016: "sync",
    3017: "stat",
    3019: "write",
    3025: "readv",
}
OK, MORE, ERROR, REDIRECT = 0, 4000, 4003, 4004
NOT_OPEN, NOT_FOUND, FS_ERROR, UNSUPPORTED, EXISTS, IS_DIRECTORY = 3004, 3011, 3005, 3013, 3018, 3016
DELETE, NEW, STATUS, UPDATE = 0x2, 0x8, 0x400, 0x20
"""Options of an open."""
DIRECTORY, READABLE = 2, 16


class Failed(Exception):
    """The request is refused with this code and message."""


class RootExchange(StreamRequestHandler):
    """The requests of a connection; `command` is the present one."""

    site: Site

    def handle(self) -> None:
        self.rfile.read(20)
        self.connection.sendall(struct.pack(">HHIII", 0, OK, 8, 0x520, 1))
        self.handles: dict[bytes, str] = {}
        self.is_open = True
        while self.is_open and len(head := self.rfile.read(24)) == 24:
            self.stream, code, self.fields, length = struct.unpack(">HH16sI", head)
            self.content = self.rfile.read(length)
            self.command = REQUESTS.get(code, "other")
            text = self.content.decode(errors="replace") if self.command not in ("write", "login") else ""
            names = [name.split("?")[0].replace("//", "/") for name in text.rstrip("\0").split(" ")]
            self.name, self.target = names[0], names[-1]
            self.site.requests.append((self.command, self.name))
            if not self.site.behaviour(self):
                self.answer(*self.carry_out())

    def answer(self, status: int, body: bytes = b"") -> bool:
        self.connection.sendall(struct.pack(">HHI", self.stream, status, len(body)) + body)
        return True

    def refuse(self, code: int, message: str = "as the test wants it") -> bool:
        return self.answer(ERROR, struct.pack(">I", code) + message.encode() + b"\0")

    def redirect(self, port: int) -> bool:
        return self.answer(REDIRECT, struct.pack(">I", port) + b"127.0.0.1")

    def break_off(self) -> bool:
        """Closes the connection without a response."""
        self.is_open = False
        self.connection.shutdown(socket.SHUT_RDWR)
        return True

    def carry_out(self) -> tuple[int, bytes]:
        """Carries out the request, and returns the response."""
        try:
            return OK, getattr(self, f"do_{self.command}", self.do_other)() or b""
        except Failed as failed:
            code, message = failed.args
            return ERROR, struct.pack(">I", code) + message.encode() + b"\0"

    def found(self) -> str:
        """The name in the site, with a slash for a directory."""
        for name in (self.name, self.name.rstrip("/") + "/"):
            if name in self.site.files:
                return name
        raise Failed(NOT_FOUND, f"{self.name}; no such file or directory")

    def status(self, name: str) -> bytes:
        data = self.site.files[name]
        kind = DIRECTORY if data is None else 0
        return f"{hash(name) % 997} {len(data or b'')} {READABLE | kind} {MODIFIED}".encode()

    def do_other(self) -> bytes:
        raise Failed(UNSUPPORTED, "not supported")

    def do_protocol(self) -> bytes:
        return struct.pack(">II", 0x520, 1)

    def do_login(self) -> bytes:
        return bytes(16)

    def do_query(self) -> bytes:
        if self.fields[:2] != b"\0\7":
            return self.do_other()
        return b"2097136\n1024\n\0"

    def do_stat(self) -> bytes:
        return self.status(self.found()) + b"\0"

    def do_dirlist(self) -> bytes:
        inside = self.site.within(self.found())
        statuses = [(name.rstrip("/").rpartition("/")[2].encode(), self.status(name)) for name in inside]
        return b"\n".join([b".\n0 0 0 0", *(b"\n".join(pair) for pair in statuses)]) + b"\0"

    def do_open(self) -> bytes:
        _, options = struct.unpack(">HH", self.fields[:4])
        name = self.name
        if options & (DELETE | NEW):
            if options & NEW and name in self.site.files:
                raise Failed(EXISTS, "file exists")
            self.site.files[name] = b""
        elif self.found().endswith("/"):
            raise Failed(IS_DIRECTORY, "is a directory")
        handle = struct.pack("<I", len(self.handles))
        self.handles[handle] = name
        return handle + bytes(8) + (self.status(name) + b"\0" if options & STATUS else b"")

    def opened(self, handle: bytes) -> bytes:
        data = self.site.files.get(self.handles.get(handle, ""))
        if data is None:
            raise Failed(NOT_OPEN, "file not open")
        return data

    def do_read(self) -> bytes:
        offset, length = struct.unpack(">QI", self.fields[4:])
        return self.opened(self.fields[:4])[offset : offset + length]

    def do_readv(self) -> bytes:
        parts = []
        for at in range(0, len(self.content), 16):
            handle, length, offset = struct.unpack(">4sIQ", self.content[at : at + 16])
            data = self.opened(handle)[offset : offset + length]
            parts.append(struct.pack(">4sIQ", handle, len(data), offset) + data)
        return b"".join(parts)

    def do_write(self) -> None:
        (offset,) = struct.unpack(">Q", self.fields[4:12])
        data = self.opened(self.fields[:4]).ljust(offset, b"\0")
        self.site.files[self.handles[self.fields[:4]]] = (
            data[:offset] + self.content + data[offset + len(self.content) :]
        )

    def do_close(self) -> None:
        self.handles[self.fields[:4]] = "closed"

    do_sync = do_ping = lambda self: None

    def do_mkdir(self) -> None:
        name = self.name.rstrip("/") + "/"
        if name in self.site.files:
            raise Failed(EXISTS, "file exists")
        self.site.files[name] = None

    def do_rm(self) -> None:
        name = self.found()
        if name.endswith("/"):
            raise Failed(IS_DIRECTORY, "is a directory")
        del self.site.files[name]

    def do_rmdir(self) -> None:
        name = self.found()
        if not name.endswith("/"):
            raise Failed(FS_ERROR, f"Unable to remove {name}; not a directory")
        if self.site.within(name):
            raise Failed(FS_ERROR, f"Unable to remove {name}; directory not empty")
        del self.site.files[name]

    def do_mv(self) -> None:
        self.site.files[self.target] = self.site.files.pop(self.found())
