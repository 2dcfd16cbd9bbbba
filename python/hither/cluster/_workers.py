"""The nodes and Dask's workers on them, and which of them are suspected."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hither.exceptions import HitherError

if TYPE_CHECKING:
    from collections.abc import Callable

LOST_SECONDS = 10.0
"""The time after which the copy stops waiting for a scheduler that does not respond."""
ANSWER_SECONDS = 2.0
"""The time within which the scheduler has to respond."""


class ClusterLostError(HitherError):
    """The scheduler is gone."""

    kind = "unavailable"

    def __init__(self) -> None:
        """Create the error, with the remedy in its message."""
        super().__init__(
            "the connection to Dask's scheduler is lost: nodes finish the leases that they have;"
            " the same copy, with a scheduler that is up, goes on from there"
        )


@dataclass
class NodeFigures:
    """Figures of a node."""

    name: str
    leases: int = 0
    """Leases that it has carried out."""
    bytes: int = 0
    """Bytes that arrived there."""
    open: dict[str, int] = field(default_factory=dict)
    """Bytes that arrived of its open leases."""
    sources: dict[str, dict[str, int]] = field(default_factory=dict)
    """Bytes over each of its source addresses, by the process of the mover."""
    is_suspected: bool = False
    workers: set[str] = field(default_factory=set)
    """Addresses of its Dask workers."""

    def add_sources(self, sources: dict[str, dict[str, int]]) -> None:
        """Add the figures of movers; an older report may arrive later."""
        for process, moved in sources.items():
            known = self.sources.setdefault(process, {})
            known.update({name: max(size, known.get(name, 0)) for name, size in moved.items()})

    def by_source(self) -> dict[str, int]:
        """Return the bytes over each source address."""
        names = sorted({name for moved in self.sources.values() for name in moved})
        return {name: sum(moved.get(name, 0) for moved in self.sources.values()) for name in names}


class Workers:
    """The workers of a cluster, by their addresses."""

    def __init__(self, dask: Any, job: str) -> None:  # noqa: ANN401
        """Begin without workers."""
        self._dask = dask
        self._job = job
        self._suspected: set[str] = set()
        self._threads: dict[str, int] = {}
        self._updated_at = time.monotonic() - 2
        self.nodes: dict[str, NodeFigures] = {}
        """The nodes, by their names."""
        self.last_seen: dict[str, float] = {}
        """The time of each worker's last report."""
        self._beats: dict[str, float] = {}

    def suspect(self, worker: str | None, *, suspected: bool = True) -> None:
        """Suspect a worker, or trust it again."""
        if worker is not None:
            (self._suspected.add if suspected else self._suspected.discard)(worker)
        for node in self.nodes.values():
            node.is_suspected = bool(node.workers & self._suspected)

    def reported(self, worker: str, beat: float) -> None:
        """Trust a worker again that reports another time of its mover's status than before."""
        if beat != self._beats.get(worker, 0.0):
            self._beats[worker] = beat
            self.suspect(worker, suspected=False)

    def node(self, name: str) -> NodeFigures:
        """Return the figures of a node."""
        return self.nodes.setdefault(name, NodeFigures(name))

    def threads(self) -> dict[str, int]:
        """Return the threads of all workers, by address: at most a second old."""
        now = time.monotonic()
        if now - self._updated_at > 1:
            try:
                answer = self.ask(self._dask.scheduler.identity)
            except Exception:  # noqa: BLE001
                if now - self._updated_at > LOST_SECONDS:
                    raise ClusterLostError from None
                return self._threads
            self._threads = {address: int(it["nthreads"]) for address, it in answer["workers"].items()}
            self._updated_at = now
        return self._threads

    def ask(self, what: Callable[..., Any], *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        """Call the scheduler. By default the client would wait a minute for one that is gone."""
        return self._dask.sync(what, *arguments, callback_timeout=ANSWER_SECONDS, **named)

    def slots(self) -> int:
        """Return how many tasks run at the same time."""
        return max(1, sum(self.threads().values()))

    def trusted(self) -> list[str] | None:
        """Return the workers that may get tasks; None if these are all, or all are suspected."""
        workers = self.threads()
        trusted = [worker for worker in workers if worker not in self._suspected]
        return trusted if 0 < len(trusted) < len(workers) else None

    def run_on(self, node: str, what: Callable[..., object], *arguments: object) -> Callable[[], bool]:
        """Return a call that runs a function of the job on a node, concurrently with its tasks.

        The call may be made by another thread, and returns whether it has succeeded.
        """
        workers = [worker for worker in self.node(node).workers if worker in self._threads][:1]

        def run() -> bool:
            if not workers:
                return False
            try:
                return bool(self.ask(self._dask._run, what, self._job, *arguments, workers=workers))  # noqa: SLF001
            except Exception:  # noqa: BLE001
                return False

        return run

    def submit_to(self, worker: str, what: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Have one worker run a function of the job."""
        return self._dask.submit(what, self._job, *arguments, workers=[worker], allow_other_workers=False, pure=False)

    def waiting(self) -> dict[str, str]:
        """Return the worker of each task that waits or runs, by its key."""
        answer = self.ask(self._dask.scheduler.processing, workers=None)
        return {str(key): worker for worker, keys in answer.items() for key in keys}


def gather(futures: list[Any], seconds: float) -> dict[str, Any]:
    """Return the results of the tasks that succeed within some seconds, by their keys."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(future.status == "pending" for future in futures):
        time.sleep(0.05)
    found = {future.key: future.result(timeout=seconds) for future in futures if future.status == "finished"}
    for future in futures:
        future.release()
    return found
