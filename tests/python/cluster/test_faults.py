"""Copies by a cluster one of whose nodes is killed, stopped or cut off, to all destinations.

A node that goes on late must change nothing, and the other one has to copy everything. Each machine
is a network namespace. A row of each fault and of each destination runs in CI, all in `make soak`.
"""

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from needs import python_package, require, require_network_namespaces

from bench.cluster.machines import Machines
from bench.cluster.nodes import Nodes
from bench.harness import servers
from bench.harness.waiting import wait_until

python_package("distributed")

pytestmark = [pytest.mark.netns, pytest.mark.pair]

LARGE = 20 << 20
LARGE_FILES = 2
MBIT = 1000
PATIENCE = 120
SMALL_FILES = 200
CLIENT = """
import sys
from distributed import Client
import hither.cluster

with Client(scheduler_file=sys.argv[1], timeout=60) as dask:
    dask.wait_for_workers(2, timeout=60)
    print("begun", flush=True)
    done = hither.cluster.copy(dask, *sys.argv[2:], large="8 MiB", bandwidth=8_000_000)
    print(done.failures, done.notices)
    sys.exit(min(done.files_failed, 1))
"""

SERVERS = {
    "hither serve": lambda where, folder: servers.hither(
        where, folder, more=("--write", "--config", str(folder.with_name("serve.toml")))
    ),
    "nginx": lambda where, folder: servers.nginx(where, folder, webdav=True),
    "nginx with create_full_put_path": lambda where, folder: servers.nginx(
        where, folder, locations="create_full_put_path on;", webdav=True
    ),
    "apache": lambda where, folder: servers.apache(where, folder, webdav=True),
    "xrootd": servers.xrootd,
    "root": servers.xrootd,
}
PROGRAMS = {"apache": "apache2", "xrootd": "xrootd", "root": "xrootd"}
DESTINATIONS = ["a folder", *SERVERS]
FAULTS = ["killed", "stopped", "cut off", "cut off from the scheduler", "cut off from the destination"]
IN_CI = {
    ("nginx", "cut off from the scheduler"),
    ("hither serve", "cut off from the destination"),
    ("apache", "stopped"),
    ("root", "killed"),
    ("xrootd", "cut off"),
}
"""S3 has no directories, and so no fences: such a destination is refused (test_cluster.py)."""


def rows():
    for kind in DESTINATIONS:
        for fault in FAULTS:
            if kind == "a folder" and fault.endswith("the destination"):
                continue
            # What is dead does not go on, and what the destination lacks it gets before the end.
            for is_late in (False, True) if fault in ("stopped", "cut off", "cut off from the scheduler") else (False,):
                marks = () if (kind, fault) in IN_CI and not is_late else pytest.mark.soak
                yield pytest.param(
                    kind, fault, is_late, marks=marks, id=f"{kind}-{fault}-{'late' if is_late else 'soon'}"
                )


def content(root):
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in root.rglob("*")
    }


def states(root):
    return {path: (it.st_ino, it.st_size, it.st_mtime_ns) for path in root.rglob("*") for it in [path.stat()]}


