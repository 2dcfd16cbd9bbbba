"""Dask tasks that pass leases to the mover of their node, and return its results.

The mover is a process in a session of its own (``hither mover``), so that it outlives the worker
that started it: Dask ends a worker that loses its scheduler. Workers of one machine share its
mover. It is found by the folder of the job, in which it holds a lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

POLL_SECONDS = 0.1
REPORT_SECONDS = 0.5
SILENT_SECONDS = 60.0
"""The time after which a task stops waiting for a silent mover: its leases have been revoked."""
SHARELESS_SECONDS = 600.0
"""The time after which a task stops waiting for a mover without a share: its lease was revoked.

A share may have to wait until other nodes have given back theirs.
"""
END_SECONDS = 5.0
"""The time within which a running mover ends a revoked lease: it checks once a second."""
START_SECONDS = 30.0
"""The time within which the mover has to start."""
STATUS_SECONDS = 5.0
"""The time within which a mover that lives writes its status: it does so twice a second."""


def node_name() -> str:
    """Return the name of this machine: ``HITHER_NODE``, where several nodes share a host name."""
    return os.environ.get("HITHER_NODE") or socket.gethostname()


def state_folder() -> Path:
    """Return the folder in which jobs keep their state."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "hither" / "cluster"


def private_folder(path: Path) -> Path:
    """Make a folder of :func:`state_folder` and those above it there; only their owner may write.

    Raises
    ------
    PermissionError
        One belongs to another user, or is a link.

    """
    base = state_folder().parent
    base.parent.mkdir(parents=True, exist_ok=True)
    for name in (base, *(base / part for part in itertools.accumulate(path.relative_to(base).parts, os.path.join))):
        with contextlib.suppress(FileExistsError):
            name.mkdir(mode=0o700)
        status = name.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            message = f"{name} belongs to another user or is a link: set XDG_STATE_HOME to a folder of your own"
            raise PermissionError(message)
        if status.st_mode & 0o022:
            name.chmod(0o700)
    return path


