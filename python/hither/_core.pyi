"""The extension module: what the package is built on. Use the package."""

import builtins
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Generic, TypeVar, final

__all__ = [
    "Buffer",
    "Client",
    "Column",
    "Entry",
    "File",
    "FileStat",
    "Hint",
    "Job",
    "Progress",
    "Steps",
    "Strings",
    "Tree",
    "end",
    "run_command",
]

_T_co = TypeVar("_T_co", covariant=True)

@final
class Job(Generic[_T_co]):
    """An operation that has not begun. Wait for it once: with :meth:`wait`, or with ``await``."""

    def wait(self, tick: Callable[[], object] | None = None) -> _T_co:
        """Do it and return its result. The GIL is released; Ctrl-C ends it within 200 ms. ``tick`` is called ten times a second."""

    def __await__(self) -> Generator[Any, None, _T_co]:
        """Do it on the client's threads."""

@final
class Buffer:
    """Memory of the library; ``numpy.asarray`` of it looks at it where it is."""

    def __len__(self) -> int: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

@final
class Entry:
    """One name in a directory or on a server, and what is known about it."""

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
    def size(self) -> int:
        """Bytes; 0 for anything but a file."""

    @property
    def modified(self) -> float | None:
        """Last change, in seconds since 1970 UTC."""

    @property
    def validator(self) -> str | None:
        """What tells this version of the file from others: an entity tag, or another such text."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class FileStat:
    """Size and version of a file."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def validator(self) -> str | None:
        """Entity tag or date of the last change, as the server gives it."""

@final
class Hint:
    """A hint that was given, for taking it back."""

@final
class Client:
    """What files share, in this process."""

    def __new__(cls, settings: Mapping[str, Any]) -> Client: ...
    def open(self, url: str, foresee: bool = True) -> File: ...
    def open_tree(self, url: str, path: str | None) -> Tree: ...
    def tree_paths(self, url: str) -> Job[builtins.list[str]]: ...
    def stat(self, url: str) -> Job[Entry]: ...
    def list(self, url: str) -> Job[builtins.list[Entry]]: ...
    def make_directory(self, url: str) -> Job[None]: ...
    def remove(self, url: str, recursive: bool) -> Job[None]: ...
    def rename(self, source: str, target: str, overwrite: bool) -> Job[None]: ...
    def put_bytes(self, url: str, data: bytes, overwrite: bool) -> Job[Entry]: ...
    def put_file(self, url: str, path: str | os.PathLike[str], overwrite: bool) -> Job[Entry]: ...
    def report(self) -> str: ...
    def store_error(self) -> str | None: ...
    def settle(self) -> None: ...
    def close(self) -> None: ...

@final
class File:
    """A file of a client; opened in each process that uses it."""

    @property
    def url(self) -> str: ...
    def begin(self) -> None: ...
    def fetch_ends(self, tail: int) -> None: ...
    def name(self) -> str: ...
    def stat(self) -> Job[FileStat]: ...
    def read_at(self, offset: int, length: int) -> Job[bytes]: ...
    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> Job[list[Buffer]]: ...
    def hint(self, ranges: Sequence[tuple[int, int]], within_seconds: float) -> Hint | None: ...
    def cancel(self, hint: Hint) -> None: ...
    def places(self) -> tuple[list[tuple[str, int, int]], list[str]]: ...
    def close(self) -> None: ...

@final
class Strings:
    """Strings back to back."""

    @property
    def offsets(self) -> Buffer:
        """Where each begins; int64, one more than there are strings."""

    @property
    def bytes(self) -> Buffer:
        """All of them; uint8."""

@final
class Column:
    """A column: Arrow's layout, in buffers."""

    @property
    def entries(self) -> int:
        """Number of entries."""

    @property
    def offsets(self) -> Buffer | None:
        """Where the items of each entry begin; int64, one more than there are entries. None: one item each."""

    @property
    def item_shape(self) -> list[int]:
        """Dimensions of one item, outermost first."""

    @property
    def values(self) -> Buffer | Strings | Column:
        """The values of all items, row-major; of lists in lists, a column of which each value is an entry."""

@final
class Tree:
    """A tree of a file; opened in each process that uses it."""

    @property
    def url(self) -> str: ...
    @property
    def path(self) -> str | None: ...
    def begin(self) -> None: ...
    def listing(self) -> Job[tuple[str, str, int, list[tuple[str, str, str | None, int, int, int]]]]: ...
    def arrays(
        self, columns: Sequence[str], cut: str | None, entries: tuple[int, int], progress: Progress
    ) -> Job[tuple[list[Column], str]]: ...
    def entries_in(self, columns: Sequence[str], size: int) -> Job[int]: ...
    def partitions(self, entries: int) -> Job[list[int]]: ...
    def steps(
        self, columns: Sequence[str], cut: str | None, entries: tuple[int, int], step: int, progress: Progress
    ) -> Steps: ...
    def close(self) -> None: ...

@final
class Progress:
    """How far a read has come."""

    def __new__(cls) -> Progress: ...
    def bytes(self) -> tuple[int, int]:
        """Return the bytes that have arrived, and that will have in the end, as far as that is known."""

@final
class Steps:
    """Columns that come in steps."""

    def next(self) -> Job[tuple[int, int, list[Column]] | None]: ...
    def close(self) -> None: ...

def end() -> None:
    """Wait for threads of the library that use the interpreter, which is about to end, and let no more of them in."""

def run_command(words: Sequence[str]) -> int:
    """Run the command with these words, of which the first is its name; return its exit code."""
