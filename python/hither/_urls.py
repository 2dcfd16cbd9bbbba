"""URLs: schemes, the prefix by which other libraries distinguish hither's URLs from theirs."""

from __future__ import annotations

import re

SCHEMES = ("https", "http", "root", "roots", "s3", "pelican", "osdf")
"""Schemes of URLs that are read."""
PREFIXES = ("hither", "hither+")
"""Prefixes of a scheme that mean hither, as in ``hitherhttps://``.

Many libraries take only letters and digits for a scheme, which rules out ``hither+https``.
"""
_PREFIX = re.compile(rf"\Ahither\+?(?=(?:{'|'.join(SCHEMES)})://)")

_LITERAL_SCHEMES = ("root", "roots", "xroot", "xroots", "s3")
_QUERY = re.compile(r"\?[^/*?\[\]=]+=")


def is_encoded(path: str) -> bool:
    """Return whether names are percent-encoded in ``path``: in URLs except XRootD's and S3's."""
    scheme, mark, _ = without_prefix(path).partition("://")
    return bool(mark) and scheme.lower() not in _LITERAL_SCHEMES


def split_query(path: str) -> tuple[str, str]:
    """Return a path without the query of its URL, and the query with its mark; S3 has none."""
    scheme, mark, _ = without_prefix(path).partition("://")
    found = _QUERY.search(path) if mark and scheme != "s3" else None
    return (path[: found.start()], path[found.start() :]) if found else (path, "")


def below(directory: str, name: str) -> str:
    """Return the path of ``name``, as it is in URLs, in a directory, with the directory's query."""
    path, query = split_query(directory)
    return f"{path.rstrip('/')}/{name}{query}"


def without_prefix(url: str) -> str:
    """Return a URL without hither's prefix."""
    return _PREFIX.sub("", url)
