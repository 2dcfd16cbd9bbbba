"""Datasets: the same tree in many files, read as one."""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hither import _core
from hither._client import Client, default_client
from hither._closing import Closing
from hither._reporting.progress_bar import ProgressBar
from hither._tree.request import select_columns
from hither._tree.tree import Tree, split_tree_url
from hither.exceptions import InvalidError, NotFoundError, PermissionDeniedError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hither._client import UrlOrPath
    from hither._tree.branches import NameFilter
    from hither._tree.request import Library

    TreeName = str | None | Mapping[str, Any]
    Files = Mapping[str, TreeName]

_MAX_OPEN_AHEAD = 64
"""Trees that are opened ahead of use; each takes two round trips and a few hundred kilobytes."""
_MAX_READ_AHEAD = 64
"""Files that `arrays` reads ahead of use; it keeps the whole result in memory anyway."""
_MAX_ITERATE_AHEAD = 2
"""Files that `iterate` reads ahead of use; each may keep two steps in memory."""


class Dataset(Closing):
    """The same tree in many files, read as one.

    Files are opened and read ahead of use, in parallel. Results are in the order of the files. A
    dataset can be pickled.

    Parameters
    ----------
    urls
        URLs or local paths; without ``path`` also ``URL:TREE``. ``*`` and ``[]`` in the last part
        of a URL stand for all files that match, sorted by name; local patterns may also use ``?``,
        and any part. A mapping has the path of the tree for each file, as the ``files`` of a
        data set of coffea.
    path
        Path of the tree in each file; may be omitted if each file has only one tree.
    client
        Client to read with; :func:`hither.default_client` by default.

    Raises
    ------
    FileNotFoundError
        No file matches a pattern.
    ValueError
        There are no URLs.

    Examples
    --------
    >>> runs = hither.Dataset("http://127.0.0.1:8080/runs/*.root", "T")
    >>> len(runs), runs.num_entries == sum(tree.num_entries for tree in runs)
    (2, True)
    >>> len(runs.arrays(["ntrack"])) == runs.num_entries
    True

    """

    def __init__(
        self, urls: UrlOrPath | Files | Iterable[UrlOrPath], path: str | None = None, *, client: Client | None = None
    ) -> None:
        """Find the files that match; nothing is opened yet."""
        self._client = client or default_client()
        self._files = [
            (url, tree) for named, tree in _named_files(urls, path) for url in _expand_pattern(named, self._client)
        ]
        if not self._files:
            raise InvalidError("the dataset has no files, expected at least one URL")
        self._first: Tree | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the dataset with the files that were found."""
        return _reopen, (self._files, self._client)

    def __repr__(self) -> str:
        """Return the path of the tree and the number of files."""
        return f"<hither.Dataset {self.path or ''!r} of {len(self._files)} files>"

    @property
    def urls(self) -> list[str]:
        """URLs or paths of the files."""
        return [url for url, _ in self._files]

    @property
    def path(self) -> str | None:
        """Path of the tree in each file, as given; ``None`` if the files have different ones."""
        paths = {path for _, path in self._files}
        return paths.pop() if len(paths) == 1 else None

    @property
    def client(self) -> Client:
        """Client that the files are read with."""
        return self._client

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._files)

    def __iter__(self) -> Iterator[Tree]:
        """Iterate over the trees, which are opened ahead in parallel."""
        ahead: deque[Tree] = deque()
        for url, path in self._files:
            ahead.append(Tree._of(url, path, self._client))  # noqa: SLF001
            if len(ahead) > _MAX_OPEN_AHEAD:
                yield ahead.popleft()
        yield from ahead

    @property
    def first(self) -> Tree:
        """Tree of the first file."""
        if self._first is None:
            self._first = Tree._of(*self._files[0], self._client)  # noqa: SLF001
        return self._first

    @property
    def num_entries(self) -> int:
        """Number of entries of all files; opens all files."""
        return sum(tree.num_entries for tree in self)

    def keys(self, *, filter_name: NameFilter = None) -> list[str]:
        """Return the names of branches of the first file; see :meth:`hither.Tree.keys`."""
        return self.first.keys(filter_name=filter_name)

    def typenames(self, *, filter_name: NameFilter = None) -> dict[str, str]:
        """Return the types of branches of the first file; see :meth:`hither.Tree.typenames`."""
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
        """Read branches and expressions of all files; see :meth:`hither.Tree.arrays`."""
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
        """Read in steps, none of which spans two files; see :meth:`hither.Tree.iterate`."""
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

        All files are opened now, in parallel, for their numbers of entries; no baskets are read. A
        partition reads only the columns that the computation uses, on the worker that computes it,
        with a client of the same options. Counting entries reads nothing.

        Parameters
        ----------
        columns, filter_name
            As for :meth:`arrays`.
        step_size
            Entries of a partition, or the memory that they take. Partitions end with clusters of
            the file, so that no basket is read for two partitions. A cluster that is more than
            twice as large, or of unknown size, is divided.
        native
            Refuse branches that hither cannot read itself.

        Raises
        ------
        ImportError
            dask-awkward is not installed.
        KeyError, NotImplementedError, ValueError, OSError
            As for :meth:`arrays`.

        Examples
        --------
        >>> runs = hither.dataset("http://127.0.0.1:8080/runs/*.root", "T")
        >>> lazy = runs.to_dask_awkward(step_size=1000)
        >>> int(min(lazy.ntrack[lazy.ntrack > 5].compute()))
        6

        """
        try:
            from hither._tree.dask_awkward import Partition, collection
        except ImportError as error:
            message = f"to_dask_awkward needs dask-awkward (pip install dask-awkward): {error}"
            raise ImportError(message) from error
        wanted = self._select_columns(columns, filter_name)
        empty = self.first.arrays(wanted, entry_stop=0, native=native)
        parts: list[Partition] = []
        for file, tree in zip(self._files, self, strict=True):
            starts = tree._partitions(wanted, step_size)  # noqa: SLF001
            parts.extend(Partition(*file, start, stop) for start, stop in itertools.pairwise(starts))
        if not parts:
            parts = [Partition(*self._files[0], 0, 0)]
        return collection(parts, empty, self._client)

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
        bar = ProgressBar(f"{len(self._files)} files", shown=progress)

        def iterate(tree: Tree) -> Iterator[Any]:
            return tree._iterate(wanted, cut, step_size, None, (None, None), library, native, bar)  # noqa: SLF001

        return bar.wrap(self._read_ahead(iterate, max_ahead))

    def _select_columns(self, columns: str | Sequence[str] | None, filter_name: NameFilter) -> list[str]:
        return select_columns(columns, filter_name, lambda passing: self.first.keys(filter_name=passing))

    def _read_ahead(self, iterate: Callable[[Tree], Iterator[Any]], max_ahead: int) -> Iterator[Any]:
        """Yield the steps of each file; up to ``max_ahead`` further files are read ahead."""
        begun: deque[Iterator[Any]] = deque()
        for tree in self:
            begun.append(iterate(tree))
            if len(begun) > max_ahead:
                yield from begun.popleft()
        while begun:
            yield from begun.popleft()


