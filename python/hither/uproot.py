"""uproot source over hither: ``uproot.open(url, handler=hither.uproot.Source)``.

uproot asks its source for lists of ranges. Here each list is one vector read of a
:class:`hither.RemoteFile`, which merges adjacent ranges and spreads them over connections. uproot
still interprets the bytes, so every type that it supports can be read.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import uproot
import uproot.source.chunk

from hither import _core
from hither._file import RemoteFile
from hither._urls import PREFIXES, SCHEMES, without_prefix

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from hither._client import Client
    from hither._reporting.report import Report

__all__ = ["Source", "install", "uninstall"]

_MAX_THREADS = 8
"""Lists of ranges that are read in parallel."""
_MAX_PARTS = 32
"""Parts in which the ranges of a list are delivered."""
_MIN_PART_RANGES = 64
"""Minimum number of ranges of a part."""


class Source(uproot.source.chunk.Source):  # type: ignore[misc]
    """Source of uproot that reads a file through a client.

    ``uproot.open(url, handler=hither.uproot.Source, client=client)`` reads with a client of your
    own. Any number of threads and forked children may use a source. A pickled source opens the file
    again.

    Parameters
    ----------
    file_path
        URL, with or without ``hither`` in front, or local path.
    client
        Client to read with; :func:`hither.default_client` by default.
    options
        Options of uproot. With ``use_threads=False``, ranges are read in the thread that requests
        them; the other options have no effect.

    Examples
    --------
    >>> import hither.uproot, uproot
    >>> with uproot.open("http://127.0.0.1:8080/talk.root", handler=hither.uproot.Source) as file:
    ...     print(file["T"]["rawtr"].array(entry_stop=3).type)
    3 * 17 * float32

    """

    def __init__(self, file_path: str, *, client: Client | None = None, **options: Any) -> None:  # noqa: ANN401
        """Open the file without waiting."""
        super().__init__()
        self._options = options
        file = RemoteFile(without_prefix(file_path), client=client, tree_cache=False)
        # uproot requests header, keys and streamers one after the other.
        file.prefetch_ends()
        self._set_up(file, file_path)

    def _set_up(self, file: RemoteFile, file_path: str) -> None:
        self._file_path = file_path
        self._file = file
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pool_process = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without threads and locks."""
        state = dict(self.__dict__)
        for name in ("_lock", "_pool", "_pool_process"):
            state.pop(name)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set up a source of this state."""
        self.__dict__.update(state)
        self._set_up(state["_file"], state["_file_path"])

    def __repr__(self) -> str:
        """Return the name of the file, and whether it is closed."""
        return f"<hither.uproot.Source {self._file.name!r}{' closed' if self.closed else ''}>"

    def __enter__(self) -> Self:
        """Return the source itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and self._pool_process == os.getpid():
            pool.shutdown(wait=False)

    @property
    def closed(self) -> bool:
        """True if the source is closed."""
        return self._file.closed

    @property
    def num_bytes(self) -> int:
        """Size of the file in bytes."""
        return self._file.size

    @property
    def validator(self) -> str | None:
        """Version of the file, as the server sends it; the source reads no other one."""
        return self._file.stat().validator

    @property
    def report(self) -> Report:
        """Counters and timings since the file was opened."""
        return self._file.report

    def chunk(self, start: int, stop: int) -> Any:  # noqa: ANN401
        """Read one range and wait; a chunk beyond the end of the file fails when it is used."""
        self._count([(start, stop)])
        data = self._file.read_at(start, stop - start)
        return uproot.source.chunk.Chunk(self, start, stop, uproot.source.futures.TrivialFuture(data))

    def chunks(self, ranges: Sequence[tuple[int, int]], notifications: queue.Queue[Any]) -> list[Any]:
        """Start to read all ranges; each chunk is put on ``notifications`` when it has arrived."""
        wanted = [(int(start), int(stop)) for start, stop in ranges]
        if not wanted:
            return []
        self._count(wanted)
        futures: list[Future[memoryview]] = [Future() for _ in wanted]
        chunks = []
        for (start, stop), future in zip(wanted, futures, strict=True):
            chunk = uproot.source.chunk.Chunk(self, start, stop, future)
            future.add_done_callback(uproot.source.chunk.notifier(chunk, notifications))
            chunks.append(chunk)
        if self._options.get("use_threads", True):
            self._process_executor().submit(self._fill, wanted, futures)
        else:
            self._fill(wanted, futures)
        return chunks

    def _fill(self, ranges: list[tuple[int, int]], futures: list[Future[memoryview]]) -> None:
        """Request all ranges together; deliver them in parts, which uproot decodes meanwhile."""
        order = sorted(range(len(ranges)), key=ranges.__getitem__)
        step = max(_MIN_PART_RANGES, -(-len(order) // _MAX_PARTS))
        steps = [order[at : at + step] for at in range(0, len(order), step)]
        try:
            if len(steps) > 1:
                self._file.hint([ranges[at] for at in order])
            for at in steps:
                found = self._file.read_ranges([ranges[it] for it in at])
                for it, view in zip(at, found, strict=True):
                    futures[it].set_result(view)
        except BaseException as error:  # noqa: BLE001
            # Raised again in the threads that wait for a chunk.
            for future in futures:
                if not future.done():
                    future.set_exception(error)

    def _process_executor(self) -> ThreadPoolExecutor:
        """Return the thread pool of this process; a forked child needs its own."""
        if self.closed:
            message = f"file {_core.redact_url(self._file_path)!r} is closed"
            raise OSError(message)
        with self._lock:
            if self._pool is None or self._pool_process != os.getpid():
                self._pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="hither-uproot")
                self._pool_process = os.getpid()
            return self._pool

    def _count(self, ranges: list[tuple[int, int]]) -> None:
        self._num_requests += 1
        self._num_requested_chunks += len(ranges)
        self._num_requested_bytes += sum(stop - start for start, stop in ranges)


_replaced: list[Callable[..., Any]] = []


def install() -> None:
    """Make uproot read remote URLs through :class:`Source` wherever no ``handler`` is given.

    This applies to ``http``, ``https``, ``root``, ``roots`` and ``s3`` URLs in this process. Local
    paths, file objects and other schemes are not affected. uproot's option ``handler`` has no
    default per scheme, so this replaces uproot's function that chooses a source, until
    :func:`uninstall`.

    Raises
    ------
    NotImplementedError
        This version of uproot chooses sources differently. Give ``handler=hither.uproot.Source`` to
        each call instead.

    Examples
    --------
    >>> import hither.uproot, uproot
    >>> hither.uproot.install()
    >>> with uproot.open("http://127.0.0.1:8080/talk.root") as file:
    ...     file.file.source
    <hither.uproot.Source 'http://127.0.0.1:8080/talk.root'>
    >>> hither.uproot.uninstall()

    """
    from hither.exceptions import UnsupportedError

    if _replaced:
        return
    choose = getattr(uproot._util, "file_path_to_source_class", None)  # noqa: SLF001
    if choose is None:
        message = f"uproot {uproot.__version__} chooses its sources differently: give handler=hither.uproot.Source to each call"
        raise UnsupportedError(message)

    def choose_source(file_path_or_object: Any, options: dict[str, Any]) -> Any:  # noqa: ANN401
        path = os.fspath(file_path_or_object) if isinstance(file_path_or_object, os.PathLike) else file_path_or_object
        if options["handler"] is None and isinstance(path, str) and path.lower().startswith(_STARTS):
            return Source, path
        return choose(file_path_or_object, options)

    _replaced.append(choose)
    uproot._util.file_path_to_source_class = choose_source  # noqa: SLF001


def uninstall() -> None:
    """Undo :func:`install`. Open files stay open.

    Examples
    --------
    >>> hither.uproot.install()
    >>> hither.uproot.uninstall()

    """
    if _replaced:
        uproot._util.file_path_to_source_class = _replaced.pop()  # noqa: SLF001


_STARTS = tuple(f"{prefix}{scheme}://" for prefix in (*PREFIXES, "") for scheme in SCHEMES)
