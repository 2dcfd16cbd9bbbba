"""Files that :class:`hither.fsspec.HitherFileSystem` opens."""

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
    """Tell whether the name of a file, by URL, ends in one of these."""
    return re.split("[?#]", path, maxsplit=1)[0].lower().endswith(endings)


@dataclass(frozen=True)
class ObservedStat:
    """What reading a file told of it."""

    size: int
    validator: str | None
    kind: str = "file"
    modified: float | None = None


class FsspecFile(RemoteFile):
    """A file to read, of which the size may be known already; ``fs`` and ``path`` are as other filesystems' files have them."""

    def __init__(self, fs: Any, path: str, known: Entry | ObservedStat | None) -> None:  # noqa: ANN401
        """Open it."""
        super().__init__(path, client=fs.client)
        self.fs = fs
        self.path = path
        self._expected = None
        if known is not None and known.kind == "file":
            self._size = self._expected = known.size

    def info(self) -> dict[str, Any]:
        """Return what the filesystem knows of it."""
        found: dict[str, Any] = self.fs.info(self.path)
        return found

    def read_at(self, offset: int, length: int) -> bytes:
        """Do as :meth:`hither.RemoteFile.read_at`."""
        found = super().read_at(offset, length)
        expected = self._expected
        if expected is not None and len(found) != min(length, max(0, expected - offset)):
            message = f"{self.name}: it had {expected} bytes when it was looked at and has others now: open it again"
            raise ChangedError(message)
        return found


class UploadFile(io.RawIOBase):
    """A file to write: it is sent when it is closed, and has its name when all of it is there.

    Left by an exception, or never closed, it is not sent.
    """

    def __init__(self, fs: Any, path: str, mode: str, *, autocommit: bool) -> None:  # noqa: ANN401
        """Begin with nothing."""
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
        """Add ``data`` to the end; return its length in bytes."""
        if self.closed:
            message = "I/O operation on closed file"
            raise ValueError(message)
        return self._content.write(data)

    def tell(self) -> int:
        """Return the position, in bytes."""
        return self._content.tell()

    def close(self) -> None:
        """Send it; in a transaction of the filesystem, at the end of that."""
        if not self.closed:
            super().close()
            if self._autocommit:
                self.commit()

    def commit(self) -> None:
        """Send it now.

        Raises
        ------
        FileExistsError
            There is something of that name, and it was opened with ``"xb"``.
        ValueError
            It was discarded.
        PermissionError, TimeoutError, ConnectionError, OSError

        """
        if self._content.closed:
            message = f"{self.path}: what was to be written was discarded"
            raise InvalidError(message)
        self._content.flush()
        try:
            self.fs.put_file(self._content.name, self.path, mode="create" if "x" in self.mode else "overwrite")
        finally:
            self._content.close()

    def discard(self) -> None:
        """Do not send it."""
        self._autocommit = False
        self._content.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it, or discard it after an exception."""
        if kind is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        """Discard it, if it was not closed."""
        self._autocommit = False
