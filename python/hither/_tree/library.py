"""Columns of the core as Awkward, NumPy, pandas and Arrow arrays over the same memory."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from hither import _core
from hither._tree.branches import record_columns
from hither.exceptions import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from hither._tree.branches import RecordType
    from hither._tree.request import Library


def build(
    names: Sequence[str], columns: Sequence[_core.Column], records: Sequence[RecordType | None], library: Library
) -> Any:  # noqa: ANN401
    """Return the result of ``arrays`` for these columns.

    ``"ak"``: an ``ak.Array`` of records; ``"np"``: a dict of NumPy arrays, of objects where entries
    differ in length; ``"pd"``: a ``DataFrame``; ``"arrow"``: a ``pyarrow.Table``. A name that is
    requested twice appears once. A name with a record is one field, made of the record's columns.
    """
    entries = columns[0].entries if columns else 0
    rest = iter(columns)

    def fields(of_column: Callable[[_core.Column], Any], of_record: Callable[[Any], Any]) -> dict[str, Any]:
        named = {}
        for name, record in zip(names, records, strict=True):
            if record is None or (library != "ak" and record_columns(record) == [name]):
                named[name] = of_column(next(rest))
            else:
                layouts = {path: awkward_layout(next(rest)) for path in record_columns(record)}
                named[name] = of_record(record_layout(record, layouts, entries))
        return named

    if library == "ak":
        return record_array(fields(awkward_layout, lambda layout: layout))
    if library == "np":
        return fields(numpy_array, objects)
    if library == "pd":
        import pandas as pd

        return pd.DataFrame(fields(lambda column: series(numpy_array(column)), lambda layout: series(objects(layout))))
    import pyarrow as pa

    return pa.table(fields(arrow_array, _arrow_record))


def concatenate(parts: Sequence[Any], library: Library) -> Any:  # noqa: ANN401
    """Return the results of :func:`build` for several files, concatenated."""
    if library == "ak":
        import awkward as ak

        return ak.concatenate(list(parts))
    if library == "np":
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if library == "pd":
        import pandas as pd

        return pd.concat(list(parts), ignore_index=True)
    import pyarrow as pa

    return pa.concat_tables(list(parts))


def merge_fields(parts: Sequence[Any], names: Sequence[str], library: Library) -> Any:  # noqa: ANN401
    """Return one result with the fields ``names`` of several results of the same entries.

    Raises
    ------
    ValueError
        They differ in the number of entries.

    """
    counts = sorted({_num_entries(part, library) for part in parts})
    if len(counts) > 1:
        message = f"columns of {' and '.join(map(str, counts))} entries are not one result; request them one by one"
        raise InvalidError(message)
    if library == "ak":
        fields = {name: part[name].layout for part in parts for name in part.fields}
        return record_array({name: fields[name] for name in names})
    if library == "np":
        every = {name: array for part in parts for name, array in part.items()}
        return {name: every[name] for name in names}
    if library == "pd":
        import pandas as pd

        return pd.concat(list(parts), axis=1)[list(names)]
    import pyarrow as pa

    arrays = {name: part.column(name) for part in parts for name in part.column_names}
    return pa.table({name: arrays[name] for name in names})


def _num_entries(part: Any, library: Library) -> int:  # noqa: ANN401
    """Return the number of entries of a result of :func:`build`."""
    return len(next(iter(part.values()), ())) if library == "np" else len(part)


def as_numpy(buffer: _core.Buffer, item_shape: Sequence[int] = ()) -> npt.NDArray[Any]:
    """Return a buffer as an array whose first dimension counts items of shape ``item_shape``."""
    flat = np.asarray(buffer)
    if not item_shape:
        return flat
    size = int(np.prod(item_shape))
    return flat.reshape((len(flat) // size if size else 0, *item_shape))


# --- awkward --------------------------------------------------------------------------------------


def record_array(fields: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return an array of records of these layouts."""
    import awkward as ak

    length = None if fields else 0
    return ak.Array(ak.contents.RecordArray(list(fields.values()), list(fields), length=length))


def awkward_layout(column: _core.Column) -> Any:  # noqa: ANN401
    """Return uproot's layout for such a branch: 64-bit offsets, regular arrays for fixed sizes."""
    import awkward as ak

    layout = _awkward_values(column.values)
    for size in reversed(column.item_shape):
        layout = ak.contents.RegularArray(layout, size, zeros_length=column.entries)
    if column.offsets is not None:
        layout = ak.contents.ListOffsetArray(ak.index.Index64(as_numpy(column.offsets)), layout)
    return layout


def _awkward_values(values: object) -> Any:  # noqa: ANN401
    import awkward as ak

    if isinstance(values, _core.Column):
        return awkward_layout(values)
    if isinstance(values, _core.Strings):
        characters = ak.contents.NumpyArray(as_numpy(values.bytes), parameters={"__array__": "char"})
        offsets = ak.index.Index64(as_numpy(values.offsets))
        return ak.contents.ListOffsetArray(offsets, characters, parameters={"__array__": "string"})
    assert isinstance(values, _core.Buffer)  # noqa: S101
    return ak.contents.NumpyArray(as_numpy(values))


