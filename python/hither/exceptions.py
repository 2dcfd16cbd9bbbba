"""What can go wrong.

Every exception is a :class:`HitherError`, and also the builtin exception that Python programs know for it, so that
``except FileNotFoundError`` works as well as ``except hither.exceptions.NotFoundError``. Messages say what was seen, what was
expected and what to do; secrets are never in them.
"""

from __future__ import annotations

import errno
from typing import ClassVar

__all__ = [
    "AlreadyExistsError",
    "CancelledError",
    "ChangedError",
    "CorruptError",
    "HitherError",
    "InvalidError",
    "LocalError",
    "MissingKeyError",
    "NoSpaceError",
    "NotFoundError",
    "PermissionDeniedError",
    "ProtocolError",
    "TimedOutError",
    "TooLargeError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnsupportedError",
]


class HitherError(Exception):
    """Anything that hither raises by itself."""

    kind: ClassVar[str] = "internal"
    """The same word as in the command's ``--json`` output; it does not change between versions."""

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0]) if self.args else ""


class NotFoundError(HitherError, FileNotFoundError):
    """There is no such file or directory."""

    kind = "not_found"
    errno = errno.ENOENT


class MissingKeyError(HitherError, KeyError):
    """There is no such tree or branch in the file; the message names those that look alike."""

    kind = "not_found"


class InvalidError(HitherError, ValueError):
    """A malformed URL, expression, option or range; or something that is closed."""

    kind = "invalid"


class UnauthenticatedError(HitherError, PermissionError):
    """The server wants credentials (401)."""

    kind = "unauthenticated"
    errno = errno.EACCES


class PermissionDeniedError(HitherError, PermissionError):
    """The credentials do not suffice (403)."""

    kind = "permission_denied"
    errno = errno.EACCES


class AlreadyExistsError(HitherError, FileExistsError):
    """There is something of that name already."""

    kind = "already_exists"
    errno = errno.EEXIST


class NoSpaceError(HitherError, OSError):
    """The server or the disk has no room left (507)."""

    kind = "no_space"
    errno = errno.ENOSPC


class ChangedError(HitherError, OSError):
    """The file is no longer the one that was opened: open it again."""

    kind = "changed"
    errno = errno.ESTALE


class CorruptError(HitherError, OSError):
    """The bytes are not what their format says they must be; also a range beyond the end of a file."""

    kind = "corrupt"
    errno = errno.EIO


class UnsupportedError(HitherError, NotImplementedError):
    """A valid thing that this version cannot read or do."""

    kind = "unsupported"


class TimedOutError(HitherError, TimeoutError):
    """No connection, no answer, or no progress for as long as was allowed."""

    kind = "timeout"
    errno = errno.ETIMEDOUT


class UnavailableError(HitherError, ConnectionError):
    """The server cannot be reached, broke off, or failed (5xx)."""

    kind = "unavailable"
    errno = errno.ECONNABORTED


class ProtocolError(HitherError, ConnectionError):
    """The server answered in a way that its protocol does not allow."""

    kind = "protocol"
    errno = errno.EPROTO


class TooLargeError(HitherError, OSError):
    """The request was too large for the server, however it was divided."""

    kind = "too_large"
    errno = errno.E2BIG


class CancelledError(HitherError):
    """The operation was given up."""

    kind = "cancelled"


class LocalError(HitherError, OSError):
    """A local file or the local machine failed."""

    kind = "local"
    errno = errno.EIO
