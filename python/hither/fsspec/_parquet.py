"""Parquet files: what a program will read, from what it has read.

pyarrow reads a file that is not its own through one lock: however many reads it has in mind, it asks for the next when the
last is there. Left to itself that is a round trip for each column of each row group. What is coming can be told, though.
The footer, which is fetched while the file is being looked at, says where every column is; and a program that reads a
column of one row group reads it of the others. So the first read of a column brings it along of all row groups. Columns
that were read of a file are brought along with the first read of the next file of the same schema.

A program that reads some columns thus waits for the ends of the file, and once for each run of columns that lie side by
side; of the next such file once for all of them. Whoever knows the columns beforehand can say so:
``fsspec.parquet.open_parquet_file`` reads all of them in one flight.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from hither.fsspec._files import FsspecFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hither._core import Entry, File, Hint
    from hither._file import RemoteFile
    from hither.fsspec._files import ObservedStat

PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")
"""What the names of Parquet files end in."""
TAIL_BYTES = 64 << 10
"""What pyarrow reads of the end first."""
_MAX_FOOTER_BYTES = 64 << 20
"""Of a footer that is looked at."""
_MAX_COLUMNS = 20_000
"""Of a file whose layout is looked at."""
_MAX_PREFETCH_BYTES = 64 << 20
"""Fetched and not read yet, about."""
_TRAILER_BYTES = 8
"""Bytes behind a footer: its length, and what follows."""
PARQUET_MAGIC = (b"PAR1", b"PARE")
"""What a Parquet file ends in."""


class ParquetFile(FsspecFile):
    """A file to read, of which columns are read ahead.

    ``shared`` is the same file as the filesystem keeps it, through which everything is read: it has the ends already, and
    stays open for the next program that looks at it.
    ``columns_by_schema`` are the columns that were last read of files, by schema.
    """

    def __init__(
        self,
        fs: Any,  # noqa: ANN401
        path: str,
        known: Entry | ObservedStat | None,
        shared: RemoteFile,
        columns_by_schema: dict[int, set[int]],
    ) -> None:
        """Open it."""
        self._shared = shared
        super().__init__(fs, path, known)
        self._columns_by_schema = columns_by_schema
        self._lock = threading.Lock()
        self._layout: ParquetLayout | None = None
        self._is_plain = "pyarrow" not in sys.modules
        self._read: set[int] = set()
        self._wanted: set[int] = set()
        self._named: set[tuple[int, int]] = set()
        self._ahead_bytes = 0
        self._hints: list[Hint] = []

    def _open_core(self, url: str) -> File:  # noqa: ARG002
        return self._shared._core  # noqa: SLF001

    def _release(self) -> None:
        with contextlib.suppress(ValueError):
            for hint in self._hints:
                self._shared.cancel(hint)
        if self._layout is not None and self._read:
            self._columns_by_schema[self._layout.schema] = set(self._read)

    def read_at(self, offset: int, length: int) -> bytes:
        """Do as :meth:`hither.RemoteFile.read_at`."""
        with self._lock:
            if not self._is_plain and length > 0 and offset + length <= self.size - _TRAILER_BYTES:
                self._prefetch(offset, offset + length)
        return super().read_at(offset, length)

    def _prefetch(self, start: int, stop: int) -> None:
        """Name what will be read beside this."""
        if self._layout is None:
            self._layout = self._read_layout()
            self._is_plain = self._layout is None
        layout = self._layout
        if layout is None:
            return
        group, columns = layout.columns_in(start, stop)
        if not columns:
            return
        self._read.update(columns)
        self._ahead_bytes -= sum(layout.size(group, column) for column in columns if (group, column) in self._named)
        self._named.update((group, column) for column in columns)
        last_read = self._columns_by_schema.get(layout.schema, set()) if not self._wanted else set()
        self._wanted.update(columns, last_read if last_read.issuperset(columns) else ())
        ranges = list(self._upcoming(layout, group))
        if ranges:
            # What is read now goes with them: all in one flight, and this first.
            hint = self._shared.hint([(start, stop), *ranges])
            self._hints += [] if hint is None else [hint]

    def _upcoming(self, layout: ParquetLayout, group: int) -> Iterator[tuple[int, int]]:
        """Yield the columns that will be read of this row group and all others, as far as there is room."""
        for each in itertools.chain(range(group, layout.groups), range(group)):
            for column in sorted(self._wanted):
                if self._ahead_bytes >= _MAX_PREFETCH_BYTES:
                    return
                if (each, column) not in self._named:
                    self._named.add((each, column))
                    self._ahead_bytes += layout.size(each, column)
                    yield layout.byte_range(each, column)

    def _read_layout(self) -> ParquetLayout | None:
        """Read the footer, which the program has read before; None if there is none that makes sense."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        tail = super().read_at(max(0, self.size - TAIL_BYTES), TAIL_BYTES)
        length = int.from_bytes(tail[-_TRAILER_BYTES:-4], "little") + _TRAILER_BYTES
        if len(tail) < _TRAILER_BYTES or not _TRAILER_BYTES < length <= min(self.size, _MAX_FOOTER_BYTES):
            return None
        if length > len(tail):
            tail = super().read_at(self.size - length, length)
        try:
            metadata = pq.read_metadata(pa.BufferReader(tail))
        except (pa.ArrowException, OSError):
            return None
        return (
            ParquetLayout(metadata)
            if 0 < metadata.num_columns <= _MAX_COLUMNS and metadata.num_row_groups > 0
            else None
        )


class ParquetLayout:
    """Where the columns of each row group are."""

    def __init__(self, metadata: Any) -> None:  # noqa: ANN401
        """Look at where the row groups begin."""
        self._metadata = metadata
        self._byte_ranges: dict[tuple[int, int], tuple[int, int]] = {}
        self.groups: int = metadata.num_row_groups
        self.schema = hash(tuple(metadata.schema.column(at).path for at in range(metadata.num_columns)))
        self._starts = [self.byte_range(group, 0)[0] for group in range(self.groups)]

    def byte_range(self, group: int, column: int) -> tuple[int, int]:
        """Return where a column of a row group begins and ends."""
        if (group, column) not in self._byte_ranges:
            chunk = self._metadata.row_group(group).column(column)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
                start = chunk.dictionary_page_offset
            self._byte_ranges[group, column] = start, start + chunk.total_compressed_size
        return self._byte_ranges[group, column]

    def size(self, group: int, column: int) -> int:
        """Return its length in bytes."""
        start, stop = self.byte_range(group, column)
        return stop - start

    def columns_in(self, start: int, stop: int) -> tuple[int, list[int]]:
        """Return the columns of a row group that lie in a range, and which row group that is."""
        group = max(0, bisect_right(self._starts, start) - 1)
        places = ((column, *self.byte_range(group, column)) for column in range(self._metadata.num_columns))
        return group, [column for column, first, last in places if start <= first < last <= stop]
