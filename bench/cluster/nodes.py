"""A Dask cluster of processes that stand for machines: each can be killed, stopped, started again.

A node is a worker and the mover that it starts. Both have the node's name in their environments, by
which they are found. Each node has its own folder for what it remembers, and may be at the client's
end of a link.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.harness.links import Loopback
from bench.harness.waiting import wait_until

START_SECONDS = 120


class Nodes:
    """A scheduler, and nodes by name."""

    def __init__(self, folder: Path, where: Loopback | None = None):
        self.folder = folder
        self.scheduler_file = folder / "scheduler.json"
        self.where = where or Loopback()
        self._places: dict[str, Loopback] = {}
        self._processes: dict[str, subprocess.Popen] = {}

    def start_scheduler(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Starts the scheduler; returns its address."""
        self.scheduler_file.unlink(missing_ok=True)
        command = ["scheduler", "--host", host, "--port", port, "--no-dashboard", "--no-show"]
        self._start("scheduler", self.where, [*command, "--scheduler-file", self.scheduler_file])
        try:
            return wait_until(self._scheduler_address, "Dask's scheduler", START_SECONDS)
        except TimeoutError as error:
            raise RuntimeError(f"Dask's scheduler did not start: {self.log('scheduler')}") from error

    def start(self, name: str, where: Loopback | None = None, threads: int = 2) -> None:
        """Starts a node."""
        self._places[name] = where or self._places.get(name) or self.where
        command = ["worker", "--scheduler-file", self.scheduler_file, "--name", name, "--nthreads", threads]
        more = [
            "--no-nanny",
            "--no-dashboard",
            "--death-timeout",
            START_SECONDS,
            "--local-directory",
            self.folder / name / "dask",
        ]
        self._start(name, self._places[name], [*command, *more])

    def signal(self, name: str, number: int, only: str = "") -> int:
        """Signals the processes of a node with `only` in their commands; returns their number."""
        found = self.processes(name, only)
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        return len(found)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        self._processes[name].wait()

    def wait(self, name: str) -> None:
        """Waits until the node's worker has ended."""
        self._processes[name].wait(START_SECONDS)

    def processes(self, name: str, only: str = "") -> list[int]:
        wanted = {f"HITHER_NODE={name}".encode(), f"XDG_STATE_HOME={self.folder / name}".encode()}
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                if (
                    command
                    and only.encode() in command
                    and wanted <= set((entry / "environ").read_bytes().split(b"\0"))
                ):
                    found.append(int(entry.name))
        return found

    def leases(self, name: str) -> list[Path]:
        """Returns the leases that the node's movers have begun."""
        return list((self.folder / name / "hither" / "cluster" / "movers").glob("*/*/running/*"))

    def names(self) -> list[str]:
        return list(self._places)

    def log(self, name: str) -> str:
        return (self.folder / name / "log").read_text(errors="replace")[-3000:]

    def close(self) -> None:
        for name, process in self._processes.items():
            self.signal(name, signal.SIGKILL)
            process.wait()

    def _scheduler_address(self) -> str | None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return json.loads(self.scheduler_file.read_text())["address"]
        return None

    def _start(self, name: str, where: Loopback, command: list) -> None:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        environment = {**os.environ, "HITHER_NODE": name, "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
        words = where.client([sys.executable, "-m", "dask", *map(str, command)])
        with (folder / "log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
            )


@contextlib.contextmanager
def nodes(folder: Path, names: str, where: Loopback | None = None) -> Iterator[Nodes]:
    """A scheduler and nodes of these names, each a letter."""
    cluster = Nodes(folder, where)
    try:
        cluster.start_scheduler()
        for name in names:
            cluster.start(name)
        yield cluster
    finally:
        cluster.close()
