"""Many files with the same tree, as one."""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
from collections import deque
from typing import TYPE_CHECKING, Any

from hither._client import Client, default_client
from hither._closing import Closing
from hither._reporting.progress_bar import ProgressBar
from hither._tree.request import select_columns
from hither._tree.tree import Tree
from hither.exceptions import InvalidError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from hither._tree.branches import NameFilter
    from hither._tree.request import Library

    Name: TypeAlias = str | os.PathLike[str]

_MAX_OPEN_AHEAD = 64
"""Trees that are being opened before their turn: two round trips each, and a few hundred kilobytes."""
_MAX_READ_AHEAD = 64
"""Files that are being read before their turn by `arrays`, which holds all of the result anyway."""
_MAX_ITERATE_AHEAD = 2
"""The same for `iterate`, of which each may hold two steps."""


class Dataset(Closing):
    """A tree in many files, one after the other.

    Files are opened and read side by side, ahead of use; results are in the order of the files. Datasets can be pickled.

    Parameters
    ----------
    urls
        URLs or local paths; ``*`` and ``[]`` in the last part of one stand for all files that fit, in the order of their
        names (in local paths ``?``, and any part, too).
    path
        Path of the tree in each file; may be left out if each has only one.
    client
        The client; :func:`hither.default_client` by default.

    Raises
    ------
    FileNotFoundError
        A pattern that no file fits.

    """

    def __init__(self, urls: Name | Iterable[Name], path: str | None = None, *, client: Client | None = None) -> None:
        """Find the files of patterns; nothing is opened yet."""
        self._client = client or default_client()
        self._path = path
        several = [urls] if isinstance(urls, (str, os.PathLike)) else list(urls)
        self._urls = [url for one in several for url in _expand_pattern(os.fspath(one), self._client)]
        if not self._urls:
            raise InvalidError("a dataset of no files")
        self._first: Tree | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Be the same, with the files that were found."""
        return _reopen, (self._urls, self._path, self._client)

    def __repr__(self) -> str:
        """Return how many files it has."""
        return f"<hither.Dataset {self._path or ''!r} of {len(self._urls)} files>"

    @property
    def urls(self) -> list[str]:
        """The files."""
        return list(self._urls)

    @property
    def path(self) -> str | None:
        """Path of the tree in each file, as it was given."""
        return self._path

    @property
    def client(self) -> Client:
        """The client that it is read with."""
        return self._client

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._urls)

    def __iter__(self) -> Iterator[Tree]:
        """Iterate over the trees, which are opened side by side."""
        ahead: deque[Tree] = deque()
        for url in self._urls:
            ahead.append(Tree(url, self._path, client=self._client))
            if len(ahead) > _MAX_OPEN_AHEAD:
                yield ahead.popleft()
        yield from ahead

    @property
    def first(self) -> Tree:
        """The tree of the first file."""
        if self._first is None:
            self._first = Tree(self._urls[0], self._path, client=self._client)
        return self._first

    @property
    def num_entries(self) -> int:
        """Number of entries of all files; opens all of them."""
        return sum(tree.num_entries for tree in self)

    def keys(self, *, filter_name: NameFilter = None) -> list[str]:
        """Return the names of branches of the first file; as :meth:`hither.Tree.keys`."""
        return self.first.keys(filter_name=filter_name)

    def typenames(self, *, filter_name: NameFilter = None) -> dict[str, str]:
        """Return the types of branches of the first file; as :meth:`hither.Tree.typenames`."""
        return self.first.typenames(filter_name=filter_name)

    def arrays(
        self,
        columns: str | Sequence[str] | None = None,
        cut: str | None = None,
        *,
        filter_name: NameFilter = None,
        library: Library = "ak",
        native: bool = False,
        progress: bool = False,
    ) -> Any:  # noqa: ANN401
        """Read branches and expressions of all files, one after the other; as :meth:`hither.Tree.arrays`."""
        from hither._tree.library import concatenate

        whole = 1 << 62
        read = self._iterate_files(columns, cut, whole, filter_name, library, native, progress, _MAX_READ_AHEAD)
        parts = list(read)
        if not parts:
            wanted = self._select_columns(columns, filter_name)
            return self.first.arrays(wanted, cut, entry_stop=0, library=library, native=native)
        return parts[0] if len(parts) == 1 else concatenate(parts, library)

    def iterate(
        self,
        columns: str | Sequence[str] | None = None,
        cut: str | None = None,
        *,
        step_size: int | str = "100 MB",
        filter_name: NameFilter = None,
        library: Library = "ak",
        native: bool = False,
        progress: bool = False,
    ) -> Iterator[Any]:
        """Read in steps, of which none holds entries of two files; as :meth:`hither.Tree.iterate`."""
        return self._iterate_files(columns, cut, step_size, filter_name, library, native, progress, _MAX_ITERATE_AHEAD)

    def to_dask_awkward(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        filter_name: NameFilter = None,
        step_size: int | str = "100 MB",
        native: bool = False,
    ) -> Any:  # noqa: ANN401
        """Return a ``dask_awkward.Array`` of the branches and expressions of all files.

        All files are opened now, side by side, to learn how many entries they have; nothing is read of them. A partition
        reads those columns that the computation touches, in the process that computes it, over a client with the settings of
        this one; the number of entries takes no reading.

        Parameters
        ----------
        columns, filter_name
            As for :meth:`arrays`.
        step_size
            Entries of a partition, or the memory that they take. Partitions end where the file's clusters do, so that no
            basket is read for two of them; within a cluster only if that is more than twice as large, or unknown.
        native
            Refuse branches that hither does not read itself.

        Raises
        ------
        ImportError
            dask-awkward is not installed.
        KeyError, NotImplementedError, ValueError
        FileNotFoundError, PermissionError, TimeoutError, ConnectionError, OSError
            As :meth:`arrays`.

        """
        try:
            from hither._tree.dask_awkward import Partition, collection
        except ImportError as error:
            message = f"to_dask_awkward needs dask-awkward (pip install dask-awkward): {error}"
            raise ImportError(message) from error
        wanted = self._select_columns(columns, filter_name)
        none = self.first.arrays(wanted, entry_stop=0, native=native)
        parts: list[Partition] = []
        for tree in self:
            starts = tree._partitions(wanted, step_size)  # noqa: SLF001
            parts.extend(Partition(tree.url, start, stop) for start, stop in itertools.pairwise(starts))
        if not parts:
            parts = [Partition(self._urls[0], 0, 0)]
        return collection(parts, none, self._path, self._client)

    def _iterate_files(
        self,
        columns: str | Sequence[str] | None,
        cut: str | None,
        step_size: int | str,
        filter_name: NameFilter,
        library: Library,
        native: bool,  # noqa: FBT001
        progress: bool,  # noqa: FBT001
        max_ahead: int,
    ) -> Iterator[Any]:
        wanted = self._select_columns(columns, filter_name)
        bar = ProgressBar(f"{len(self._urls)} files", shown=progress)

        def iterate(tree: Tree) -> Iterator[Any]:
            return tree._iterate(wanted, cut, step_size, None, (None, None), library, native, bar)  # noqa: SLF001

        return bar.wrap(self._read_ahead(iterate, max_ahead))

    def _select_columns(self, columns: str | Sequence[str] | None, filter_name: NameFilter) -> list[str]:
        return select_columns(columns, filter_name, lambda passing: self.first.keys(filter_name=passing))

    def _read_ahead(self, iterate: Callable[[Tree], Iterator[Any]], max_ahead: int) -> Iterator[Any]:
        """Yield the steps of each file; further files are begun before their turn."""
        begun: deque[Iterator[Any]] = deque()
        for tree in self:
            begun.append(iterate(tree))
            if len(begun) > max_ahead:
                yield from begun.popleft()
        while begun:
            yield from begun.popleft()


def dataset(urls: Name | Iterable[Name], path: str | None = None, *, client: Client | None = None) -> Dataset:
    """Return a tree in many files as one; see :class:`Dataset`."""
    return Dataset(urls, path, client=client)


def _reopen(urls: list[str], path: str | None, client: Client) -> Dataset:
    made = Dataset.__new__(Dataset)
    made._urls, made._path, made._client, made._first = urls, path, client, None  # noqa: SLF001
    return made


def _expand_pattern(url: str, client: Client) -> list[str]:
    if "://" not in url:
        if not glob.has_magic(url):
            return [url]
        found = sorted(glob.glob(url, recursive=True))  # noqa: PTH207
    else:
        folder, _, pattern = url.rpartition("/")
        if not set(pattern) & set("*["):
            return [url]
        found = [
            it.url for it in client.list(f"{folder}/") if it.kind == "file" and fnmatch.fnmatchcase(it.name, pattern)
        ]
    if not found:
        message = f"no file fits {url}"
        raise NotFoundError(message)
    return found