class MoverFolder:
    """The folder of this node's mover for one job, see ``crates/hither/src/mover.rs``."""

    def __init__(self, job: str) -> None:
        """Open the folder, which is created if it does not exist."""
        if not re.fullmatch("[0-9a-f]{16}", job):
            message = f"{job!r} is not the id of a job"
            raise ValueError(message)
        self.path = private_folder(state_folder() / "movers" / job / re.sub("[^A-Za-z0-9.-]", "-", node_name()))
        self.last = self.path / "last"
        """The file that exists if no lease waits at the coordinator."""
        for part in ("inbox", "running", "results"):
            private_folder(self.path / part)

    def give(self, name: str, lease: bytes) -> None:
        """Give the mover a lease, packed as by :func:`packed`, unless it has it."""
        if any((self.path / part / f"{name}.json").exists() for part in ("results", "running", "inbox")):
            return
        aside = self.path / f"{name}.new"
        aside.write_bytes(zlib.decompress(lease))
        aside.rename(self.path / "inbox" / f"{name}.json")

    def share(self) -> dict[str, Any] | None:
        """Return the mover's share of the job's limits; none if it has none."""
        return _read(self.path / "share.json")

    def take_share(self, share: dict[str, Any]) -> None:
        """Give the mover another share."""
        aside = self.path / "share.new"
        aside.write_text(json.dumps(share), "utf-8")
        aside.rename(self.path / "share.json")

    def result(self, name: str) -> dict[str, Any] | None:
        """Return the result of a lease; none if it has not ended."""
        return _read(self.path / "results" / f"{name}.json")

    def has(self, name: str) -> bool:
        """Return whether there is a lease or its result: not after :func:`clean`."""
        # In the order in which a lease moves from one to the next.
        return any((self.path / part / f"{name}.json").exists() for part in ("inbox", "running", "results"))

    def results(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the results of all leases."""
        for path in (self.path / "results").glob("*.json"):
            result = _read(path)
            if result is not None:
                yield path.stem, result

    def under_way(self) -> list[str]:
        """Return the leases that the mover has, if there is one."""
        if not self._is_locked():
            return []
        return [path.stem for part in ("inbox", "running") for path in (self.path / part).glob("*.json")]

    def status(self) -> dict[str, Any]:
        """Return the last status of the mover."""
        return _read(self.path / "status.json") or {}

    def ensure_mover(self, source_addresses: Sequence[str] = ()) -> None:
        """Start the mover, if there is none."""
        with _locked(self.path / "starting"):
            if self._is_locked():
                return
            sources = [f"--source-address={source}" for source in source_addresses]
            command = [sys.executable, "-m", "hither", *sources, "mover", str(self.path)]
            deadline = time.monotonic() + START_SECONDS
            mover = self._start(command)
            while not self._is_locked():
                if mover.poll() == 0:
                    # Another process held the lock to test it, as another mover would.
                    mover = self._start(command)
                if mover.poll() or time.monotonic() > deadline:
                    log = (self.path / "log").read_text("utf-8", "replace")[-2000:]
                    message = f"the mover of {node_name()} did not start: {log.strip() or mover.returncode}"
                    raise RuntimeError(message)
                time.sleep(POLL_SECONDS / 4)

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.path / "log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )

    def _is_locked(self) -> bool:
        with (self.path / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


def packed(lease: dict[str, Any]) -> bytes:
    """Return a lease in the form for Dask: one object for the scheduler, not thousands."""
    return zlib.compress(json.dumps(lease).encode())


def carry_out(job: str, name: str, lease: bytes, size: int, source_addresses: Sequence[str]) -> dict[str, Any]:
    """Have this node's mover carry out a lease of ``size`` bytes; return its result.

    Runs as a task of Dask. It releases its thread to the next task when half of the lease has
    arrived, so that the end of a lease, when few connections are still in use, overlaps with the
    middle of another.
    """
    from distributed import secede

    folder = MoverFolder(job)
    folder.give(name, lease)
    began = time.monotonic()
    reported = -REPORT_SECONDS
    last_beat = (0.0, began)
    last_share = began
    is_ending = False
    while True:
        result = folder.result(name)
        now = time.monotonic()
        if result is not None or now - reported >= REPORT_SECONDS:
            reported = now
            beat = _beat(folder)
            progress = _progress(folder.status(), name)
            has_share = folder.share() is not None
            event = {"lease": name, "node": node_name(), "alive": beat, "has_share": has_share}
            _report(job, {**event, **progress})
            if result is not None:
                # The report above is all that is received of a lease that was taken back.
                return {**result, "node": node_name(), "seconds": now - began, "sources": progress["sources"]}
            if not folder.has(name):
                message = f"the lease was removed from {node_name()}"
                raise RuntimeError(message)
            if not is_ending and 2 * progress["arrived"] >= size > 0:
                is_ending = True
                secede()
            folder.ensure_mover(source_addresses)
            if beat != last_beat[0]:
                last_beat = (beat, now)
            elif now - last_beat[1] > SILENT_SECONDS:
                message = f"the mover of {node_name()} is silent"
                raise RuntimeError(message)
            # A mover without a share ends, and the next one reports that it lives, too.
            if has_share:
                last_share = now
            elif now - last_share > SHARELESS_SECONDS:
                message = f"{node_name()} has had no share of the limits for {SHARELESS_SECONDS:.0f} s"
                raise RuntimeError(message)
        time.sleep(POLL_SECONDS)


def survey(job: str, source_addresses: Sequence[str]) -> dict[str, Any]:
    """Return the results that this node has, and the leases that its mover carries out.

    It starts the mover, which takes a moment, before there are leases.
    """
    folder = MoverFolder(job)
    folder.last.unlink(missing_ok=True)
    folder.ensure_mover(source_addresses)
    # In this order, a lease that ends between the two calls is among the results.
    under_way = folder.under_way()
    results = dict(folder.results())
    return {"node": node_name(), "results": results, "under_way": under_way, "share": folder.share()}


def await_status(job: str, source_addresses: Sequence[str]) -> None:
    """Wait for the next status of this node's mover, which is started if there is none.

    Raises
    ------
    RuntimeError
        It does not start, or is silent.

    """
    folder = MoverFolder(job)
    before = _beat(folder)
    folder.ensure_mover(source_addresses)
    deadline = time.monotonic() + STATUS_SECONDS
    while _beat(folder) == before:
        if time.monotonic() > deadline:
            message = f"the mover of {node_name()} is silent"
            raise RuntimeError(message)
        time.sleep(POLL_SECONDS)


def take_share(job: str, share: dict[str, Any]) -> None:
    """Give this node's mover another share. Runs on a worker, concurrently with its tasks."""
    MoverFolder(job).take_share(share)


def announce_drain(job: str) -> None:
    """Notify this node's mover that no lease waits. Runs on a worker, next to its tasks."""
    MoverFolder(job).last.touch()


def clean(job: str) -> str | None:
    """Remove this node's files of a job that is over. Its mover ends by itself.

    Returns the name of the node; none if its mover may still work on a lease.
    """
    folder = MoverFolder(job)
    for part in ("results", "inbox"):
        # The directories stay, because a mover that still runs uses them.
        for path in (folder.path / part).iterdir():
            path.unlink(missing_ok=True)
    deadline = time.monotonic() + END_SECONDS
    while folder.under_way():
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)
    return node_name()


def _progress(status: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the progress of a lease, and the bytes over each source address of the mover."""
    sources = {str(status["process"]): status["sources"]} if status.get("sources") else {}
    return {"arrived": int(status.get("leases", {}).get(name, 0)), "sources": sources}


def _beat(folder: MoverFolder) -> float:
    """Return the time of the mover's last report: one that is stopped still holds its lock."""
    with contextlib.suppress(FileNotFoundError):
        return (folder.path / "status.json").stat().st_mtime
    return 0.0


def _report(job: str, event: dict[str, Any]) -> None:
    from distributed import get_worker

    # Without a scheduler no process receives the event; the mover continues.
    with contextlib.suppress(Exception):
        worker = get_worker()
        worker.log_event(topic(job), {**event, "worker": worker.address})


def topic(job: str) -> str:
    """Return the topic of the events of a job."""
    return f"hither-{job}"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