class Site:
    """A source, a destination and two nodes, each on a machine of its own."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, kind: str) -> None:
        require("nginx")
        if kind in PROGRAMS:
            require(PROGRAMS[kind])
        self.source, self.there = folder / "www/tree", folder / "there"
        chance = random.Random(5)
        for number in range(SMALL_FILES):
            path = self.source / f"d{number % 5}/ä {number}%"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(chance.randbytes(number * 40))
        for number in range(LARGE_FILES):
            (self.source / f"large{number}").write_bytes(chance.randbytes(LARGE + number))
        (folder / "serve.toml").write_text("anonymous_write = true\nlimits.min_free_bytes = 0\n")
        self.there.mkdir()
        self.there.chmod(0o777)
        self.machines = stack.enter_context(Machines("ab", MBIT))
        hub = self.machines.hub
        self.other = self.machines.second_hub()
        port = stack.enter_context(servers.nginx(hub, folder / "www", None, "autoindex on;"))
        self.url = f"http://{hub.server_host}:{port}/tree"
        self.to = str(self.there / "to")
        if kind in SERVERS:
            port = stack.enter_context(SERVERS[kind](self.other, self.there))
            scheme, root = ("root", "/") if kind == "root" else ("http", "")
            self.to = f"{scheme}://{self.other.server_host}:{port}/{root}to"
        (folder / "nodes").mkdir()
        self.nodes = Nodes(folder / "nodes", hub)
        stack.callback(self.nodes.close)
        self.nodes.start_scheduler(hub.server_host)
        for name in "ab":
            self.nodes.start(name, self.machines.machines[name])

    def start(self) -> subprocess.Popen:
        command = [sys.executable, "-c", CLIENT, str(self.nodes.scheduler_file), self.url, self.to]
        state = str(self.nodes.folder / "client")
        environment = {**os.environ, "XDG_STATE_HOME": state, "XDG_CACHE_HOME": state}
        return subprocess.Popen(
            self.machines.hub.client(command),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def fences(self) -> list[str]:
        """The leases of b whose fences are there."""
        fences = [path for path in (self.there / "to").glob(".hither-cluster-*-*") if path.is_dir()]
        return [it.stem for it in self.nodes.leases("b") if any((path / it.stem).is_dir() for path in fences)]

    def waits_for_b(self) -> bool:
        """True if the other node has nothing to do, and no lease waits."""
        return bool(list(self.nodes.folder.glob("a/hither/cluster/movers/*/a/last"))) and not self.nodes.leases("a")

    def fail(self, fault: str, *, ends: bool = False) -> None:
        """Begins the fault of the node b, or ends it."""
        hub, off = self.machines.hub.server_host, not ends
        if fault == "killed" and off:
            self.nodes.kill("b")
        elif fault == "stopped":
            self.nodes.signal("b", signal.SIGCONT if ends else signal.SIGSTOP)
        elif fault == "cut off":
            self.machines.silence("b", off=off)
        elif fault.startswith("cut off from"):
            self.machines.lose("b", hub if fault.endswith("scheduler") else self.other.server_host, off=off)


@pytest.mark.parametrize(("kind", "fault", "is_late"), list(rows()))
def test_a_node_that_fails_loses_nothing_and_changes_nothing_late(kind, fault, is_late, tmp_path):
    require_network_namespaces()
    with contextlib.ExitStack() as stack:
        site = Site(tmp_path, stack, kind)
        client = site.start()
        stack.callback(client.kill)

        def failed() -> list[str]:
            if not site.fences():
                return []
            site.fail("stopped")
            found = site.fences()
            if not found:
                site.fail("stopped", ends=True)
            return found

        taken = wait_until(lambda: failed() or client.poll() is not None, "a lease of b")
        assert client.poll() is None, client.communicate()
        site.fail(fault)
        if fault not in ("stopped", "killed"):
            site.fail("stopped", ends=True)
        if not is_late:
            is_over = lambda: client.poll() is not None  # noqa: E731
            if fault.endswith("the destination"):
                wait_until(lambda: site.waits_for_b() or is_over(), "the work of the other node", PATIENCE)
            else:
                gone = lambda: not set(taken) & set(site.fences())  # noqa: E731
                wait_until(lambda: gone() or is_over(), "the removal of b's fences", PATIENCE)
            site.fail(fault, ends=True)
        said, _ = client.communicate(timeout=PATIENCE)
        assert client.returncode == 0, said
        before = content(site.there / "to")
        left = [name for name in before if ".hither-" in name]
        assert len(left) <= 1, said
        assert all(f"{name} is left as a file" in said for name in left), said
        assert {name: it for name, it in before.items() if name not in left} == content(site.source), said
        after = states(site.there / "to")
        site.fail(fault, ends=True)
        if fault != "killed":
            wait_until(lambda: not site.nodes.leases("b"), "the end of b's leases", PATIENCE)
        assert (content(site.there / "to"), states(site.there / "to")) == (before, after)
