"""Network namespaces as machines on one switch, each with a line of its own of some rate.

The switch is a bridge in the namespace of the *hub*, which has no limit: there are the server, the
scheduler and the client. A machine's line is a pair of interfaces with a token bucket at both ends.
"""

import contextlib
import os
import subprocess
from pathlib import Path

from bench.harness.links import Loopback

NETWORK = "10.78.0."
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


class Machines:
    """The hub and machines by letters, as long as the block lasts."""

    def __init__(self, names: str, mbit: float):
        self._mbit = mbit
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
            for name, machine in self.machines.items():
                ip("netns", "add", machine.name)
                ip("-n", hub, "link", "add", f"to-{name}", "type", "veth", "peer", "name", "line")
                ip("-n", hub, "link", "set", "line", "netns", machine.name)
                ip("-n", hub, "link", "set", f"to-{name}", "master", "switch", "up")
                ip("-n", machine.name, "addr", "add", f"{machine.client_host}/24", "dev", "line")
                ip("-n", machine.name, "link", "set", "line", "up")
                ip("-n", machine.name, "link", "set", "lo", "up")
                self._limit(hub, f"to-{name}")
                self._limit(machine.name, "line")
            undo.pop_all()
        return self

    def __exit__(self, *_):
        self._remove()

    def cut(self, name: str, *, off: bool) -> None:
        """Cuts a machine off, or connects it again."""
        ip("-n", self.hub.name, "link", "set", f"to-{name}", "down" if off else "up")

    def received(self, name: str) -> int:
        """Returns the bytes that came to a machine over its line."""
        path = f"/sys/class/net/to-{name}/statistics/tx_bytes"
        return int(subprocess.run(self.hub.client(["cat", path]), check=True, stdout=subprocess.PIPE).stdout)

    def _limit(self, namespace: str, device: str) -> None:
        rate = ["tbf", "rate", f"{self._mbit}mbit", "burst", BUCKET, "latency", "50ms"]
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