def dataset(
    urls: UrlOrPath | Files | Iterable[UrlOrPath], path: str | None = None, *, client: Client | None = None
) -> Dataset:
    """Return the same tree in many files as one dataset; see :class:`Dataset`.

    Examples
    --------
    >>> urls = [f"http://127.0.0.1:8080/runs/run{number}.root" for number in (1, 2)]
    >>> runs = hither.dataset(urls, "T")
    >>> [len(step) for step in runs.iterate(["ntrack"], "ntrack < 0")]
    [0, 0]
    >>> hither.dataset(dict.fromkeys(urls, "T")).num_entries == runs.num_entries
    True

    """
    return Dataset(urls, path, client=client)


def _reopen(files: list[tuple[str, str | None]], client: Client) -> Dataset:
    made = Dataset.__new__(Dataset)
    made._files, made._client, made._first = files, client, None  # noqa: SLF001
    return made


def _named_files(urls: UrlOrPath | Files | Iterable[UrlOrPath], path: str | None) -> list[tuple[str, str | None]]:
    """Return the files as they were named, each with its tree."""
    if isinstance(urls, (str, os.PathLike)):
        urls = [urls]
    trees = urls.values() if isinstance(urls, Mapping) else itertools.repeat(path)
    return [split_tree_url(os.fspath(url), _tree_path(tree, path)) for url, tree in zip(urls, trees, strict=False)]


def _tree_path(tree: TreeName, path: str | None) -> str | None:
    """Return the path of a tree that is named as in filesets."""
    if not isinstance(tree, Mapping):
        return path if tree is None else tree
    if "object_path" not in tree:
        message = f"expected the path of a tree for each file, got {sorted(tree)}: pass the files of one data set"
        raise InvalidError(message)
    named: str | None = tree["object_path"]
    return named


def _expand_pattern(url: str, client: Client) -> list[str]:
    """Return the files that match; only the one of exactly that name, if it exists."""
    if "://" not in url:
        if not glob.has_magic(url) or os.path.lexists(url):
            return [url]
        found = sorted(glob.glob(url, recursive=True))  # noqa: PTH207
    else:
        folder, _, pattern = url.rpartition("/")
        if not set(pattern) & set("*["):
            return [url]
        try:
            client.stat(url)
        except (NotFoundError, InvalidError, PermissionDeniedError):
            # Stores may refuse a lookup of a name that does not exist.
            found = _matching_files(client, url, folder, pattern)
        else:
            return [url]
    if not found:
        message = f"no file matches {_core.redact_url(url)}"
        raise NotFoundError(message)
    return found


def _matching_files(client: Client, url: str, folder: str, pattern: str) -> list[str]:
    # Without a warning of names that an index hides: they rarely are those of data.
    listed, _ = client._list(f"{folder}/").wait()  # noqa: SLF001
    if any(it.url == url for it in listed):
        return [url]
    entries = [it for it in listed if fnmatch.fnmatchcase(it.name, pattern)]
    for it in entries:
        if it.kind == "other" and "\ufffd" in it.name:
            message = f"{it.url} may match and cannot be read: its name is not UTF-8: rename it"
            raise UnsupportedError(message)
    return [it.url for it in entries if it.kind == "file"]
