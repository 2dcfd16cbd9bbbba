"""Trees: branches by name and as arrays, with uproot's names for operations of both."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import IO, TYPE_CHECKING, Any, TypeVar

from hither import _core
from hither._client import Client, default_client
from hither._closing import Closing
from hither._options.sizes import parse_bytes
from hither._reporting.progress_bar import HIDDEN, ProgressBar
from hither._reporting.report import Report, format_bytes, report_from_core
from hither._tree.branches import (
    Branch,
    TreeInfo,
    missing_key_error,
    name_filter,
    outermost,
    tree_info,
    without_repeated,
)
from hither._tree.request import ArraysRequest, check_library, entry_range, select_columns
from hither.exceptions import InvalidError, MissingKeyError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from hither._client import UrlOrPath
    from hither._tree.branches import BranchInfo, NameFilter, RecordType
    from hither._tree.request import Library
    from hither._tree.uproot_fallback import UprootTree

    Result = TypeVar("Result")

_COLUMNS = ("name", "typename", "compressed")
"""Headings of the list of branches."""


class Tree(Closing, Mapping[str, "Branch"]):
    """A tree of a ROOT file, as a mapping of its branches.

    The tree is opened in the background. The first use waits for that and reports errors of the
    file or the tree. A tree can be pickled and can be used in a forked child; it is opened again
    there. An RNTuple is read through uproot, with a warning; its branches are its fields.

    Parameters
    ----------
    url
        URL or local path of the file; without ``path`` also ``URL:TREE``.
    path
        Path of the tree in the file; may be omitted if the file has only one tree.
    client
        Client to read with; :func:`hither.default_client` by default.

    Examples
    --------
    >>> tree = hither.Tree("http://127.0.0.1:8080/talk.root", "T")
    >>> tree.keys(filter_name="raw*"), tree["ntrack"].typename
    (['rawtr'], 'int32_t')
    >>> found = tree.arrays(["rawtr", "ntrack"], "ntrack > 5", entry_stop=1000)
    >>> found.fields, bool(min(found.ntrack) > 5)
    (['rawtr', 'ntrack'], True)

    """

    def __init__(self, url: UrlOrPath, path: str | None = None, *, client: Client | None = None) -> None:
        """Start to open the tree."""
        text = os.fspath(url)
        self._begin(*split_tree_url(text, path), client or default_client())

    @classmethod
    def _of(cls, url: str, path: str | None, client: Client) -> Tree:
        """Start to open a tree of the file at exactly this URL."""
        tree = cls.__new__(cls)
        tree._begin(url, path, client)  # noqa: SLF001
        return tree

    def _begin(self, url: str, path: str | None, client: Client) -> None:
        self._client = client
        self._core = client._core.open_tree(url, path)  # noqa: SLF001
        self._core.begin()
        self._info: TreeInfo | None = None
        self._theirs: UprootTree | None = None
        self._report = Report()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments that open the tree again."""
        return _reopen, (self._core.url, self._core.path, self._client)

    def __repr__(self) -> str:
        """Return path and URL of the tree."""
        return f"<hither.Tree {self._core.path or ''!r} of {self._shown_url!r}>"

    def _repr_html_(self) -> str:
        """Return path, URL and branches, for notebooks."""
        from hither._reporting.table import html_table

        title = f"{self.name} of {self._shown_url}: {self.num_entries} entries"
        return html_table(title, _COLUMNS, self._branch_rows())

    def close(self) -> None:
        """Close the tree. It is opened again if it is used."""
        theirs, self._theirs = self._theirs, None
        if theirs is not None:
            theirs.close()
        self._core.close()

    # --- description ------------------------------------------------------------------------------

    def _tree_info(self) -> TreeInfo:
        if self._info is None:
            try:
                self._info = tree_info(self._core.listing().wait())
            except UnsupportedError as error:
                self._info = self._ntuple_info(error)
        return self._info

    def _ntuple_info(self, error: UnsupportedError) -> TreeInfo:
        """Return the description of an RNTuple; raise ``error`` if it is something else."""
        from hither._tree.uproot_fallback import warn

        _, ntuples = self._client._core.tree_paths(self._core.url).wait()  # noqa: SLF001
        path = self._core.path or "".join(ntuples[:1])
        if path.partition(";")[0].strip("/") not in ntuples:
            raise error
        info = self._uproot(path).ntuple_info(path)
        warn(f"`{path}` is an RNTuple: hither reads it through uproot")
        return info

    @property
    def client(self) -> Client:
        """Client that the tree is read with."""
        return self._client

    @property
    def url(self) -> str:
        """URL or path of the file, as it was given."""
        return self._core.url

    @property
    def _shown_url(self) -> str:
        """URL or path of the file, without secrets."""
        return _core.redact_url(self._core.url)

    @property
    def name(self) -> str:
        """Path of the tree in its file."""
        return self._tree_info().path

    @property
    def title(self) -> str:
        """Title of the tree."""
        return self._tree_info().title

    @property
    def num_entries(self) -> int:
        """Number of entries."""
        return self._tree_info().num_entries

    @property
    def report(self) -> Report:
        """Counters and timings of the last ``arrays``; notices name what uproot read."""
        return self._report

    @property
    def branches(self) -> list[BranchInfo]:
        """Name, type and size of each branch, in the order of the tree."""
        return list(self._tree_info().branches.values())

    def keys(self, *, filter_name: NameFilter = None) -> list[str]:  # type: ignore[override]
        """Return the names of the branches that pass a filter.

        ``filter_name`` is a pattern with ``*``, ``?`` and ``[]``, a regular expression between
        slashes (``"/^jet_/i"``), several of these, or a function of the name.

        Examples
        --------
        >>> tree = hither.open_tree("http://127.0.0.1:8080/talk.root", "T")
        >>> tree.keys(filter_name="/^n(vertex|track)$/")
        ['nvertex', 'ntrack']

        """
        passes = name_filter(filter_name)
        return [name for name in self._tree_info().branches if passes(name)]

    def typenames(self, *, filter_name: NameFilter = None) -> dict[str, str]:
        """Return the C++ types of the branches that pass a filter, by name.

        Types of branches that hither cannot read itself end in ``" (through uproot)"``.
        """
        passes = name_filter(filter_name)
        through = " (through uproot)"
        return {
            name: branch.typename + (through if branch.unsupported else "")
            for name, branch in self._tree_info().branches.items()
            if passes(name)
        }

    def show(
        self,
        *,
        filter_name: NameFilter = None,
        name_width: int = 20,
        typename_width: int = 24,
        stream: IO[str] | None = None,
    ) -> None:
        """Print name, type and compressed size of the branches that pass a filter.

        Parameters
        ----------
        filter_name
            Filter for the names, as in :meth:`keys`.
        name_width, typename_width
            Characters of the columns; longer texts are cut.
        stream
            Where to print; standard output by default.

        Examples
        --------
        >>> hither.open_tree("http://127.0.0.1:8080/talk.root", "T").show(filter_name="ntrack")
        name                 | typename                 | compressed
        ---------------------+--------------------------+-----------
        ntrack               | int32_t                  | 3.63 KiB

        """
        from hither._reporting.table import text_table

        widths = (name_width, typename_width, len(_COLUMNS[-1]))
        (stream or sys.stdout).write(text_table(_COLUMNS, self._branch_rows(filter_name), widths))

    def _branch_rows(self, filter_name: NameFilter = None) -> list[tuple[str, str, str]]:
        branches = self._tree_info().branches
        types = self.typenames(filter_name=filter_name)
        return [(name, kind, format_bytes(branches[name].compressed_bytes)) for name, kind in types.items()]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of branches."""
        return iter(self._tree_info().branches)

    def __len__(self) -> int:
        """Return the number of branches."""
        return len(self._tree_info().branches)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a branch of this name."""
        return name in self._tree_info().branches

    def __getitem__(self, name: str) -> Branch:
        """Return a branch.

        Raises
        ------
        KeyError
            There is no branch of this name; the message names similar ones.

        """
        branches = self._tree_info().branches
        if name not in branches:
            raise missing_key_error("branch", name, branches)
        return Branch(self, branches[name])

    # --- arrays -----------------------------------------------------------------------------------

    def arrays(
        self,
        columns: str | Sequence[str] | None = None,
        cut: str | None = None,
        *,
        filter_name: NameFilter = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        library: Library = "ak",
        native: bool = False,
        progress: bool = False,
    ) -> Any:  # noqa: ANN401
        """Read branches and expressions.

        Parameters
        ----------
        columns
            Names of branches, or expressions as in ``TTree::Draw``; all branches by default.
            Computed values are double precision; comparisons are booleans.
        cut
            Expression that selects. With one value per entry it selects entries. With one value per
            element of an array it selects elements, as in uproot: of jagged arrays of the same
            lengths, or of arrays of the same fixed shape, which become flat.
        filter_name
            Filter for the names of branches, as in :meth:`keys`. Only without ``columns``.
        entry_start, entry_stop
            First entry, and the entry after the last; counted from the end if negative.
        library
            Library of the result. ``"ak"``: an ``ak.Array`` of records, with uproot's types;
            ``"np"``: a dict of NumPy arrays; ``"pd"``: a ``DataFrame``; ``"arrow"``: a
            ``pyarrow.Table``.
        native
            Refuse branches that hither cannot read itself. Otherwise uproot reads them over the
            same connections, if it is installed; a warning and :attr:`report` name them.
        progress
            Show a progress bar of the received bytes, if tqdm is installed.

        Raises
        ------
        KeyError
            There is no branch of this name; the message names similar ones.
        NotImplementedError
            The type of a branch cannot be read.
        ValueError
            An expression is invalid, or the cut does not fit the columns.
        OSError
            The file does not exist, access is denied, the file is corrupt, or the server fails;
            :mod:`hither.exceptions` lists the classes.

        Examples
        --------
        >>> tree = hither.open_tree("http://127.0.0.1:8080/talk.root", "T")
        >>> print(tree.arrays(["rawtr", "2*ntrack"], entry_stop=3).type)
        3 * {rawtr: 17 * float32, "2*ntrack": float64}

        """
        request = self._request(columns, cut, filter_name, entry_start, entry_stop, library, native)

        def own() -> Any:  # noqa: ANN401
            with self._progress_bar(progress) as bar:
                return self._build(request, self._read_job(request, bar.add_read()).wait(bar.tick))

        return self._read_or_fall_back(request, native, own, lambda: self._read_with_uproot(request))

    async def arrays_async(
        self,
        columns: str | Sequence[str] | None = None,
        cut: str | None = None,
        *,
        filter_name: NameFilter = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        library: Library = "ak",
    ) -> Any:  # noqa: ANN401
        """Async version of :meth:`arrays`, with ``native``."""
        if self._info is None:
            self._info = tree_info(await self._core.listing())
        request = self._request(columns, cut, filter_name, entry_start, entry_stop, library, native=True)
        return self._build(request, await self._read_job(request, HIDDEN.add_read()))

    def iterate(
        self,
        columns: str | Sequence[str] | None = None,
        cut: str | None = None,
        *,
        step_size: int | str = "100 MB",
        filter_name: NameFilter = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        library: Library = "ak",
        native: bool = False,
        progress: bool = False,
    ) -> Iterator[Any]:
        """Read in steps. While the program works on one step, the next is read.

        The first step is requested immediately.

        Parameters
        ----------
        step_size
            Entries of a step, or the memory that they take, as ``"100 MB"``. Three steps are in
            memory at a time.
        columns, cut, filter_name, entry_start, entry_stop, library, native, progress
            As for :meth:`arrays`. The progress bar covers all steps.

        Yields
        ------
        object
            The arrays of a step, as :meth:`arrays` returns them.

        Examples
        --------
        >>> tree = hither.open_tree("http://127.0.0.1:8080/talk.root", "T")
        >>> [len(step) for step in tree.iterate(["ntrack"], step_size=400, entry_stop=1000)]
        [400, 400, 200]

        """
        bar = self._progress_bar(progress)
        span = (entry_start, entry_stop)
        return bar.wrap(self._iterate(columns, cut, step_size, filter_name, span, library, native, bar))

    def _progress_bar(self, progress: bool) -> ProgressBar:  # noqa: FBT001
        return ProgressBar(self._shown_url.rsplit("/", 1)[-1], shown=progress)

    def _iterate(
        self,
        columns: str | Sequence[str] | None,
        cut: str | None,
        step_size: int | str,
        filter_name: NameFilter,
        span: tuple[int | None, int | None],
        library: Library,
        native: bool,  # noqa: FBT001
        bar: ProgressBar,
    ) -> Iterator[Any]:
        """Request the first step; return an iterator over all steps."""
        request = self._request(columns, cut, filter_name, *span, library, native)

        def own() -> Iterator[Any]:
            entries = self._step_entries(request, step_size)
            steps = self._start_iterator(request, entries, bar.add_read())
            return self._each_step(request, steps, entries, native, bar)

        return self._read_or_fall_back(request, native, own, lambda: self._iterate_with_uproot(request, step_size))

    def _each_step(
        self,
        request: ArraysRequest,
        steps: _core.ArraysIterator,
        entries: int,
        native: bool,  # noqa: FBT001
        bar: ProgressBar,
    ) -> Iterator[Any]:
        """Yield the steps; with uproot from the first one that shows a branch to be unsupported."""
        start = request.start
        try:
            while (step := self._next_step(request, steps, native, bar)) is not None:
                yield self._build_step(request, step)
                start = step[1]
        finally:
            steps.close()
        if request.foreign:
            yield from self._iterate_with_uproot(request._replace(start=start), entries)

    def _next_step(
        self,
        request: ArraysRequest,
        steps: _core.ArraysIterator,
        native: bool,  # noqa: FBT001
        bar: ProgressBar,
    ) -> tuple[int, int, list[_core.Column], list[RecordType | None]] | None:
        """Return the next step; None at the end, or if uproot has to read the rest."""
        try:
            return steps.next().wait(bar.tick)
        except UnsupportedError as error:
            if native or not self._find_foreign(request, error):
                raise
        self._warn_of_uproot(request)
        return None

    async def iterate_async(
        self,
        columns: str | Sequence[str] | None = None,
        cut: str | None = None,
        *,
        step_size: int | str = "100 MB",
        filter_name: NameFilter = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        library: Library = "ak",
    ) -> AsyncIterator[Any]:
        """Async version of :meth:`iterate`, with ``native``."""
        if self._info is None:
            self._info = tree_info(await self._core.listing())
        request = self._request(columns, cut, filter_name, entry_start, entry_stop, library, native=True)
        if isinstance(step_size, int):
            entries = max(1, step_size)
        else:
            entries = await self._core.num_entries_for(request.columns, parse_bytes(step_size))
        steps = self._start_iterator(request, entries, HIDDEN.add_read())
        try:
            while (step := await steps.next()) is not None:
                yield self._build_step(request, step)
        finally:
            steps.close()

    def _request(
        self,
        columns: str | Sequence[str] | None,
        cut: str | None,
        filter_name: NameFilter,
        entry_start: int | None,
        entry_stop: int | None,
        library: Library,
        native: bool,  # noqa: FBT001
    ) -> ArraysRequest:
        wanted = select_columns(columns, filter_name, lambda passing: self.keys(filter_name=passing))
        foreign: list[str] = []
        if columns is None:
            info = self._tree_info()
            branches = info.branches
            wanted = outermost(wanted) if info.is_ntuple else without_repeated(wanted, branches)
            foreign = [] if native else [name for name in wanted if branches[name].unsupported]
        start, stop = entry_range(entry_start, entry_stop, lambda: self.num_entries)
        return ArraysRequest(wanted, cut, start, stop, check_library(library), foreign)

    def _read_job(
        self, request: ArraysRequest, progress: _core.ScanProgress, *, with_opening: bool = False
    ) -> _core.Job[tuple[list[_core.Column], list[RecordType | None], dict[str, Any]]]:
        span = (request.start, request.stop)
        return self._core.arrays(request.columns, request.cut, span, progress, with_opening=with_opening)

    def _build(
        self, request: ArraysRequest, result: tuple[list[_core.Column], list[RecordType | None], dict[str, Any]]
    ) -> Any:  # noqa: ANN401
        from hither._tree.library import build

        columns, records, report = result
        self._report = report_from_core(report)
        return build(request.columns, columns, records, request.library)

    def _start_iterator(
        self, request: ArraysRequest, entries: int, progress: _core.ScanProgress
    ) -> _core.ArraysIterator:
        return self._core.iterate(request.columns, request.cut, (request.start, request.stop), entries, progress)

    def _step_entries(self, request: ArraysRequest, step_size: int | str) -> int:
        if isinstance(step_size, int):
            return max(1, step_size)
        size = parse_bytes(step_size)
        counts = []
        own = [name for name in request.columns if name not in request.foreign]
        if own or not request.foreign:
            counts.append(self._core.num_entries_for(own, size).wait())
        if request.foreign:
            counts.append(self._uproot().num_entries_for(request.foreign, size))
        # The bytes of an entry add up.
        return max(1, reduce(lambda a, b: a * b // (a + b), counts))

    def _partitions(self, columns: list[str], step_size: int | str) -> list[int]:
        """Return the first entry of each partition, and the number of entries."""
        info = self._tree_info()
        foreign = [name for name in columns if name in info.branches and info.branches[name].unsupported]
        step = self._step_entries(ArraysRequest(columns, None, 0, 0, "ak", foreign), step_size)
        if info.is_ntuple:
            return [*range(0, info.num_entries, step), info.num_entries]
        return self._core.partitions(step).wait()

    def _build_step(
        self, request: ArraysRequest, step: tuple[int, int, list[_core.Column], list[RecordType | None]]
    ) -> Any:  # noqa: ANN401
        from hither._tree.library import build

        return build(request.columns, step[2], step[3], request.library)

    # --- branches read by uproot ------------------------------------------------------------------

    def _read_or_fall_back(
        self,
        request: ArraysRequest,
        native: bool,  # noqa: FBT001
        own: Callable[[], Result],
        with_uproot: Callable[[], Result],
    ) -> Result:
        """Read natively if possible, otherwise with uproot unless ``native`` forbids that."""
        if not request.foreign:
            try:
                return own()
            except (MissingKeyError, UnsupportedError, InvalidError) as error:
                if native or not self._find_foreign(request, error):
                    raise
        found = with_uproot()
        self._warn_of_uproot(request)
        return found

    def _warn_of_uproot(self, request: ArraysRequest) -> None:
        """Name the branches that uproot reads; for an RNTuple, opening it did."""
        if not self._tree_info().is_ntuple:
            from hither._tree.uproot_fallback import warn

            warn(f"hither reads through uproot: {', '.join(request.foreign)}")

    def _read_for_report(self, request: ArraysRequest, *, native: bool, with_opening: bool) -> tuple[int, Report]:
        """Read the request; return the number of selected entries, and the report."""

        def own() -> int:
            job = self._read_job(request, HIDDEN.add_read(), with_opening=with_opening)
            columns, _, report = job.wait()
            self._report = report_from_core(report)
            return columns[0].entries if columns else 0

        selected = self._read_or_fall_back(request, native, own, lambda: len(self._read_with_uproot(request)))
        return selected, self._report

    def _find_foreign(self, request: ArraysRequest, error: Exception) -> bool:
        """Add columns that uproot has to read to ``request.foreign``; return if there are any."""
        info = self._tree_info()
        branches = info.branches
        own = [name for name in request.columns if name not in request.foreign]
        suspects = [name for name in own if name not in branches or branches[name].unsupported]
        if info.is_ntuple and (missing := [name for name in suspects if name not in branches]):
            raise missing_key_error("field", missing[0], branches) from error
        if not suspects and isinstance(error, UnsupportedError):
            # The content of a branch became known only from its data.
            suspects = [name for name in own if _is_of(error.branch or "", name)]
        if not suspects:
            return False
        try:
            theirs = self._uproot()
        except UnsupportedError:
            return False
        found = [name for name in suspects if name in theirs]
        request.foreign.extend(found)
        return bool(found)

    def _uproot(self, path: str | None = None) -> UprootTree:
        """Return the tree as uproot reads it; opened once, in the version that hither opened."""
        if self._theirs is None:
            from hither._tree.uproot_fallback import UprootTree

            is_ntuple = path is not None or self._tree_info().is_ntuple
            expected = None if is_ntuple else self._core.validator().wait()
            self._theirs = UprootTree(self._core.url, path or self.name, self._client, expected)
        return self._theirs

    def _read_with_uproot(self, request: ArraysRequest) -> Any:  # noqa: ANN401
        from hither._tree.library import merge_fields

        info = self._tree_info()
        parts, report, mask = [], Report(), None
        while own := [name for name in request.columns if name not in request.foreign]:
            part = request._replace(columns=own, foreign=[])
            try:
                parts.append(self._build(part, self._read_job(part, HIDDEN.add_read()).wait()))
            except UnsupportedError as error:
                if not self._find_foreign(request, error):
                    raise
                continue
            report = self._report
            break
        span = (request.start, min(request.stop, info.num_entries))
        if request.cut is not None:
            if info.is_ntuple:
                message = f"cut `{request.cut}`: hither computes no expressions over an RNTuple; select what was read"
                raise UnsupportedError(message)
            cut = ArraysRequest([request.cut], None, *span, "ak", [])
            # Integers would select entries by their index.
            mask = self._build(cut, self._read_job(cut, HIDDEN.add_read()).wait())[request.cut] != 0
        parts.append(self._uproot().arrays(request.foreign, span, request.library, mask))
        notices = (*report.notices, f"read by uproot: {', '.join(request.foreign)}")
        self._report = replace(report, notices=notices, through_uproot=len(request.foreign))
        return merge_fields(parts, request.columns, request.library)

    def _iterate_with_uproot(self, request: ArraysRequest, step_size: int | str) -> Iterator[Any]:
        step = self._step_entries(request, step_size)
        for start in range(request.start, min(request.stop, self.num_entries), step):
            stop = min(start + step, request.stop)
            known = len(request.foreign)
            found = self._read_with_uproot(request._replace(start=start, stop=stop))
            if len(request.foreign) > known:
                self._warn_of_uproot(request)
            yield found


def open_tree(url: UrlOrPath, path: str | None = None, *, client: Client | None = None) -> Tree:
    """Open a tree of a ROOT file; see :class:`Tree`. Returns immediately.

    Examples
    --------
    >>> tree = hither.open_tree("http://127.0.0.1:8080/talk.root", "T")
    >>> tree.arrays("ntrack", entry_stop=5, library="np")["ntrack"].shape
    (5,)
    >>> hither.open_tree("http://127.0.0.1:8080/talk.root:T").num_entries == tree.num_entries
    True

    """
    return Tree(url, path, client=client)


def _is_of(branch: str, name: str) -> bool:
    """Return whether the path of a branch is that of ``name``, or lies in it."""
    return re.search(rf"(^|/){re.escape(name)}($|[./])", branch) is not None


def split_tree_url(url: str, path: str | None) -> tuple[str, str | None]:
    """Return the file and the tree: those of ``URL:TREE``, unless ``path`` names the tree."""
    return (url, path) if path is not None else _core.split_tree_url(url)


def _reopen(url: str, path: str | None, client: Client) -> Tree:
    return Tree._of(url, path, client)  # noqa: SLF001
