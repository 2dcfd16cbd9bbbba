"""Deals out the leases of a job to the nodes of a Dask cluster, and takes their results.

Each lease is a Dask task that hands it to the mover of the node that it comes to. Dask places the
tasks, and runs one again when its worker is lost. That is no danger: the second task finds the
fence of the lease claimed and fails, and the lease is dealt out anew.

Tasks say twice a second how far they are (an event of Dask). A node is *suspected* when one of its
tasks, or its mover, has been silent for SILENCE_SECONDS: it may be dead, stopped or cut off, and
nothing here depends on which. Its leases are taken back: their fences are removed, and the leases
are dealt out to other nodes. When it is heard of again it gets work again.

The fence of a lease is a directory at the destination that is made here, when the lease is dealt
out, and by nobody else; see ``crates/hither/src/mover/work.rs`` for what it prevents.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import queue
import re
import secrets
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from hither._client import default_client
from hither.cluster import _node
from hither.cluster._manifest import Lease, LeaseSize, Manifest, Totals
from hither.exceptions import HitherError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SILENCE_SECONDS = 4.0
"""A node that has said nothing for this long is suspected: eight reports of its tasks."""
START_SECONDS = 20.0
"""The same for a mover that is only being started."""
LEASE_SECONDS = 3.0
"""The time that a lease should take: what a node that vanishes costs."""
FIRST = LeaseSize(16 << 20, 500)
"""The size of leases until some have shown what a node does in a second."""
SMALLEST, LARGEST = LeaseSize(4 << 20, 64), LeaseSize(1 << 30, 5000)
LOST_SECONDS = 10.0
"""A scheduler that has not been there for this long is not waited for."""
ANSWER_SECONDS = 2.0
"""The scheduler answers within this time, or is not there."""
LIST_BATCH = 5000
"""Files that are added to the manifest in one step."""
SURVEY_SECONDS = 15.0
"""A node that does not answer after this time has nothing to say."""
FENCES = 16
"""Fences that are made or removed at the same time."""
HIDDEN = re.compile(r"(^|/)\.hither-")


class ClusterLostError(HitherError):
    """The scheduler is gone."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__(
            "the connection to Dask's scheduler is lost: nodes finish the leases that they have;"
            " the same copy, with a scheduler that is up, goes on from there"
        )


@dataclass(frozen=True)
class ClusterOptions:
    """The options of all leases of a job."""

    source: str
    destination: str
    max_connections: int = 64
    bandwidth: int | None = None
    third_party: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    large_bytes: int = 64 << 20

    def job_folder(self) -> Path:
        """Return the folder of the job's manifest: the same for the same copy."""
        names = json.dumps([_absolute(self.source), _absolute(self.destination), self.include, self.exclude])
        return _node.state_folder() / "jobs" / hashlib.sha256(names.encode()).hexdigest()[:16]


@dataclass
class NodeFigures:
    """Figures of a node."""

    name: str
    leases: int = 0
    """Leases that it has carried out."""
    bytes: int = 0
    """Bytes that arrived there."""
    open: dict[str, int] = field(default_factory=dict)
    """Bytes that arrived of the leases that it has."""
    is_suspected: bool = False
    workers: set[str] = field(default_factory=set)
    """Addresses of its Dask workers."""


@dataclass
class ClusterProgress:
    """A job that is running, or has ended."""

    totals: Totals
    is_listed: bool
    nodes: list[NodeFigures]
    bytes_arrived: int
    seconds: float


@dataclass
class _Granted:
    lease: Lease
    future: Any
    fence: str
    at: float
    files: int
    heard: float | None = None
    worker: str | None = None
    beat: float = 0.0


