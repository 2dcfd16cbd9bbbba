"""The client: what files share."""

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

    Name: TypeAlias = str | os.PathLike[str]
    Content: TypeAlias = bytes | bytearray | memoryview | str | os.PathLike[str]
    Entries: TypeAlias = list[Entry]

_cores: weakref.WeakSet[_core.Client] = weakref.WeakSet()
_default: list[Client] = []


class Client(Closing):
    """Connections, threads, memory and credentials that files share.

    Two clients in one process do not meet. Most programs need none: functions without one use
    :func:`default_client`. What is not given comes from the environment and the configuration file, as for the command
    ``hither``. A client can be pickled and used in a forked child: there it makes connections of its own.

    Parameters
    ----------
    connections
        Most connections to a server; 64 by default.
    cache
        Memory for bytes that were read or will be, as ``"256 MB"`` or a number of bytes.
    store
        Folder to remember servers and files in between runs; ``False`` for none, the user's cache folder by default.
    disk_cache
        Bytes of parts of files to keep in the store; none by default.
    decode_threads
        Threads that unpack; one for each processor by default.
    connect_timeout, stall_timeout
        Seconds to wait for a connection (15 by default), and without a byte arriving (30 by default).
    staleness
        Seconds for which a file that was confirmed to be unchanged is opened without asking again; 0 by default.
    verify
        What is held against checksums on its way over ``root://`` in clear: ``"never"`` anything, which is the default, ``"long"``
        runs of 64 KiB and more, or ``"always"`` everything.
    mirrors
        Where else files are: beginnings of URLs, and what may stand in their place, the best first.
    proxy
        Proxy for all servers; the environment's by default.
    insecure
        Take any certificate of a server for good.
    trace
        Where to write a trace of all reads; ``%p`` stands for the number of the process.
    config
        Configuration file, in place of the user's.
    token, token_file, token_command
        A bearer token, the file that has it, or a command that prints it.
    user, password
        For servers that want a name.
    cert, key, proxy_cert
        Client certificate and its key, or an X.509 proxy, all PEM.
    ca, ca_dir
        Further certificate authorities to trust: a PEM file, a folder.
    share_credentials
        Hosts (or ``*.DOMAIN``) to which credentials may follow a redirect.
    credentials_over_http
        Send credentials over ``http://`` to other machines too.
    anonymous
        Use none of the credentials that the environment has.

    Raises
    ------
    ValueError
        A setting that makes no sense, in an argument, the environment or the configuration file.

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
        """Check the settings; nothing is started before it is needed."""
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
            "mirrors": {prefix: list(places) for prefix, places in (mirrors or {}).items()},
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
        """Return the settings."""
        return self._options

    def __setstate__(self, options: dict[str, Any]) -> None:
        """Be a client with these settings."""
        self._options = options
        self._core = _core.Client(options)
        _cores.add(self._core)

    def close(self) -> None:
        """Let go of connections and threads, as soon as the last file of the client is closed. Afterwards it opens nothing."""
        self._core.close()

    @property
    def report(self) -> Report:
        """The account of everything that was read with this client so far, in this process."""
        return report_from_core(self._core.report())

    @property
    def store_error(self) -> str | None:
        """Why nothing is remembered between runs although that was wanted."""
        return self._core.store_error()

    def open(self, url: Name) -> RemoteFile:
        """Open a file as bytes; as :func:`hither.open`."""
        from hither._file import RemoteFile

        return RemoteFile(url, client=self)

    def stat(self, url: Name) -> Entry:
        """Return what is known of a file or directory. One round trip.

        Raises
        ------
        FileNotFoundError, PermissionError, TimeoutError, ConnectionError, ValueError

        """
        return self._stat(url).wait()

    async def stat_async(self, url: Name) -> Entry:
        """Do as :meth:`stat`, in an event loop."""
        return await self._stat(url)

    def _stat(self, url: Name) -> Job[Entry]:
        return self._core.stat(os.fspath(url))

    def list(self, url: Name) -> Entries:
        """Return the names in a directory, in the order of their bytes. Links are shown as what they are.

        Raises
        ------
        FileNotFoundError, PermissionError, TimeoutError, ConnectionError
        ValueError
            It is a file, or no URL.
        NotImplementedError
            The server does not list.

        """
        return self._list(url).wait()

    async def list_async(self, url: Name) -> Entries:
        """Do as :meth:`list`, in an event loop."""
        return await self._list(url)

    def _list(self, url: Name) -> Job[Entries]:
        return self._core.list(os.fspath(url))

    def make_directory(self, url: Name) -> None:
        """Make a directory; its parent must exist.

        Raises
        ------
        FileExistsError
            There is something of that name.
        FileNotFoundError, PermissionError, TimeoutError, ConnectionError, ValueError

        """
        self._make_directory(url).wait()

    async def make_directory_async(self, url: Name) -> None:
        """Do as :meth:`make_directory`, in an event loop."""
        await self._make_directory(url)

    def _make_directory(self, url: Name) -> Job[None]:
        return self._core.make_directory(os.fspath(url))

    def remove(self, url: Name, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory, or with ``recursive`` a directory with all that is in it.

        Links in a directory are removed, not followed. The root of a server is not removed.

        Raises
        ------
        ValueError
            A directory that is not empty, without ``recursive``.
        FileNotFoundError, PermissionError, TimeoutError, ConnectionError

        """
        self._remove(url, recursive).wait()

    async def remove_async(self, url: Name, *, recursive: bool = False) -> None:
        """Do as :meth:`remove`, in an event loop."""
        await self._remove(url, recursive)

    def _remove(self, url: Name, recursive: bool) -> Job[None]:  # noqa: FBT001
        return self._core.remove(os.fspath(url), recursive)

    def rename(self, source: Name, target: Name, *, overwrite: bool = False) -> None:
        """Give a file or directory another name on the same server.

        Raises
        ------
        FileExistsError
            Something has that name, and ``overwrite`` is not given.
        NotImplementedError
            The names are on different servers.
        FileNotFoundError, PermissionError, TimeoutError, ConnectionError, ValueError

        """
        self._rename(source, target, overwrite).wait()

    async def rename_async(self, source: Name, target: Name, *, overwrite: bool = False) -> None:
        """Do as :meth:`rename`, in an event loop."""
        await self._rename(source, target, overwrite)

    def _rename(self, source: Name, target: Name, overwrite: bool) -> Job[None]:  # noqa: FBT001
        return self._core.rename(os.fspath(source), os.fspath(target), overwrite)

    def put(self, url: Name, data_or_path: Content, *, overwrite: bool = False) -> Entry:
        """Write a file: bytes, or those of the local file at a path. It has its name when it is whole, or never.

        Raises
        ------
        FileExistsError
            There is something of that name, and ``overwrite`` is not given.
        FileNotFoundError
            There is no such local file, or no such directory to put it in.
        OSError
            The server has no room left, or the local file cannot be read.
        PermissionError, TimeoutError, ConnectionError, ValueError

        """
        return self._put(url, data_or_path, overwrite).wait()

    async def put_async(self, url: Name, data_or_path: Content, *, overwrite: bool = False) -> Entry:
        """Do as :meth:`put`, in an event loop."""
        return await self._put(url, data_or_path, overwrite)

    def _put(
        self,
        url: Name,
        data_or_path: Content,
        overwrite: bool,  # noqa: FBT001
    ) -> Job[Entry]:
        if isinstance(data_or_path, (bytes, bytearray, memoryview)):
            return self._core.put_bytes(os.fspath(url), bytes(data_or_path), overwrite)
        return self._core.put_file(os.fspath(url), os.fspath(data_or_path), overwrite)


def default_client() -> Client:
    """Return the client of functions that are given none; made when it is first asked for."""
    if not _default:
        _default.append(Client())
    return _default[0]


@atexit.register
def _shut_down() -> None:
    for core in list(_cores):
        core.settle()
    _core.end()
