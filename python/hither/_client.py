"""The client: connections, cache, credentials and threads that files share."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hither import _core
from hither._closing import Closing
from hither._lots import Lots
from hither._options.sizes import parse_bytes
from hither._reporting.report import Report, report_from_core
from hither._staging import Staging

if TYPE_CHECKING:
    from typing import TypeAlias

    from typing_extensions import Unpack

    from hither._copy import CopyOptions, CopySummary
    from hither._core import Entry, Job
    from hither._file import RemoteFile
    from hither._options import ClientOptions

    UrlOrPath: TypeAlias = str | os.PathLike[str]
    Content: TypeAlias = bytes | bytearray | memoryview | UrlOrPath
    Entries: TypeAlias = list[Entry]
    ReplicaServers: TypeAlias = list["ReplicaServer"]

_SECRETS = {row["python"] for row in _core.client_option_table() if row["is_secret"]}
"""Options whose values are not shown."""
_TEXT_SECRETS = ("token", "token_command", "password", "headers")
"""Those that are secrets whatever their values; the line of a command may hold one."""
_SIZES = {row["python"] for row in _core.client_option_table() if row["python_type"] == "int | str | None"}
"""Options that are numbers of bytes."""
_cores: weakref.WeakSet[_core.Client] = weakref.WeakSet()
_default: list[Client] = []


class Client(Closing):
    """Connections, cache, credentials and threads that files share.

    Clients share nothing with each other. Most programs need none of their own: functions that are
    given no client use :func:`default_client`. The environment and the configuration file set the
    options that are not given, as for the command ``hither``. A client can be pickled, unless an
    option is a secret, and can be used in a forked child, where it opens its own connections.

    Parameters
    ----------
    **options
        Options, as :class:`hither.ClientOptions` lists them.

    Raises
    ------
    ValueError
        An option is invalid, in an argument, the environment or the configuration file.

    Examples
    --------
    >>> with hither.Client(max_connections=16, cache="1 GiB", anonymous=True) as client:
    ...     entry = client.stat("http://127.0.0.1:8080/talk.root")
    ...     tree = hither.open_tree("http://127.0.0.1:8080/talk.root", "T", client=client)
    ...     entry.name, tree["rawtr"].typename
    ('talk.root', 'float[17]')

    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        """Check the options; threads and connections start when they are first needed."""
        self.__setstate__({name: _plain(name, value) for name, value in options.items() if value is not None})

    def __repr__(self) -> str:
        """Return the options that were given, without those that may hold secrets."""
        shown = (f"{name}={'...' if name in _SECRETS else repr(value)}" for name, value in self._options.items())
        return f"<hither.Client {', '.join(shown) or 'without options'}>"

    def __getstate__(self) -> dict[str, Any]:
        """Return the options, none of which may be a secret.

        Raises
        ------
        ValueError
            An option is one: pickles are kept in files, and shown by schedulers.

        """
        check_without_secrets(self._options)
        return self._options

    def __setstate__(self, options: dict[str, Any]) -> None:
        """Set up a client with these options."""
        self._options = options
        self._core = _core.Client(options)
        self._hides_names = ""
        """The last directory that a warning has named."""
        _cores.add(self._core)

    def close(self) -> None:
        """Close the client; it opens no further files.

        Its connections and threads end with the last of its files.
        """
        self._core.close()

    @property
    def report(self) -> Report:
        """Counters and timings of all reads of this client in this process."""
        return report_from_core(self._core.report())

    @property
    def store_error(self) -> str | None:
        """Reason why the store cannot be used; None if it can, or if none was configured."""
        return self._core.store_error()

    def open(self, url: UrlOrPath) -> RemoteFile:
        """Open a file as bytes; see :func:`hither.open`."""
        from hither._file import RemoteFile

        return RemoteFile(url, client=self)

    def stat(self, url: UrlOrPath) -> Entry:
        """Return kind, size, version and last change of a file or directory, in one round trip.

        Raises
        ------
        ValueError
            The URL is invalid.
        OSError
            The name does not exist, access is denied, or the server fails; :mod:`hither.exceptions`
            lists the classes.

        Examples
        --------
        >>> hither.default_client().stat("http://127.0.0.1:8080/talk.root").kind
        'file'

        """
        return self._stat(url).wait()

    async def stat_async(self, url: UrlOrPath) -> Entry:
        """Async version of :meth:`stat`."""
        return await self._stat(url)

    def _stat(self, url: UrlOrPath) -> Job[Entry]:
        return self._core.stat(os.fspath(url))

    def list(self, url: UrlOrPath) -> Entries:
        """Return the entries of a directory, sorted by the bytes of their names. Links stay links.

        Warns
        -----
        HiddenNamesWarning
            The server may have names that it does not list, as with an HTML index. Once for a
            directory and those in it.

        Raises
        ------
        ValueError
            The URL is invalid, or names a file.
        NotImplementedError
            The server cannot list directories.
        OSError
            The directory does not exist, access is denied, or the server fails.

        Examples
        --------
        >>> [entry.name for entry in hither.default_client().list("http://127.0.0.1:8080/runs/")]
        ['run1.root', 'run2.root']

        """
        entries, hidden = self._list(url).wait()
        self._warn_of_hidden(url, hidden)
        return entries

    async def list_async(self, url: UrlOrPath) -> Entries:
        """Async version of :meth:`list`."""
        entries, hidden = await self._list(url)
        self._warn_of_hidden(url, hidden)
        return entries

    def _list(self, url: UrlOrPath) -> Job[tuple[Entries, str | None]]:
        """Return the entries, and the reason why there may be others."""
        return self._core.list(os.fspath(url))

    def _warn_of_hidden(self, url: UrlOrPath, hidden: str | None) -> None:
        if hidden is None:
            return
        from hither._reporting.warn import warn
        from hither._urls import split_query
        from hither.exceptions import HiddenNamesWarning

        directory = split_query(os.fspath(url))[0].rstrip("/") + "/"
        known = self._hides_names
        if known and directory != known and directory.startswith(known):
            return
        warn(f"{_core.redact_url(directory)}: {hidden}", HiddenNamesWarning)
        self._hides_names = directory

    def make_directory(self, url: UrlOrPath) -> None:
        """Make a directory. Its parent must exist.

        Raises
        ------
        ValueError
            The URL is invalid.
        OSError
            The name exists already (``FileExistsError``), the parent does not exist, access is
            denied, or the server fails.

        Examples
        --------
        >>> client = hither.default_client()
        >>> client.make_directory("http://127.0.0.1:8080/scratch")
        >>> entry = client.put("http://127.0.0.1:8080/scratch/a.bin", b"12345")
        >>> client.rename("http://127.0.0.1:8080/scratch/a.bin", "http://127.0.0.1:8080/scratch/b.bin")
        >>> client.list("http://127.0.0.1:8080/scratch")
        [Entry(url="http://127.0.0.1:8080/scratch/b.bin", kind="file", size=5)]
        >>> client.remove("http://127.0.0.1:8080/scratch", recursive=True)

        """
        self._make_directory(url).wait()

    async def make_directory_async(self, url: UrlOrPath) -> None:
        """Async version of :meth:`make_directory`."""
        await self._make_directory(url)

    def _make_directory(self, url: UrlOrPath) -> Job[None]:
        return self._core.make_directory(os.fspath(url))

    def remove(self, url: UrlOrPath, *, recursive: bool = False) -> None:
        """Remove a file, link or empty directory; with ``recursive`` a directory and its contents.

        Links in a directory are removed, not followed. The root of a server cannot be removed.

        Raises
        ------
        ValueError
            The directory is not empty and ``recursive`` is not given, or the URL is invalid.
        OSError
            The name does not exist, access is denied, or the server fails.

        """
        self._remove(url, recursive).wait()

    async def remove_async(self, url: UrlOrPath, *, recursive: bool = False) -> None:
        """Async version of :meth:`remove`."""
        await self._remove(url, recursive)

    def _remove(self, url: UrlOrPath, recursive: bool) -> Job[None]:  # noqa: FBT001
        return self._core.remove(os.fspath(url), recursive)

    def rename(self, source: UrlOrPath, target: UrlOrPath, *, overwrite: bool = False) -> None:
        """Rename a file or directory on its server.

        Raises
        ------
        ValueError
            A URL is invalid.
        NotImplementedError
            The names are on different servers.
        OSError
            The target exists and ``overwrite`` is not given (``FileExistsError``), the source does
            not exist, access is denied, or the server fails.

        """
        self._rename(source, target, overwrite).wait()

    async def rename_async(self, source: UrlOrPath, target: UrlOrPath, *, overwrite: bool = False) -> None:
        """Async version of :meth:`rename`."""
        await self._rename(source, target, overwrite)

    def _rename(self, source: UrlOrPath, target: UrlOrPath, overwrite: bool) -> Job[None]:  # noqa: FBT001
        return self._core.rename(os.fspath(source), os.fspath(target), overwrite)

    def put(self, url: UrlOrPath, data_or_path: Content, *, overwrite: bool | Entry = False) -> Entry:
        """Write a file from bytes or from the local file at a path; all of it or nothing.

        ``overwrite`` is True to replace an existing file, or an entry of :meth:`stat` to replace
        only that version: a program that changes a file then loses no change of another program.

        Raises
        ------
        ValueError
            The URL is invalid.
        OSError
            The target exists and ``overwrite`` is not given (``FileExistsError``), the target is no
            longer of the version of ``overwrite`` (:class:`hither.ChangedError`), the local file
            or the target's directory does not exist (``FileNotFoundError``), the local file cannot
            be read, access is denied, the server is full, or it fails.

        """
        return self._put(url, data_or_path, overwrite).wait()

    async def put_async(self, url: UrlOrPath, data_or_path: Content, *, overwrite: bool | Entry = False) -> Entry:
        """Async version of :meth:`put`."""
        return await self._put(url, data_or_path, overwrite)

    def _put(
        self,
        url: UrlOrPath,
        data_or_path: Content,
        overwrite: bool | Entry,  # noqa: FBT001
    ) -> Job[Entry]:
        expected = overwrite if isinstance(overwrite, _core.Entry) else None
        if isinstance(data_or_path, (bytes, bytearray, memoryview)):
            return self._core.put_bytes(os.fspath(url), bytes(data_or_path), bool(overwrite), expected)
        return self._core.put_file(os.fspath(url), os.fspath(data_or_path), bool(overwrite), expected)

    def get(self, url: UrlOrPath, path: UrlOrPath, *, overwrite: bool = False) -> Entry:
        """Write the file at a URL to a local path; all of it or nothing.

        The opposite of :meth:`put`. The file is read in parallel pieces, from all its replicas, and
        verified with the server's checksum where it states one; an interrupted attempt is resumed.
        To read a file into memory: ``client.open(url).read()``.

        Raises
        ------
        ValueError
            The URL is invalid, or the path is a directory.
        OSError
            The path exists and ``overwrite`` is not given (``FileExistsError``), the file or the
            directory of the path does not exist (``FileNotFoundError``), access is denied, the disk
            is full, or the server fails.

        Examples
        --------
        >>> client = hither.default_client()
        >>> url = "http://127.0.0.1:8080/runs/run1.root"
        >>> client.get(url, "/tmp/run1.root", overwrite=True).name
        'run1.root'

        """
        return self._get(url, path, overwrite).wait()

    async def get_async(self, url: UrlOrPath, path: UrlOrPath, *, overwrite: bool = False) -> Entry:
        """Async version of :meth:`get`."""
        return await self._get(url, path, overwrite)

    def _get(self, url: UrlOrPath, path: UrlOrPath, overwrite: bool) -> Job[Entry]:  # noqa: FBT001
        return self._core.get_file(os.fspath(url), os.fspath(path), overwrite)

    def copy(
        self, source: UrlOrPath | Sequence[UrlOrPath], destination: UrlOrPath, **options: Unpack[CopyOptions]
    ) -> CopySummary:
        """Copy files and directories with this client; options are those of :func:`hither.copy`.

        Examples
        --------
        >>> hither.default_client().copy("http://127.0.0.1:8080/runs/run1.root", "/dev/null").files
        1

        """
        from hither._copy import copy

        return copy(source, destination, client=self, **options)

    async def copy_async(
        self, source: UrlOrPath | Sequence[UrlOrPath], destination: UrlOrPath, **options: Unpack[CopyOptions]
    ) -> CopySummary:
        """Async version of :meth:`copy`."""
        from hither._copy import copy_async

        return await copy_async(source, destination, client=self, **options)

    def checksum(self, url: UrlOrPath, algorithm: str = "adler32") -> str:
        """Return the checksum of a file as ``"ALGORITHM:HEX"``.

        It is the server's if the server states one of this kind; otherwise it is computed, which
        reads the file.

        Parameters
        ----------
        url
            URL or local path of the file.
        algorithm
            ``"adler32"``, ``"crc32c"``, ``"md5"``, ``"sha256"`` or ``"sha512"``.

        Raises
        ------
        ValueError
            The URL or the algorithm is invalid.
        OSError
            The file does not exist, access is denied, or the server fails.

        Examples
        --------
        >>> hither.default_client().checksum("http://127.0.0.1:8080/runs/run1.root", "crc32c")[:7]
        'crc32c:'

        """
        return self._checksum(url, algorithm).wait()

    async def checksum_async(self, url: UrlOrPath, algorithm: str = "adler32") -> str:
        """Async version of :meth:`checksum`."""
        return await self._checksum(url, algorithm)

    def _checksum(self, url: UrlOrPath, algorithm: str) -> Job[str]:
        return self._core.checksum(os.fspath(url), algorithm)

    def locate(self, url: UrlOrPath) -> ReplicaServers:
        """Return the servers of an XRootD cluster that have a file.

        Raises
        ------
        NotImplementedError
            The URL is not one of ``root://`` or ``roots://``.
        OSError
            No server has the file, access is denied, or the server fails.

        """
        return [ReplicaServer(*server) for server in self._core.locate(os.fspath(url)).wait()]

    async def locate_async(self, url: UrlOrPath) -> ReplicaServers:
        """Async version of :meth:`locate`."""
        return [ReplicaServer(*server) for server in await self._core.locate(os.fspath(url))]

    def stage(self, urls: Sequence[UrlOrPath], *, priority: int = 0) -> Staging:
        """Ask servers to stage files from tape to disk; do not wait until they are on disk.

        ``priority`` is from 0 to 3, the highest, for servers of ``root://``.

        Raises
        ------
        ValueError
            A URL is invalid.
        NotImplementedError
            A server does not support staging from tape.
        OSError
            Access is denied, or a server fails.

        """
        names = _names(urls)
        return Staging(self._core.stage(names, priority).wait(), names)

    async def stage_async(self, urls: Sequence[UrlOrPath], *, priority: int = 0) -> Staging:
        """Async version of :meth:`stage`."""
        names = _names(urls)
        return Staging(await self._core.stage(names, priority), names)

    def release(self, urls: Sequence[UrlOrPath], *, request: str | None = None) -> None:
        """Release files that a request has staged, so that they may leave the disk.

        ``request`` is the id from :attr:`Staging.requests`; servers of ``root://`` need none.
        Errors are those of :meth:`stage`.
        """
        self._core.release(_names(urls), request).wait()

    async def release_async(self, urls: Sequence[UrlOrPath], *, request: str | None = None) -> None:
        """Async version of :meth:`release`."""
        await self._core.release(_names(urls), request)

    def cancel_staging(self, urls: Sequence[UrlOrPath], *, request: str) -> None:
        """Ask servers to stop staging files of a request; errors as of :meth:`stage`."""
        self._core.cancel_staging(_names(urls), request).wait()

    async def cancel_staging_async(self, urls: Sequence[UrlOrPath], *, request: str) -> None:
        """Async version of :meth:`cancel_staging`."""
        await self._core.cancel_staging(_names(urls), request)

    def localities(self, urls: Sequence[UrlOrPath]) -> dict[str, str]:
        """Return where files are: ``"disk"``, ``"tape"``, ``"disk and tape"`` or ``"unavailable"``.

        Nothing is staged. Errors are those of :meth:`stage`.
        """
        names = _names(urls)
        return dict(zip(names, self._core.localities(names).wait(), strict=True))

    async def localities_async(self, urls: Sequence[UrlOrPath]) -> dict[str, str]:
        """Async version of :meth:`localities`."""
        names = _names(urls)
        return dict(zip(names, await self._core.localities(names), strict=True))

    def lots(self, url: UrlOrPath) -> Lots:
        """Return the lots of the server of a URL: space that is reserved for a folder and a time.

        Nothing is requested yet; :class:`hither.Lots` reserves, shows, renews and releases.

        Examples
        --------
        >>> hither.default_client().lots("https://host/data/run7")
        <hither.Lots>

        """
        return Lots(self._core, os.fspath(url))


