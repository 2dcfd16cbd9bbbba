"""The table of attacks on `hither serve`: the actions of each, and the conditions that must hold meanwhile.

An attack is a function that takes an `Attacker` and returns the connections that stay open. Add one with its row in
`ATTACKS`; `test_attacks.py` runs every row.
"""

import resource
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from served import PATIENCE, Served

from bench.server.attackers import frame, get, get_frame, preface

LARGE = 256 << 20
"""Bytes of `/large`, which are zeros and use no disk space."""
WORKERS = 8
"""Number of connections that are opened at a time."""


@dataclass
class Attacker:
    """Opens connections to a server, all from the same address."""

    served: Served
    is_secure: bool
    address: str = "127.0.0.1"

    def connect(self) -> socket.socket:
        url = urlsplit(self.served.base)
        raw = socket.create_connection((url.hostname, url.port), PATIENCE, (self.address, 0))
        if not self.is_secure:
            return raw
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(raw)

    def open(self, count: int, begins: Callable[[socket.socket], None]) -> list[socket.socket]:
        """Opens connections, and calls `begins` on each; a connection that the server ends meanwhile is kept."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2 * count + 256), hard), hard))

        def one(_: int) -> socket.socket:
            connection = self.connect()
            try:
                begins(connection)
            except OSError:
                pass
            return connection

        with ThreadPoolExecutor(WORKERS) as workers:
            return list(workers.map(one, range(count)))


def read_nothing(attacker: Attacker) -> list[socket.socket]:
    """100 GETs of a large file over TLS, whose responses are not read: at two blocks each they exceed the memory."""
    return attacker.open(100, lambda connection: connection.sendall(get("/large")))


def grant_one_byte(attacker: Attacker) -> list[socket.socket]:
    """Ten HTTP/2 connections with 128 GETs each, with windows of one byte."""
    streams = b"".join(get_frame(2 * n + 1, b"/large") for n in range(128))
    return attacker.open(10, lambda connection: connection.sendall(preface(1) + streams))


def begin_heads(attacker: Attacker) -> list[socket.socket]:
    """1,000 incomplete heads of 60 kB."""
    head = get("/large", "X-Long: " + "a" * 60_000)[:-4]
    return attacker.open(1000, lambda connection: connection.sendall(head))


PING = frame(6, 0, 0, bytes(8))


def ping(attacker: Attacker) -> list[socket.socket]:
    """100 HTTP/2 connections that send only pings."""
    return attacker.open(100, lambda connection: connection.sendall(preface(1) + PING))


def fill(attacker: Attacker) -> list[socket.socket]:
    """300 connections from one address, each in the middle of a response, to a server that accepts 200 of them."""

    def begins(connection: socket.socket) -> None:
        connection.sendall(get("/large"))
        connection.recv(1)

    return attacker.open(300, begins)


def idle(attacker: Attacker) -> list[socket.socket]:
    """300 idle connections, to a server that accepts 200."""

    def begins(connection: socket.socket) -> None:
        connection.sendall(get("/small"))
        connection.recv(1)

    return attacker.open(300, begins)


@dataclass(frozen=True)
class Attack:
    """A row of the table."""

    begins: Callable[[Attacker], list[socket.socket]]
    limits: str = ""
    """Keys of `[limits]`."""
    is_secure: bool = False
    clients: tuple[str, ...] = ("127.0.0.1", "127.0.0.2")
    """The addresses of clients that must be served meanwhile; the first is also the attacker's."""
    served_within: float = PATIENCE
    """Maximum seconds in which such a client receives 1 MiB."""
    resident_mib: int = 600
    """Maximum memory of the server at any time."""
    ends_within: float | None = None
    """Maximum seconds until the server has ended all connections of the attacker, if it has to."""
    replies: bytes = b""
    """Bytes that the attacker sends each time that it receives data."""
    counted: tuple[str, ...] = field(default=())
    """The metrics that must have increased."""


STAYS = "stall_seconds = 3600\nidle_seconds = 3600\n"
"""Limits by which the server ends no connection, so that it is not by waiting that it serves others."""

ATTACKS = [
    Attack(read_nothing, limits=STAYS + "memory_bytes = 33554432", is_secure=True, resident_mib=200),
    Attack(grant_one_byte, limits=STAYS, resident_mib=300),
    Attack(
        begin_heads,
        limits="idle_seconds = 5.0\nmemory_bytes = 134217728",
        resident_mib=200,
        ends_within=PATIENCE,
        counted=("hither_heads_refused_total",),
    ),
    Attack(ping, limits="idle_seconds = 5.0", resident_mib=100, ends_within=PATIENCE, replies=PING),
    Attack(
        fill,
        limits=STAYS + "connections_per_address = 200",
        clients=("127.0.0.2",),
        resident_mib=300,
        counted=("hither_connections_refused_total",),
    ),
    Attack(idle, limits=STAYS + "connections = 200", resident_mib=200, counted=("hither_connections_evicted_total",)),
]
