"""What a read costs, and why."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hither._tree.tree import Tree

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import TypeAlias

    from hither._client import Client
    from hither._reporting.report import Report
    from hither._tree.branches import NameFilter

    Name: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Explanation:
    """What a read of a tree came to; shown in a notebook, it draws where the time and the bytes went."""

    url: str
    """URL or path of the file, without what may be secret."""
    tree: str
    """Path of the tree."""
    columns: tuple[str, ...]
    """What was read."""
    cut: str | None
    """Which of it."""
    entries: int
    """Entries that were looked at."""
    selected: int
    """Entries of the result."""
    through_uproot: tuple[str, ...]
    """Columns that hither does not read itself."""
    report: Report
    """Where the time and the bytes went."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**self.__dict__, "report": self.report.as_dict()}

    def __str__(self) -> str:
        """Return what the command ``hither explain`` prints."""
        selected = f"{self.selected:8}     of {self.entries} entries"
        notices = "".join(f"\n  {notice}" for notice in self.report.notices)
        return f"{self.report}\n  {'selected':<26} {selected}{notices}"

    def _repr_html_(self) -> str:
        """Return a picture of where the time and the bytes went, and the text, for notebooks."""
        from hither._reporting.svg import timing_svg

        cut = f" where {self.cut}" if self.cut else ""
        what = f"{', '.join(self.columns)}{cut} of {self.tree} in {self.url}"
        return f"<div>{html.escape(what)}</div>{timing_svg(self.report)}<pre>{html.escape(str(self))}</pre>"


def explain(
    tree: Tree | Name,
    columns: str | Sequence[str] | None = None,
    cut: str | None = None,
    *,
    path: str | None = None,
    client: Client | None = None,
    filter_name: NameFilter = None,
    entry_start: int | None = None,
    entry_stop: int | None = None,
    native: bool = False,
) -> Explanation:
    """Read as :meth:`hither.Tree.arrays` does, drop what was read, and tell what that took.

    Parameters
    ----------
    tree
        A tree, or URL or local path of its file; that is opened for the purpose, and closed again.
    path
        Path of the tree in the file, as for :func:`hither.open_tree`.
    client
        The client to open it with; :func:`hither.default_client` by default.
    columns, cut, filter_name, entry_start, entry_stop, native
        As for :meth:`hither.Tree.arrays`. What hither itself reads of this is part of the account.

    Raises
    ------
    KeyError, NotImplementedError, ValueError
    FileNotFoundError, PermissionError, TimeoutError, ConnectionError, OSError
        As :meth:`hither.Tree.arrays`.

    """
    if not isinstance(tree, Tree):
        with Tree(tree, path, client=client) as opened:
            return _explain(opened, columns, cut, filter_name, (entry_start, entry_stop), native)
    return _explain(tree, columns, cut, filter_name, (entry_start, entry_stop), native)


def _explain(
    tree: Tree,
    columns: str | Sequence[str] | None,
    cut: str | None,
    filter_name: NameFilter,
    span: tuple[int | None, int | None],
    native: bool,  # noqa: FBT001
) -> Explanation:
    request = tree._request(columns, cut, filter_name, *span, "ak", native)  # noqa: SLF001
    selected, report = tree._read_for_report(request, native)  # noqa: SLF001
    return Explanation(
        url=tree._shown_url,  # noqa: SLF001
        tree=tree.name,
        columns=tuple(request.columns),
        cut=cut,
        entries=max(0, min(request.stop, tree.num_entries) - request.start),
        selected=selected,
        through_uproot=tuple(request.foreign),
        report=report,
    )
