"""Names of files: in URLs, on the local disk, in patterns and in messages.

In most URLs names are percent-encoded; those of XRootD and S3 are literal.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Any
from urllib.parse import quote, unquote

from fsspec.utils import glob_translate

from hither._core import redact_url
from hither._urls import is_encoded, split_query, without_prefix
from hither.exceptions import InvalidError

_SAFE = "!$&'()+,:=@"
"""Characters that are not encoded in names, in addition to letters, digits and ``-._~``."""
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_MAX_SHOWN_NAMES = 5
"""Names that a message shows."""


def has_query(path: str) -> bool:
    """Return whether a path ends in the query of a URL, whose mark is not a pattern."""
    return bool(split_query(path)[1])


def is_pattern(path: str) -> bool:
    """Return whether a path is a pattern, unless a file has this name."""
    return bool(set("*?[") & set(path)) and not has_query(path)


def shown(path: Any) -> str:  # noqa: ANN401
    """Return a URL or several as messages show them, without user, password and query."""
    if not isinstance(path, (str, os.PathLike)):
        return ", ".join(shown(each) for each in list(path)[:_MAX_SHOWN_NAMES])
    text = str(path)
    url, mark, pattern = text.partition("?")
    return redact_url(text) if has_query(text) else redact_url(url) + mark + pattern


def normal(path: str) -> str:
    """Return ``path`` without hither's prefix and slashes at the end.

    ``root://host//`` keeps its own: it is the directory of ``root://host//name``. Libraries require
    that the names in a directory begin with its name, so ``root://host/name`` stays as it is, too.
    """
    name, query = split_query(without_prefix(path))
    if not re.fullmatch("roots?://[^/]+//+", name):
        name = name.rstrip("/")
    # A search for the last slash of the path must not find one in its query.
    return name + query.replace("/", "%2F")


def child(directory: str, name: str) -> str:
    """Return the path of ``name``, as it is in URLs, in a directory."""
    path, query = split_query(normal(directory))
    return f"{path.removesuffix('/')}/{name}{query}"


def canonical(path: str) -> str:
    """Return one form of all names that a file has on most servers, or on the local disk.

    It is for comparisons: a few servers distinguish ``a//b`` from ``a/b``.
    """
    name, query = split_query(normal(path))
    scheme, mark, rest = name.partition("://")
    if not mark:
        # Python keeps two slashes at the beginning.
        return os.path.abspath(re.sub("^/+", "/", path))  # noqa: PTH100
    if scheme == "s3":
        return name + query
    host, _, names = rest.partition("/")
    user, at, host = host.rpartition("@")
    return normal(f"{scheme.lower()}://{user}{at}{host.lower()}{posixpath.normpath('/' + names.lstrip('/'))}{query}")


def plain(path: str) -> str:
    """Return :func:`normal` with its names unchanged, without its query."""
    path = split_query(normal(path))[0]
    return unquote(path, errors="surrogateescape") if is_encoded(path) else path


def decoded(path: str) -> str:
    """Return :func:`plain`, for a path of local files.

    Raises
    ------
    ValueError
        A name has a slash or a zero byte, or would be another directory.

    """
    names = split_query(path)[0].split("/") if is_encoded(path) else []
    for name in names:
        if (own := unquote(name)) != name and (own in (".", "..") or {"/", "\0"} & set(own)):
            message = f"{shown(path)} has a name that no local file can have: {name}"
            raise InvalidError(message)
    return plain(path)


def encoded(path: str) -> str:
    """Return a path of plain names with each of them percent-encoded."""
    return "/".join(quote(name, safe=_SAFE, errors="surrogateescape") for name in path.split("/"))


def glob_matcher(pattern: str) -> re.Pattern[str]:
    """Return the regular expression that the :func:`decoded` names of a pattern match.

    What is encoded in the pattern is meant literally.
    """

    def literal(escapes: re.Match[str]) -> str:
        return re.sub(r"[*?[]", r"[\g<0>]", unquote(escapes[0], errors="surrogateescape"))

    return re.compile(glob_translate("/".join(_ESCAPES.sub(literal, name) for name in pattern.split("/"))))
