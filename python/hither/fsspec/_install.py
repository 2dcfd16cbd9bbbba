"""hither as fsspec's filesystem of plain URLs."""

from __future__ import annotations

from typing import Any

from fsspec.registry import _registry, register_implementation, registry

from hither._urls import SCHEMES
from hither.exceptions import InvalidError
from hither.fsspec._filesystem import HitherFileSystem

_replaced: dict[str, Any] = {}
"""Previous filesystem of each installed scheme; None for fsspec's own choice."""


def install(*schemes: str) -> None:
    """Make hither fsspec's filesystem of plain URLs, in this process.

    Libraries that open URLs with fsspec then read ``https://host/path`` with hither. Existing
    filesystems and files are not changed.

    Parameters
    ----------
    schemes
        Some of ``"https"``, ``"http"``, ``"root"``, ``"roots"``, ``"s3"``, ``"pelican"`` and
        ``"osdf"``; all by default.

    Raises
    ------
    ValueError
        A scheme is none of these.

    Examples
    --------
    >>> import fsspec, hither.fsspec
    >>> hither.fsspec.install("http")
    >>> with fsspec.open("http://127.0.0.1:8080/talk.root") as file:
    ...     type(file.fs).__name__, file.read(4)
    ('HitherFileSystem', b'root')
    >>> hither.fsspec.uninstall()

    """
    unknown = [scheme for scheme in schemes if scheme not in SCHEMES]
    if unknown:
        message = f"scheme {unknown[0]!r} is not one that hither reads, expected one of {', '.join(SCHEMES)}"
        raise InvalidError(message)
    for scheme in schemes or SCHEMES:
        _replaced.setdefault(scheme, registry.get(scheme))
        register_implementation(scheme, HitherFileSystem, clobber=True)


def uninstall() -> None:
    """Undo :func:`install`: plain URLs have the filesystem that they had before.

    Examples
    --------
    >>> import hither.fsspec
    >>> hither.fsspec.install("https", "s3")
    >>> hither.fsspec.uninstall()

    """
    while _replaced:
        scheme, before = _replaced.popitem()
        if before is None:
            _registry.pop(scheme, None)
        else:
            register_implementation(scheme, before, clobber=True)
