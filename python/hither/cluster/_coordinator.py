"""Deals out the leases of a job to the nodes of a Dask cluster, and takes their results.

Each lease is a Dask task that passes it to the mover of the node on which it runs. Dask places the
tasks, and runs one again when its worker is lost. That is safe: the second task finds the fence of
the lease claimed and fails, and the lease is granted anew.

Tasks report their progress twice a second (an event of Dask). A node is *suspected* when one of its
tasks, or its mover, has been silent for SILENCE_SECONDS: it may be dead, stopped or cut off, and
nothing here depends on the cause. Its leases are revoked: their fences are removed, and the leases
are granted to other nodes. When it reports again, or confirms that its mover lives, it gets work
again.

The fence of a lease is a directory at the destination that only the coordinator creates, when it
grants the lease; see ``crates/hither/src/mover/work.rs`` for what it prevents.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import math
import os
import queue
import secrets
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hither.cluster import _node
from hither.cluster._destination import Destination, Fences
from hither.cluster._lease_sizing import LeaseSizing
from hither.cluster._listing import LOOKS, Listing
from hither.cluster._manifest import Lease, LeaseSize, Manifest, Totals
from hither.cluster._names import below, contents
from hither.cluster._shares import Share, Shares
from hither.cluster._workers import ClusterLostError, NodeFigures, Workers, gather
from hither.exceptions import HitherError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hither.cluster._options import ClusterOptions

SILENCE_SECONDS = 4.0
"""A node without a report for this long is suspected: the time of eight reports of its tasks."""
START_SECONDS = 20.0
"""The same for a mover that is still starting."""
DEALERS = 16
"""Nodes that are given their shares at the same time."""
RENOTIFY_SECONDS = 10.0
"""A node that was not reached is notified again after this time that no lease waits."""
LATE = (TimeoutError, asyncio.TimeoutError)
"""Errors of Dask for an answer that comes late: before Python 3.11 these are two classes."""
SURVEY_SECONDS = 15.0
"""A node that does not respond within this time is left out."""


@dataclass
class ClusterProgress:
    """A job that is running, or has ended."""

    totals: Totals
    is_listed: bool
    nodes: list[NodeFigures]
    bytes_arrived: int
    bytes_leased: int
    """The size of the leases that nodes have."""
    seconds: float


@dataclass
class _Granted:
    lease: Lease
    future: Any
    fence: str
    at: float
    files: int
    size: int
    last_seen: float | None = None
    worker: str | None = None
    beat: float = 0.0


class Coordinator:
    """One run of a job."""

    def __init__(self, dask: Any, options: ClusterOptions) -> None:  # noqa: ANN401
        """Open the manifest of the job, or begin it."""
        self._dask = dask
        self._options = options
        self._folder = _node.private_folder(options.job_folder())
        self._guard = _lock(self._folder / "lock")
        self._manifest = self._open_manifest()
        self._job = str(self._manifest.fact("job", secrets.token_hex(8)))
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._granted: dict[str, _Granted] = {}
        self._workers = Workers(dask, self._job)
        self._opened: Future[Destination] = Future()
        self._listing = Listing(options, self._open_manifest, self._opened.result)
        self._sizing = LeaseSizing()
        self._shares = Shares(Share(options.max_connections, options.bandwidth))
        self._dealer = ThreadPoolExecutor(DEALERS, "hither-shares")
        self._drain_announced: dict[str, float] = {}
        self._noted: set[str] = set()
        self._pause_until = 0.0
        self._notices: dict[str, None] = {}
        self._began = time.monotonic()
        self._totals = self._manifest.totals()
        self._totals_are_whole = False
        self._totals_at = self._began

    def run(self, show: Callable[[ClusterProgress], object] = lambda _: None) -> ClusterProgress:
        """Copy until the job is over."""
        self._manifest.begin_run()
        # The listing only reads, and its round trips overlap with those of the following calls.
        self._listing.start()
        try:
            self._destination = Destination(self._options, self._manifest, self._job)
        except BaseException:
            self._listing.stop()
            self._opened.cancel()
            raise
        self._fences = Fences(self._destination, self._events.put, self._notices)
        topic = _node.topic(self._job)
        self._dask.subscribe_topic(topic, lambda event: self._events.put(lambda: self._reported(event[1])))
        try:
            self._survey()
            # The listing thus also checks files that nodes have copied since an earlier run.
            self._opened.set_result(self._destination)
            while not self._manifest.is_over():
                self._listing.check()
                self._note_workers()
                self._grant()
                self._deal_shares()
                self._wait()
                self._workers.ask_suspected(self._options.source_addresses, self._events)
                show(self.progress())
            self._listing.join()
            self._look_at_names()
            self._totals = self._manifest.totals()
            progress = self.progress()
            show(progress)
        finally:
            self._listing.stop()
            self._opened.cancel()
            for granted in self._granted.values():
                granted.future.release()
            self._workers.end()
            self._fences.close()
            self._dealer.shutdown(wait=True, cancel_futures=True)
        self._dask.unsubscribe_topic(topic)
        self._end()
        return progress

    def progress(self) -> ClusterProgress:
        """Return the current figures."""
        now = time.monotonic()
        if now > self._totals_at:
            self._totals_are_whole = self._manifest.is_listed
            self._totals = self._manifest.totals()
            # The totals of a million files take a while, so they are computed at intervals.
            self._totals_at = now + max(1.0, 20 * (time.monotonic() - now))
        nodes = sorted(self._workers.nodes.values(), key=lambda node: node.name)
        arrived = sum(node.bytes + sum(node.open.values()) for node in nodes)
        leased = sum(granted.size for granted in self._granted.values())
        return ClusterProgress(self._totals, self._manifest.is_listed, nodes, arrived, leased, now - self._began)

    def failures(self) -> list[tuple[str, str]]:
        """Return the files that failed, and why."""
        return self._manifest.failures()

    def error_kind(self) -> str | None:
        """Return the kind of the error by which the first of these files failed, if it is known."""
        return self._manifest.error_kind()

    def notices(self) -> list[str]:
        """Return the notices, which are not errors."""
        return [*self._listing.notices, *self._notices, *self._workers.notices, *self._destination.notices]

    def close(self) -> None:
        """Close the manifest; remove it if everything is copied."""
        is_over = self._is_complete()
        self._manifest.close()
        if is_over:
            for path in self._folder.glob("manifest.sqlite*"):
                path.unlink()
        os.close(self._guard)

    def _is_complete(self) -> bool:
        return self._manifest.is_over() and self._manifest.totals().files_failed == 0

    def _end(self) -> None:
        """Remove the job's temporary files."""
        those = self._workers.trusted() or self._workers.threads()
        futures = {worker: self._workers.submit_to(worker, _node.clean) for worker in those}
        found = gather(list(futures.values()), SURVEY_SECONDS)
        idle = {worker: found[future.key] for worker, future in futures.items() if found.get(future.key)}
        ended = {*idle, *idle.values()}
        known = self._manifest.workers().items()
        lost = {node or worker for worker, node in known if not ended & {worker, node}}
        self._destination.end(lost, is_complete=self._is_complete())

    def _open_manifest(self) -> Manifest:
        return Manifest(self._folder / "manifest.sqlite", large_bytes=self._options.large_bytes)

    def _look_at_names(self) -> None:
        """Fail names that the destination stores as others."""
        with ThreadPoolExecutor(LOOKS, "hither-looks") as pool:
            # Some at a time: a tree may have more names than fit in memory.
            while unseen := self._manifest.unseen(LOOKS):
                looks = pool.map(self._destination.unlisted, unseen.keys(), unseen.values())
                for directory, unlisted in zip(unseen, looks, strict=True):
                    self._manifest.looked_at(directory, unlisted)

    # Leases.

    def _survey(self) -> None:
        """Collect results of nodes since an earlier run; revoke leases that no mover has any
        more.
        """
        sources = self._options.source_addresses
        futures = {worker: self._workers.submit_to(worker, _node.survey, sources) for worker in self._workers.threads()}
        found = gather(list(futures.values()), SURVEY_SECONDS)
        under_way: dict[str, str] = {}
        for worker, future in futures.items():
            state = found.get(future.key)
            if state is None:
                continue
            self._manifest.add_workers({worker: state["node"]})
            for name, result in state["results"].items():
                self._manifest.absorb(name, result)
            under_way.update(dict.fromkeys(state["under_way"], worker))
            if state["share"] is not None and state["under_way"]:
                self._shares.found(state["node"], Share(**state["share"]), time.monotonic())
        for lease in self._manifest.open_leases():
            its_worker = under_way.get(lease.name)
            if its_worker is None:
                self._manifest.revoke(lease.name)
            else:
                # Its mover has it: a task there waits for the result.
                self._submit(lease, self._destination.fence(lease.name), its_worker)
        self._remove_revoked()

    def _grant(self) -> None:
        """Grant leases, a connection for each: two per thread, the second to run after the
        first.
        """
        if time.monotonic() < self._pause_until:
            return
        most = 2 * self._workers.slots()
        while len(self._granted) + self._fences.making < min(most, self._options.max_connections):
            large = sum(granted.lease.kind != "files" for granted in self._granted.values())
            lease = self._manifest.next(self._next_size(), large_first=large <= len(self._granted) / 2)
            if lease is None:
                self._announce_drain()
                return
            self._fences.make(lease, self._made)

    def _announce_drain(self) -> None:
        """Notify nodes that no lease waits, once everything is listed."""
        if not self._manifest.is_listed:
            return
        now = time.monotonic()
        for node in self._workers.nodes:
            if now - self._drain_announced.get(node, -math.inf) >= RENOTIFY_SECONDS:
                self._drain_announced[node] = math.inf
                self._dealer.submit(self._say, node, self._workers.run_on(node, _node.announce_drain))

    def _say(self, node: str, say: Callable[[], bool]) -> None:
        if not say():
            again = time.monotonic()
            self._events.put(lambda: self._drain_announced.update({node: again}))

    def _next_size(self) -> LeaseSize:
        left = None
        if self._totals_are_whole:
            totals, granted = self._totals, self._granted.values()
            left = LeaseSize(
                max(0, totals.bytes_found - totals.bytes_done - sum(it.size for it in granted)),
                max(0, totals.files_found - totals.files_done - sum(it.files for it in granted)),
            )
        return self._sizing.next(left, self._workers.slots())

    def _made(self, lease: Lease, error: Exception | None) -> None:
        if error is None:
            self._submit(lease, self._destination.fence(lease.name))
        elif isinstance(error, FileExistsError):
            # It was granted before, but the manifest has lost that record: this epoch is in use.
            self._take_back(lease.name)
        else:
            # The destination does not respond or does not permit it, or the copy was taken over.
            self._destination.check_owner()
            self._absorb(lease.name, {"error": [_kind(error), str(error)]})

    def _submit(self, lease: Lease, fence: str, worker: str | None = None) -> None:
        work = self._manifest.work(lease, below(self._destination.aside, "file-"))
        document = {
            "source": contents(self._options.source),
            "target": self._destination.target,
            "fence": fence,
            "third_party": self._options.third_party,
            "work": work,
        }
        files = work.get("files", ())
        size = sum(file["size"] or 0 for file in files) + work.get("end", 0) - work.get("start", 0)
        to = [worker] if worker else self._workers.trusted()
        future = self._dask.submit(
            _node.carry_out,
            self._job,
            lease.name,
            _node.packed(document),
            size,
            self._options.source_addresses,
            key=f"hither-{lease.kind}-{self._job}-{lease.name}",
            workers=to,
            allow_other_workers=False,
            pure=False,
        )
        self._granted[lease.name] = _Granted(lease, future, fence, time.monotonic(), len(files), size)
        future.add_done_callback(lambda done: self._events.put(lambda: self._done(lease.name, done)))

    def _done(self, name: str, future: Any) -> None:  # noqa: ANN401
        granted = self._granted.get(name)
        if granted is None or granted.future is not future:
            return
        if future.status == "cancelled":
            # The loss of the scheduler cancels all futures. Movers continue: nothing is revoked.
            raise ClusterLostError
        if future.status != "finished":
            # The worker is lost, or the task failed: the state of the mover is unknown.
            if future.status == "error":
                with contextlib.suppress(*LATE):
                    self._notices[f"lease {name}: {future.exception(timeout=1)}"] = None
            self._take_back(name)
            return
        try:
            result = future.result(timeout=10)
        except LATE:
            # The worker that has it was stopped, or cut off, before the result was requested.
            self._take_back(name)
            return
        except (OSError, CancelledError):
            # The scheduler, which transfers it, is gone: the mover keeps it.
            raise ClusterLostError from None
        self._absorb(name, result)

    def _absorb(self, name: str, result: dict[str, Any]) -> None:
        """Record a result, of a lease that may have been revoked meanwhile."""
        granted = self._granted.pop(name, None)
        if granted is not None:
            granted.future.release()
        if granted is not None and "node" in result:
            node = self._workers.node(result["node"])
            # The result counts for this node, the last report for others that had the lease.
            node.open.pop(name, None)
            node.leases += 1
            node.bytes += result["bytes_arrived"]
            node.add_sources(result["sources"])
            if result.get("error") is None and granted.lease.kind in ("files", "range"):
                self._sizing.learn(result["seconds"], result["bytes_arrived"], granted.files)
        self._close_reports(name)
        self._notices.update(dict.fromkeys(result.get("notices", ())))
        if result.get("error") is None:
            self._shares.ended(name, time.monotonic())
        if not self._manifest.absorb(name, result):
            return
        if result.get("error") is None:
            self._fences.tidy(name)
        else:
            # Nothing is retried immediately where a server may be down.
            self._pause_until = time.monotonic() + 0.5
            if name not in self._remove_revoked():
                self._shares.ended(name, time.monotonic())

    def _take_back(self, name: str) -> None:
        granted = self._granted.pop(name, None)
        if granted is not None:
            granted.future.release()
        self._close_reports(name)
        if self._manifest.revoke(name):
            self._remove_revoked()

    def _close_reports(self, name: str) -> None:
        for node in self._workers.nodes.values():
            node.bytes += node.open.pop(name, 0)

    def _remove_revoked(self) -> list[str]:
        """Remove the fences of revoked leases; return their names."""
        names = [lease.name for lease in self._manifest.open_leases("revoking")]
        for name in names:
            self._fences.remove(name, self._fence_is_gone)
        return names

    def _fence_is_gone(self, name: str) -> None:
        self._manifest.fence_removed(name)
        self._shares.ended(name, time.monotonic())

    # Nodes.

    def _note_workers(self) -> None:
        """Record new workers: each may have a lease from now on."""
        new = self._workers.threads().keys() - self._noted
        if new:
            self._noted |= new
            self._manifest.add_workers(dict.fromkeys(new))

    def _reported(self, event: dict[str, Any]) -> None:
        node, worker = self._workers.node(event["node"]), event["worker"]
        if worker not in node.workers:
            node.workers.add(worker)
            self._manifest.add_workers({worker: node.name})
        node.add_sources(event["sources"])
        # Also for a lease that was taken back: its node may have no other to report on.
        self._workers.reported(worker, event["alive"])
        granted = self._granted.get(event["lease"])
        if granted is None:
            return
        now = time.monotonic()
        self._shares.began(event["lease"], event["node"], now)
        if event["arrived"]:
            self._shares.claimed(event["lease"], event["node"], now)
        if not event["has_share"]:
            self._shares.lost(event["node"])
            self._deal_shares()
        granted.worker = worker
        self._workers.last_seen[worker] = now
        if event["alive"] != granted.beat:
            # The task lives, and so does the mover.
            granted.beat, granted.last_seen = event["alive"], now
        elif granted.last_seen is None:
            granted.last_seen = now
        node.open[event["lease"]] = event["arrived"]

    def _deal_shares(self) -> None:
        for node, share in self._shares.deal(time.monotonic()).items():
            give = self._workers.run_on(node, _node.take_share, asdict(share))
            self._dealer.submit(self._give, node, share, give)

    def _give(self, node: str, share: Share, give: Callable[[], bool]) -> None:
        confirmed = give()
        self._events.put(lambda: self._shares.answered(node, share, time.monotonic(), confirmed=confirmed))

    def _look_for_silence(self) -> None:
        now = time.monotonic()
        reporting = [it for it in self._granted.values() if it.last_seen is not None]
        for granted in reporting:
            if now - (granted.last_seen or now) <= (SILENCE_SECONDS if granted.beat else START_SECONDS):
                continue
            self._workers.suspect(granted.worker)
            self._take_back(granted.lease.name)
        unseen = [it for it in self._granted.values() if it.last_seen is None and now - it.at > SILENCE_SECONDS]
        if not unseen:
            return
        # Tasks may wait for a thread: no reason to suspect a node whose other tasks report.
        try:
            waiting = self._workers.waiting()
        except Exception:  # noqa: BLE001
            return
        for granted in unseen:
            granted.at = now
            worker = waiting.get(str(granted.future.key))
            if worker is not None and now - self._workers.last_seen.get(worker, 0.0) <= SILENCE_SECONDS:
                continue
            self._workers.suspect(worker)
            self._take_back(granted.lease.name)

    def _wait(self) -> None:
        """Handle events for at least a tenth of a second, then look for nodes that are silent.

        In this order, because more time than a node may be silent may pass between two calls. Its
        reports wait here then.
        """
        deadline = time.monotonic() + 0.1
        while True:
            try:
                event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            event()
        self._look_for_silence()


def _lock(path: Path) -> int:
    """Lock the job against other runs, until the file is closed."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        message = f"another process is running the same copy ({path} is locked)"
        raise HitherError(message) from None
    return file


def _kind(error: Exception) -> str:
    """Return the kind of an error, as movers name it."""
    kinds = {FileNotFoundError: "NotFound", PermissionError: "PermissionDenied", TimeoutError: "Timeout"}
    return next((kind for base, kind in kinds.items() if isinstance(error, base)), "Unavailable")
