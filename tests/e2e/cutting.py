"""A relay that closes a connection after a number of bytes of the response, or stalls."""

import contextlib
import selectors
import socket
import struct
import threading

from bench.harness.servers import free_port


class Hold:
    """A number of bytes after which a relay forwards nothing until it is released.

    Each has its own events: a thread that is late for one does not set that of the next.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self.reached, self.released = threading.Event(), threading.Event()
        self.is_cut = False


class Relay:
    """Listens on a port of this worker, which nobody else gets when it is closed, and forwards bytes to and from
    `upstream`.

    `after` returns the number of response bytes that the n-th connection (from 0) may carry before it is cut, and
    `takes` the number of request bytes; None is unlimited. With `stall` no response is sent, and `asked` is set when
    the first request has arrived. After `dies_after` bytes of all responses together every connection is cut, and no
    other is accepted: the server is gone. `passed` and `taken` count the bytes of all responses, and of all requests.
    After `hold_after` nothing is forwarded, so a transfer cannot end before `release`.
    """

    def __init__(
        self,
        upstream: int | None,
        after=lambda _connection: None,
        reset: bool = False,
        stall: bool = False,
        dies_after: int | None = None,
        port: int = 0,
        takes=lambda _connection: None,
    ):
        self.upstream = upstream
        self.dies_after = dies_after
        self.passed = self.taken = 0
        self.passing = threading.Lock()
        self.after = after
        self.takes = takes
        self.reset = reset
        self.stall = stall
        self.asked, self.died = threading.Event(), threading.Event()
        self.hold: Hold | None = None
        self.held = threading.Event()
        self.connections = 0
        self.sockets: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", port or free_port()), backlog=256)
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.die()
        for one in self.sockets:
            one.close()

    def die(self) -> None:
        """Stops accepting and forwarding. Sockets are closed later, because other threads wait on them."""
        for one in [self.listener, *self.sockets]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.release(cut=True)
        self.died.set()

    def hold_after(self, more: int) -> None:
        """Forwards this many more bytes, of requests and responses together, and then none. `held` is set then."""
        self.hold = Hold(self.passed + self.taken + more)
        self.held = self.hold.reached

    def release(self, *, cut: bool = False) -> None:
        """Forwards again. With `cut`, connections whose bytes are held end instead."""
        hold, self.hold = self.hold, None
        if hold:
            hold.is_cut = cut
            hold.released.set()

    def is_held_back(self) -> bool:
        """Waits while nothing is forwarded; returns true if the connection has to end then."""
        hold = self.hold
        if hold is None or self.passed + self.taken <= hold.limit:
            return False
        hold.reached.set()
        hold.released.wait()
        return hold.is_cut

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.sockets.append(client)
                number = self.connections
                self.connections += 1
                threading.Thread(target=self.carry, args=(client, number), daemon=True).start()

    def carry(self, client: socket.socket, number: int) -> None:
        allowed = self.after(number)
        if allowed == 0:
            self.cut(client)
            return
        if self.stall or self.upstream is None:
            with contextlib.suppress(OSError):
                while client.recv(65536):
                    self.asked.set()
            return
        try:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.upstream)) as server:
                self.relay(client, server, {client: self.takes(number), server: allowed})
        finally:
            self.cut(client)

    def relay(self, client: socket.socket, server: socket.socket, allowed: dict[socket.socket, int | None]) -> None:
        """Forwards bytes in both directions until one side ends, or has sent what it is `allowed` to."""
        # One thread for both directions: closing a socket does not wake another thread that waits on it.
        with selectors.DefaultSelector() as selector:
            for end in (client, server):
                selector.register(end, selectors.EVENT_READ)
            while True:
                for source in [key.fileobj for key, _ in selector.select()]:
                    left = allowed[source]
                    chunk = source.recv(65536 if left is None else min(65536, left))
                    if not chunk:
                        return
                    with self.passing:
                        if source is client:
                            self.taken += len(chunk)
                        else:
                            self.passed += len(chunk)
                        if self.dies_after is not None and self.passed > self.dies_after:
                            self.die()
                            return
                    if source is client:
                        self.asked.set()
                    if self.is_held_back():
                        return
                    (server if source is client else client).sendall(chunk)
                    if left is not None:
                        allowed[source] = left - len(chunk)
                        if left == len(chunk):
                            return

    def cut(self, client: socket.socket) -> None:
        """Ends a connection: orderly, or with a reset."""
        with contextlib.suppress(OSError):
            if self.reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                client.shutdown(socket.SHUT_RDWR)
        client.close()
