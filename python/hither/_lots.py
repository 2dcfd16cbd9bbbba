"""Lots: space that is reserved on a server for a folder and a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from hither._options.sizes import parse_bytes

if TYPE_CHECKING:
    from hither import _core

Lease: TypeAlias = timedelta | float
Size: TypeAlias = int | str


@dataclass(frozen=True)
class Lot:
    """Reserved space; see :class:`hither.Lots`.

    Examples
    --------
    >>> lot = hither.Lot("1f0e", "data/run7", 10**12, 4096, 61_035_156, 1, 1.8e9, 604_800)
    >>> lot.bytes - lot.used_bytes
    999999995904

    """

    id: str
    """Id, by which the lot is renewed and released."""
    path: str
    """Folder, from the root of the server."""
    bytes: int
    """Size in bytes."""
    used_bytes: int
    """Bytes of files, and of uploads in progress."""
    files: int
    """Maximum number of files and directories."""
    used_files: int
    """Number of files and directories."""
    expires: float
    """Time at which the lot ends, in seconds since 1970 UTC."""
    lease_seconds: float
    """Seconds until then."""


class Lots:
    """Lots of the server of a URL: :meth:`hither.Client.lots`. Every method sends one request.

    All methods raise ``NotImplementedError`` if the server has no lots (``hither serve`` may have
    them), and ``OSError`` if access is denied or the server fails.

    Examples
    --------
    >>> def reserve(url):
    ...     try:
    ...         return hither.default_client().lots(url).reserve("2 TB", lease=7 * 86400).bytes
    ...     except NotImplementedError:
    ...         return "the server has no lots"
    >>> reserve("http://127.0.0.1:8080/run7")
    'the server has no lots'

    """

    def __init__(self, core: _core.Client, url: str) -> None:
        """Keep the URL; nothing is requested."""
        self._core = core
        self._url = url

    def __repr__(self) -> str:
        """Return the class; a URL may hold a token."""
        return "<hither.Lots>"

    def show(self) -> list[Lot]:
        """Return the user's lots on the server, in the order of their folders."""
        return [Lot(**lot) for lot in self._core.lots(self._url).wait()]

    async def show_async(self) -> list[Lot]:
        """Async version of :meth:`show`."""
        return [Lot(**lot) for lot in await self._core.lots(self._url)]

    def reserve(self, size: Size, *, lease: Lease) -> Lot:
        """Reserve space for the folder of the URL, which need not exist.

        Parameters
        ----------
        size
            Size in bytes, or text such as ``"2 TB"``.
        lease
            Seconds, or a ``datetime.timedelta``, after which the lot ends.

        Raises
        ------
        ValueError
            The size or the lease is not one that the server grants.
        OSError
            The server has no more space to reserve.

        """
        return Lot(**self._reserve(size, lease).wait())

    async def reserve_async(self, size: Size, *, lease: Lease) -> Lot:
        """Async version of :meth:`reserve`."""
        return Lot(**await self._reserve(size, lease))

    def _reserve(self, size: Size, lease: Lease) -> _core.Job[dict[str, Any]]:
        return self._core.reserve_lot(self._url, parse_bytes(size), _seconds(lease))

    def renew(self, lot: Lot | str, *, size: Size | None = None, lease: Lease | None = None) -> Lot:
        """Restart the lease of a lot, change its size, or both; return the new state of the lot.

        ``lot`` is a lot or its id; ``size`` and ``lease`` are those of :meth:`reserve`.

        Raises
        ------
        ValueError
            Neither size nor lease is given, or one is not one that the server grants.
        OSError
            There is no such lot (``FileNotFoundError``), or no more space.

        """
        return Lot(**self._renew(lot, size, lease).wait())

    async def renew_async(self, lot: Lot | str, *, size: Size | None = None, lease: Lease | None = None) -> Lot:
        """Async version of :meth:`renew`."""
        return Lot(**await self._renew(lot, size, lease))

    def _renew(self, lot: Lot | str, size: Size | None, lease: Lease | None) -> _core.Job[dict[str, Any]]:
        if size is None and lease is None:
            message = "nothing to change, expected size=, lease= or both"
            raise ValueError(message)
        in_bytes = None if size is None else parse_bytes(size)
        return self._core.renew_lot(self._url, _id(lot), in_bytes, None if lease is None else _seconds(lease))

    def release(self, lot: Lot | str) -> None:
        """End a lot; its files stay.

        Raises
        ------
        OSError
            There is no such lot (``FileNotFoundError``).

        """
        self._core.release_lot(self._url, _id(lot)).wait()

    async def release_async(self, lot: Lot | str) -> None:
        """Async version of :meth:`release`."""
        await self._core.release_lot(self._url, _id(lot))


def _id(lot: Lot | str) -> str:
    return lot.id if isinstance(lot, Lot) else lot


def _seconds(lease: Lease) -> float:
    return lease.total_seconds() if isinstance(lease, timedelta) else lease
