"""Extension module under the package, which is the interface for users."""

import builtins
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, final

__all__ = [
    "ArraysIterator",
    "Buffer",
    "Client",
    "Column",
    "CopyProgress",
    "Entry",
    "File",
    "FileStat",
    "Hint",
    "Job",
    "ScanProgress",
    "Staging",
    "Strings",
    "Tree",
    "__version__",
    "client_option_table",
    "coarse_name",
    "is_one_name",
    "is_plain_name",
    "name_difference",
    "redact_url",
    "run_command",
    "shutdown",
    "split_tree_url",
    "suggestion",
    "unlisted_names",
    "validators_differ",
]

__version__: Final[str]

_T_co = TypeVar("_T_co", covariant=True)

@final
class Job(Generic[_T_co]):
    """An operation that has not started. Wait for it once, with :meth:`wait` or ``await``."""

    def wait(self, tick: Callable[[], object] | None = None) -> _T_co:
        """Run the operation and return its result.

        The GIL is released. Ctrl-C ends the wait within 200 ms. ``tick`` is called every 100 ms.
        """

    def __await__(self) -> Generator[Any, None, _T_co]:
        """Run the operation on the client's threads."""

@final
class Buffer:
    """Memory of the library, which ``numpy.asarray`` views without a copy."""

    def __len__(self) -> int: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

@final
class Entry:
    """Name, kind, size and version of a file or directory."""

    @property
    def url(self) -> str:
        """URL or local path, without secrets."""

    @property
    def name(self) -> str:
        """The last part of the path."""

    @property
    def kind(self) -> str:
        """``"file"``, ``"directory"``, ``"link"`` or ``"other"``."""

    @property
    def size(self) -> int | None:
        """Size in bytes; 0 for anything but a file, None if the server does not tell it."""

    @property
    def modified(self) -> float | None:
        """Time of the last change, in seconds since 1970 UTC."""

    @property
    def validator(self) -> str | None:
        """Version of the file: an entity tag, or another such text."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class FileStat:
    """Size and version of a file."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    @property
    def validator(self) -> str | None:
        """Version of the file: entity tag or date of the last change, as the server sends it."""

@final
class Hint:
    """A hint, for :meth:`hither.RemoteFile.cancel`."""

@final
class CopyProgress:
    """Progress of a copy, sync or check, which may be read at any time."""

    def __new__(cls) -> CopyProgress: ...
    def figures(self) -> tuple[int, int, int, int, int]: ...

@final
class Client:
    """The connections, cache and credentials that the files of this process share."""

    def __new__(cls, options: Mapping[str, Any]) -> Client: ...
    def open(self, url: str, tree_cache: bool = True, open_ahead: bool = True) -> File: ...
    def open_tree(self, url: str, path: str | None) -> Tree: ...
    def tree_paths(self, url: str) -> Job[tuple[builtins.list[str], builtins.list[str]]]: ...
    def stat(self, url: str) -> Job[Entry]: ...
    def list(self, url: str) -> Job[tuple[builtins.list[Entry], str | None]]: ...
    def make_directory(self, url: str) -> Job[None]: ...
    def remove(self, url: str, recursive: bool) -> Job[None]: ...
    def rename(self, source: str, target: str, overwrite: bool) -> Job[None]: ...
    def put_bytes(self, url: str, data: bytes, overwrite: bool, expected: Entry | None = None) -> Job[Entry]: ...
    def put_file(
        self,
        url: str,
        path: str | os.PathLike[str],
        overwrite: bool,
        expected: Entry | None = None,
    ) -> Job[Entry]: ...
    def get_file(self, url: str, path: str | os.PathLike[str], overwrite: bool) -> Job[Entry]: ...
    def checksum(self, url: str, algorithm: str) -> Job[str]: ...
    def locate(self, url: str) -> Job[builtins.list[tuple[str, bool, bool]]]: ...
    def stage(self, urls: Sequence[str], priority: int) -> Job[Staging]: ...
    def release(self, urls: Sequence[str], request: str | None) -> Job[None]: ...
    def cancel_staging(self, urls: Sequence[str], request: str | None) -> Job[None]: ...
    def localities(self, urls: Sequence[str]) -> Job[builtins.list[str]]: ...
    def lots(self, url: str) -> Job[builtins.list[dict[str, Any]]]: ...
    def reserve_lot(self, url: str, size: int, lease: float) -> Job[dict[str, Any]]: ...
    def renew_lot(self, url: str, lot: str, size: int | None, lease: float | None) -> Job[dict[str, Any]]: ...
    def release_lot(self, url: str, lot: str) -> Job[None]: ...
    def copy(
        self,
        sources: Sequence[str],
        replicas: Sequence[str],
        destination: str,
        options: Mapping[str, Any],
        progress: CopyProgress,
    ) -> Job[dict[str, Any]]: ...
    def sync(
        self, source: str, destination: str, options: Mapping[str, Any], progress: CopyProgress
    ) -> Job[dict[str, Any]]: ...
    def check(
        self, source: str, destination: str, options: Mapping[str, Any], progress: CopyProgress
    ) -> Job[dict[str, Any]]: ...
    def report(self) -> dict[str, Any]: ...
    def store_error(self) -> str | None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...

