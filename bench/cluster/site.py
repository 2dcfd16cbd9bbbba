"""The copy that is measured: a server at the hub, a client that says what it sees, nodes."""

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from distributed import Client

import hither.cluster
from bench.cluster.machines import Machines
from bench.cluster.nodes import Nodes
from bench.harness import servers
from bench.harness.content import numbered_blocks, write_tree
from bench.harness.links import Loopback

MBIT = 100
PAYLOAD = 1448 / 1514
"""The share of payload in a full packet on the line, its headers included."""
SMALL_FILES = 2000
LARGE_MB = 32
CAP_SECONDS = 150


def write_source(root: Path, size: int) -> int:
    """Large files, and a tenth of the bytes in small ones; returns the size of all."""
    write_tree(root / "small", SMALL_FILES, max(100, size // 10 // SMALL_FILES))
    for number in range(max(1, round(0.9 * size / (LARGE_MB << 20)))):
        with (root / f"large{number:03}").open("wb") as file:
            file.writelines(numbered_blocks(LARGE_MB, 1 << 20))
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def nginx(where: Loopback, root: Path, log: Path, dead: int = 60, tls: servers.Tls | None = None):
    return servers.nginx(where, root, log, f"autoindex on; send_timeout {dead}s;", tls=tls, workers=2)


def is_equal(one: Path, other: Path) -> bool:
    """Compares all names and contents."""
    return subprocess.run(["diff", "-rq", one, other], stdout=subprocess.DEVNULL, check=False).returncode == 0


Serve = Callable[[Loopback, Path, Path], AbstractContextManager[int]]
"""Runs a server of a folder that logs to a file, and yields its port."""


@contextmanager
def site(folder: Path, names: str, serve: Serve, lines: int = 1, hub_mbit: float | None = None):
    """A server of `folder/www`, nodes on their machines; yields them and the URL of the tree."""
    with ExitStack() as stack:
        machines = stack.enter_context(Machines(names, MBIT, lines, hub_mbit))
        port = stack.enter_context(serve(machines.hub, folder / "www", folder / "access.log"))
        nodes = Nodes(folder, machines.hub)
        stack.callback(nodes.close)
        nodes.start_scheduler(machines.hub.server_host)
        for name in names:
            nodes.start(name, machines.machines[name])
        yield machines, nodes, f"http://{machines.hub.server_host}:{port}/tree"


def copy(nodes: Nodes, url: str, target: Path, lines: list[str] | None = None) -> subprocess.Popen:
    """Starts the client beside the scheduler; it prints what it sees."""
    command = [
        sys.executable,
        "-m",
        "bench.cluster",
        "--copy",
        nodes.scheduler_file,
        url,
        target,
        "--wait",
        len(nodes.names()),
        *[f"--source={line}" for line in lines or () if len(lines) > 1],
    ]
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(nodes.folder / "client"),
        "XDG_CACHE_HOME": str(nodes.folder / "client"),
    }
    words = nodes.where.client([str(word) for word in command])
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)


def run_copy(scheduler_file: str, url: str, target: str, workers: int, sources: list[str]) -> None:
    """The client's end: prints a row each tenth of a second, and the summary."""
    with Client(scheduler_file=scheduler_file, timeout=30) as dask:
        dask.wait_for_workers(workers, timeout=60)
        began = time.monotonic()
        print("begun", flush=True)

        def show(progress: hither.cluster.ClusterProgress) -> None:
            in_hand = sum(sum(node.open.values()) for node in progress.nodes)
            shares = (f"{node.name}={node.bytes + sum(node.open.values())}" for node in progress.nodes)
            row = [f"{time.monotonic() - began:.2f}", progress.bytes_arrived, in_hand, progress.bytes_leased, *shares]
            print(*row, flush=True)

        done = hither.cluster.copy(dask, url, target, large="16 MiB", source_addresses=sources, progress=show)
        shares = ",".join(f"{name}={size}" for name, size in done.nodes.items())
        print(f"done {time.monotonic() - began:.2f} {done.files_failed} {shares}", flush=True)


class Watched:
    """A client, and what it prints."""

    def __init__(self, process: subprocess.Popen):
        self.process = process
        self.rows: list[tuple[float, ...]] = []
        """Time, and bytes: that came, of those in open leases, of the leases."""
        self.shares: list[dict[str, int]] = []
        """The bytes of each node at these times."""
        self.began = 0.0
        """The time of the clock at which the rows begin."""
        self.done = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "done":
                self.done = float(words[1]), int(words[2]), words[3] if len(words) > 3 else ""
            elif words[0] == "begun":
                self.began = time.monotonic()
            else:
                self.shares.append({name: int(size) for name, _, size in (word.partition("=") for word in words[4:])})
                self.rows.append((float(words[0]), *map(int, words[1:4])))

    def until(self, size: float) -> bool:
        """Waits for some bytes; tells whether the copy is still under way."""
        while self.process.poll() is None:
            if self.rows and self.rows[-1][1] >= size:
                return True
            time.sleep(0.02)
        return False

    def end(self, seconds: float = CAP_SECONDS) -> int:
        code = self.process.wait(seconds)
        self._thread.join()
        return code

    def dip(self) -> float:
        """The longest time in which nothing arrived."""
        changes = [
            rows[0][0] for _, group in itertools.groupby(self.rows, key=lambda row: row[1]) for rows in [list(group)]
        ]
        return max((after - before for before, after in itertools.pairwise(changes)), default=0.0)
