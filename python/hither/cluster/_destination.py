"""The destination of a job: its directory, and the directory of the fences in it.

A removed fence keeps late nodes out only where no request but the coordinator's can create it
again. XRootD, nginx with ``create_full_put_path`` and others create missing directories for a file
that is put below them; a run begins with a test for that. On such servers a file, the *tombstone*,
takes the place of each removed fence, and no lease is granted again before it exists: no file can
be put below a file.

A small file in the destination, the *mark*, names the directory of the fences. From it the next
coordinator of the same copy, which may have no other record, learns the target of the tree, and
revokes all leases.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from hither._client import default_client
from hither._core import is_one_name, name_difference, redact_url, unlisted_names
from hither._urls import split_query
from hither.cluster._names import below, contents, is_url, is_within, last_name
from hither.exceptions import CorruptError, HitherError, InvalidError, UnavailableError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hither._core import Entry
    from hither.cluster._manifest import Lease, Manifest
    from hither.cluster._options import ClusterOptions

FENCES = 16
"""Fences that are made or removed at the same time."""
END_ATTEMPTS = 10
"""Attempts to remove a directory of fences, one a second.

This is not a retry of a request: each request has the retries of the client. It waits until late
nodes, which may write to the directory meanwhile, have noticed that their fences are gone. They
look once a second, and only the coordinator removes, so the pauses need no jitter.
"""
MAX_RUNS = 1000
"""Runs of one copy that may have left a file in the place of their fences."""
MAX_MARK_BYTES = 64
"""The size of the largest mark that is read."""
TOMBSTONE = b"This file keeps late writers of a copy by hither away.\n"


class Destination:
    """Directories at the destination, which the coordinator alone makes and removes."""

    def __init__(self, options: ClusterOptions, manifest: Manifest, job: str) -> None:
        """Choose the target of the tree; make that directory and the one of the fences in it."""
        self._files = default_client()
        self._core = self._files._core  # noqa: SLF001
        self._name = f".hither-cluster-{options.job_folder().name}"
        self._needs_tombstones = False
        self._answers: dict[tuple[str, str, str, bool], bool] = {}
        self.notices: list[str] = []
        """Names that are left at the destination, and why."""
        target = manifest.fact("target")
        if target is None:
            if self._files.stat(contents(options.source)).kind != "directory":
                message = (
                    f"{redact_url(options.source)} is not a directory: name the directory that it is in, and the file with"
                    " --include"
                )
                raise InvalidError(message)
            target = self._chosen(options)
        if is_within(target, contents(options.source)):
            message = f"{redact_url(options.source)} cannot be copied into itself ({redact_url(target)})"
            raise InvalidError(message)
        is_new = self.make(target)
        self.target = target
        try:
            self._begin(job)
        except BaseException:
            if is_new:
                with contextlib.suppress(HitherError):
                    self._files.remove(target)
            raise
        manifest.fact("target", target)

    def fence(self, name: str) -> str:
        """Return the fence of a lease."""
        return below(self.aside, name)

    def make_fence(self, name: str) -> None:
        """Make the fence of a lease, which must not be there."""
        self._files.make_directory(self.fence(name))

    def make(self, url: str) -> bool:
        """Make a directory, unless it exists; return whether it was made."""
        try:
            self._files.make_directory(url)
        except FileExistsError:
            if self._kind(url) != "directory":
                raise
            return False
        return True

    def close_fence(self, name: str) -> None:
        """Remove the fence of a lease, so that no node can put or rename anything there any more.

        Raises an error where a late node makes it again meanwhile.
        """
        self._close(self.fence(name))

    def check_owner(self) -> None:
        """Raise an error if another coordinator has taken the copy over."""
        kind: str | None = "directory"
        with contextlib.suppress(HitherError):
            kind = self._kind(self.aside)
        if kind != "directory":
            message = f"another run of the same copy has taken it over: it has removed {self.aside}"
            raise HitherError(message)

    def lost(self, directory: str, wanted: Mapping[str, tuple[bool, int]]) -> tuple[list[str], HitherError | None]:
        """Return the names of a directory that do not exist as wanted.

        A name is wanted as a directory, or as a file of a size. Where the directory cannot be
        listed, the metadata of each name are requested, and the error is returned, too.
        """
        url = below(self.target, directory) if directory else self.target
        failure: HitherError | None = None
        found: dict[str, Entry | None] = {}
        try:
            found = {it.name: it for it in self._files.list(url)}
        except FileNotFoundError:
            return list(wanted), None
        except HitherError as error:
            failure = error
        lost = []
        for name, (is_directory, size) in wanted.items():
            entry = found.get(name)
            if failure is not None or (entry is not None and entry.kind == "file" and entry.size is None):
                entry = None
                with contextlib.suppress(HitherError):
                    entry = self._files.stat(below(url, name))
            kind = "directory" if is_directory else "file"
            if entry is None or entry.kind != kind or not (is_directory or entry.size == size):
                lost.append(name)
        return lost, failure

    def end(self, lost: Iterable[str], *, is_complete: bool) -> None:
        """Remove the job's temporary files; ``lost`` nodes may resume a lease at any time."""
        self._end(self.aside, ", ".join(sorted(lost)))
        if is_complete and self._marked_run(self.target) == self._run:
            self._remove(below(self.target, self._name))

    def is_one(self, path: str, other: str) -> bool:
        """Return whether two paths of one directory, whose coarse forms are equal, may become one.

        The test is made in their directory, or the nearest existing one above it, and in that of
        the fences, where they may wait for their names.
        """
        relative, _, name = path.rpartition("/")
        while relative and self._kind(below(self.target, relative)) != "directory":
            relative = relative.rpartition("/")[0]
        directories = {self.target, below(self.target, relative) if relative else self.target}
        return any(self._takes_for_one(it, name, other.rpartition("/")[2]) for it in directories)

    def unlisted(self, directory: str, names: Iterable[str]) -> list[tuple[str, str, bool]]:
        """Return the names of a directory that its complete listing lacks in any spelling.

        Each has the reason, and whether the server has it nevertheless, and so under another name.
        """
        if not is_url(self.target):
            return []
        url = below(self.target, directory) if directory else self.target
        return unlisted_names(self._core, url, list(names)).wait()

    def _takes_for_one(self, directory: str, name: str, other: str) -> bool:
        """Return whether an existing directory takes two names for one.

        Each difference is tested once.
        """
        key = (directory, *name_difference(name, other))
        if key not in self._answers:
            self._answers[key] = is_one_name(self._core, directory, name, other).wait()
        return self._answers[key]

    def _chosen(self, options: ClusterOptions) -> str:
        """Return the directory that the tree becomes."""
        destination = contents(options.destination)
        if self._kind(destination) != "directory" or split_query(options.source)[0].endswith("/."):
            return destination
        # If it has a mark, an earlier coordinator of this copy made it.
        is_of_copy = self._marked_run(destination) is not None
        return destination if is_of_copy else below(destination, last_name(options.source))

    def _begin(self, job: str) -> None:
        """Make the directory of the fences, and revoke all leases of an earlier coordinator."""
        before = self._marked_run(self.target)
        for number in range(1, MAX_RUNS + 1):
            self._run = job if number == 1 else f"{job}.{number}"
            self.aside = self._fences_of(self._run)
            if before is None:
                # The next coordinator has to find it, if this one fails here.
                self._write_mark()
            with contextlib.suppress(FileExistsError):
                self.make(self.aside)
                break
            # A file has that name: an earlier run has lost a node.
        else:
            if before is None:
                self._remove(below(self.target, self._name))
            message = f"{redact_url(self.target)} has {MAX_RUNS} files of earlier runs, {redact_url(self._fences_of(job))} first: remove them"
            raise InvalidError(message)
        try:
            if is_url(self.target):
                self._look_for_self_made_directories()
        except BaseException:
            with contextlib.suppress(HitherError):
                self._remove(self.aside)
            if before is None:
                self._remove(below(self.target, self._name))
            raise
        if before not in (None, self._run):
            self._end(self._fences_of(str(before)), "the nodes of an earlier run")
            self._write_mark()

    def _fences_of(self, run: str) -> str:
        return below(self.target, f"{self._name}-{run}")

    def _write_mark(self) -> None:
        self._files.put(below(self.target, self._name), self._run.encode(), overwrite=True)

    def _marked_run(self, directory: str) -> str | None:
        """Return the run that the mark in a directory names; none if there is no mark."""
        mark = below(directory, self._name)
        run = ""
        try:
            if (self._files.stat(mark).size or 0) <= MAX_MARK_BYTES:
                with tempfile.TemporaryDirectory() as folder:
                    # Not by a range: XrdHttp's response is wrong if that ends after the file.
                    self._files.get(mark, f"{folder}/mark")
                    run = Path(folder, "mark").read_text("latin-1")
        except FileNotFoundError:
            return None
        if re.fullmatch(r"[0-9a-f]{16}(\.[0-9]+)?", run) is None:
            message = f"{mark} is not the mark of a copy by a cluster: remove it"
            raise CorruptError(message)
        return run

    def _look_for_self_made_directories(self) -> None:
        """Test whether the server creates missing directories, and tombstones prevent that."""
        name = below(self.aside, f"probe-{secrets.token_hex(4)}")
        inside = below(name, "file")
        if not self._may_make_directories(name, inside):
            return
        self._needs_tombstones = True
        is_closed, why = False, "it stores files below a name that is a file"
        try:
            self._close(name)
            try:
                self._files.put(inside, TOMBSTONE)
            except HitherError:
                is_closed = self._kind(name) == "file"
        except HitherError as error:
            why = str(error)
        if not is_closed:
            message = (
                f"{redact_url(self.target)}: a cluster cannot copy to this server, which makes missing directories by itself, so"
                f" that nodes that were declared lost could still write ({why}): copy with `hither cp -r` on one"
                " machine"
            )
            raise UnsupportedError(message)

    def _may_make_directories(self, name: str, inside: str) -> bool:
        """Return whether a file that is put below a missing directory may create it."""
        if re.match(r"x?roots?://", self.target):
            # XRootD servers do. The client asks for the directory first, but not for one that it
            # has seen: the fence of a late node.
            return True
        try:
            self._files.put(inside, TOMBSTONE)
        except FileNotFoundError:
            return self._kind(name) is not None
        except HitherError:
            # The error does not show it, so the worse case is assumed.
            pass
        return True

    def _close(self, url: str) -> None:
        """Remove a directory, and put a file in its place where a server would make it again."""
        if not self._needs_tombstones:
            self._remove(url)
        elif self._kind(url) != "file":
            self._remove(url)
            failure: HitherError | str = "a late node has made it again"
            try:
                self._files.put(url, TOMBSTONE)
            except HitherError as error:
                failure = error
            if self._kind(url) != "file":
                message = f"{redact_url(url)} is not a file after its removal: {failure}"
                raise UnavailableError(message)

    def _end(self, url: str, lost: str) -> None:
        """Remove a directory of fences, to which ``lost`` may still write."""
        is_kept = self._needs_tombstones and lost
        for left in reversed(range(END_ATTEMPTS)):
            try:
                (self._close if is_kept else self._remove)(url)
                break
            except HitherError:
                if not left:
                    raise
                time.sleep(1)
        if is_kept:
            self.notices.append(
                f"{redact_url(url)} is left as a file: the server makes missing directories by itself, and the file keeps {lost}"
                " from writing late; it may be removed when no `hither mover` runs there any more"
            )

    def _remove(self, url: str) -> None:
        """Remove a file, or a directory with its contents, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(url, recursive=True)

    def _kind(self, url: str) -> str | None:
        """Return the kind of a file or directory; none if it does not exist."""
        try:
            return str(self._files.stat(url).kind)
        except FileNotFoundError:
            return None


class Fences:
    """Threads that make and close fences; they add their callbacks to the events."""

    def __init__(
        self, destination: Destination, put: Callable[[Callable[[], None]], None], notices: dict[str, None]
    ) -> None:
        """Prepare the threads, which start later."""
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
        """Remove the fence of a lease, with retries until it succeeds: the lease waits for it."""

        def removed() -> None:
            self._removing.discard(name)
            then(name)

        def remove() -> None:
            while not self._ended.is_set():
                try:
                    self._destination.close_fence(name)
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
        """Remove the fence of a completed lease; the end of the job does so at the latest."""

        def remove() -> None:
            with contextlib.suppress(Exception):
                self._destination.close_fence(name)

        self._pool.submit(remove)

    def close(self) -> None:
        """Wait for running operations, and start no more."""
        self._ended.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
