"""Reads that only report their cost."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hither._tree.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hither._client import Client, UrlOrPath
    from hither._reporting.report import Report
    from hither._tree.branches import NameFilter


@dataclass(frozen=True)
class Explanation:
    """Cost and result size of a read of a tree. A notebook shows it as a picture of time and bytes.

    Examples
    --------
    >>> url = "http://127.0.0.1:8080/talk.root"
    >>> explanation = hither.explain(url, "rawtr", "E33 > 5", path="T")
    >>> explanation.columns, explanation.cut, 0 < explanation.selected < explanation.entries
    (('rawtr',), 'E33 > 5', True)

    """

    url: str
    """URL or path of the file, without secrets."""
    tree: str
    """Path of the tree."""
    columns: tuple[str, ...]
    """Branches and expressions that were read."""
    cut: str | None
    """Expression that selected entries or elements."""
    entries: int
    """Number of entries that were read."""
    selected: int
    """Number of values of the result: of elements where the cut selects those, else of entries."""
    through_uproot: tuple[str, ...]
    """Columns that uproot read, because hither cannot."""
    report: Report
    """Counters and timings of the read."""

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data."""
        return {**self.__dict__, "report": self.report.as_dict()}

    def __str__(self) -> str:
        """Return the text that the command ``hither explain`` prints."""
        selected = f"{self.selected:8}     values of {self.entries} entries"
        notices = "".join(f"\n  {notice}" for notice in self.report.notices)
        return f"{self.report}\n  {'selected':<26} {selected}{notices}"

    def _repr_html_(self) -> str:
        """Return a picture of time and bytes, and the text, for notebooks."""
        from hither._reporting.svg import timing_svg

        cut = f" where {self.cut}" if self.cut else ""
        what = f"{', '.join(self.columns)}{cut} of {self.tree} in {self.url}"
        return f"<div>{html.escape(what)}</div>{timing_svg(self.report)}<pre>{html.escape(str(self))}</pre>"


def explain(
    tree: Tree | UrlOrPath,
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
    """Read as :meth:`hither.Tree.arrays` does, drop the result, and return what the read cost.

    Parameters
    ----------
    tree
        A tree; or the URL or local path of a file, which is opened and closed.
    columns, cut, filter_name, entry_start, entry_stop, native
        As for :meth:`hither.Tree.arrays`. The report covers only what hither reads itself.
    path
        Path of the tree in the file, as for :func:`hither.open_tree`.
    client
        Client to open the file with; :func:`hither.default_client` by default.

    Raises
    ------
    KeyError, NotImplementedError, ValueError, OSError
        As for :meth:`hither.Tree.arrays`.

    Examples
    --------
    >>> url = "http://127.0.0.1:8080/talk.root"
    >>> explanation = hither.explain(url, ["rawtr", "E33"], "E33 > 5", path="T")
    >>> list(explanation.report.phases), explanation.report.requests > 0
    (['connect', 'open', 'data', 'rest'], True)

    """
    if not isinstance(tree, Tree):
        with Tree(tree, path, client=client) as opened:
            return _explain(opened, columns, cut, filter_name, (entry_start, entry_stop), native, with_opening=True)
    return _explain(tree, columns, cut, filter_name, (entry_start, entry_stop), native, with_opening=False)


def _explain(
    tree: Tree,
    columns: str | Sequence[str] | None,
    cut: str | None,
    filter_name: NameFilter,
    span: tuple[int | None, int | None],
    native: bool,  # noqa: FBT001
    *,
    with_opening: bool,
) -> Explanation:
    request = tree._request(columns, cut, filter_name, *span, "ak", native)  # noqa: SLF001
    selected, report = tree._read_for_report(request, native=native, with_opening=with_opening)  # noqa: SLF001
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
