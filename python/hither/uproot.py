"""uproot over hither: ``uproot.open(url, handler=hither.uproot.Source)``.

uproot asks its source for lists of ranges. Here each list is one vectored read of a :class:`hither.RemoteFile`, which joins
neighbours and spreads them over connections. What the bytes mean stays uproot's affair, so that every type that it knows
can be read.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import uproot
import uproot.source.chunk

from hither._file import RemoteFile

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from hither._client import Client
    from hither._reporting.report import Report

__all__ = ["Source", "install", "uninstall"]

_MAX_THREADS = 8
"""Lists of ranges that are waited for side by side."""
_MAX_PARTS = 32
"""Parts of a list that are handed on as they come."""
_MIN_PART_RANGES = 64
"""Ranges of such a part at the least."""


class Source(uproot.source.chunk.Source):  # type: ignore[misc]
    """The bytes of a file, for uproot.

    ``uproot.open(url, handler=hither.uproot.Source, client=client)`` reads with a client of one's own. Pickled sources
    open the file again. They may be used by many threads, and by forked children.

    Parameters
    ----------
    file_path
        URL, with or without ``hither+`` in front, or a local path.
    client
        The client; :func:`hither.default_client` by default.
    options
        uproot's other options. Without ``use_threads``, ranges are waited for where they are asked for; the others mean
        nothing here.

    """

    def __init__(self, file_path: str, *, client: Client | None = None, **options: Any) -> None:  # noqa: ANN401
        """Open it, without waiting."""
        super().__init__()
        self._options = options
        file = RemoteFile(_strip_protocol(file_path), client=client, tree_cache=False)
        # uproot asks for the header, the keys and the descriptions of classes one after the other.
        file.prefetch_ends()
        self._set_up(file, file_path)

    def _set_up(self, file: RemoteFile, file_path: str) -> None:
        self._file_path = file_path
        self._file = file
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pool_process = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return all but threads."""
        state = dict(self.__dict__)
        for name in ("_lock", "_pool", "_pool_process"):
            state.pop(name)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be such a source."""
        self.__dict__.update(state)
        self._set_up(state["_file"], state["_file_path"])

    def __repr__(self) -> str:
        """Return what is read."""
        return f"<hither.uproot.Source {self._file.name!r}{' closed' if self.closed else ''}>"

    def __enter__(self) -> Self:
        """Return the source, which is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._file.close()
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and self._pool_process == os.getpid():
            pool.shutdown(wait=False)

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._file.closed

    @property
    def num_bytes(self) -> int:
        """Size of the file in bytes."""
        return self._file.size

    @property
    def report(self) -> Report:
        """What reading has cost since the file was opened."""
        return self._file.report

    def chunk(self, start: int, stop: int) -> Any:  # noqa: ANN401
        """Read one range, and wait for it. If the file ends before, using the chunk says so."""
        self._count([(start, stop)])
        data = self._file.read_at(start, stop - start)
        return uproot.source.chunk.Chunk(self, start, stop, uproot.source.futures.TrivialFuture(data))

    def chunks(self, ranges: Sequence[tuple[int, int]], notifications: queue.Queue[Any]) -> list[Any]:
        """Begin to read ranges, all at once; each chunk is put on ``notifications`` when it is there."""
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
        """Ask for all of it at once, and hand it on in the order of the file as it comes: uproot unpacks it meanwhile."""
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
            # Whoever waits for a chunk raises it.
            for future in futures:
                if not future.done():
                    future.set_exception(error)

    def _process_executor(self) -> ThreadPoolExecutor:
        """Return threads of this process: a forked child has none of its parent's."""
        if self.closed:
            message = f"file {self._file_path!r} is closed"
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
    """Make :class:`Source` what uproot reads ``http://``, ``https://``, ``root://`` and ``roots://`` with, wherever no
    ``handler`` is given.

    For this process. Local paths, file objects and other schemes stay as they are. uproot's option ``handler`` is for all
    paths alike, so the choice among them is what is replaced, until :func:`uninstall`.

    Raises
    ------
    NotImplementedError
        This version of uproot chooses in another way: give ``handler=hither.uproot.Source`` to each call.

    """
    from hither.exceptions import UnsupportedError

    if _replaced:
        return
    choose = getattr(uproot._util, "file_path_to_source_class", None)  # noqa: SLF001
    if choose is None:
        message = (
            f"uproot {uproot.__version__} chooses its sources in an unknown way: give handler=hither.uproot.Source"
        )
        raise UnsupportedError(message)

    def choose_source(file_path_or_object: Any, options: dict[str, Any]) -> Any:  # noqa: ANN401
        path = os.fspath(file_path_or_object) if isinstance(file_path_or_object, os.PathLike) else file_path_or_object
        if options["handler"] is None and isinstance(path, str) and path.lower().startswith(_SCHEMES):
            return Source, path
        return choose(file_path_or_object, options)

    _replaced.append(choose)
    uproot._util.file_path_to_source_class = choose_source  # noqa: SLF001


def uninstall() -> None:
    """Undo :func:`install`. What is open stays open."""
    if _replaced:
        uproot._util.file_path_to_source_class = _replaced.pop()  # noqa: SLF001


_OURS = ("http://", "https://", "root://", "roots://")
_SCHEMES = (*_OURS, *(f"hither+{scheme}" for scheme in _OURS))


def _strip_protocol(url: str) -> str:
    return url.removeprefix("hither+")
