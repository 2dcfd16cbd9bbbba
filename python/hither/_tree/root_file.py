"""ROOT files: the trees in one, by path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hither._client import Client, default_client
from hither._closing import Closing
from hither._file import RemoteFile
from hither._tree.branches import missing_key_error
from hither._tree.tree import Tree

if TYPE_CHECKING:
    from typing import TypeAlias

    Name: TypeAlias = str | os.PathLike[str]


class RootFile(Closing, Mapping[str, Tree]):
    """The trees of a ROOT file, by path; each is opened when it is asked for."""

    def __init__(self, url: Name, *, client: Client | None = None) -> None:
        """Name the file; nothing is asked for yet."""
        self._url = os.fspath(url)
        self._client = client or default_client()
        self._paths: list[str] | None = None
        # A local file that is not there is said here.
        RemoteFile(self._url, client=self._client).close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Open it again."""
        return _reopen, (self._url, self._client)

    def __repr__(self) -> str:
        """Return how it would be opened."""
        return f"<hither.RootFile {self._url.split('?')[0]!r}>"

    def keys(self) -> list[str]:  # type: ignore[override]
        """Return the paths of the trees, those in directories too."""
        if self._paths is None:
            self._paths = self._client._core.tree_paths(self._url).wait()  # noqa: SLF001
        return list(self._paths)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the paths."""
        return iter(self.keys())

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.keys())

    def __getitem__(self, path: str) -> Tree:
        """Return a tree.

        Raises
        ------
        KeyError
            There is none at that path; the message names those that look alike.

        """
        plain = path.split(";", maxsplit=1)[0]
        if plain not in self.keys():
            raise missing_key_error("tree", path, self.keys())
        return Tree(self._url, path, client=self._client)


def open_root(url: Name, *, client: Client | None = None) -> RootFile:
    """Return the trees of a ROOT file as a mapping; see :class:`RootFile`."""
    return RootFile(url, client=client)


def _reopen(url: str, client: Client) -> RootFile:
    return RootFile(url, client=client)
