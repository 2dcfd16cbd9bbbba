"""Reads of ranges and of whole files for a filesystem."""

from __future__ import annotations

import asyncio
from typing import IO, TYPE_CHECKING, Any

from hither._file import RemoteFile
from hither.exceptions import ChangedError, CorruptError, NotFoundError
from hither.fsspec._names import shown

if TYPE_CHECKING:
    from hither.fsspec._versions import KnownVersions

_BATCH_SECONDS = 0.005, 0.025
"""Longest pause between lists of ranges of a batch: a tenth of a round trip within these limits."""
_FIRST_READ_BYTES = (1 << 20) + (64 << 10)
"""First read of a whole file; most files are smaller, and their size need not be requested."""
_DOWNLOAD_CHUNK_BYTES = 16 << 20
"""Bytes of a download that are in memory at a time."""


class Reads:
    """Reads of files, each from the version that is known of its path."""

    def __init__(self, versions: KnownVersions) -> None:
        """Start without batches."""
        self._versions = versions
        self._batches: dict[str, _RangeBatch] = {}

    async def ranges(self, path: str, limits: list[tuple[int | None, int | None]]) -> list[bytes]:
        """Return ranges of a file, in the version in which ranges of it were read before.

        The read of a file that has changed since then fails, unless a range begins with the first
        byte or counts from the end: a program that reads such a range begins anew.
        """
        begins = any((start or 0) <= 0 for start, _ in limits)
        if not begins:
            self._versions.check(path)
        try:
            return await self._read_once(path, limits, begins=begins)
        except ChangedError as error:
            self._versions.drop(path)
            if not begins and self._versions.fail(path, error):
                raise
        except NotFoundError:
            self._versions.drop(path)
        return await self._read_once(path, limits, begins=begins)

    async def _read_once(self, path: str, limits: list[tuple[int | None, int | None]], *, begins: bool) -> list[bytes]:
        file = self._versions.open_file(path, begins=begins)
        found = await self._slices(path, file, limits)
        if any(found):
            # Once any bytes were read, the stat sends no request.
            self._versions.bind(path, await file.stat_async(), begins=begins)
        return found

    async def _slices(self, path: str, file: RemoteFile, limits: list[tuple[int | None, int | None]]) -> list[bytes]:
        """Return ranges with the meaning of slices, negative or beyond the end, too."""
        known = [
            (start or 0, max(start or 0, end))
            for start, end in limits
            if (start or 0) >= 0 and end is not None and end >= 0
        ]
        if len(known) == len(limits) == 1:
            return [await file.read_at_async(known[0][0], known[0][1] - known[0][0])]
        if len(known) == len(limits):
            turn = await self._join_batch(path, file, known)
            try:
                async with turn:
                    return [bytes(view) for view in await file.read_ranges_async(known)]
            except CorruptError:
                # A range ends beyond the end of the file, whose size was not known.
                pass
        size = (await file.stat_async()).size
        cut = [slice(start, end).indices(size)[:2] for start, end in limits]
        views = await file.read_ranges_async([(start, max(start, stop)) for start, stop in cut])
        return [bytes(view) for view in views]

    async def _join_batch(self, path: str, file: RemoteFile, ranges: list[tuple[int, int]]) -> asyncio.Lock:
        """Collect lists of ranges of a file that are requested together, and hint them in one call.

        uproot divides its ranges into lists of a thousand and requests them one right after the
        other. The lists are read in turn, under the returned lock: reading the last one first would
        request ranges twice that are in flight.
        """
        batch = self._batches.get(path)
        if batch is not None:
            batch.ranges += ranges
            batch.count += 1
            await batch.hinted.wait()
            return batch.turn
        batch = self._batches[path] = _RangeBatch(list(ranges))
        shortest, longest = _BATCH_SECONDS
        pause = min(max(shortest, self._versions.client.report.rtt_seconds / 10), longest)
        try:
            seen = 0
            while seen < batch.count:
                seen = batch.count
                await asyncio.sleep(pause)
            if batch.count > 1:
                file.hint(sorted(batch.ranges))
        finally:
            del self._batches[path]
            batch.hinted.set()
        return batch.turn

    async def whole(self, path: str) -> bytes:
        """Return all bytes of a file."""
        with RemoteFile(path, client=self._versions.client, tree_cache=False, open_ahead=False) as file:
            head = await file.read_at_async(0, _FIRST_READ_BYTES)
            if len(head) < _FIRST_READ_BYTES and not self._versions.knows(path):
                # No other version is cached, and the size need not be requested.
                return head
            found = await file.stat_async()
            await self._versions.drop_others({path: found})
            rest = max(0, found.size - _FIRST_READ_BYTES)
            content = head + await file.read_at_async(_FIRST_READ_BYTES, rest) if rest else head
            _check_whole(path, len(content), found.size)
            return content

    async def download(self, path: str, target: IO[bytes], listed: int | None, callback: Any) -> None:  # noqa: ANN401
        """Write a file of ``listed`` bytes, if that is known, to ``target``."""
        with RemoteFile(path, client=self._versions.client, tree_cache=False, open_ahead=False) as file:
            stat = await file.stat_async()
            await self._versions.drop_others({path: stat})
            if listed not in (None, stat.size):
                # The file may have been replaced since, or the server sent a page instead of it.
                stated = (await self._versions.stat(path)).size
                if stated not in (None, stat.size):
                    message = (
                        f"{shown(path)}: {stat.size} bytes would be sent, but the server states {stated} elsewhere"
                    )
                    raise CorruptError(message)
            callback.set_size(stat.size)
            for start in range(0, stat.size, _DOWNLOAD_CHUNK_BYTES):
                found = await file.read_at_async(start, _DOWNLOAD_CHUNK_BYTES)
                _check_whole(path, start + len(found), min(start + _DOWNLOAD_CHUNK_BYTES, stat.size))
                written = await asyncio.to_thread(target.write, found)
                if written is not None and written != len(found):
                    message = f"only {written} of {len(found)} bytes of {shown(path)} were written to {target!r}"
                    raise OSError(message)
                callback.relative_update(len(found))


class _RangeBatch:
    """Lists of ranges of one file that were requested together."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        """Start with the first list."""
        self.ranges = ranges
        self.count = 1
        self.hinted = asyncio.Event()
        self.turn = asyncio.Lock()


def _check_whole(path: str, found: int, expected: int) -> None:
    if found != expected:
        message = f"{shown(path)} has changed while it was read: {found} bytes of {expected} came; read it again"
        raise ChangedError(message)
