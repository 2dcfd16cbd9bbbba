"""A Dask cluster of processes that stand for machines: each can be killed, stopped, started again.

A node is a worker and the mover that it starts. Both have the node's name in their environments, by
which they are found. Each node has its own folder for what it remembers, and may be at the client's
end of a link.

Dask's processes would import for more than a second before they start, so they are forked from a
process that has imported the modules once. That process itself never starts Dask.
"""

import contextlib
import importlib
import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from bench.harness.links import Loopback
from bench.harness.waiting import wait_until

START_SECONDS = 120
COMMANDS = {name: f"distributed.cli.dask_{name}" for name in ("scheduler", "worker")}
"""The modules of Dask's commands."""
PRELOADED = [*COMMANDS.values(), "pandas"]
"""The modules that Dask's processes import at their start, as far as they are installed."""


def run(command: list[str], where: Loopback, log: Path, environment: dict[str, str]) -> None:
    """Becomes a command of Dask."""
    os.setsid()
    with log.open("ab") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    where.enter()
    os.environ.clear()
    os.environ.update(environment)
    name, *words = command
    importlib.import_module(COMMANDS[name]).main(words, "dask")


class Nodes:
    """A scheduler, and nodes by name."""

    def __init__(self, folder: Path, where: Loopback | None = None):
        self.folder = folder
        self.scheduler_file = folder / "scheduler.json"
        self.where = where or Loopback()
        self._places: dict[str, Loopback] = {}
        self._processes: dict[str, multiprocessing.process.BaseProcess] = {}

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
        self._processes[name].join()

    def wait(self, name: str) -> None:
        """Waits until the node's worker has ended."""
        self._processes[name].join(START_SECONDS)
        if self._processes[name].is_alive():
            raise TimeoutError(f"the worker of {name} runs after {START_SECONDS} s")

    def processes(self, name: str, only: str = "") -> list[int]:
        wanted = {f"HITHER_NODE={name}".encode(), f"XDG_STATE_HOME={self.folder / name}".encode()}
        process, found = self._processes[name], []
        # The system shows the environment of the process that it was forked from.
        forked = process.pid if process.is_alive() else None
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                if (
                    command
                    and only.encode() in command
                    and (int(entry.name) == forked or wanted <= set((entry / "environ").read_bytes().split(b"\0")))
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
            process.join()

    def _scheduler_address(self) -> str | None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return json.loads(self.scheduler_file.read_text())["address"]
        return None

    def _start(self, name: str, where: Loopback, command: list) -> None:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "log").touch()
        environment = {**os.environ, "HITHER_NODE": name, "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
        fork = multiprocessing.get_context("forkserver")
        fork.set_forkserver_preload(PRELOADED)
        arguments = ([*map(str, command)], where, folder / "log", environment)
        process = fork.Process(target=run, args=arguments, daemon=True)
        process.start()
        self._processes[name] = process


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
