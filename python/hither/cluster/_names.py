"""Names of directories and files: URLs, and paths that mean the same on all nodes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote

from hither import _urls
from hither._urls import is_encoded, split_query


def is_url(path: str) -> bool:
    """Return whether this is a URL rather than a path."""
    return re.match(r"[a-z][a-z0-9+.-]*://", path) is not None


def absolute(path: str) -> str:
    """Return a path that means the same on all nodes; a final ``/.`` is kept."""
    return path if is_url(path) else str(Path(path).absolute()) + ("/." if path.endswith("/.") else "")


def contents(path: str) -> str:
    """Return the directory whose contents a path means."""
    path, query = split_query(path)
    return (path.removesuffix("/.").rstrip("/") or "/") + query


def last_name(path: str) -> str:
    """Return the name of a directory in its parent."""
    name = split_query(contents(path))[0].rsplit("/", 1)[-1]
    return unquote(name) if is_encoded(path) else name


def is_within(path: str, directory: str) -> bool:
    """Return whether a directory is another one or below it. Links of this machine are followed."""
    inner, outer = (_resolved(it).rstrip("/") for it in (path, directory))
    return f"{inner}/".startswith(f"{outer}/")


def _resolved(path: str) -> str:
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://"))
    path = split_query(path)[0]
    return (unquote(path) if is_encoded(path) else path) if is_url(path) else os.path.realpath(path)


def below(directory: str, name: str) -> str:
    """Return a name in a directory."""
    return _urls.below(directory, quote(name) if is_encoded(directory) else name)
