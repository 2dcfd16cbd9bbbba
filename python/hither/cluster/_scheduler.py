"""The connection to Dask's scheduler, which is tried before Dask's own client begins."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hither.exceptions import CorruptError, InvalidError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10
"""The time within which a scheduler has to respond."""


def connect(cluster: str) -> Client:
    """Return a client of the scheduler with this address, or with the address in this file.

    Dask's client cannot be closed when it has reached another kind of server: it leaves threads,
    and prints tracebacks at the end. So the first request is sent without it.
    """
    from distributed import Client
    from distributed.comm import get_address_host_port
    from distributed.security import Security

    address = _address(cluster)
    try:
        get_address_host_port(address, strict=True)
    except ValueError as error:
        message = f"{address} is not an address such as tcp://head:8786 ({error})"
        raise InvalidError(message) from None
    try:
        kind = asyncio.run(_type(address, Security().get_connection_args("client")))
    except Exception as error:
        # The server may be of any kind, and so may the exception that Dask raises.
        message = (
            f"no Dask scheduler answers at {address}: expected an address such as tcp://head:8786, or the"
            f" file that `dask scheduler --scheduler-file` writes ({str(error) or type(error).__name__})"
        )
        raise UnavailableError(message) from error
    if kind != "Scheduler":
        message = f"{address} is the address of Dask's {kind}: name that of the scheduler"
        raise UnavailableError(message)
    return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)


def _address(cluster: str) -> str:
    if "://" in cluster or re.fullmatch(r"[^/\s]+:\d+", cluster):
        return cluster
    try:
        address = json.loads(Path(cluster).read_text(encoding="utf-8"))["address"]
    except FileNotFoundError:
        message = f"{cluster} is neither a file nor an address such as tcp://head:8786"
        raise NotFoundError(message) from None
    except (ValueError, LookupError, TypeError):
        address = None
    if not isinstance(address, str):
        message = f"{cluster} is not the file of a scheduler: expected what `dask scheduler --scheduler-file` writes"
        raise CorruptError(message)
    return address


async def _type(address: str, arguments: dict[str, Any]) -> str:
    from distributed.core import rpc

    async with rpc(address, timeout=CONNECT_SECONDS, connection_args=arguments) as server:
        identity = await asyncio.wait_for(server.identity(), CONNECT_SECONDS)
        return str(identity["type"])
