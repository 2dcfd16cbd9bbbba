"""Prefetch of Parquet columns, for programs that read them one after the other.

pyarrow reads a foreign file object under one lock: it requests the next range when the last one has
arrived. Without a prefetch that is one round trip for each column of each row group. But the next
reads can be predicted. The footer, which arrives with the first read of the file, states where each
column is, and a program that reads a column of one row group reads it from the others, too. So the
first read of a column prefetches it in all row groups. Columns that were read from one file are
prefetched with the first read of the next file of the same schema.

A program that reads some columns thus waits once for the ends of the file, and once for each run of
adjacent columns; of the next file once for all columns. Programs that know the columns beforehand
can name them: ``fsspec.parquet.open_parquet_file`` reads all of them in one round trip.
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
"""Suffixes of the names of Parquet files."""
TAIL_BYTES = 64 << 10
"""Bytes of the end of a file that pyarrow reads first."""
_MAX_FOOTER_BYTES = 64 << 20
"""Largest footer that is parsed."""
_MAX_COLUMNS = 20_000
"""Largest number of columns of a file that is prefetched."""
_MAX_PREFETCH_BYTES = 32 << 20
"""Approximate maximum of bytes that are prefetched and not read yet."""
_TRAILER_BYTES = 8
"""Bytes after the footer: its length and the magic number."""
PARQUET_MAGIC = (b"PAR1", b"PARE")
"""Magic numbers at the end of a Parquet file."""


class ParquetFile(FsspecFile):
    """A Parquet file to read, whose columns are prefetched.

    All reads go through ``shared``, the same file as the filesystem keeps it open: it has the ends
    already, and stays open for later reads of the file. ``columns_by_schema`` holds the columns
    that were last read, by schema.
    """

    def __init__(
        self,
        fs: Any,  # noqa: ANN401
        path: str,
        known: Entry | ObservedStat | None,
        shared: RemoteFile,
        columns_by_schema: dict[int, set[int]],
    ) -> None:
        """Open the file."""
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
        """Return ``length`` bytes from ``offset`` on; see :meth:`hither.RemoteFile.read_at`."""
        with self._lock:
            if not self._is_plain and length > 0 and offset + length <= self.size - _TRAILER_BYTES:
                self._prefetch(offset, offset + length)
        return super().read_at(offset, length)

    def readall(self) -> bytes:
        """Return all remaining bytes, in one request: their number is known from the ends."""
        return self.read(max(0, self.size - self.tell()))

    def _prefetch(self, start: int, stop: int) -> None:
        """Hint the columns that will be read after this range."""
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
            # The range that is read now is the first, so that all take one round trip.
            hint = self._shared.hint([(start, stop), *ranges])
            self._hints += [] if hint is None else [hint]

    def _upcoming(self, layout: ParquetLayout, group: int) -> Iterator[tuple[int, int]]:
        """Yield the byte ranges of wanted columns from this row group on, while memory allows."""
        for each in itertools.chain(range(group, layout.groups), range(group)):
            for column in sorted(self._wanted):
                if self._ahead_bytes >= _MAX_PREFETCH_BYTES:
                    return
                if (each, column) not in self._named:
                    self._named.add((each, column))
                    self._ahead_bytes += layout.size(each, column)
                    yield layout.byte_range(each, column)

    def _read_layout(self) -> ParquetLayout | None:
        """Return the layout from the footer, which is in memory; None if it is not valid."""
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
    """Byte ranges of the columns of each row group."""

    def __init__(self, metadata: Any) -> None:  # noqa: ANN401
        """Find the starts of the row groups."""
        self._metadata = metadata
        self._byte_ranges: dict[tuple[int, int], tuple[int, int]] = {}
        self.groups: int = metadata.num_row_groups
        self.schema = hash(tuple(metadata.schema.column(at).path for at in range(metadata.num_columns)))
        self._starts = [self.byte_range(group, 0)[0] for group in range(self.groups)]

    def byte_range(self, group: int, column: int) -> tuple[int, int]:
        """Return start and end of a column of a row group."""
        if (group, column) not in self._byte_ranges:
            chunk = self._metadata.row_group(group).column(column)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
                start = chunk.dictionary_page_offset
            self._byte_ranges[group, column] = start, start + chunk.total_compressed_size
        return self._byte_ranges[group, column]

    def size(self, group: int, column: int) -> int:
        """Return the length in bytes of a column of a row group."""
        start, stop = self.byte_range(group, column)
        return stop - start

    def columns_in(self, start: int, stop: int) -> tuple[int, list[int]]:
        """Return the row group of a range, and the columns that lie in the range."""
        group = max(0, bisect_right(self._starts, start) - 1)
        chunks = ((column, *self.byte_range(group, column)) for column in range(self._metadata.num_columns))
        return group, [column for column, first, last in chunks if start <= first < last <= stop]