def record_layout(record: RecordType, columns: Mapping[str, Any], length: int) -> Any:  # noqa: ANN401
    """Return uproot's layout of a record from its columns, which have ``length`` entries."""
    import awkward as ak

    kind = record[0]
    if kind == "column":
        return columns[record[1]]
    if kind == "record":
        fields = {name: record_layout(field, columns, length) for name, field in record[2]}
        parameters = {"__record__": record[1]} if record[1] else None
        return ak.contents.RecordArray(list(fields.values()), list(fields), length=length, parameters=parameters)
    paths = record_columns(record)
    outer = columns[paths[0]]
    inner = {path: columns[path].content for path in paths}
    items = len(inner[paths[0]])
    if kind == "fixed":
        return ak.contents.RegularArray(record_layout(record[2], inner, items), record[1], zeros_length=length)
    if kind == "list":
        parameters = {"__array__": record[1]} if record[1] else None
        return ak.contents.ListOffsetArray(outer.offsets, record_layout(record[2], inner, items), parameters=parameters)
    pair = [record_layout(part, inner, items) for part in record[1:]]
    pairs = ak.contents.RecordArray(pair, None, length=items, parameters={"__array__": "sorted_map"})
    return ak.contents.ListOffsetArray(outer.offsets, pairs)


def _arrow_record(layout: Any) -> Any:  # noqa: ANN401
    import awkward as ak

    return ak.to_arrow(ak.Array(layout), extensionarray=False)


def objects(layout: Any) -> npt.NDArray[Any]:  # noqa: ANN401
    """Return an array with one item per entry, of objects for lists and missing values.

    The type decides that, not the lengths: those of all entries that were read may be equal.
    """
    import awkward as ak

    array = ak.Array(layout)
    if array.ndim == 1 or layout.purelist_isregular:
        try:
            found: npt.NDArray[Any] = ak.to_numpy(array)
        except (ValueError, TypeError):
            # Records with lists, or values of several types.
            pass
        else:
            if not isinstance(found, np.ma.MaskedArray):
                return found
    rows = np.empty(len(array), dtype=object)
    for at, row in enumerate(ak.to_list(array)):
        rows[at] = row
    return rows


# --- NumPy and pandas -----------------------------------------------------------------------------


def numpy_array(column: _core.Column) -> npt.NDArray[Any]:
    """Return an array with one item per entry, of objects where lengths differ."""
    items = _numpy_values(column)
    if column.offsets is None:
        return items
    offsets = as_numpy(column.offsets)
    rows = np.empty(column.entries, dtype=object)
    for entry in range(column.entries):
        rows[entry] = items[offsets[entry] : offsets[entry + 1]]
    return rows


def _numpy_values(column: _core.Column) -> npt.NDArray[Any]:
    values = column.values
    if isinstance(values, _core.Buffer):
        return as_numpy(values, column.item_shape)
    if isinstance(values, _core.Column):
        inner = numpy_array(values)
    else:
        texts = _texts(values)
        inner = np.empty(len(texts), dtype=object)
        inner[:] = texts
    size = int(np.prod(column.item_shape))
    return inner.reshape((len(inner) // size if size else 0, *column.item_shape)) if column.item_shape else inner


def _texts(strings: _core.Strings) -> list[str]:
    offsets = as_numpy(strings.offsets).tolist()
    characters = as_numpy(strings.bytes).tobytes()
    ends = itertools.pairwise(offsets)
    return [characters[start:stop].decode("utf-8", "surrogateescape") for start, stop in ends]


def series(array: npt.NDArray[Any]) -> Any:  # noqa: ANN401
    """Return the array as pandas accepts it for a column: with one item per entry."""
    return array if array.ndim == 1 else list(array)


# --- Arrow ----------------------------------------------------------------------------------------


def arrow_array(column: _core.Column) -> Any:  # noqa: ANN401
    """Return an Arrow array over the same memory; booleans and strings are copied."""
    import pyarrow as pa

    values = column.values
    if isinstance(values, _core.Column):
        array = arrow_array(values)
    elif isinstance(values, _core.Strings):
        offsets, characters = (pa.py_buffer(as_numpy(it)) for it in (values.offsets, values.bytes))
        array = pa.LargeStringArray.from_buffers(len(values.offsets) - 1, offsets, characters)
    else:
        assert isinstance(values, _core.Buffer)  # noqa: S101
        array = pa.array(as_numpy(values))
    for size in reversed(column.item_shape):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    if column.offsets is not None:
        array = pa.LargeListArray.from_arrays(pa.array(as_numpy(column.offsets)), array)
    return array
