"""File objects of :class:`hither.fsspec.HitherFileSystem`."""

from __future__ import annotations

import io
import re
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hither._file import RemoteFile
from hither.exceptions import ChangedError, InvalidError

if TYPE_CHECKING:
    from types import TracebackType

    import typing_extensions

    from hither._core import Entry


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


class FsspecFile(RemoteFile):
    """A file to read, whose size may be known; with ``fs`` and ``path`` as in other filesystems."""

    def __init__(self, fs: Any, path: str, known: Entry | ObservedStat | None) -> None:  # noqa: ANN401
        """Open the file."""
        super().__init__(path, client=fs.client)
        self.fs = fs
        self.path = path
        self._expected = None
        if known is not None and known.kind == "file":
            self._size = self._expected = known.size

    def info(self) -> dict[str, Any]:
        """Return the filesystem's ``info`` of the file."""
        found: dict[str, Any] = self.fs.info(self.path)
        return found

    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on; see :meth:`hither.RemoteFile.read_at`."""
        found = super().read_at(offset, length)
        expected = self._expected
        if expected is not None and len(found) != min(length, max(0, expected - offset)):
            message = f"{self.name} has changed: its size was {expected} bytes and is another now; open it again"
            raise ChangedError(message)
        return found


class UploadFile(io.RawIOBase):
    """A file to write. It is sent when it is closed, and appears whole or not at all.

    It is not sent after an exception in its ``with`` block, or if it is never closed.
    """

    def __init__(self, fs: Any, path: str, mode: str, *, autocommit: bool) -> None:  # noqa: ANN401
        """Start with an empty file."""
        super().__init__()
        self.fs = fs
        self.path = path
        self.mode = mode
        self._autocommit = autocommit
        self._content = tempfile.NamedTemporaryFile(prefix="hither-")  # noqa: SIM115

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: typing_extensions.Buffer, /) -> int:
        """Append ``data``; return its length in bytes."""
        if self.closed:
            message = "I/O operation on closed file"
            raise ValueError(message)
        return self._content.write(data)

    def tell(self) -> int:
        """Return the position, in bytes."""
        return self._content.tell()

    def close(self) -> None:
        """Send the file; in a transaction of the filesystem, at the end of the transaction."""
        if not self.closed:
            super().close()
            if self._autocommit:
                self.commit()

    def commit(self) -> None:
        """Send the file now.

        Raises
        ------
        ValueError
            The file was discarded.
        OSError
            The target exists and the file was opened with ``"xb"`` (``FileExistsError``), access is
            denied, the server is full, or it fails.

        """
        if self._content.closed:
            message = f"{self.path} cannot be sent: the file was discarded"
            raise InvalidError(message)
        self._content.flush()
        try:
            self.fs.put_file(self._content.name, self.path, mode="create" if "x" in self.mode else "overwrite")
        finally:
            self._content.close()

    def discard(self) -> None:
        """Close the file without sending it."""
        self._autocommit = False
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

    def __del__(self) -> None:
        """Discard the file if it was not closed."""
        self._autocommit = False
