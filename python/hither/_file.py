"""Files as bytes."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from hither._client import Client, default_client
from hither._reporting.report import Report, SourceReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import typing_extensions

    from hither._core import Buffer, File, FileStat, Hint, Job

_MAX_UNSIZED_READ = 64 << 20
"""Reads of more bytes than this learn the size of the file first."""


class RemoteFile(io.RawIOBase):
    """A file, near or far, as an unbuffered binary file object with positional and vectored reads.

    Opening returns at once. That a remote file does not exist shows at its first use, that a local one does not shows when
    it is opened. What is read goes through the client's memory, so that small reads need no
    :class:`io.BufferedReader`; all reads are of one version of the file. Positional and vectored reads may come from any
    number of threads at a time. A file can be pickled, and used in a forked child: there it is opened again.

    Parameters
    ----------
    url
        URL (``http://``, ``https://``, ``root://``, ``roots://``, ``s3://``), or a local path.
    client
        The client; :func:`hither.default_client` by default.
    tree_cache
        Whether the layout of ROOT trees in the file foretells reads. For programs that know it themselves and name all
        that they need at once, ``False`` spares what they would not read.

    Raises
    ------
    ValueError
        It is no URL of a known scheme.
    FileNotFoundError
        A local file that does not exist.

    """

    def __init__(self, url: str | os.PathLike[str], *, client: Client | None = None, tree_cache: bool = True) -> None:
        """Open it."""
        super().__init__()
        self._client = client or default_client()
        self._tree_cache = tree_cache
        self._core = self._open_core(os.fspath(url))
        self._position = 0
        self._size: int | None = None
        self._report_at_open = self._client.report

    def _open_core(self, url: str) -> File:
        core = self._client._core.open(url, self._tree_cache)  # noqa: SLF001
        core.begin()
        return core

    def __reduce__(self) -> tuple[Any, ...]:
        """Open it again, at the same place."""
        return _reopen, (self._core.url, self._client, self._position, self._tree_cache)

    def __repr__(self) -> str:
        """Return how it would be opened."""
        return f"<hither.RemoteFile {self.name!r}{' closed' if self.closed else ''}>"

    @property
    def name(self) -> str:
        """URL or path, without secrets."""
        return self._core.name()

    @property
    def mode(self) -> str:
        """Always ``"rb"``."""
        return "rb"

    @property
    def client(self) -> Client:
        """The client that it was opened with."""
        return self._client

    @property
    def size(self) -> int:
        """Size in bytes; one round trip the first time."""
        if self._size is None:
            self._size = self.stat().size
        return self._size

    @property
    def report(self) -> Report:
        """The account of its client since the file was opened, and the places of this file."""
        places, notices = self._core.places()
        since = self._client.report.since(self._report_at_open)
        told = {
            **since.__dict__,
            "sources": tuple(SourceReport(*place) for place in places),
            "notices": tuple(notices),
        }
        return Report(**told)

    # --- positional and vectored ---------------------------------------------------------------------------------------

    def stat(self) -> FileStat:
        """Return size and version. One round trip, unless the file was opened ahead.

        Raises
        ------
        FileNotFoundError, PermissionError, TimeoutError, ConnectionError

        """
        return self._checked_core().stat().wait()

    async def stat_async(self) -> FileStat:
        """Do as :meth:`stat`, in an event loop."""
        return await self._checked_core().stat()

    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on; fewer at the end of the file, none beyond it.

        Raises
        ------
        ValueError
            A number is negative, or the file is closed.
        OSError
            The file has changed since it was first read (:class:`hither.exceptions.ChangedError`).
        FileNotFoundError, PermissionError, TimeoutError, ConnectionError

        """
        return self._read_at(offset, length).wait()

    async def read_at_async(self, offset: int, length: int) -> bytes:
        """Do as :meth:`read_at`, in an event loop."""
        return await self._read_at(offset, length)

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[memoryview]:
        """Return the bytes of ranges ``(start, stop)``, in the order asked for, whatever that is.

        They are fetched in as few round trips as the server allows, and may overlap, repeat, or be empty. The results are
        read-only views of the memory in which the bytes were put together; nothing is copied.

        Raises
        ------
        OSError
            A range lies beyond the end of the file (:class:`hither.exceptions.CorruptError`), or as :meth:`read_at`.

        """
        return _as_views(self._read_ranges(ranges).wait())

    async def read_ranges_async(self, ranges: Iterable[tuple[int, int]]) -> list[memoryview]:
        """Do as :meth:`read_ranges`, in an event loop."""
        return _as_views(await self._read_ranges(ranges))

    def hint(self, ranges: Iterable[tuple[int, int]], *, within: float = 0.0) -> Hint | None:
        """Say that ``ranges`` will be read, in this order, about ``within`` seconds from now.

        They are fetched ahead of that in few requests, as far as there is room, and dropped unread if the room is needed.
        None for local files, of which nothing is fetched ahead.
        """
        return self._checked_core().hint(_check_ranges(ranges), within)

    def prefetch_ends(self, tail: int = 0) -> None:
        """Ask for size, version, head and ``tail`` bytes of the end now, in one flight.

        For a file of which a few small things at both ends will be read, and then much in between. The first use waits for
        it; after that it does nothing. A few kilobytes of the end are fetched at the least, a megabyte at the most.
        """
        self._checked_core().fetch_ends(tail)

    def cancel(self, hint: Hint) -> None:
        """Take a hint back: what has not been asked for yet will not be."""
        self._checked_core().cancel(hint)

    def _read_at(self, offset: int, length: int) -> Job[bytes]:
        if offset < 0 or length < 0:
            message = f"offset {offset} and length {length}: neither can be negative"
            raise ValueError(message)
        return self._checked_core().read_at(offset, length)

    def _read_ranges(self, ranges: Iterable[tuple[int, int]]) -> Job[list[Buffer]]:
        return self._checked_core().read_ranges(_check_ranges(ranges))

    # --- as Python's own files -----------------------------------------------------------------------------------------

    def readable(self) -> bool:
        """Return True."""
        self._checked_core()
        return True

    def seekable(self) -> bool:
        """Return True."""
        self._checked_core()
        return True

    def tell(self) -> int:
        """Return the position, in bytes."""
        self._checked_core()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to ``offset`` from the start, from here, or from the end; return the position. The end costs :attr:`size`."""
        self._checked_core()
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            message = f"whence is {whence}, expected 0, 1 or 2"
            raise ValueError(message)
        start = 0 if whence == os.SEEK_SET else self._position if whence == os.SEEK_CUR else self.size
        if start + offset < 0:
            message = f"cannot go to {start + offset}, which is before the start"
            raise ValueError(message)
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next ``size`` bytes, fewer at the end of the file; with -1 or None all that are left."""
        self._checked_core()
        if size is None or size < 0:
            return self.readall()
        if size > _MAX_UNSIZED_READ:
            size = min(size, max(0, self.size - self._position))
        found = self.read_at(self._position, size)
        self._position += len(found)
        return found

    def readall(self) -> bytes:
        """Return all bytes that are left."""
        found = self.read_at(self._position, max(0, self.size - self._position))
        self._position += len(found)
        return found

    def readinto(self, buffer: typing_extensions.Buffer, /) -> int:
        """Fill ``buffer`` with the next bytes, as far as there are any; return how many."""
        target = memoryview(buffer).cast("B")
        found = self.read(len(target))
        target[: len(found)] = found
        return len(found)

    def _checked_core(self) -> File:
        if self.closed:
            message = "I/O operation on closed file"
            raise ValueError(message)
        return self._core

    def close(self) -> None:
        """Close it; what was asked for ahead is cancelled."""
        if not self.closed:
            super().close()
            self._release()

    def _release(self) -> None:
        self._core.close()


def open(url: str | os.PathLike[str], *, client: Client | None = None) -> RemoteFile:  # noqa: A001
    """Open a file as bytes; see :class:`RemoteFile`.

    Programs that open many files before they use them have them opened side by side, ahead of use.
    """
    return RemoteFile(url, client=client)


def _reopen(url: str, client: Client, at: int, tree_cache: bool) -> RemoteFile:  # noqa: FBT001
    file = RemoteFile(url, client=client, tree_cache=tree_cache)
    file.seek(at)
    return file


def _check_ranges(ranges: Iterable[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    checked = [(int(start), int(stop)) for start, stop in ranges]
    for start, stop in checked:
        if not 0 <= start <= stop:
            message = f"range ({start}, {stop}): expected 0 <= start <= stop"
            raise ValueError(message)
    return checked


def _as_views(buffers: list[Buffer]) -> list[memoryview]:
    import numpy as np

    return [np.asarray(buffer).data for buffer in buffers]
