"""Datasets as dask-awkward collections, whose partitions read only the columns in use."""

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
    path: str | None
    start: int
    stop: int


class ReadPartition(ColumnProjectionMixin):  # type: ignore[misc]
    """Function that reads a partition; dask-awkward narrows it with :meth:`project_columns`."""

    behavior = None
    attrs = None
    use_optimization = True

    def __init__(self, client: Client, form: ak.forms.RecordForm, whole: ak.forms.Form) -> None:
        """Read the fields of ``form``; the other fields of ``whole`` are present without values."""
        self.client = client
        self.form = form
        self.whole = whole

    def __dask_tokenize__(self) -> object:
        """Return the token that identifies this function."""
        return tokenize(type(self).__name__, self.form.to_json(), self.whole.to_json())

    def __call__(self, partition: Partition) -> ak.Array:
        """Read the partition."""
        columns = list(self.form.fields)
        if columns:
            with Tree._of(partition.url, partition.path, self.client) as tree:  # noqa: SLF001
                found = tree.arrays(columns, entry_start=partition.start, entry_stop=partition.stop)
            layout = ak.to_layout(found)
        else:
            # Only the number of entries is needed, which is known.
            layout = ak.contents.RecordArray([], [], length=partition.stop - partition.start)
        return ak.Array(unproject_layout(self.whole, layout))

    def project_columns(self, columns: Iterable[str]) -> ReadPartition:
        """Return a function that reads only ``columns``, which may be ``column.field``."""
        requested = frozenset(columns)
        kept = [
            name
            for name in self.form.fields
            if name in requested or any(other.startswith(f"{name}.") for other in requested)
        ]
        form = ak.forms.RecordForm([self.form.content(name) for name in kept], kept)
        return ReadPartition(self.client, form, self.whole)


def collection(partitions: list[Partition], empty: ak.Array, client: Client) -> Any:  # noqa: ANN401
    """Return the collection of ``partitions``; ``empty`` has its columns and no entries."""
    form = ak.forms.from_dict(empty.layout.form.to_dict())
    divisions = [0]
    for partition in partitions:
        divisions.append(divisions[-1] + partition.stop - partition.start)
    read = ReadPartition(client, form, form)
    return dask_awkward.from_map(read, partitions, label="hither", divisions=tuple(divisions))
