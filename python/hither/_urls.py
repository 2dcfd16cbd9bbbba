"""URLs: schemes, the prefix by which other libraries tell hither's URLs from theirs."""

from __future__ import annotations

import re

SCHEMES = ("https", "http", "root", "roots", "s3", "pelican", "osdf")
"""Schemes of URLs that are read."""
PREFIXES = ("hither", "hither+")
"""Prefixes of a scheme that mean hither, as in ``hitherhttps://``.

Many libraries take only letters and digits for a scheme, which rules out ``hither+https``.
"""
_PREFIX = re.compile(rf"\Ahither\+?(?=(?:{'|'.join(SCHEMES)})://)")


def without_prefix(url: str) -> str:
    """Return a URL without hither's prefix."""
    return _PREFIX.sub("", url)
