"""Datasets as collections of dask-awkward: a partition reads what is asked of it, where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import awkward as ak
import dask_awkward
from dask.base import tokenize
from dask_awkward.lib.io.columnar import ColumnProjectionMixin
from dask_awkward.lib.unproject_layout import unproject_layout

from hither._tree.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hither._client import Client


class Partition(NamedTuple):
    """Consecutive entries of a file."""

    url: str
    start: int
    stop: int


class ReadPartition(ColumnProjectionMixin):  # type: ignore[misc]
    """Reads the columns of a part. dask-awkward asks for one that reads fewer of them: :meth:`project_columns`."""

    behavior = None
    attrs = None
    use_optimization = True

    def __init__(self, client: Client, path: str | None, form: ak.forms.RecordForm, whole: ak.forms.Form) -> None:
        """Read the fields of ``form``; those of ``whole`` that it lacks are there, and have no values."""
        self.client = client
        self.path = path
        self.form = form
        self.whole = whole

    def __dask_tokenize__(self) -> object:
        """Return what tells one such function from another."""
        return tokenize(type(self).__name__, self.path, self.form.to_json(), self.whole.to_json())

    def __call__(self, part: Partition) -> ak.Array:
        """Read it."""
        columns = list(self.form.fields)
        if columns:
            with Tree(part.url, self.path, client=self.client) as tree:
                found = tree.arrays(columns, entry_start=part.start, entry_stop=part.stop)
            layout = ak.to_layout(found)
        else:
            # How many there are is known, and all that is asked for.
            layout = ak.contents.RecordArray([], [], length=part.stop - part.start)
        return ak.Array(unproject_layout(self.whole, layout))

    def project_columns(self, columns: Iterable[str]) -> ReadPartition:
        """Return a function that reads those only; ``column.field`` is a field of what is in a column."""
        asked = frozenset(columns)
        kept = [
            name for name in self.form.fields if name in asked or any(other.startswith(f"{name}.") for other in asked)
        ]
        form = ak.forms.RecordForm([self.form.content(name) for name in kept], kept)
        return ReadPartition(self.client, self.path, form, self.whole)


def collection(parts: list[Partition], none: ak.Array, path: str | None, client: Client) -> Any:  # noqa: ANN401
    """Return an array of which each partition is a part; ``none`` has the columns, and no entries."""
    form = ak.forms.from_dict(none.layout.form.to_dict())
    divisions = [0]
    for part in parts:
        divisions.append(divisions[-1] + part.stop - part.start)
    return dask_awkward.from_map(
        ReadPartition(client, path, form, form), parts, label="hither", divisions=tuple(divisions)
    )
