"""The destination of a job: its directory, and in it the one of the fences."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from hither._client import default_client
from hither.cluster._names import absolute, below, contents, last_name
from hither.exceptions import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hither.cluster._manifest import Lease, Manifest
    from hither.cluster._options import ClusterOptions

FENCES = 16
"""Fences that are made or removed at the same time."""


class Destination:
    """Directories at the destination, which the coordinator alone makes and removes."""

    def __init__(self, options: ClusterOptions, manifest: Manifest, job: str) -> None:
        """Decide where the tree goes, and make that directory and the one of the fences in it."""
        self._files = default_client()
        source = options.source
        target = manifest.fact("target")
        if target is None:
            if self._files.stat(contents(source)).kind != "directory":
                message = f"{source} is not a directory: name the directory that it is in, and the file with --include"
                raise InvalidError(message)
            target = absolute(options.destination)
            if self._is_directory(target):
                target = target if source.endswith("/.") else below(target, last_name(source))
            self.make(target)
            manifest.fact("target", target)
        self.target = target
        self.aside = below(target, f".hither-cluster-{job}")
        self.make(self.aside)

    def fence(self, name: str) -> str:
        """Return the fence of a lease."""
        return below(self.aside, name)

    def make_fence(self, name: str) -> None:
        """Make the fence of a lease, which must not be there."""
        self._files.make_directory(self.fence(name))

    def make(self, url: str) -> None:
        """Make a directory, unless it is there."""
        try:
            self._files.make_directory(url)
        except FileExistsError:
            if not self._is_directory(url):
                raise

    def remove(self, url: str) -> None:
        """Remove a directory with what is in it, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(url, recursive=True)

    def _is_directory(self, url: str) -> bool:
        try:
            return self._files.stat(url).kind == "directory"
        except FileNotFoundError:
            return False


class Fences:
    """Threads that make and remove fences; they put what is to be done then among the events."""

    def __init__(
        self, destination: Destination, put: Callable[[Callable[[], None]], None], notices: dict[str, None]
    ) -> None:
        """Start no thread yet."""
        self._destination = destination
        self._put = put
        self._notices = notices
        self._pool = ThreadPoolExecutor(FENCES, "hither-fences")
        self._removing: set[str] = set()
        self._ended = threading.Event()
        self.making = 0
        """Fences that are being made."""

    def make(self, lease: Lease, then: Callable[[Lease, Exception | None], None]) -> None:
        """Make the fence of a lease."""

        def made(error: Exception | None) -> None:
            self.making -= 1
            then(lease, error)

        def make() -> None:
            failure: Exception | None = None
            try:
                self._destination.make_fence(lease.name)
            except Exception as error:  # noqa: BLE001
                failure = error
            self._put(lambda: made(failure))

        self.making += 1
        self._pool.submit(make)

    def remove(self, name: str, then: Callable[[str], None]) -> None:
        """Remove the fence of a lease, however long that takes: the lease waits for it."""

        def removed() -> None:
            self._removing.discard(name)
            then(name)

        def remove() -> None:
            while not self._ended.is_set():
                try:
                    self._destination.remove(self._destination.fence(name))
                except Exception as error:  # noqa: BLE001, PERF203
                    self._notices[f"the fence of lease {name} cannot be removed yet: {error}"] = None
                    self._ended.wait(1)
                else:
                    self._put(removed)
                    return

        if name not in self._removing:
            self._removing.add(name)
            self._pool.submit(remove)

    def tidy(self, name: str) -> None:
        """Remove what a lease leaves when it is done: the end of the job does so at the latest."""

        def remove() -> None:
            with contextlib.suppress(Exception):
                self._destination.remove(self._destination.fence(name))

        self._pool.submit(remove)

    def close(self) -> None:
        """Wait for what is under way, and do nothing more."""
        self._ended.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