@final
class Staging:
    """Requests to servers, which bring files from tape to disk."""

    def requests(self) -> list[tuple[str, list[int]]]: ...
    def progress(self) -> Job[list[str]]: ...
    def wait(self, timeout: float | None) -> Job[list[str]]: ...

@final
class File:
    """A file of a client, opened in each process that uses it."""

    @property
    def url(self) -> str: ...
    def begin(self) -> None: ...
    def prefetch_ends(self, tail: int) -> None: ...
    def name(self) -> str: ...
    def stat(self) -> Job[FileStat]: ...
    def read_at(self, offset: int, length: int) -> Job[bytes]: ...
    def read_present(self, offset: int, length: int) -> bytes | None: ...
    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> Job[list[Buffer]]: ...
    def hint(self, ranges: Sequence[tuple[int, int]], within_seconds: float) -> Hint | None: ...
    def cancel(self, hint: Hint) -> None: ...
    def replicas(self) -> tuple[list[tuple[str, int, int]], list[str]]: ...
    def close(self) -> None: ...

@final
class Strings:
    """Concatenated strings."""

    @property
    def offsets(self) -> Buffer:
        """Start of each string and end of the last; int64."""

    @property
    def bytes(self) -> Buffer:
        """All strings; uint8, mostly UTF-8."""

@final
class Column:
    """A column in Arrow's layout."""

    @property
    def entries(self) -> int:
        """Number of entries."""

    @property
    def offsets(self) -> Buffer | None:
        """First item of each entry and end of the last; int64. None: one item per entry."""

    @property
    def item_shape(self) -> list[int]:
        """Dimensions of an item, outermost first."""

    @property
    def values(self) -> Buffer | Strings | Column:
        """Values of all items, row-major; of nested lists, a column with an entry per value."""

@final
class Tree:
    """A tree of a file, opened in each process that uses it."""

    @property
    def url(self) -> str: ...
    @property
    def path(self) -> str | None: ...
    def begin(self) -> None: ...
    def validator(self) -> Job[str | None]: ...
    def listing(self) -> Job[tuple[str, str, int, list[tuple[str, str, str | None, int, int, int, Any]]]]: ...
    def arrays(
        self,
        columns: Sequence[str],
        cut: str | None,
        entries: tuple[int, int],
        progress: ScanProgress,
        *,
        with_opening: bool = False,
    ) -> Job[tuple[list[Column], list[Any], dict[str, Any]]]: ...
    def num_entries_for(self, columns: Sequence[str], size: int) -> Job[int]: ...
    def partitions(self, entries: int) -> Job[list[int]]: ...
    def iterate(
        self, columns: Sequence[str], cut: str | None, entries: tuple[int, int], step: int, progress: ScanProgress
    ) -> ArraysIterator: ...
    def close(self) -> None: ...

@final
class ScanProgress:
    """Progress of a read."""

    def __new__(cls) -> ScanProgress: ...
    def bytes(self) -> tuple[int, int]:
        """Return the bytes received so far, and the total as far as it is known."""

@final
class ArraysIterator:
    """Columns in steps."""

    def next(self) -> Job[tuple[int, int, list[Column], list[Any]] | None]: ...
    def close(self) -> None: ...

def client_option_table() -> list[dict[str, Any]]:
    """Return the options of a client: their names in all interfaces, types and meanings."""

def shutdown() -> None:
    """Stop threads of the library from entering the interpreter; wait for those inside."""

def coarse_name(name: str) -> str:
    """Return a text that is equal for all names that collide at some destination."""

def is_one_name(client: Client, directory: str, name: str, other: str) -> Job[bool]:
    """Return whether an existing directory takes two names for one."""

def is_plain_name(name: str) -> bool:
    """Return whether every destination lists a name as it was written, but for its case."""

def name_difference(name: str, other: str) -> tuple[str, str, bool]:
    """Return the characters in which two names differ, and whether their last ones do."""

def redact_url(url: str) -> str:
    """Return a URL for messages, without user, password, query and fragment."""

def split_tree_url(text: str) -> tuple[str, str | None]:
    """Return the file and the tree of ``URL:TREE``, as the command reads it."""

def suggestion(wanted: str, names: Sequence[str]) -> str:
    """Return the end of an error for an unknown name: similar names, or all if they are few."""

def unlisted_names(client: Client, directory: str, names: Sequence[str]) -> Job[list[tuple[str, str, bool]]]:
    """Return names that a listing lacks, each with the reason, and whether it is there."""

def validators_differ(one: str, other: str) -> bool:
    """Return whether two entity tags or dates are of different versions of a file."""

def run_command(arguments: Sequence[str]) -> int:
    """Run the command with these arguments, the first being its name; return its exit code."""
