"""The versions of files that a filesystem knows: what it has seen of them, and the open ones."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from hither._client import default_client
from hither._file import RemoteFile
from hither._urls import split_query
from hither.exceptions import HitherError
from hither.fsspec._files import ObservedStat, has_suffix, is_other_version
from hither.fsspec._parquet import PARQUET_MAGIC, PARQUET_SUFFIXES, TAIL_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hither._client import Client
    from hither._core import Entry, FileStat

STAT_SECONDS = 2.0
"""Time for which a stat of a name is reused: programs request it twice and then open the file."""
_MAX_OPEN_FILES = 32
"""Files that are kept open between reads of ranges."""
_MAX_OPEN_SECONDS = 60.0
"""Time after which a file is opened again, which finds its newest version."""


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

    @property
    def client(self) -> Client:
        """Client that the files are read with."""
        return self._client or default_client()

    def knows(self, path: str) -> bool:
        """Return whether a version of the file is known."""
        return path in self._open_files or path in self._stats

    async def stat(self, path: str) -> Entry | ObservedStat:
        """Return the recent stat of a path, else that of the server."""
        entry = self.recent(path)
        if entry is None:
            entry = await self._stat_parquet(path) if has_suffix(path, PARQUET_SUFFIXES) else None
            entry = self.remember(path, entry or await self.client.stat_async(path))
            await self.drop_others({path: entry})
        return entry

    async def _stat_parquet(self, path: str) -> ObservedStat | None:
        """Return the stat of a Parquet file from its end, which is read next; None for others."""
        file = self.open_file(path, STAT_SECONDS)
        try:
            found = await file.stat_async()
            mark = await file.read_at_async(max(0, found.size - 4), 4)
        except HitherError:
            return None
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

    def forget(self, path: str) -> None:
        """Forget stats and open files of ``path`` and everything below it."""
        path = split_query(path)[0] + "/"
        with self._lock:
            for known in (self._stats, self._open_files):
                for name in [name for name in known if f"{split_query(name)[0]}/".startswith(path)]:
                    known.pop(name)

    def open_file(self, path: str, seconds: float = _MAX_OPEN_SECONDS) -> RemoteFile:
        """Return the file that ranges of ``path`` are read from, opened at most ``seconds`` ago.

        Its reads are not predicted, because programs that read ranges name all that they need; the
        ends are prefetched for formats with a directory there.
        """
        now = time.monotonic()
        with self._lock:
            at, file = self._open_files.pop(path, (0.0, None))
            if file is None or now - at > seconds:
                has_directory = has_suffix(path, (*PARQUET_SUFFIXES, ".root"))
                at, file = now, RemoteFile(path, client=self.client, tree_cache=False, open_ahead=has_directory)
                if has_suffix(path, PARQUET_SUFFIXES):
                    file.prefetch_ends(TAIL_BYTES)
                elif has_suffix(path, (".root",)):
                    file.prefetch_ends()
            self._open_files[path] = (at, file)
            while len(self._open_files) > _MAX_OPEN_FILES:
                self._open_files.popitem(last=False)
        return file

    def forget_all(self) -> None:
        """Forget the stats and open files of all paths."""
        with self._lock:
            self._stats.clear()
            self._open_files.clear()
