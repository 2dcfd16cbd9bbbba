"""Requests for arrays of a tree: columns, cut, entries, library."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, NamedTuple

from hither.exceptions import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hither._tree.branches import NameFilter

Library = Literal["ak", "np", "pd", "arrow"]
LIBRARIES = {"ak": "awkward", "np": "numpy", "pd": "pandas", "arrow": "pyarrow"}
"""Packages of the libraries."""
_ALL = (1 << 64) - 1


class ArraysRequest(NamedTuple):
    """Columns and entries to read of a tree, and the library to return them in."""

    columns: list[str]
    """Branches and expressions, without duplicates."""
    cut: str | None
    """Expression that selects entries or elements."""
    start: int
    """The first entry."""
    stop: int
    """The entry after the last."""
    library: Library
    """Library of the result."""
    foreign: list[str]
    """Columns that only uproot can read."""


def select_columns(
    columns: str | Sequence[str] | None,
    filter_name: NameFilter,
    keys: Callable[[NameFilter], list[str]],
) -> list[str]:
    """Return the columns without duplicates; for None, the ``keys`` that pass the filter.

    Raises
    ------
    ValueError
        Both ``columns`` and ``filter_name`` are given.

    """
    if columns is None:
        return keys(filter_name)
    if filter_name is not None:
        raise InvalidError("give columns or filter_name, not both")
    return [columns] if isinstance(columns, str) else list(dict.fromkeys(columns))


def check_library(library: Library) -> Library:
    """Return ``library``.

    Raises
    ------
    ValueError
        The library is not supported.
    ModuleNotFoundError
        Its package is not installed.

    """
    if library not in LIBRARIES:
        message = f"library is {library!r}, expected one of {', '.join(map(repr, LIBRARIES))}"
        raise InvalidError(message)
    package = LIBRARIES[library]
    if sys.modules.get(package) is None and find_spec(package) is None:
        message = f"library={library!r} needs {package} (pip install {package}); library='np' needs NumPy alone"
        raise ModuleNotFoundError(message, name=package)
    return library


def entry_range(start: int | None, stop: int | None, num_entries: Callable[[], int]) -> tuple[int, int]:
    """Return first entry and end; negative ones count from ``num_entries()``."""

    def entry(given: int | None, default: int) -> int:
        if given is None:
            return default
        return given if given >= 0 else max(0, num_entries() + given)

    return entry(start, 0), entry(stop, _ALL)
