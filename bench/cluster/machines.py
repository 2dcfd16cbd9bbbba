"""Network namespaces as machines on one switch, each with lines of its own of some rate.

The switch is a bridge in the namespace of the *hub*, which has no limit unless one is set for what
it sends: there are the server, the scheduler and the client. A machine's line is a pair of
interfaces with a token bucket at both ends.
"""

import contextlib
import os
import subprocess
from pathlib import Path

from bench.harness.links import Loopback, enter_namespace

NETWORK = "10.78.0."
NOBODY = "02:00:00:00:00:01"
"""The hardware address of no machine."""
BUCKET = "64kb"
"""Bytes that a line sends at once: two full packets of the kernel's."""


class Machine(Loopback):
    """Commands run in its namespace."""

    def __init__(self, name: str, host: str):
        self.name = name
        self.server_host = self.client_host = host

    def client(self, command: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self.name, *map(str, command)]

    server = client

    def enter(self) -> None:
        enter_namespace(self.name)


class Machines:
    """The hub and machines by letters, as long as the block lasts."""

    def __init__(self, names: str, mbit: float, lines: int = 1, hub_mbit: float | None = None):
        self._mbit = mbit
        self._hub_mbit = hub_mbit
        self._lines = lines
        self._prefix = f"hc{os.getpid() % 100000}"
        self.hub = Machine(f"{self._prefix}-hub", f"{NETWORK}1")
        self.machines = {name: Machine(f"{self._prefix}-{name}", f"{NETWORK}{11 + n}") for n, name in enumerate(names)}

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            undo.callback(self._remove)
            hub = self.hub.name
            ip("netns", "add", hub)
            ip("-n", hub, "link", "set", "lo", "up")
            ip("-n", hub, "link", "add", "switch", "type", "bridge")
            ip("-n", hub, "addr", "add", f"{self.hub.server_host}/24", "dev", "switch")
            ip("-n", hub, "link", "set", "switch", "up")
            if self._hub_mbit:
                self._limit(hub, "switch", self._hub_mbit)
            for name, machine in self.machines.items():
                ip("netns", "add", machine.name)
                ip("-n", machine.name, "link", "set", "lo", "up")
                # Each line answers for its own address, and takes what comes for it.
                options = ("all.arp_ignore=1", "all.arp_announce=2", "all.rp_filter=0", "default.rp_filter=0")
                words = [f"net.ipv4.conf.{option}" for option in options]
                subprocess.run(machine.client(["sysctl", "-q", "-w", *words]), check=True)
                for line in range(self._lines):
                    self._connect(name, machine, line)
            undo.pop_all()
        return self

    def __exit__(self, *_):
        self._remove()

    def lines(self) -> list[str]:
        """Returns the names of each machine's interfaces."""
        return [f"line{line or ''}" for line in range(self._lines)]

    def cut(self, name: str, *, off: bool, line: int = 0) -> None:
        """Cuts a machine's line, or connects it again: the interface notices."""
        ip("-n", self.hub.name, "link", "set", f"to-{name}{line or ''}", "down" if off else "up")

    def silence(self, name: str, *, off: bool, line: int = 0) -> None:
        """The same, but packets vanish at the switch, and no interface notices."""
        where = ["nomaster"] if off else ["master", "switch"]
        ip("-n", self.hub.name, "link", "set", f"to-{name}{line or ''}", *where)

    def second_hub(self) -> Machine:
        """Gives the hub a second address; returns the hub with that one."""
        hub = Machine(self.hub.name, f"{NETWORK}2")
        ip("-n", hub.name, "addr", "add", f"{hub.server_host}/24", "dev", "switch")
        return hub

    def lose(self, name: str, host: str, *, off: bool) -> None:
        """Packets of a machine to one address vanish at the switch, or arrive again."""
        machine = self.machines[name].name
        for line in self.lines():
            words = ["replace", host, "lladdr", NOBODY, "nud", "permanent"] if off else ["del", host]
            ip("-n", machine, "neigh", *words, "dev", line)

    def received(self, name: str, line: int = 0) -> int:
        """Returns the bytes that came to a machine over a line."""
        path = f"/sys/class/net/to-{name}{line or ''}/statistics/tx_bytes"
        return int(subprocess.run(self.hub.client(["cat", path]), check=True, stdout=subprocess.PIPE).stdout)

    def _connect(self, name: str, machine: Machine, line: int) -> None:
        hub, switch, end = self.hub.name, f"to-{name}{line or ''}", self.lines()[line]
        network, _, last = machine.client_host.rpartition(".")
        ip("-n", hub, "link", "add", switch, "type", "veth", "peer", "name", end)
        ip("-n", hub, "link", "set", end, "netns", machine.name)
        ip("-n", hub, "link", "set", switch, "master", "switch", "up")
        ip("-n", machine.name, "addr", "add", f"{network}.{int(last) + 100 * line}/24", "dev", end)
        ip("-n", machine.name, "link", "set", end, "up")
        self._limit(hub, switch, self._mbit)
        self._limit(machine.name, end, self._mbit)

    def _limit(self, namespace: str, device: str, mbit: float) -> None:
        rate = ["tbf", "rate", f"{mbit:g}mbit", "burst", BUCKET, "latency", "50ms"]
        command = ["ip", "netns", "exec", namespace, "tc", "qdisc", "add", "dev", device, "root", *rate]
        subprocess.run(command, check=True)

    def _remove(self) -> None:
        for machine in (*self.machines.values(), self.hub):
            if Path(f"/run/netns/{machine.name}").exists():
                ip("netns", "del", machine.name)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def busy_seconds() -> tuple[float, float]:
    """The time that all processors have worked, and that they had."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    ticks = os.sysconf("SC_CLK_TCK")
    return (sum(fields) - fields[3] - fields[4]) / ticks, sum(fields) / ticks