class Coordinator:
    """One run of a job."""

    def __init__(self, dask: Any, options: ClusterOptions) -> None:  # noqa: ANN401
        """Open the manifest of the job, or begin it."""
        self._dask = dask
        self._options = options
        self._files = default_client()
        self._folder = options.job_folder()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._guard = _lock(self._folder / "lock")
        self._manifest = self._open_manifest()
        self._job = str(self._manifest.fact("job", secrets.token_hex(8)))
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._granted: dict[str, _Granted] = {}
        self._nodes: dict[str, NodeFigures] = {}
        self._heard: dict[str, float] = {}
        self._suspected: set[str] = set()
        self._removing: set[str] = set()
        self._pool = ThreadPoolExecutor(FENCES, "hither-fences")
        self._making = 0
        self._pause_until = 0.0
        self._size = FIRST
        self._rates = [0.0, 0.0]
        self._listing_error: Exception | None = None
        self._notices: dict[str, None] = {}
        self._began = time.monotonic()
        self._totals = self._manifest.totals()
        self._totals_at = self._began
        self._ended = threading.Event()
        self._threads: dict[str, int] = {}
        self._workers_at = self._began - 2

    def run(self, show: Callable[[ClusterProgress], object] = lambda _: None) -> ClusterProgress:
        """Copy until nothing is left to do."""
        self._begin()
        topic = _node.topic(self._job)
        self._dask.subscribe_topic(topic, lambda event: self._events.put(lambda: self._reported(event[1])))
        lister = threading.Thread(target=self._list, name="hither-listing", daemon=True)
        try:
            self._survey()
            lister.start()
            while not self._manifest.is_over():
                if self._listing_error is not None:
                    raise self._listing_error
                self._grant()
                self._look_for_silence()
                self._wait()
                show(self.progress())
            lister.join()
            self._totals = self._manifest.totals()
            progress = self.progress()
            show(progress)
        finally:
            self._ended.set()
            for granted in self._granted.values():
                granted.future.release()
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._dask.unsubscribe_topic(topic)
        self._end()
        return progress

    def progress(self) -> ClusterProgress:
        """Return the figures now."""
        now = time.monotonic()
        if now > self._totals_at:
            self._totals = self._manifest.totals()
            # Of a million files that takes a while, and is not done all the time.
            self._totals_at = now + max(1.0, 20 * (time.monotonic() - now))
        nodes = sorted(self._nodes.values(), key=lambda node: node.name)
        arrived = sum(node.bytes + sum(node.open.values()) for node in nodes)
        return ClusterProgress(self._totals, self._manifest.is_listed, nodes, arrived, now - self._began)

    def failures(self) -> list[tuple[str, str]]:
        """Return the files that failed, and why."""
        return self._manifest.failures()

    def notices(self) -> list[str]:
        """Return what is no error."""
        return list(self._notices)

    def close(self) -> None:
        """Close the manifest; remove it if everything is copied."""
        is_over = self._manifest.is_over() and self._manifest.totals().files_failed == 0
        self._manifest.close()
        if is_over:
            for path in self._folder.glob("manifest.sqlite*"):
                path.unlink()
        os.close(self._guard)

    # The destination.

    def _begin(self) -> None:
        """Decide where the tree goes, and make that directory and the one of the fences in it."""
        source = self._options.source
        target = self._manifest.fact("target")
        if target is None:
            if self._files.stat(_contents(source)).kind != "directory":
                message = f"{source} is no directory: a cluster copies directories"
                raise ValueError(message)
            target = _absolute(self._options.destination)
            if self._is_directory(target):
                target = target if source.endswith("/.") else _below(target, _last_name(source))
            self._make(target)
            self._manifest.fact("target", target)
        self._target = target
        self._aside = _below(target, f".hither-cluster-{self._job}")
        self._make(self._aside)
        self._manifest.retry_failed()

    def _end(self) -> None:
        """Remove what the job needed."""
        self._remove(self._aside)
        futures = [self._submit_to(worker, _node.clean) for worker in self._trusted() or self._workers()]
        _gather(futures, SURVEY_SECONDS)

    def _is_directory(self, url: str) -> bool:
        try:
            return self._files.stat(url).kind == "directory"
        except FileNotFoundError:
            return False

    def _make(self, url: str) -> None:
        try:
            self._files.make_directory(url)
        except FileExistsError:
            if not self._is_directory(url):
                raise

    def _remove(self, url: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(url, recursive=True)

    def _open_manifest(self) -> Manifest:
        return Manifest(self._folder / "manifest.sqlite", large_bytes=self._options.large_bytes)

    # The listing.

    def _list(self) -> None:
        """Add all files to the manifest, as they are listed."""
        try:
            with contextlib.closing(self._open_manifest()) as manifest:
                if manifest.is_listed:
                    return
                for entries in _batches(self._listed(), LIST_BATCH):
                    if self._ended.is_set():
                        return
                    manifest.add(entries)
                manifest.end_listing()
        except Exception as error:  # noqa: BLE001
            self._listing_error = error

    def _listed(self) -> Iterator[dict[str, Any]]:
        filters = [f"--{which}={rule}" for which in ("include", "exclude") for rule in getattr(self._options, which)]
        command = [sys.executable, "-m", "hither", "mover", "--list", *filters, "--", _contents(self._options.source)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as listing:  # noqa: S603
            ended = False
            for line in listing.stdout or ():
                entry = json.loads(line)
                ended = ended or "end" in entry
                if "message" in entry:
                    self._notices[f"{entry['path']}: {entry['message']}, left out"] = None
                    if entry["kind"] == "failed":
                        message = f"cannot list {entry['path']}: {entry['message']}"
                        raise HitherError(message)
                elif entry.get("kind") in ("file", "directory") and entry["path"] and not HIDDEN.search(entry["path"]):
                    yield entry
                elif entry.get("kind") == "other":
                    self._notices[f"{entry['path']}: neither a file nor a directory, left out"] = None
            said = listing.stderr.read() if listing.stderr else ""
            if listing.wait() != 0 or not ended:
                message = f"cannot list {self._options.source}: {said.strip()}"
                raise HitherError(message)

    # Leases.

    def _survey(self) -> None:
        """Take what nodes have done since an earlier run; take back what no mover has any more."""
        futures = {worker: self._submit_to(worker, _node.survey) for worker in self._workers()}
        found = _gather(list(futures.values()), SURVEY_SECONDS)
        under_way: dict[str, str] = {}
        for worker, future in futures.items():
            told = found.get(future.key)
            if told is None:
                continue
            for name, result in told["results"].items():
                self._manifest.absorb(name, result)
            under_way.update(dict.fromkeys(told["under_way"], worker))
        for lease in self._manifest.open_leases():
            its_worker = under_way.get(lease.name)
            if its_worker is None:
                self._manifest.revoke(lease.name)
            else:
                # Its mover has it: a task there waits for the result.
                self._submit(lease, self._fence(lease), its_worker)
        for lease in self._manifest.open_leases("revoking"):
            self._remove_fence(lease.name)

    def _grant(self) -> None:
        """Deal out leases: as many as the workers have threads, and some to wait at each."""
        if time.monotonic() < self._pause_until:
            return
        slots = self._slots()
        while len(self._granted) + self._making < slots + max(1, len(self._workers())):
            large = sum(granted.lease.kind != "files" for granted in self._granted.values())
            lease = self._manifest.next(self._size, large_first=large <= len(self._granted) / 2)
            if lease is None:
                return
            self._making += 1
            self._pool.submit(self._make_fence, lease)

    def _make_fence(self, lease: Lease) -> None:
        fence = self._fence(lease)
        try:
            self._files.make_directory(fence)
        except FileExistsError:
            # It was dealt out before something made the manifest forget that: this epoch is taken.
            self._events.put(lambda: self._made(lease, None))
        except Exception as error:  # noqa: BLE001
            failure = error
            self._events.put(lambda: self._made(lease, None, failure))
        else:
            self._events.put(lambda: self._made(lease, fence))

    def _made(self, lease: Lease, fence: str | None, error: Exception | None = None) -> None:
        self._making -= 1
        if fence is not None:
            self._submit(lease, fence)
        elif error is None:
            self._take_back(lease.name)
        else:
            # The destination does not answer, or does not permit it.
            self._absorb(lease.name, {"error": [_kind(error), str(error)]})

    def _fence(self, lease: Lease) -> str:
        return _below(self._aside, lease.name)

    def _submit(self, lease: Lease, fence: str, worker: str | None = None) -> None:
        slots = self._slots()
        work = self._manifest.work(lease, _below(self._aside, "file-"))
        document = {
            "source": _absolute(_contents(self._options.source)),
            "target": self._target,
            "fence": fence,
            "connections": max(1, self._options.max_connections // slots),
            "bandwidth": None if self._options.bandwidth is None else max(1, self._options.bandwidth // slots),
            "third_party": self._options.third_party,
            "work": work,
        }
        to = [worker] if worker else self._trusted()
        future = self._dask.submit(
            _node.carry_out,
            self._job,
            lease.name,
            document,
            key=f"hither-{lease.kind}-{self._job}-{lease.name}",
            workers=to,
            allow_other_workers=False,
            pure=False,
        )
        self._granted[lease.name] = _Granted(lease, future, fence, time.monotonic(), len(work.get("files", ())))
        future.add_done_callback(lambda done: self._events.put(lambda: self._done(lease.name, done)))

    def _done(self, name: str, future: Any) -> None:  # noqa: ANN401
        granted = self._granted.get(name)
        if granted is None or granted.future is not future:
            return
        if future.status == "cancelled":
            # So are all when the scheduler is lost. Movers go on: nothing is taken back.
            raise ClusterLostError
        if future.status != "finished":
            # The worker is lost, or the task failed: nobody knows what the mover does.
            error = future.exception(timeout=1) if future.status == "error" else None
            if error is not None:
                self._notices[f"lease {name}: {error}"] = None
            self._take_back(name)
            return
        self._absorb(name, future.result(timeout=10))

    def _absorb(self, name: str, result: dict[str, Any]) -> None:
        """Take a result, of a lease that may have been taken back meanwhile."""
        granted = self._granted.pop(name, None)
        if granted is not None and "node" in result:
            node = self._node(result["node"])
            # What it told itself counts, and of others that had the lease what they last reported.
            node.open.pop(name, None)
            node.leases += 1
            node.bytes += result["bytes_arrived"]
            self._learn(granted, result)
        self._close_reports(name)
        self._notices.update(dict.fromkeys(result.get("notices", ())))
        if not self._manifest.absorb(name, result):
            return
        if result.get("error") is None:
            self._pool.submit(self._tidy, granted.fence if granted else None)
        else:
            # Nothing is tried again at once where a server may be down.
            self._pause_until = time.monotonic() + 0.5
            self._remove_revoked()

    def _take_back(self, name: str) -> None:
        granted = self._granted.pop(name, None)
        if granted is not None:
            granted.future.release()
        self._close_reports(name)
        if self._manifest.revoke(name):
            self._remove_revoked()

    def _close_reports(self, name: str) -> None:
        for node in self._nodes.values():
            node.bytes += node.open.pop(name, 0)

    def _remove_revoked(self) -> None:
        for lease in self._manifest.open_leases("revoking"):
            if lease.name not in self._removing:
                self._remove_fence(lease.name)

    def _remove_fence(self, name: str) -> None:
        self._removing.add(name)
        self._pool.submit(self._removed_fence, name)

    def _removed_fence(self, name: str) -> None:
        """Remove the fence of a lease, however long that takes: the lease waits for it."""
        while not self._ended.is_set():
            try:
                self._remove(_below(self._aside, name))
                break
            except Exception as error:  # noqa: BLE001
                self._notices[f"the fence of lease {name} cannot be removed yet: {error}"] = None
                self._ended.wait(1)
        else:
            return
        self._events.put(lambda: self._fence_is_gone(name))

    def _fence_is_gone(self, name: str) -> None:
        self._removing.discard(name)
        self._manifest.fence_removed(name)

    def _tidy(self, fence: str | None) -> None:
        """Remove what a lease leaves when it is done: the end of the job does so at the latest."""
        if fence is not None:
            with contextlib.suppress(Exception):
                self._remove(fence)

    def _learn(self, granted: _Granted, result: dict[str, Any]) -> None:
        """Adapt the size of leases to what one brings in LEASE_SECONDS."""
        seconds = max(result["seconds"], 0.05)
        if result.get("error") is not None or granted.lease.kind not in ("files", "range"):
            return
        brought = (result["bytes_arrived"] / seconds, granted.files / seconds)
        # Of few files the rate of files says nothing, and of many the rate of bytes.
        is_full = (brought[0] * seconds >= self._size.bytes / 2, granted.files >= self._size.files / 2)
        self._rates = [
            old if not counts else new if old == 0 else 0.7 * old + 0.3 * new
            for old, new, counts in zip(self._rates, brought, is_full, strict=True)
        ]
        self._size = LeaseSize(
            int(min(max(self._rates[0] * LEASE_SECONDS, SMALLEST.bytes), LARGEST.bytes)),
            int(min(max(self._rates[1] * LEASE_SECONDS, SMALLEST.files), LARGEST.files)),
        )

    # Nodes.

    def _reported(self, event: dict[str, Any]) -> None:
        node, worker = self._node(event["node"]), event["worker"]
        node.workers.add(worker)
        granted = self._granted.get(event["lease"])
        if granted is None:
            return
        now = time.monotonic()
        granted.worker = worker
        self._heard[worker] = now
        if event["alive"] != granted.beat:
            # The task lives, and so does the mover.
            granted.beat, granted.heard = event["alive"], now
            self._suspect(worker, suspected=False)
        elif granted.heard is None:
            granted.heard = now
        node.open[event["lease"]] = event["arrived"]

    def _look_for_silence(self) -> None:
        now = time.monotonic()
        heard = [it for it in self._granted.values() if it.heard is not None]
        for granted in heard:
            if now - (granted.heard or now) <= (SILENCE_SECONDS if granted.beat else START_SECONDS):
                continue
            self._suspect(granted.worker)
            self._take_back(granted.lease.name)
        unheard = [it for it in self._granted.values() if it.heard is None and now - it.at > SILENCE_SECONDS]
        if not unheard:
            return
        # Tasks wait for a thread: that is no cause for alarm where others are at work.
        try:
            told = self._ask(self._dask.scheduler.processing, workers=None)
        except Exception:  # noqa: BLE001
            return
        waiting = {str(key): worker for worker, keys in told.items() for key in keys}
        for granted in unheard:
            granted.at = now
            worker = waiting.get(str(granted.future.key))
            if worker is not None and now - self._heard.get(worker, 0.0) <= SILENCE_SECONDS:
                continue
            self._suspect(worker)
            self._take_back(granted.lease.name)

    def _suspect(self, worker: str | None, *, suspected: bool = True) -> None:
        if worker is not None:
            (self._suspected.add if suspected else self._suspected.discard)(worker)
        for node in self._nodes.values():
            node.is_suspected = bool(node.workers & self._suspected)

    def _node(self, name: str) -> NodeFigures:
        return self._nodes.setdefault(name, NodeFigures(name))

    def _workers(self) -> dict[str, int]:
        """Return the threads of all workers, by address: as they were a second ago, at the most."""
        now = time.monotonic()
        if now - self._workers_at > 1:
            try:
                told = self._ask(self._dask.scheduler.identity)
            except Exception:  # noqa: BLE001
                if now - self._workers_at > LOST_SECONDS:
                    raise ClusterLostError from None
                return self._threads
            self._threads = {address: int(it["nthreads"]) for address, it in told["workers"].items()}
            self._workers_at = now
        return self._threads

    def _ask(self, what: Callable[..., Any], **arguments: Any) -> Any:  # noqa: ANN401
        """Ask the scheduler. By itself the client would wait a minute for one that is gone."""
        return self._dask.sync(what, callback_timeout=ANSWER_SECONDS, **arguments)

    def _slots(self) -> int:
        """Return how many tasks run at the same time."""
        return max(1, sum(self._workers().values()))

    def _trusted(self) -> list[str] | None:
        """Return the workers that tasks may go to; none for all, and if there is no other."""
        workers = self._workers()
        trusted = [worker for worker in workers if worker not in self._suspected]
        return trusted if 0 < len(trusted) < len(workers) else None

    def _submit_to(self, worker: str, what: Callable[[str], Any]) -> Any:  # noqa: ANN401
        return self._dask.submit(what, self._job, workers=[worker], allow_other_workers=False, pure=False)

    def _wait(self) -> None:
        """Handle what has happened, for a tenth of a second at the least."""
        deadline = time.monotonic() + 0.1
        while True:
            try:
                event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return
            event()


def _gather(futures: list[Any], seconds: float) -> dict[str, Any]:
    """Return the results of the tasks that end well within some seconds, by their keys."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(future.status == "pending" for future in futures):
        time.sleep(0.05)
    found = {future.key: future.result(timeout=seconds) for future in futures if future.status == "finished"}
    for future in futures:
        future.release()
    return found


def _lock(path: Path) -> int:
    """Keep other runs of the job away, until the file is closed."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        message = f"another process is running the same copy ({path} is locked)"
        raise HitherError(message) from None
    return file


def _batches(entries: Iterator[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield lists of some entries; a list is not kept back for more than a second."""
    batch: list[dict[str, Any]] = []
    since = time.monotonic()
    for entry in entries:
        batch.append(entry)
        if len(batch) >= size or time.monotonic() - since > 1:
            yield batch
            batch, since = [], time.monotonic()
    yield batch


def _is_url(path: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*://", path) is not None


def _absolute(path: str) -> str:
    """Return a path that means the same on all nodes."""
    return path if _is_url(path) else str(Path(path).absolute())


def _contents(path: str) -> str:
    """Return the directory of which the contents are meant."""
    return path.removesuffix("/.").rstrip("/") or "/"


def _last_name(path: str) -> str:
    name = _contents(path).rsplit("/", 1)[-1]
    return unquote(name) if _is_url(path) else name


def _below(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{quote(name) if _is_url(directory) else name}"


def _kind(error: Exception) -> str:
    """Return the kind of an error, as movers name it."""
    kinds = {FileNotFoundError: "NotFound", PermissionError: "PermissionDenied", TimeoutError: "Timeout"}
    return next((kind for base, kind in kinds.items() if isinstance(error, base)), "Unavailable")
