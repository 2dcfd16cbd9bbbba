"""The client: connections, cache, credentials and threads that files share."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import TYPE_CHECKING, Any, Literal

from hither import _core
from hither._closing import Closing
from hither._reporting.report import Report, report_from_core
from hither._sizes import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from hither._core import Entry, Job
    from hither._file import RemoteFile

    UrlOrPath: TypeAlias = str | os.PathLike[str]
    Content: TypeAlias = bytes | bytearray | memoryview | UrlOrPath
    Entries: TypeAlias = list[Entry]

_cores: weakref.WeakSet[_core.Client] = weakref.WeakSet()
_default: list[Client] = []


class Client(Closing):
    """Connections, cache, credentials and threads that files share.

    Clients share nothing with each other. Most programs need none of their own: functions that are
    given no client use :func:`default_client`. The environment and the configuration file set the
    options that are not given, as for the command ``hither``. A client can be pickled and can be
    used in a forked child, where it opens its own connections.

    Parameters
    ----------
    connections
        Maximum number of connections to a server; 64 by default.
    cache
        Memory for bytes that were read or prefetched, as ``"256 MB"`` or a number of bytes.
    store
        Folder for what is remembered of servers and files between runs; the user's cache folder by
        default. ``False`` remembers nothing.
    disk_cache
        Maximum number of bytes of file content to keep in the store; none by default.
    decode_threads
        Threads that decompress and decode; one for each processor by default.
    connect_timeout
        Seconds to wait for a connection; 15 by default.
    stall_timeout
        Seconds to wait without a byte arriving; 30 by default, and 60 for the start of an answer.
    staleness
        Seconds for which a file that the server confirmed as unchanged is opened without asking
        again; 0 by default.
    verify
        Which unencrypted ``root://`` reads to verify with page checksums: ``"never"`` (default),
        ``"long"`` (reads of 64 KiB and more, where the server can) or ``"always"`` (servers that
        cannot are refused).
    mirrors
        URL prefixes that can stand in place of a URL prefix, the best first.
    proxy
        Proxy for all servers; the environment's by default.
    insecure
        Accept any server certificate without verification.
    trace
        File to write a trace of all reads to; ``%p`` stands for the process id.
    config
        Configuration file to use instead of the user's.
    token, token_file, token_command
        A bearer token, a file that contains it, or a command that prints it.
    user, password
        User name and password.
    cert, key, proxy_cert
        Client certificate and its key, or an X.509 proxy; PEM files.
    ca, ca_dir
        PEM file and folder of further certificate authorities to trust.
    share_credentials
        Hosts, or ``*.DOMAIN``, to which credentials may follow a redirect.
    credentials_over_http
        Send credentials over unencrypted ``http://`` to other machines, too.
    anonymous
        Ignore all credentials found in the environment.

    Raises
    ------
    ValueError
        An option is invalid, in an argument, the environment or the configuration file.

    Examples
    --------
    >>> with hither.Client(connections=16, cache="1 GiB", anonymous=True) as client:
    ...     entry = client.stat("http://127.0.0.1:8080/talk.root")
    ...     tree = hither.open_tree("http://127.0.0.1:8080/talk.root", "T", client=client)
    ...     entry.name, tree["rawtr"].typename
    ('talk.root', 'float[17]')

    """

    def __init__(
        self,
        *,
        connections: int | None = None,
        cache: int | str | None = None,
        store: str | os.PathLike[str] | bool | None = None,
        disk_cache: int | str | None = None,
        decode_threads: int | None = None,
        connect_timeout: float | None = None,
        stall_timeout: float | None = None,
        staleness: float | None = None,
        verify: Literal["never", "long", "always"] | None = None,
        mirrors: Mapping[str, Sequence[str]] | None = None,
        proxy: str | None = None,
        insecure: bool = False,
        trace: str | os.PathLike[str] | None = None,
        config: str | os.PathLike[str] | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        token_command: str | None = None,
        user: str | None = None,
        password: str | None = None,
        cert: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        proxy_cert: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        ca_dir: str | os.PathLike[str] | None = None,
        share_credentials: Sequence[str] = (),
        credentials_over_http: bool = False,
        anonymous: bool = False,
    ) -> None:
        """Check the options; threads and connections start when they are first needed."""
        self._options: dict[str, Any] = {
            "connections": connections,
            "cache_bytes": None if cache is None else parse_bytes(cache),
            "store": None if isinstance(store, bool) else store,
            "no_store": store is False,
            "disk_cache_bytes": None if disk_cache is None else parse_bytes(disk_cache),
            "decode_threads": decode_threads,
            "connect_timeout": connect_timeout,
            "stall_timeout": stall_timeout,
            "staleness": staleness,
            "verify": verify,
            "mirrors": {prefix: list(replicas) for prefix, replicas in (mirrors or {}).items()},
            "proxy": proxy,
            "insecure": insecure,
            "trace": trace,
            "config": config,
            "token": token,
            "token_file": token_file,
            "token_command": token_command,
            "user": user,
            "password": password,
            "cert": cert,
            "key": key,
            "proxy_cert": proxy_cert,
            "ca": ca,
            "ca_dir": ca_dir,
            "share_credentials": list(share_credentials),
            "credentials_over_http": credentials_over_http,
            "anonymous": anonymous,
        }
        self._core = _core.Client(self._options)
        _cores.add(self._core)

    def __getstate__(self) -> dict[str, Any]:
        """Return the options."""
        return self._options

    def __setstate__(self, options: dict[str, Any]) -> None:
        """Set up a client with these options."""
        self._options = options
        self._core = _core.Client(options)
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
        """Reason why the store cannot be used; None if it can, or if none was wanted."""
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
        return self._list(url).wait()

    async def list_async(self, url: UrlOrPath) -> Entries:
        """Async version of :meth:`list`."""
        return await self._list(url)

    def _list(self, url: UrlOrPath) -> Job[Entries]:
        return self._core.list(os.fspath(url))

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

    def put(self, url: UrlOrPath, data_or_path: Content, *, overwrite: bool = False) -> Entry:
        """Write a file from bytes or from the local file at a path; all of it or nothing.

        Raises
        ------
        ValueError
            The URL is invalid.
        OSError
            The target exists and ``overwrite`` is not given (``FileExistsError``), the local file
            or the target's directory does not exist (``FileNotFoundError``), the local file cannot
            be read, access is denied, the server is full, or it fails.

        """
        return self._put(url, data_or_path, overwrite).wait()

    async def put_async(self, url: UrlOrPath, data_or_path: Content, *, overwrite: bool = False) -> Entry:
        """Async version of :meth:`put`."""
        return await self._put(url, data_or_path, overwrite)

    def _put(
        self,
        url: UrlOrPath,
        data_or_path: Content,
        overwrite: bool,  # noqa: FBT001
    ) -> Job[Entry]:
        if isinstance(data_or_path, (bytes, bytearray, memoryview)):
            return self._core.put_bytes(os.fspath(url), bytes(data_or_path), overwrite)
        return self._core.put_file(os.fspath(url), os.fspath(data_or_path), overwrite)


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
