"""Names of files: in URLs, on the local disk, in patterns and in messages.

In most URLs names are percent-encoded; those of XRootD and S3 are literal.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import quote, unquote

from fsspec.utils import glob_translate

from hither._core import redact_url
from hither._urls import is_encoded, split_query
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


def plain(path: str) -> str:
    """Return ``path`` with its names unchanged, without its query and a slash at the end."""
    path = split_query(path)[0].rstrip("/")
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
