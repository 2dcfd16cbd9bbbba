"""Branches: what is known of them, how names are chosen, and one as an array."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from hither.exceptions import MissingKeyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from hither._tree.request import Library
    from hither._tree.tree import Tree

    NameFilter: TypeAlias = str | Iterable[str] | Callable[[str], bool] | None


class BranchInfo(NamedTuple):
    """What is known of a branch."""

    name: str
    """Path in the tree; expressions call it so."""
    typename: str
    """C++ type, with dimensions, as ``"float[17]"`` or ``"int32_t[]"``."""
    unsupported: str | None
    """Why hither does not read it by itself; None if it does."""
    baskets: int
    """Pieces that it is stored in."""
    compressed_bytes: int
    """Bytes in the file."""
    uncompressed_bytes: int
    """Bytes unpacked."""


class TreeInfo(NamedTuple):
    """What is known of a tree once it is open."""

    path: str
    title: str
    num_entries: int
    branches: dict[str, BranchInfo]


def tree_info(told: tuple[str, str, int, list[tuple[str, str, str | None, int, int, int]]]) -> TreeInfo:
    """Return what the core told of a tree."""
    path, title, entries, branches = told
    infos = (BranchInfo(*branch) for branch in branches)
    return TreeInfo(path, title, entries, {info.name: info for info in infos})


class Branch:
    """One branch of a tree."""

    def __init__(self, tree: Tree, info: BranchInfo) -> None:
        """Name it."""
        self._tree = tree
        self._info = info

    def __repr__(self) -> str:
        """Return name and type."""
        return f"<hither.Branch {self.name!r} of {self.typename}>"

    @property
    def name(self) -> str:
        """Path in the tree."""
        return self._info.name

    @property
    def typename(self) -> str:
        """C++ type, with dimensions."""
        return self._info.typename

    @property
    def num_entries(self) -> int:
        """Number of entries."""
        return self._tree.num_entries

    @property
    def info(self) -> BranchInfo:
        """Everything that is known of it."""
        return self._info

    def array(
        self,
        *,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        library: Library = "ak",
        native: bool = False,
    ) -> Any:  # noqa: ANN401
        """Read it; as the field of :meth:`Tree.arrays`."""
        arrays = self._tree.arrays(
            [self.name], entry_start=entry_start, entry_stop=entry_stop, library=library, native=native
        )
        return arrays[self.name]


def missing_key_error(what: str, name: str, names: Iterable[str]) -> MissingKeyError:
    """Return the error for a name that is not among ``names``, which tells those that look alike."""
    import difflib

    near = difflib.get_close_matches(name, list(names), n=5, cutoff=0.5)
    there = f"; there are {', '.join(f'`{other}`' for other in near)}" if near else ""
    return MissingKeyError(f"no {what} `{name}`{there}")


_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII, "u": re.UNICODE}


def name_filter(wanted: NameFilter) -> Callable[[str], bool]:
    """Return a function that tells whether a name passes: a pattern, ``/expression/flags``, several of them, a function."""
    if wanted is None:
        return lambda _: True
    if callable(wanted):
        return wanted
    if isinstance(wanted, str):
        expression = re.fullmatch(r"/(.*)/([imsxau]*)", wanted, re.DOTALL)
        if expression:
            flags = sum(_FLAGS[flag] for flag in expression[2])
            pattern = re.compile(expression[1], flags)
            return lambda name: pattern.search(name) is not None
        return lambda name: fnmatch.fnmatchcase(name, wanted)
    several = [name_filter(one) for one in wanted]
    return lambda name: any(passes(name) for passes in several)
