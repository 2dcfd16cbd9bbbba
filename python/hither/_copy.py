"""Copies, mirrors and comparisons of files and directories."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar

from hither import _core
from hither._client import default_client

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from typing_extensions import Unpack

    from hither._client import Client, UrlOrPath
    from hither._core import Job

    ProgressCallback: TypeAlias = Callable[["CopyProgress"], object]
    CompareBy: TypeAlias = Literal["time", "size", "checksum"]


_Summary = TypeVar("_Summary")

_TICK_SECONDS = 0.1


class FilterOptions(TypedDict, total=False):
    """Options of :func:`copy`, :func:`sync` and :func:`check`."""

    include: Sequence[str]
    exclude: Sequence[str]
    filters: Sequence[str]
    files: Sequence[str] | None
    progress: ProgressCallback | None


class TransferOptions(FilterOptions, total=False):
    """Options of :func:`copy` and :func:`sync`."""

    checksum: str | None
    bandwidth: str | None
    transfers: int | None
    retry: int


class CopyOptions(TransferOptions, total=False):
    """Options of :func:`copy`."""

    replicas: Sequence[UrlOrPath]
    recursive: bool
    existing: Literal["replace", "keep", "update", "refuse"]


class SyncOptions(TransferOptions, total=False):
    """Options of :func:`sync`."""

    delete: bool
    max_delete: int
    dry_run: bool
    compare: CompareBy


class CheckOptions(FilterOptions, total=False):
    """Options of :func:`check`."""

    compare: CompareBy
    one_way: bool


_NAMES = {name for kind in (CopyOptions, SyncOptions, CheckOptions) for name in kind.__annotations__}


@dataclass(frozen=True)
class CopyProgress:
    """Figures of a copy, sync or check that is running.

    Examples
    --------
    >>> seen = []
    >>> _ = hither.copy("http://127.0.0.1:8080/talk.root", "/dev/null", progress=seen.append)
    >>> seen[-1].files_done, seen[-1].bytes_done == seen[-1].bytes_found
    (1, True)

    """

    files_found: int
    """Files found so far; all of them once every directory has been listed."""
    files_done: int
    """Files that have been copied, compared or skipped, or have failed."""
    bytes_found: int
    """Size of the files found to be copied."""
    bytes_done: int
    """Bytes of these that are done."""
    bytes_arrived: int
    """Bytes that came in."""


@dataclass(frozen=True)
class CopySummary:
    """Result of a copy or sync.

    Examples
    --------
    >>> summary = hither.copy("http://127.0.0.1:8080/talk.root", "/dev/null")
    >>> summary.files, summary.files_deleted, summary.notices
    (1, 0, [])

    """

    files: int
    """Files that were copied."""
    bytes: int
    """Their size."""
    files_skipped: int
    """Files that were left as they were."""
    directories: int
    """Directories that were created."""
    files_deleted: int
    """Files and links that were deleted."""
    directories_deleted: int
    """Directories that were deleted."""
    bytes_arrived: int
    """Bytes that came in."""
    bytes_resumed: int
    """Bytes that an interrupted attempt had moved."""
    checksums: Mapping[str, str]
    """Checksums that were computed, as ``"ALGORITHM:VALUE"``, by target."""
    notices: Sequence[str]
    """Events that are not errors, such as files that changed meanwhile."""


@dataclass(frozen=True)
class CheckSummary:
    """Result of a comparison of two directories.

    Examples
    --------
    >>> import pathlib
    >>> one, other = pathlib.Path("/tmp/hither-check-one"), pathlib.Path("/tmp/hither-check-other")
    >>> one.mkdir(exist_ok=True), other.mkdir(exist_ok=True)
    (None, None)
    >>> hither.check(other, one, one_way=True, compare="checksum").notices
    []

    """

    equal: int
    """Files that are equal."""
    differences: Mapping[str, str]
    """How files differ, by path: ``"only_in_source"``, ``"only_in_destination"``, ``"size"``,
    ``"unknown_size"``, ``"time"`` or ``"checksum"``."""
    without_times: int
    """Files among the equal ones that were compared only by size, because times are missing."""
    notices: Sequence[str]
    """Names that were left out, and why."""


def copy(
    source: UrlOrPath | Sequence[UrlOrPath],
    destination: UrlOrPath,
    *,
    client: Client | None = None,
    **options: Unpack[CopyOptions],
) -> CopySummary:
    """Copy files and directories between servers and this machine, as the command ``hither cp``.

    A call that was interrupted is resumed by the same call.

    Parameters
    ----------
    source
        URLs or paths; a directory that ends with ``/.`` stands for its contents.
    destination
        A file, or a directory to copy into.
    replicas
        Further URLs of the one source, read at the same time; of a directory, with the same names
        below them.
    recursive
        Copy directories with their contents.
    existing
        What to do with targets that exist: ``"replace"`` them when the new file is whole (default),
        ``"keep"`` them, ``"update"`` them if they are older or of another size, or ``"refuse"``.
    checksum
        ``"adler32"``, ``"crc32c"``, ``"md5"``, ``"sha256"`` or ``"none"``, or ``"ALGORITHM:VALUE"``
        of a single file; by default the algorithm that the server has.
    include, exclude, filters, files
        The files of directories to copy, in rclone's syntax, as ``--include``, ``--exclude``,
        ``--filter`` and the lines of ``--files-from``.
    bandwidth
        Limit as of ``--bwlimit``: ``"10M"``, ``"UP:DOWN"`` or a timetable.
    transfers
        Most files at a time.
    retry
        Attempts for each file; 1 by default.
    progress
        Function to call ten times a second, in this thread, and at the end. What it raises cancels
        the copy.
    client
        Client to use in place of :func:`default_client`.

    Raises
    ------
    ValueError
        Options are invalid, or sources and destination are incompatible.
    OSError
        A file could not be copied; the others were.

    Examples
    --------
    >>> summary = hither.copy("http://127.0.0.1:8080/talk.root", "/tmp/talk.root")
    >>> summary.files
    1

    """
    return _copy(source, destination, client, options).wait(options.get("progress"))


async def copy_async(
    source: UrlOrPath | Sequence[UrlOrPath],
    destination: UrlOrPath,
    *,
    client: Client | None = None,
    **options: Unpack[CopyOptions],
) -> CopySummary:
    """Async version of :func:`copy`; cancelling it stops the copy.

    Examples
    --------
    >>> import asyncio
    >>> url = "http://127.0.0.1:8080/talk.root"
    >>> asyncio.run(hither.copy_async(url, "/dev/null")).files
    1

    """
    return await _copy(source, destination, client, options).wait_async(options.get("progress"))


def sync(
    source: UrlOrPath,
    destination: UrlOrPath,
    *,
    client: Client | None = None,
    **options: Unpack[SyncOptions],
) -> CopySummary:
    """Make the directory ``destination`` equal to the directory ``source``, as ``hither sync``.

    Parameters
    ----------
    source, destination
        URLs or paths of directories. The destination is created if it does not exist.
    delete
        Delete files that only the destination has, after all copies; never after an incomplete
        listing or a failure.
    max_delete
        Delete nothing if more names would be deleted; 1,000,000 by default.
    dry_run
        Only count the files that would be copied and deleted.
    compare
        How files of the same size are compared: by ``"time"`` of last change (default), by
        ``"size"`` alone, or by the ``"checksum"`` of their contents.
    checksum, include, exclude, filters, files, bandwidth, transfers, retry, progress, client
        As of :func:`copy`.

    Raises
    ------
    ValueError
        Options are invalid, one of the two is not a directory, or one is within the other.
    OSError
        A name could not be listed, compared, copied or deleted; the others were.

    Examples
    --------
    >>> import pathlib
    >>> folder = pathlib.Path("/tmp/hither-sync-example")
    >>> folder.mkdir(exist_ok=True)
    >>> _ = (folder / "a.txt").write_text("text")
    >>> _ = hither.sync(folder, "http://127.0.0.1:8080/mirror", delete=True)
    >>> hither.sync(folder, "http://127.0.0.1:8080/mirror").files_skipped
    1

    """
    return _sync(source, destination, client, options).wait(options.get("progress"))


async def sync_async(
    source: UrlOrPath,
    destination: UrlOrPath,
    *,
    client: Client | None = None,
    **options: Unpack[SyncOptions],
) -> CopySummary:
    """Async version of :func:`sync`; cancelling it stops the sync, and no deletion begins.

    Examples
    --------
    >>> import asyncio, pathlib
    >>> folder = pathlib.Path("/tmp/hither-sync-example")
    >>> folder.mkdir(exist_ok=True)
    >>> _ = (folder / "a.txt").write_text("text")
    >>> asyncio.run(hither.sync_async(folder, "/tmp/hither-sync-mirror", dry_run=True)).notices
    []

    """
    return await _sync(source, destination, client, options).wait_async(options.get("progress"))


def check(
    source: UrlOrPath,
    destination: UrlOrPath,
    *,
    client: Client | None = None,
    **options: Unpack[CheckOptions],
) -> CheckSummary:
    """Compare the files of two directories, as ``hither check``.

    Directories without files are not compared; a notice counts those that only one of the two has.

    Parameters
    ----------
    source, destination
        URLs or paths of directories.
    compare
        How files of the same size are compared: by ``"time"`` of last change (default), by
        ``"size"`` alone, or by the ``"checksum"`` of their contents.
    one_way
        Accept files that only the destination has.
    include, exclude, filters, files, progress, client
        As of :func:`copy`.

    Raises
    ------
    ValueError
        Options are invalid, one of the two is not a directory, or one is within the other.
    OSError
        A name could not be listed or compared.

    Examples
    --------
    >>> import pathlib
    >>> one, other = pathlib.Path("/tmp/hither-check-one"), pathlib.Path("/tmp/hither-check-other")
    >>> one.mkdir(exist_ok=True), other.mkdir(exist_ok=True)
    (None, None)
    >>> _ = (one / "a.txt").write_text("text")
    >>> hither.check(one, other).differences
    {'a.txt': 'only_in_source'}

    """
    return _check(source, destination, client, options).wait(options.get("progress"))


async def check_async(
    source: UrlOrPath,
    destination: UrlOrPath,
    *,
    client: Client | None = None,
    **options: Unpack[CheckOptions],
) -> CheckSummary:
    """Async version of :func:`check`.

    Examples
    --------
    >>> import asyncio, pathlib
    >>> one, other = pathlib.Path("/tmp/hither-check-one"), pathlib.Path("/tmp/hither-check-other")
    >>> one.mkdir(exist_ok=True), other.mkdir(exist_ok=True)
    (None, None)
    >>> asyncio.run(hither.check_async(other, one, one_way=True)).differences
    {}

    """
    return await _check(source, destination, client, options).wait_async(options.get("progress"))


class _Task(Generic[_Summary]):
    """A job with its progress, and the function that creates an object from its result."""

    def __init__(self, job: Job[dict[str, Any]], progress: _core.CopyProgress, make: Callable[..., _Summary]) -> None:
        self._job = job
        self._progress = progress
        self._make = make

    def wait(self, callback: ProgressCallback | None) -> _Summary:
        if callback is None:
            return self._make(**self._job.wait())
        result = self._job.wait(lambda: callback(self._figures()))
        callback(self._figures())
        return self._make(**result)

    async def wait_async(self, callback: ProgressCallback | None) -> _Summary:
        import asyncio

        task = asyncio.ensure_future(_awaited(self._job))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=None if callback is None else _TICK_SECONDS)
                if callback is not None:
                    callback(self._figures())
            return self._make(**task.result())
        finally:
            task.cancel()

    def _figures(self) -> CopyProgress:
        return CopyProgress(*self._progress.figures())


async def _awaited(job: Job[dict[str, Any]]) -> dict[str, Any]:
    return await job


def _given(options: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Return all options, None for those that are not given."""
    for name in options:
        if name not in kind.__annotations__:
            message = f"there is no option {name!r}{_core.suggestion(name, list(kind.__annotations__))}"
            raise TypeError(message)
    for name in ("include", "exclude", "filters"):
        if isinstance(options.get(name), str):
            message = f"{name} is a string, expected a list of patterns"
            raise TypeError(message)
    return {name: options.get(name) for name in _NAMES}