@dataclass(frozen=True)
class ReplicaServer:
    """A server of a cluster that has a file; see :meth:`Client.locate`.

    Examples
    --------
    >>> server = hither.ReplicaServer("root://host:1094", writable=False, pending=True)
    >>> server.server, server.pending
    ('root://host:1094', True)

    """

    server: str
    """URL of the server, without a path."""
    writable: bool
    """True if the replica may be written."""
    pending: bool
    """True if the server is still fetching the file, from tape or another server."""


def _names(urls: Sequence[UrlOrPath]) -> list[str]:
    if isinstance(urls, (str, os.PathLike)):
        message = "urls is one URL, expected a list of URLs"
        raise TypeError(message)
    return [os.fspath(url) for url in urls]


def _plain(name: str, value: object) -> object:
    """Return the value of an option in builtin types, which can be pickled and do not change."""
    if name in _SIZES and isinstance(value, str):
        return parse_bytes(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: _plain("", item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain("", item) for item in value]
    return value


def check_without_secrets(options: Mapping[str, Any]) -> None:
    """Raise ValueError if options that are about to be pickled hold a secret."""
    urls: dict[str, list[Any]] = {"proxy": [options.get("proxy")], "mirrors": _texts(options.get("mirrors"))}
    secret = [name for name in _TEXT_SECRETS if options.get(name)]
    secret += [name for name, texts in urls.items() if any(text and _core.redact_url(text) != text for text in texts)]
    if secret:
        elsewhere = (
            "name the command in a configuration file that each process reads (config=)"
            if secret[0] == "token_command"
            else "put it into a file that each process reads (token_file=, config=), or into the environment of each "
            "(BEARER_TOKEN, HITHER_PASSWORD)"
        )
        message = f"a pickle would hold the secret in {secret[0]}=: {elsewhere}"
        raise ValueError(message)


def _texts(value: object) -> list[str]:
    """Return all texts in a value of builtin types."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for pair in value.items() for item in pair for text in _texts(item)]
    if isinstance(value, Sequence):
        return [text for item in value for text in _texts(item)]
    return []


def default_client() -> Client:
    """Return the client of functions that are given none. It is made at the first call.

    Examples
    --------
    >>> hither.default_client() is hither.default_client()
    True

    """
    if not _default:
        _default.append(Client())
    return _default[0]


@atexit.register
def _shut_down() -> None:
    for core in list(_cores):
        core.flush()
    _core.shutdown()
