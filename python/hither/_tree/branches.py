"""Branches: their descriptions, filters for their names, and one branch as an array."""

from __future__ import annotations

import fnmatch
import itertools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from hither import _core
from hither.exceptions import MissingKeyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from hither._tree.request import Library
    from hither._tree.tree import Tree

    RecordType: TypeAlias = tuple[Any, ...]
    """``("column", path)``, ``("record", class, fields)``, ``("list", mark, item)``,
    ``("fixed", size, item)`` or ``("map", key, value)``."""
    NameFilter: TypeAlias = str | Iterable[str] | Callable[[str], bool] | None


class BranchInfo(NamedTuple):
    """Name, type and size of a branch.

    Examples
    --------
    >>> info = hither.open_tree("http://127.0.0.1:8080/talk.root", "T")["rawtr"].info
    >>> info.typename, info.unsupported, info.baskets > 1
    ('float[17]', None, True)

    """

    name: str
    """Path in the tree, as expressions name it."""
    typename: str
    """C++ type with dimensions, such as ``"float[17]"`` or ``"int32_t[]"``."""
    unsupported: str | None
    """Reason why hither cannot read the branch itself; None if it can."""
    baskets: int
    """Number of baskets."""
    compressed_bytes: int
    """Compressed size in bytes."""
    uncompressed_bytes: int
    """Uncompressed size in bytes."""
    record: RecordType | None = None
    """How columns form its entries, for a branch that is not one plain column."""


class TreeInfo(NamedTuple):
    """Description of an open tree."""

    path: str
    title: str
    num_entries: int
    branches: dict[str, BranchInfo]
    is_ntuple: bool = False


def tree_info(listing: tuple[str, str, int, list[tuple[str, str, str | None, int, int, int, Any]]]) -> TreeInfo:
    """Return the description of a tree from the core's tuples."""
    path, title, entries, branches = listing
    infos = (BranchInfo(*branch) for branch in branches)
    return TreeInfo(path, title, entries, {info.name: info for info in infos})


def record_columns(record: RecordType) -> list[str]:
    """Return the paths of the columns of a record."""
    if record[0] == "column":
        return [record[1]]
    if record[0] == "record":
        parts = [field for _, field in record[2]]
    else:
        parts = list(record[1:] if record[0] == "map" else record[-1:])
    return [path for part in parts for path in record_columns(part)]


def without_repeated(names: Sequence[str], branches: Mapping[str, BranchInfo]) -> list[str]:
    """Return ``names`` without records and columns that repeat each other, as uproot reads them.

    A record all of whose columns are among the names is left out. Otherwise its columns are.
    """
    kept = set(names)
    for name in names:
        record = branches[name].record
        if record is None or name not in kept:
            continue
        columns = set(record_columns(record))
        if columns == {name}:
            continue
        if columns and not columns <= set(names):
            inner = {other for other in names if other.startswith(f"{name}/")}
            kept -= columns | inner
        else:
            kept.discard(name)
    return [name for name in names if name in kept]


def outermost(names: Sequence[str]) -> list[str]:
    """Return the fields of an RNTuple that are in none of the others."""
    given = set(names)
    parts = {name: list(itertools.accumulate(name.split("."), "{}.{}".format)) for name in names}
    return [name for name in names if given.isdisjoint(parts[name][:-1])]


class Branch:
    """One branch of a tree.

    Examples
    --------
    >>> branch = hither.open_tree("http://127.0.0.1:8080/talk.root", "T")["rawtr"]
    >>> branch.array(entry_stop=100, library="np").shape
    (100, 17)

    """

    def __init__(self, tree: Tree, info: BranchInfo) -> None:
        """Keep tree and description."""
        self._tree = tree
        self._info = info

    def __repr__(self) -> str:
        """Return name and type."""
        return f"<hither.Branch {self.name!r} of {self.typename}>"

    @property
    def name(self) -> str:
        """Path in the tree, as expressions name it."""
        return self._info.name

    @property
    def typename(self) -> str:
        """C++ type with dimensions."""
        return self._info.typename

    @property
    def num_entries(self) -> int:
        """Number of entries."""
        return self._tree.num_entries

    @property
    def info(self) -> BranchInfo:
        """Name, type and size of the branch."""
        return self._info

    def array(
        self,
        *,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        library: Library = "ak",
        native: bool = False,
    ) -> Any:  # noqa: ANN401
        """Read the branch; parameters and errors are those of :meth:`hither.Tree.arrays`."""
        arrays = self._tree.arrays(
            [self.name], entry_start=entry_start, entry_stop=entry_stop, library=library, native=native
        )
        return arrays[self.name]


def missing_key_error(what: str, name: str, names: Iterable[str]) -> MissingKeyError:
    """Return the error for a name that is not among ``names``; its message suggests other names."""
    return MissingKeyError(f"no {what} `{name}`{_core.suggestion(name, list(names))}")


_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII, "u": re.UNICODE}


def name_filter(wanted: NameFilter) -> Callable[[str], bool]:
    """Return a function that is true for names that pass the filter.

    The filter is a pattern, ``/expression/flags``, several of these, or a function of the name.
    """
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
