"""File objects of :class:`hither.fsspec.HitherFileSystem`."""

from __future__ import annotations

import io
import opcode
import operator
import re
import sys
import tempfile
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fsspec.transaction import Transaction

from hither._core import redact_url, validators_differ
from hither._file import RemoteFile
from hither.exceptions import ChangedError, HitherError, InvalidError
from hither.fsspec._names import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType, TracebackType

    import typing_extensions

    from hither._core import Entry, FileStat


def has_suffix(path: str, endings: tuple[str, ...]) -> bool:
    """Return whether the path of a URL ends with one of ``endings``."""
    return re.split("[?#]", path, maxsplit=1)[0].lower().endswith(endings)


@dataclass(frozen=True)
class ObservedStat:
    """Size and version of a file, learned while reading it."""

    size: int
    validator: str | None
    kind: str = "file"
    modified: float | None = None


def is_other_version(one: Entry | ObservedStat | FileStat, other: Entry | ObservedStat | FileStat) -> bool:
    """Return whether two stats differ in a size, version or time that both have."""

    def differ(field: str, are_different: Callable[[Any, Any], bool]) -> bool:
        a, b = getattr(one, field, None), getattr(other, field, None)
        return a is not None and b is not None and are_different(a, b)

    return differ("size", operator.ne) or differ("modified", operator.ne) or differ("validator", validators_differ)


class FsspecFile(RemoteFile):
    """A file to read, whose size may be known; with ``fs`` and ``path`` as in other filesystems."""

    def __init__(self, fs: Any, path: str, known: Entry | ObservedStat | None) -> None:  # noqa: ANN401
        """Open the file."""
        super().__init__(path, client=fs.client)
        self.fs = fs
        self.path = path
        self._known = known if known is not None and known.kind == "file" else None
        self._size = self._known.size if self._known else None
        self._is_size_used = False

    @property
    def size(self) -> int:
        """Size in bytes; one round trip the first time, unless it is known."""
        self._is_size_used = True
        return super().size

    def info(self) -> dict[str, Any]:
        """Return the filesystem's ``info`` of the file."""
        found: dict[str, Any] = self.fs.info(self.path)
        return found

    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on; see :meth:`hither.RemoteFile.read_at`."""
        found = super().read_at(offset, length)
        self._check_known()
        return found

    async def read_at_async(self, offset: int, length: int) -> bytes:
        """Async version of :meth:`read_at`."""
        found = await super().read_at_async(offset, length)
        await self._check_known_async()
        return found

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[memoryview]:
        """Return the bytes of ranges; see :meth:`hither.RemoteFile.read_ranges`."""
        found = super().read_ranges(ranges)
        self._check_known()
        return found

    async def read_ranges_async(self, ranges: Iterable[tuple[int, int]]) -> list[memoryview]:
        """Async version of :meth:`read_ranges`."""
        found = await super().read_ranges_async(ranges)
        await self._check_known_async()
        return found

    def _check_known(self) -> None:
        """Compare the known stat of the file with the version that was read; sends no request."""
        if self._known is not None:
            self._compare(self.stat())

    async def _check_known_async(self) -> None:
        if self._known is not None:
            self._compare(await self.stat_async())

    def _compare(self, version: FileStat) -> None:
        known, self._known = self._known, None
        if known is None or not is_other_version(known, version):
            return
        self.fs._versions.drop(self.path)  # noqa: SLF001
        if self._is_size_used:
            if known.size == version.size:
                seen = f"its version was {known.validator} and is {version.validator} now"
            else:
                seen = f"its size was {known.size} bytes and is {version.size} now"
            message = f"{self.name} has changed: {seen}; open it again"
            raise ChangedError(message)
        self._size = version.size


class UploadFile(io.RawIOBase):
    """A file to write. It is sent when it is closed, and appears whole or not at all.

    It is not sent after an exception in its ``with`` block, if it is never closed, or if it is
    closed while an exception ends another ``with`` block that this thread is in: that of a file
    that wraps it, or of a writer that opened it. A warning reports that. A file is sent that is
    opened while the block ends, or that is closed in an ``except`` or ``finally`` block.
    """

    def __init__(self, fs: Any, path: str, mode: str, *, autocommit: bool) -> None:  # noqa: ANN401
        """Start with an empty file."""
        super().__init__()
        self.fs = fs
        self.path = path
        self.mode = mode
        self.is_sent = False
        self._autocommit = autocommit
        self._is_discarded = False
        self._blocks_failing_before = _failing_blocks()
        self._content = tempfile.NamedTemporaryFile(prefix="hither-")  # noqa: SIM115

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: typing_extensions.Buffer, /) -> int:
        """Append ``data``; return its length in bytes."""
        if self.closed:
            message = "I/O operation on closed file"
            raise ValueError(message)
        if self._is_discarded:
            # The bytes that a wrapping file still had are dropped.
            return memoryview(data).nbytes
        return self._content.write(data)

    def tell(self) -> int:
        """Return the position, in bytes."""
        return self._content.tell()

    def close(self) -> None:
        """Send the file; in a transaction of the filesystem, at the end of the transaction."""
        if self.closed:
            return
        super().close()
        if not self._is_discarded and any(it not in self._blocks_failing_before for it in _failing_blocks()):
            self.discard()
            message = (
                f"{redact_url(self.path)} was not sent, because it was closed while an exception ended a `with` block; "
                "to send it nevertheless, close it before, or in an `except` block"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        if self._autocommit:
            self.commit()

    def commit(self) -> None:
        """Send the file now, unless it was discarded.

        Raises
        ------
        ValueError
            The file is not closed, or was sent before.
        OSError
            The target exists and the file was opened with ``"xb"`` (``FileExistsError``), access is
            denied, the server is full, or it fails.

        """
        if self._is_discarded:
            return
        if not self.closed:
            # A wrapping file, for text or compression, may still have bytes.
            self.discard()
            message = f"{redact_url(self.path)} was not sent, because the file is not closed"
            raise InvalidError(message)
        self._content.flush()
        try:
            self.fs.put_file(self._content.name, self.path, mode="create" if "x" in self.mode else "overwrite")
            self.is_sent = True
        finally:
            self._content.close()

    def discard(self) -> None:
        """Close the file without sending it."""
        self._is_discarded = True
        self._content.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file; discard it after an exception."""
        if kind is not None:
            self.discard()
        self.close()

    def _dealloc_warn(self, _source: object) -> None:
        """Discard the file: a text file over it was not closed, and Python closes both."""
        self._warn_unsent()
        self.discard()

    def __del__(self) -> None:
        """Discard the file if it was not closed."""
        if not self.closed:
            self._warn_unsent()
        self._autocommit = False

    def _warn_unsent(self) -> None:
        if not self._content.closed:
            message = f"{redact_url(self.path)} was not sent, because the file was never closed"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


