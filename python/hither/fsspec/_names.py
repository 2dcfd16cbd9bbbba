"""Names of files in URLs, and on the local disk.

In most URLs names are percent-encoded; those of XRootD and S3 are as they are.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from fsspec.utils import glob_translate

from hither._core import redact_url
from hither._urls import without_prefix
from hither.exceptions import InvalidError

_LITERAL_SCHEMES = ("root", "roots", "xroot", "xroots", "s3")
_SAFE = "!$&'()+,:=@"
"""Characters that are not encoded in names, beside letters, digits and ``-._~``."""
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
QUERY = re.compile(r"\?[^/*?\[\]=]+=")
"""Beginning of the query of a URL, which is no pattern."""


def is_encoded(path: str) -> bool:
    """Return whether names are percent-encoded in ``path``: in URLs except XRootD's and S3's."""
    scheme, mark, _ = without_prefix(path).partition("://")
    return bool(mark) and scheme.lower() not in _LITERAL_SCHEMES


def decoded(path: str) -> str:
    """Return ``path`` with its names as they are, without its query.

    Raises
    ------
    ValueError
        A name has a slash or a zero byte, or would be another directory.

    """
    if not is_encoded(path):
        return path
    names = path[: found.start()] if (found := QUERY.search(path)) else path
    plain = [unquote(name, errors="surrogateescape") for name in names.split("/")]
    for name, encoded in zip(plain, names.split("/"), strict=True):
        if name != encoded and (name in (".", "..") or {"/", "\0"} & set(name)):
            message = f"{redact_url(path)} has a name that no local file can have: {encoded}"
            raise InvalidError(message)
    return "/".join(plain)


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
