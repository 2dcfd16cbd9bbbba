"""The nodes and Dask's workers on them, and which of them are suspected."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hither.cluster import _node
from hither.exceptions import HitherError

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable, Sequence

LOST_SECONDS = 10.0
"""The time after which the copy stops waiting for a scheduler that does not respond."""
ANSWER_SECONDS = 2.0
"""The time within which the scheduler has to respond."""
ASK_SECONDS = 10.0
"""The time after which a suspected node whose mover is silent is asked again."""


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
        self._ask_at: dict[str, float] = {}
        self._asked: dict[str, Any] = {}
        self.notices: dict[str, None] = {}

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

    def ask_suspected(self, sources: Sequence[str], events: queue.SimpleQueue[Callable[[], None]]) -> None:
        """Trust workers again whose movers live. Answers are put into ``events``.

        A worker whose leases were taken back may have no task that reports: those that had not
        begun never will, and reports of others are lost while it is cut off.
        """
        now = time.monotonic()
        for worker in self._suspected & self._threads.keys():
            if now >= self._ask_at.get(worker, 0.0):
                self._ask_at[worker] = math.inf
                asked = self._asked[worker] = self.submit_to(worker, _node.await_status, sources)
                asked.add_done_callback(lambda done, it=worker: events.put(lambda: self._answered(it, done)))

    def _answered(self, worker: str, asked: Any) -> None:  # noqa: ANN401
        if self._asked.pop(worker, None) is None:
            return
        self._ask_at[worker] = time.monotonic() + ASK_SECONDS
        if asked.status == "finished":
            self.suspect(worker, suspected=False)

    def end(self) -> None:
        """Ask no worker any more, and add a notice for each that is still suspected."""
        while self._asked:
            self._asked.popitem()[1].release()
        for worker in sorted(self._suspected):
            names = [node.name for node in self.nodes.values() if worker in node.workers]
            what = f"{worker} ({', '.join(names)})" if names else worker
            self.notices[f"{what} fell silent and was not heard of again: other nodes did its work"] = None

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
