"""ROOT files as mappings of their trees."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hither import _core
from hither._client import Client, default_client
from hither._closing import Closing
from hither._file import RemoteFile
from hither._tree.branches import missing_key_error
from hither._tree.tree import Tree

if TYPE_CHECKING:
    from hither._client import UrlOrPath


class RootFile(Closing, Mapping[str, Tree]):
    """The trees and RNTuples of a ROOT file, by path. Each is opened when it is requested.

    Parameters
    ----------
    url
        URL or local path of the file.
    client
        Client to read with; :func:`hither.default_client` by default.

    Raises
    ------
    ValueError
        The URL is invalid.
    FileNotFoundError
        The local file does not exist. A missing remote file is reported at the first use.

    Examples
    --------
    >>> with hither.RootFile("http://127.0.0.1:8080/talk.root") as file:
    ...     list(file), file["T"]["rawtr"].typename
    (['T'], 'float[17]')

    """

    def __init__(self, url: UrlOrPath, *, client: Client | None = None) -> None:
        """Check the URL; nothing is requested yet."""
        self._url = os.fspath(url)
        self._client = client or default_client()
        self._paths: list[str] | None = None
        # Reports a missing local file.
        RemoteFile(self._url, client=self._client).close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments that open the file again."""
        return _reopen, (self._url, self._client)

    def __repr__(self) -> str:
        """Return the URL of the file, without secrets."""
        return f"<hither.RootFile {_core.redact_url(self._url)!r}>"

    def _repr_html_(self) -> str:
        """Return the URL and the paths of the trees, for notebooks."""
        from hither._reporting.table import html_table

        return html_table(repr(self), ("tree",), ([path] for path in self.keys()))

    def keys(self) -> list[str]:  # type: ignore[override]
        """Return the paths of the trees and RNTuples, including those in directories."""
        if self._paths is None:
            trees, ntuples = self._client._core.tree_paths(self._url).wait()  # noqa: SLF001
            self._paths = trees + ntuples
        return list(self._paths)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the paths of the trees."""
        return iter(self.keys())

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.keys())

    def __getitem__(self, path: str) -> Tree:
        """Return the tree at a path.

        Raises
        ------
        KeyError
            There is no tree at this path; the message names similar paths.

        """
        plain = path.split(";", maxsplit=1)[0]
        if plain not in self.keys():
            raise missing_key_error("tree", path, self.keys())
        return Tree._of(self._url, path, self._client)  # noqa: SLF001


def open_root(url: UrlOrPath, *, client: Client | None = None) -> RootFile:
    """Return the trees of a ROOT file as a mapping; see :class:`RootFile`.

    Examples
    --------
    >>> hither.open_root("http://127.0.0.1:8080/talk.root").keys()
    ['T']

    """
    return RootFile(url, client=client)


def _reopen(url: str, client: Client) -> RootFile:
    return RootFile(url, client=client)
