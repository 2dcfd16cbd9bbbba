"""The versions of files that a filesystem knows: what it has seen of them, and the open ones.

Ranges of a path come from a file that stays open for ``STAT_SECONDS``. When it is opened again, the
server confirms the version of all bytes, also of those in memory; bytes that have to be fetched
anyway bring that along. But the filesystem is given paths, not open files: it cannot know which
reads belong together. A program that found a place in one version (uproot, the index of an archive)
must not get bytes of another one there, however late it reads them. So the version in which ranges
of a path were read is kept, and a read of another version fails. A read that needs no knowledge of
the file, from its first byte or from its end, begins anew in the version of today.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from hither._client import default_client
from hither._file import RemoteFile
from hither._urls import split_query
from hither.exceptions import ChangedError, HitherError
from hither.fsspec._files import ObservedStat, has_suffix, is_other_version
from hither.fsspec._names import shown
from hither.fsspec._parquet import PARQUET_MAGIC, PARQUET_SUFFIXES, TAIL_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hither._client import Client
    from hither._core import Entry, FileStat

STAT_SECONDS = 2.0
"""Time for which a stat of a name and an open file are reused: programs request a stat twice and
then open the file."""
_MAX_OPEN_FILES = 32
"""Files that are kept open between reads of ranges."""
_MAX_READ_VERSIONS = 20_000
"""Paths whose version is kept after ranges of them were read: a few megabytes."""


class KnownVersions:
    """Recent stats of paths, and files that are kept open between reads of ranges.

    A path has one version: a stat of another one drops the stat and the open file before it.
    """

    def __init__(self, client: Client | None) -> None:
        """Start without any; None stands for :func:`hither.default_client`."""
        self._client = client
        self._lock = threading.Lock()
        self._open_files: OrderedDict[str, tuple[float, RemoteFile]] = OrderedDict()
        self._stats: dict[str, tuple[float, Entry | ObservedStat]] = {}
        # The version in which ranges of a path were read, and the error of a read of another one.
        self._read: OrderedDict[str, tuple[FileStat, ChangedError | None]] = OrderedDict()

    @property
    def client(self) -> Client:
        """Client that the files are read with."""
        return self._client or default_client()

    def knows(self, path: str) -> bool:
        """Return whether a version of the file is known."""
        return path in self._open_files or path in self._stats

    async def stat(self, path: str) -> Entry | ObservedStat:
        """Return the recent stat of a path, else that of the server.

        After a read of another version has failed, reads begin anew in this one.
        """
        with self._lock:
            if (self._read.get(path) or (None, None))[1] is not None:
                self._read.pop(path)
        entry = self.recent(path)
        if entry is None:
            entry = await self._stat_parquet(path) if has_suffix(path, PARQUET_SUFFIXES) else None
            entry = self.remember(path, entry or await self.client.stat_async(path))
            await self.drop_others({path: entry})
        return entry

    async def _stat_parquet(self, path: str) -> ObservedStat | None:
        """Return the stat of a Parquet file from its end, which is read next; None for others."""
        file = self.open_file(path)
        try:
            found = await file.stat_async()
            mark = await file.read_at_async(max(0, found.size - 4), 4)
        except HitherError:
            return None
        self.bind(path, found, begins=True)
        return ObservedStat(found.size, found.validator) if mark in PARQUET_MAGIC else None

    def recent(self, path: str) -> Entry | ObservedStat | None:
        """Return the stat of a path, if it is at most ``STAT_SECONDS`` old."""
        with self._lock:
            at, entry = self._stats.get(path) or (0.0, None)
        return entry if time.monotonic() - at < STAT_SECONDS else None

    def remember(self, path: str, entry: Entry | ObservedStat) -> Entry | ObservedStat:
        """Keep a stat that has just been received, and return it."""
        now = time.monotonic()
        with self._lock:
            self._stats = {name: it for name, it in self._stats.items() if now - it[0] < STAT_SECONDS}
            self._stats[path] = (now, entry)
        return entry

    async def drop_others(self, seen: Mapping[str, Entry | ObservedStat | FileStat]) -> None:
        """Forget stats and open files of paths whose version is not the one in ``seen``."""
        for path, entry in seen.items():
            _, file = self._open_files.get(path) or (0.0, None)
            known = self._stats.get(path)
            other = known is not None and is_other_version(known[1], entry)
            if file is not None and not other:
                try:
                    # Once any bytes were read, this sends no request.
                    other = is_other_version(await file.stat_async(), entry)
                except (HitherError, ValueError):
                    other = True
            if other:
                with self._lock:
                    if self._stats.get(path) is known and known is not None and known[1] is not entry:
                        self._stats.pop(path)
                    if (self._open_files.get(path) or (0.0, None))[1] is file:
                        self._open_files.pop(path, None)

    def drop(self, path: str) -> None:
        """Forget the stat and the open file of a path. Reads of ranges stay in their version."""
        with self._lock:
            self._stats.pop(path, None)
            self._open_files.pop(path, None)

    def forget(self, path: str) -> None:
        """Forget all of ``path`` and everything below it; reads of ranges begin anew."""
        path = split_query(path)[0]
        with self._lock:
            for known in (self._stats, self._open_files, self._read):
                for name in [name for name in known if name.startswith(path)]:
                    if f"{split_query(name)[0]}/".startswith(f"{path}/"):
                        known.pop(name)

    def check(self, path: str) -> None:
        """Raise the error of an earlier read of another version, if there was one."""
        with self._lock:
            _, error = self._read.get(path) or (None, None)
        if error is not None:
            raise ChangedError(*error.args)

    def bind(self, path: str, version: FileStat, *, begins: bool) -> None:
        """Note that ranges of a path are read in ``version``; one that ``begins`` anew changes it.

        Raises
        ------
        OSError
            Ranges were read in another version (:class:`hither.exceptions.ChangedError`).

        """
        with self._lock:
            before, _ = self._read.get(path) or (version, None)
            if begins or not is_other_version(before, version):
                self._read[path] = (version, None)
                self._read.move_to_end(path)
                while len(self._read) > _MAX_READ_VERSIONS:
                    self._read.popitem(last=False)
                return
        message = (
            f"{shown(path)} has changed since ranges of it were read: its version was {before.validator} with "
            f"{before.size} bytes and is {version.validator} with {version.size} now; open it again"
        )
        error = ChangedError(message)
        self.fail(path, error)
        raise error

    def fail(self, path: str, error: ChangedError) -> bool:
        """Let reads of ranges fail with ``error`` from now on; False if none were read before."""
        with self._lock:
            version, _ = self._read.get(path) or (None, None)
            if version is not None:
                self._read[path] = (version, error)
        return version is not None

    def open_file(self, path: str, *, begins: bool = True) -> RemoteFile:
        """Return the file that ranges of ``path`` are read from, opened within ``STAT_SECONDS``.

        Its reads are not predicted, because programs that read ranges name all that they need; the
        ends are prefetched for formats with a directory there, if a program begins to read.
        """
        now = time.monotonic()
        with self._lock:
            at, file = self._open_files.pop(path, (0.0, None))
            if file is None or now - at >= STAT_SECONDS:
                has_directory = begins and has_suffix(path, (*PARQUET_SUFFIXES, ".root"))
                at, file = now, RemoteFile(path, client=self.client, tree_cache=False, open_ahead=has_directory)
                if has_directory:
                    file.prefetch_ends(TAIL_BYTES if has_suffix(path, PARQUET_SUFFIXES) else 0)
            self._open_files[path] = (at, file)
            while len(self._open_files) > _MAX_OPEN_FILES:
                self._open_files.popitem(last=False)
        return file

    def forget_all(self) -> None:
        """Forget the stats and open files of all paths."""
        with self._lock:
            self._stats.clear()
            self._open_files.clear()
            self._read.clear()
