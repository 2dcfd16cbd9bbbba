"""What is to be read of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from hither.exceptions import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hither._tree.branches import NameFilter

Library = Literal["ak", "np", "pd", "arrow"]
LIBRARIES = ("ak", "np", "pd", "arrow")
_ALL = (1 << 64) - 1


class ArraysRequest(NamedTuple):
    """What is to be read of a tree."""

    columns: list[str]
    """Branches and expressions, each once."""
    cut: str | None
    """An expression."""
    start: int
    """The first entry."""
    stop: int
    """The entry after the last."""
    library: Library
    """Whose arrays are wanted."""
    foreign: list[str]
    """Columns that uproot has to read."""


def select_columns(
    columns: str | Sequence[str] | None,
    filter_name: NameFilter,
    keys: Callable[[NameFilter], list[str]],
) -> list[str]:
    """Return the columns that are asked for, each once; without ``columns`` the ``keys`` that pass.

    Raises
    ------
    ValueError
        Both are given.

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
        There is none of that name.

    """
    if library not in LIBRARIES:
        message = f"library is {library!r}, expected one of {', '.join(map(repr, LIBRARIES))}"
        raise InvalidError(message)
    return library


def entry_range(start: int | None, stop: int | None, num_entries: Callable[[], int]) -> tuple[int, int]:
    """Return the entries from ``start`` to ``stop``; ``num_entries`` is asked where one counts from the end."""

    def entry(told: int | None, default: int) -> int:
        if told is None:
            return default
        return told if told >= 0 else max(0, num_entries() + told)

    return entry(start, 0), entry(stop, _ALL)