def _copy(
    source: UrlOrPath | Sequence[UrlOrPath], destination: UrlOrPath, client: Client | None, options: CopyOptions
) -> _Task[CopySummary]:
    given = _given(options, CopyOptions)
    replicas = options.get("replicas", ())
    if isinstance(replicas, (str, os.PathLike)):
        message = "replicas is one URL, expected a list of URLs"
        raise TypeError(message)
    sources = [source] if isinstance(source, (str, os.PathLike)) else source
    progress = _core.CopyProgress()
    core = (client or default_client())._core  # noqa: SLF001
    names, others = ([os.fspath(it) for it in urls] for urls in (sources, replicas))
    job = core.copy(names, others, os.fspath(destination), given, progress)
    return _Task(job, progress, CopySummary)


def _sync(source: UrlOrPath, destination: UrlOrPath, client: Client | None, options: SyncOptions) -> _Task[CopySummary]:
    progress = _core.CopyProgress()
    core = (client or default_client())._core  # noqa: SLF001
    job = core.sync(os.fspath(source), os.fspath(destination), _given(options, SyncOptions), progress)
    return _Task(job, progress, CopySummary)


def _check(
    source: UrlOrPath, destination: UrlOrPath, client: Client | None, options: CheckOptions
) -> _Task[CheckSummary]:
    progress = _core.CopyProgress()
    core = (client or default_client())._core  # noqa: SLF001
    job = core.check(os.fspath(source), os.fspath(destination), _given(options, CheckOptions), progress)
    return _Task(job, progress, _check_summary)


def _check_summary(*, differences: list[tuple[str, str]], **rest: Any) -> CheckSummary:  # noqa: ANN401
    return CheckSummary(differences=dict(differences), **rest)
