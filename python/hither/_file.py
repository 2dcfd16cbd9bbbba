"""Files as bytes: positional and vectored reads, hints, and Python's file interface."""

from __future__ import annotations

import html
import io
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hither._client import Client, default_client
from hither._reporting.report import SourceReport, report_from_core

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import typing_extensions

    from hither._client import UrlOrPath
    from hither._core import Buffer, File, FileStat, Hint, Job
    from hither._reporting.report import Report

_MAX_UNSIZED_READ = 64 << 20
"""Longer sequential reads first request the size of the file."""
_SMALL_FILE_BYTES = (1 << 20) + (64 << 10)
"""The first bytes of a file of unknown size; most files are not longer."""
_LINES_BYTES = 256 << 10
"""Bytes in which lines are searched at a time."""


class RemoteFile(io.RawIOBase):
    """A remote or local file: a binary file object with positional and vectored reads.

    Opening returns immediately. A missing local file is reported when it is opened, a missing
    remote file at its first use. Reads go through the client's cache, so that small reads need no
    :class:`io.BufferedReader`. All reads of an open file are of one version of it. Any number of
    threads may read at the same time. A file can be pickled and can be used in a forked child; it
    is opened again there, and the child may see a newer version.

    Parameters
    ----------
    url
        URL (``http://``, ``https://``, ``root://``, ``roots://``, ``s3://``) or local path.
    client
        Client to read with; :func:`hither.default_client` by default.
    tree_cache
        Prefetch baskets of the branches that are read, using the layout of the ROOT trees in the
        file. ``False`` avoids superfluous reads of a program that requests all its ranges together.
    open_ahead
        Fetch the ends of the file in the background before its first use. ``False`` avoids
        superfluous reads of a program that reads whole files.

    Raises
    ------
    ValueError
        The URL is invalid.
    NotImplementedError
        The scheme of the URL is not known.
    FileNotFoundError
        The local file does not exist.

    Examples
    --------
    >>> with hither.RemoteFile("http://127.0.0.1:8080/talk.root") as file:
    ...     head = file.read(4)
    ...     tail = file.read_at(file.size - 64, 64)
    ...     first, second = file.read_ranges([(0, 4), (100, 300)])
    ...     head, len(tail), bytes(first), len(second)
    (b'root', 64, b'root', 200)

    """

    def __init__(
        self, url: UrlOrPath, *, client: Client | None = None, tree_cache: bool = True, open_ahead: bool = True
    ) -> None:
        """Open the file."""
        super().__init__()
        self._client = client or default_client()
        self._tree_cache = tree_cache
        self._open_ahead = open_ahead
        self._core = self._open_core(os.fspath(url))
        self._position = 0
        self._size: int | None = None
        self._lines = (0, b"")
        self._process = os.getpid()
        self._report_at_open = self._client._core.report()  # noqa: SLF001

    def _open_core(self, url: str) -> File:
        core = self._client._core.open(url, self._tree_cache, self._open_ahead)  # noqa: SLF001
        core.begin()
        return core

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments that open the file again at the same position."""
        return _reopen, (self._core.url, self._client, self._position, self._tree_cache, self._open_ahead)

    def __repr__(self) -> str:
        """Return the name of the file, and whether it is closed."""
        return f"<hither.RemoteFile {self.name!r}{' closed' if self.closed else ''}>"

    def _repr_html_(self) -> str:
        """Return the name and the report, for notebooks; sends no request."""
        report = "" if self.closed else self.report._repr_html_()
        return f"<div>{html.escape(repr(self))}</div>{report}"

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
        """Client that the file is read with."""
        return self._client

    @property
    def size(self) -> int:
        """Size in bytes; one round trip the first time."""
        self._checked_core()
        if self._size is None:
            self._size = self.stat().size
        return self._size

    @property
    def report(self) -> Report:
        """Counters of the client since the file was opened, and of the replicas of this file."""
        replicas, notices = self._core.replicas()
        since = self._client.report.since(report_from_core(self._report_at_open))
        return replace(since, sources=tuple(SourceReport(*it) for it in replicas), notices=tuple(notices))

    # --- positional and vectored ------------------------------------------------------------------

    def stat(self) -> FileStat:
        """Return size and version. One round trip, unless the file was opened ahead or read before.

        Raises
        ------
        OSError
            The file does not exist, access is denied, or the server fails; :mod:`hither.exceptions`
            lists the classes.

        Examples
        --------
        >>> with hither.open("http://127.0.0.1:8080/talk.root") as file:
        ...     file.stat().size == file.size
        True

        """
        return self._checked_core().stat().wait()

    async def stat_async(self) -> FileStat:
        """Async version of :meth:`stat`."""
        return await self._checked_core().stat()

    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on; fewer at the end of the file, none beyond it.

        Raises
        ------
        ValueError
            A number is negative, or the file is closed.
        OSError
            The file has changed since it was first read (:class:`hither.exceptions.ChangedError`),
            does not exist, access is denied, or the server fails.

        """
        core = self._check_read(offset, length)
        # A read of bytes in memory needs neither a job nor another thread.
        found = core.read_present(offset, length)
        return core.read_at(offset, length).wait() if found is None else found

    async def read_at_async(self, offset: int, length: int) -> bytes:
        """Async version of :meth:`read_at`."""
        core = self._check_read(offset, length)
        found = core.read_present(offset, length)
        return await core.read_at(offset, length) if found is None else found

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[memoryview]:
        """Return the bytes of ranges ``(start, stop)``, in the order of ``ranges``.

        Ranges may come in any order, overlap, repeat or be empty. They are fetched in as few round
        trips as the server allows. The results are read-only views of the library's memory; nothing
        is copied.

        Raises
        ------
        ValueError
            A range is not ``0 <= start <= stop``, or the file is closed.
        OSError
            A range ends beyond the end of the file (:class:`hither.exceptions.CorruptError`), or a
            read fails as in :meth:`read_at`.

        """
        return _as_views(self._read_ranges(ranges).wait())

    async def read_ranges_async(self, ranges: Iterable[tuple[int, int]]) -> list[memoryview]:
        """Async version of :meth:`read_ranges`."""
        return _as_views(await self._read_ranges(ranges))

    def hint(self, ranges: Iterable[tuple[int, int]], *, within: float = 0.0) -> Hint | None:
        """Announce that ``ranges`` will be read, in this order, about ``within`` seconds from now.

        They are prefetched in few requests as far as memory allows, and dropped unread if memory is
        needed. Returns None for local files, which are not prefetched.

        Examples
        --------
        >>> with hither.open("http://127.0.0.1:8080/talk.root") as file:
        ...     hint = file.hint([(10_000, 500_000)])
        ...     part = file.read_at(20_000, 100)
        ...     file.cancel(hint)

        """
        return self._checked_core().hint(_check_ranges(ranges), within)

    def prefetch_ends(self, tail: int = 0) -> None:
        """Start to fetch size, version, head and the last ``tail`` bytes, in one round trip.

        Use it for a file of which small parts at both ends are read before larger ones in between.
        The first read waits for it; after a read, it does nothing. ``tail`` is raised to a few
        kilobytes and lowered to a megabyte.
        """
        self._checked_core().prefetch_ends(tail)

    def cancel(self, hint: Hint) -> None:
        """Cancel a hint: ranges that were not requested yet are not fetched."""
        self._checked_core().cancel(hint)

    def _check_read(self, offset: int, length: int) -> File:
        if offset < 0 or length < 0:
            message = f"offset {offset}, length {length}: neither may be negative"
            raise ValueError(message)
        return self._checked_core()

    def _read_ranges(self, ranges: Iterable[tuple[int, int]]) -> Job[list[Buffer]]:
        return self._checked_core().read_ranges(_check_ranges(ranges))

    # --- Python's file interface ------------------------------------------------------------------

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
        """Move to ``offset`` from the start, the position or the end; return the new position.

        Seeking from the end needs :attr:`size`.

        Raises
        ------
        ValueError
            The new position is negative, ``whence`` is not 0, 1 or 2, or the file is closed.

        """
        self._checked_core()
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            message = f"whence is {whence}, expected 0, 1 or 2"
            raise ValueError(message)
        start = 0 if whence == os.SEEK_SET else self._position if whence == os.SEEK_CUR else self.size
        if start + offset < 0:
            message = f"cannot seek to {start + offset}, which is before the start of the file"
            raise ValueError(message)
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next ``size`` bytes, fewer at the end of the file; the rest for -1 or None."""
        self._checked_core()
        if size is None or size < 0:
            return self.readall()
        if size > _MAX_UNSIZED_READ:
            size = min(size, max(0, self.size - self._position))
        found = self.read_at(self._position, size)
        self._position += len(found)
        return found

    def readall(self) -> bytes:
        """Return all remaining bytes."""
        self._checked_core()
        length = _SMALL_FILE_BYTES if self._size is None else max(0, self._size - self._position)
        found = self.read_at(self._position, length)
        if len(found) == length and (self._size is None or self._size > self._position + length):
            found = self.read_at(self._position, max(0, self.size - self._position))
        self._position += len(found)
        return found

    def readinto(self, buffer: typing_extensions.Buffer, /) -> int:
        """Fill ``buffer`` with the next bytes, up to the end of the file; return their number."""
        target = memoryview(buffer).cast("B")
        found = self.read(len(target))
        target[: len(found)] = found
        return len(found)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next line with its end, at most ``size`` bytes of it; ``b""`` at the end."""
        self._checked_core()
        limit = sys.maxsize if size is None or size < 0 else size
        pieces: list[bytes] = []
        while limit > 0:
            lines, start = self._buffered_lines()
            stop = lines.find(b"\n", start, start + limit) + 1
            piece = lines[start : stop or start + limit]
            self._position += len(piece)
            pieces.append(piece)
            limit -= len(piece)
            if stop or not piece:
                break
        return b"".join(pieces)

    def _buffered_lines(self) -> tuple[bytes, int]:
        """Return bytes from the file and the index of the current position in them."""
        begin, lines = self._lines
        if not begin <= self._position < begin + len(lines):
            begin, lines = self._position, self.read_at(self._position, _LINES_BYTES)
            self._lines = (begin, lines)
        return lines, self._position - begin

    def _checked_core(self) -> File:
        if self.closed:
            message = "I/O operation on closed file"
            raise ValueError(message)
        if self._process != os.getpid():
            # The file is opened again, perhaps in another version.
            self._process, self._size, self._lines = os.getpid(), None, (0, b"")
        return self._core

    def close(self) -> None:
        """Close the file; cancel its prefetches."""
        if not self.closed:
            super().close()
            self._release()

    def _release(self) -> None:
        self._core.close()


def open(url: UrlOrPath, *, client: Client | None = None) -> RemoteFile:  # noqa: A001
    """Open a file as bytes; see :class:`RemoteFile`.

    Programs that open several files before they use them get them opened ahead, in parallel.

    Examples
    --------
    >>> with hither.open("http://127.0.0.1:8080/talk.root") as file:
    ...     file.read(4)
    b'root'

    """
    return RemoteFile(url, client=client)


def _reopen(url: str, client: Client, position: int, tree_cache: bool, open_ahead: bool) -> RemoteFile:  # noqa: FBT001
    file = RemoteFile(url, client=client, tree_cache=tree_cache, open_ahead=open_ahead)
    file.seek(position)
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