class CompressedFile(io.BufferedIOBase):
    """A compressed file to write, which is sent as :class:`UploadFile` is.

    The compressors of fsspec do not close the file below them.
    """

    def __init__(self, upload: UploadFile, compress: Callable[..., Any]) -> None:
        """Write the output of ``compress`` to ``upload``."""
        super().__init__()
        self._upload = upload
        self._compressor = compress(upload, mode="w")

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: typing_extensions.Buffer, /) -> int:
        """Append ``data``; return its length in bytes."""
        written: int = self._compressor.write(data)
        return written

    def tell(self) -> int:
        """Return the number of uncompressed bytes written."""
        position: int = self._compressor.tell()
        return position

    def close(self) -> None:
        """Send the file."""
        if not self.closed:
            super().close()
            self._compressor.close()
            self._upload.close()

    def discard(self) -> None:
        """Close the file without sending it."""
        self._upload.discard()

    def _dealloc_warn(self, source: object) -> None:
        self._upload._dealloc_warn(source)  # noqa: SLF001

    def __del__(self) -> None:
        """Discard the file if it was not closed."""
        if not self.closed:
            self._upload._dealloc_warn(self)  # noqa: SLF001


_AWAITING = {
    opcode.opmap[name]
    for name in ("GET_AWAITABLE", "LOAD_CONST", "EXTENDED_ARG", "SEND", "CACHE", "YIELD_FROM")
    if name in opcode.opmap
}
"""Instructions at which ``async with`` waits for ``__aexit__``, which follow WITH_EXCEPT_START."""


def _failing_blocks() -> list[FrameType]:
    """Return the frames, of those that run in this thread, whose ``with`` block an exception ends.

    Files that wrap another one (text, compression, the writers of pandas and pyarrow) do not pass
    the exception to it: they call ``close``. Only the instruction at which the frame of the block
    waits for ``__exit__`` shows it.
    """
    found = []
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        code, at = frame.f_code.co_code, frame.f_lasti
        while at > 0 and code[at] in _AWAITING:
            at -= 2
        if code[at] == opcode.opmap["WITH_EXCEPT_START"]:
            found.append(frame)
        frame = frame.f_back
    return found


class UploadTransaction(Transaction):  # type: ignore[misc]
    """Files that are sent together, at the end of the ``with`` block of ``fs.transaction``."""

    def complete(self, commit: bool = True) -> None:  # noqa: FBT001, FBT002
        """Send all files, or discard them; one that cannot be sent ends this.

        Raises
        ------
        HitherError
            That of the file that cannot be sent; the message names all files that were not sent.

        """
        files = list(self.files)
        try:
            super().complete(commit)
        except HitherError as error:
            unsent = [file.path for file in files if not file.is_sent]
            message = f"{error}; of {len(files)} files of the transaction, {len(unsent)} were not sent: {shown(unsent)}"
            raise type(error)(message) from error
