"""Exceptions of the package.

Every exception is a :class:`HitherError` and also the builtin exception that fits, so that
``except FileNotFoundError`` works as well as ``except hither.exceptions.NotFoundError``. Messages
say what happened, what was expected and what to do; they contain no secrets.

A call that contacts a server may raise :class:`NotFoundError`, :class:`UnauthenticatedError`,
:class:`PermissionDeniedError`, :class:`TimedOutError`, :class:`UnavailableError`,
:class:`ProtocolError`, :class:`TooLargeError`, :class:`ChangedError`, :class:`CorruptError`,
:class:`NoSpaceError` or :class:`LocalError`; each is an ``OSError``.

Examples
--------
>>> try:
...     hither.open("http://127.0.0.1:8080/none.root").read(4)
... except FileNotFoundError as error:
...     isinstance(error, hither.exceptions.NotFoundError), error.kind
(True, 'not_found')

"""

from __future__ import annotations

import errno
from typing import ClassVar

__all__ = [
    "AlreadyExistsError",
    "CancelledError",
    "ChangedError",
    "CorruptError",
    "HiddenNamesWarning",
    "HitherError",
    "InvalidError",
    "LocalError",
    "MissingKeyError",
    "NoSpaceError",
    "NotFoundError",
    "PermissionDeniedError",
    "ProtocolError",
    "ThroughUprootWarning",
    "TimedOutError",
    "TooLargeError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnsupportedError",
]


class HitherError(Exception):
    """Base class of all exceptions of the package.

    Examples
    --------
    >>> try:
    ...     hither.open_tree("http://127.0.0.1:8080/talk.root", "T")["rawt"]
    ... except hither.HitherError as error:
    ...     print(error)
    no branch `rawt`; did you mean `rawtr`?

    """

    kind: ClassVar[str] = "internal"
    """Kind of error, as in the command's ``--json`` output; stable between versions."""

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0]) if self.args else ""


class NotFoundError(HitherError, FileNotFoundError):
    """The file or directory does not exist."""

    kind = "not_found"
    errno = errno.ENOENT


class MissingKeyError(HitherError, KeyError):
    """The file has no such tree or branch; the message names similar ones."""

    kind = "not_found"


class InvalidError(HitherError, ValueError):
    """A URL, expression, option or range is invalid, or an object is closed."""

    kind = "invalid"


class UnauthenticatedError(HitherError, PermissionError):
    """The server requires credentials (HTTP 401)."""

    kind = "unauthenticated"
    errno = errno.EACCES


class PermissionDeniedError(HitherError, PermissionError):
    """The credentials do not permit the operation (HTTP 403)."""

    kind = "permission_denied"
    errno = errno.EACCES


class AlreadyExistsError(HitherError, FileExistsError):
    """The target exists already."""

    kind = "already_exists"
    errno = errno.EEXIST


class NoSpaceError(HitherError, OSError):
    """The server or the disk is full (HTTP 507)."""

    kind = "no_space"
    errno = errno.ENOSPC


class ChangedError(HitherError, OSError):
    """The file has changed since it was opened; open it again."""

    kind = "changed"
    errno = errno.ESTALE


class CorruptError(HitherError, OSError):
    """The bytes violate their format, or a range ends beyond the end of the file."""

    kind = "corrupt"
    errno = errno.EIO


class UnsupportedError(HitherError, NotImplementedError):
    """The operation, format or type is valid, but this version does not support it."""

    kind = "unsupported"
    branch: str | None = None
    """The branch whose type is not supported, if it is one."""


class TimedOutError(HitherError, TimeoutError):
    """No connection, no answer, or no progress within the timeout."""

    kind = "timeout"
    errno = errno.ETIMEDOUT


class UnavailableError(HitherError, ConnectionError):
    """The server cannot be reached, closed the connection, or failed (HTTP 5xx)."""

    kind = "unavailable"
    errno = errno.ECONNABORTED


class ProtocolError(HitherError, ConnectionError):
    """The server's answer violates its protocol."""

    kind = "protocol"
    errno = errno.EPROTO


class TooLargeError(HitherError, OSError):
    """The server refused the request as too large, even after it was divided."""

    kind = "too_large"
    errno = errno.E2BIG


class CancelledError(HitherError):
    """The operation was cancelled."""

    kind = "cancelled"


class LocalError(HitherError, OSError):
    """A local file or the local machine failed."""

    kind = "local"
    errno = errno.EIO


class HiddenNamesWarning(UserWarning):
    """A directory was listed by an HTML index, which may hide names: one that is absent may exist.

    Nothing may be deleted because such a listing does not show it, as
    ``fsspec.generic.rsync(delete_missing=True)`` does. Turned into an error, it prevents that.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", hither.exceptions.HiddenNamesWarning)
    ...     len(hither.default_client().list("http://127.0.0.1:8080/runs/"))
    2

    """


class ThroughUprootWarning(UserWarning):
    """uproot reads branches or an RNTuple that hither cannot read itself; values are complete.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", hither.exceptions.ThroughUprootWarning)
    ...     tree = hither.open_tree("http://127.0.0.1:8080/talk.root", "T")
    ...     len(tree.arrays(["rawtr"], entry_stop=3))
    3

    """
