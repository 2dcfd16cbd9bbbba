"""The talk's seven links, and three ways to put a client and a server at the ends of one.

Each way says how a command runs at the client's end and at the server's, and at which address the
client finds the server. `Wan` is the real one (packets between two network namespaces, needs root),
`Loopback` has no link at all, and `Proxied` is an approximation without root: delay and rate are
right, but there is no TCP slow start.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.harness.paths import HITHER_PROXY, HITHER_WAN
from bench.harness.waiting import readable


@dataclass(frozen=True)
class Link:
    """A row of the talk's table. `mbit` None is unlimited; with no delay, too, it is loopback."""

    letter: str
    rtt_ms: float
    mbit: float | None
    where: str
    more: tuple[str, ...] = ()
    """Further options of hither-wan."""

    @property
    def is_loopback(self) -> bool:
        return self.rtt_ms == 0 and self.mbit is None

    @property
    def label(self) -> str:
        if self.is_loopback:
            return "loopback"
        rate = f"{self.mbit:g} Mbit/s" if self.mbit else "unlimited"
        return f"{self.rtt_ms:g} ms, {rate}"

    def options(self) -> list[str]:
        """For hither-wan and hither-proxy."""
        rate = ["--rate", f"{self.mbit:g}Mbit"] if self.mbit else []
        return ["--rtt", f"{self.rtt_ms:g}ms", *rate, *self.more]


LINKS = {
    link.letter: link
    for link in (
        Link("A", 0, None, "the same machine"),
        Link("B", 0.3, 100, "CERN, cable"),
        Link("C", 2, 10, "CERN, wireless"),
        Link("D", 11, 100, "Orsay"),
        Link("E", 22, 100, "Amsterdam"),
        Link("F", 72, 8, "a home with ADSL"),
        Link("G", 240, None, "by way of Caltech"),
    )
}


def is_root() -> bool:
    return os.geteuid() == 0


def enter_namespace(name: str) -> None:
    """Moves this thread to a network namespace; Python has `os.setns` from 3.12 on."""
    with Path("/run/netns", name).open("rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {name}")


class Loopback:
    """Both ends on this machine, with nothing between them."""

    congestion = "cubic"
    server_host = "127.0.0.1"
    client_host = "127.0.0.1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def client(self, command: list[str]) -> list[str]:
        return command

    def server(self, command: list[str]) -> list[str]:
        return command

    def enter(self) -> None:
        """Moves this process, which has one thread, to the client's end."""

    def reach(self, port: int) -> tuple[str, int]:
        """The address at which the client reaches the server's `port`."""
        return self.server_host, port

    def reset(self) -> None:
        return None

    def stats(self) -> dict | None:
        return None


class Wan(Loopback):
    """Two network namespaces joined by `hither-wan`: kernel TCP, and counters in the link.

    Where round trips are counted, a program that other work of the machine delays by a round trip
    would be counted as one that waits for an answer. With `real_time` the link and the programs at
    its ends are scheduled before all other work, the link first.
    """

    def __init__(self, link: Link, congestion: str = "cubic", *, real_time: bool = False):
        self.name = f"bench{os.getpid()}{link.letter.lower()}"
        self.link = link
        self.congestion = congestion
        self.real_time = real_time

    def _scheduled(self, priority: int) -> list[str]:
        return ["chrt", "--fifo", str(priority)] if self.real_time else []

    def __enter__(self):
        up = [*self._scheduled(3), HITHER_WAN, "up", self.name, *self.link.options(), "--congestion", self.congestion]
        # The link is removed when this process ends, however it ends.
        up += ["--owner", str(os.getpid()), "--json"]
        answer = subprocess.run(up, check=True, stdout=subprocess.PIPE, text=True).stdout
        self.server_host, self.client_host = (json.loads(answer)[end]["address"] for end in ("server", "client"))
        return self

    def __exit__(self, *_):
        subprocess.run([HITHER_WAN, "down", self.name], check=False)

    def client(self, command: list[str]) -> list[str]:
        return [*self._scheduled(1), str(HITHER_WAN), "exec", self.name, "client", "--", *command]

    def server(self, command: list[str]) -> list[str]:
        return [*self._scheduled(2), str(HITHER_WAN), "exec", self.name, "server", "--", *command]

    def enter(self) -> None:
        enter_namespace(f"hw-{self.name}-c")

    def initial_window(self, segments: int) -> None:
        """Sets the initial congestion window of the server's connections, by route."""
        show = subprocess.run(
            self.server(["ip", "route", "show", "scope", "link"]), check=True, stdout=subprocess.PIPE, text=True
        )
        route = re.sub(r" initcwnd \d+", "", show.stdout.splitlines()[0]).split()
        change = ["ip", "route", "change", *route, "scope", "link", "initcwnd", str(segments)]
        subprocess.run(self.server(change), check=True)

    def reset(self) -> None:
        subprocess.run([HITHER_WAN, "stats", self.name, "--json", "--reset"], check=True, stdout=subprocess.DEVNULL)

    def stats(self) -> dict:
        command = [HITHER_WAN, "stats", self.name, "--json"]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


class OtherEnd(Loopback):
    """A link from its other end: servers run where its client is."""

    def __init__(self, where: Loopback):
        self.server_host, self.client_host = where.client_host, where.server_host
        self.server, self.client = where.client, where.server


class Proxied(Loopback):
    """A server on loopback, with a `hither-proxy` before each port."""

    def __init__(self, link: Link):
        self.link = link
        self.proxies: list[subprocess.Popen] = []
        self.ports: dict[int, int] = {}

    def __exit__(self, *_):
        for proxy in self.proxies:
            proxy.send_signal(signal.SIGTERM)
        for proxy in self.proxies:
            proxy.wait()

    def reach(self, port: int) -> tuple[str, int]:
        if port not in self.ports:
            self.ports[port] = self.start(port)
        return self.server_host, self.ports[port]

    def start(self, port: int) -> int:
        command = [HITHER_PROXY, "--listen", "127.0.0.1:0", "--to", f"127.0.0.1:{port}", *self.link.options()]
        proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.proxies.append(proxy)
        if not readable(proxy.stdout, timeout=10):
            raise RuntimeError("hither-proxy did not print its address within 10 s")
        line = proxy.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if not found:
            raise RuntimeError(f"hither-proxy printed {line!r} instead of its address")
        return int(found[1])


def ends_of(link: Link, congestion: str = "cubic") -> Loopback:
    """The most exact emulation of a link that this user may run."""
    if link.is_loopback:
        return Loopback()
    return Wan(link, congestion) if is_root() else Proxied(link)
