"""Options of a client.

Generated: HITHER_WRITE_REFERENCE=1 cargo test -p hither-cli reference
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence


class ClientOptions(TypedDict, total=False):
    """Options of :class:`hither.Client`; None stands for the default.

    Examples
    --------
    >>> options: hither.ClientOptions = {"max_connections": 16, "anonymous": True}
    >>> hither.Client(**options)
    <hither.Client max_connections=16, anonymous=True>

    """

    max_connections: int | None
    """Maximum number of connections per server; 64 by default."""
    cache: int | str | None
    """Memory for bytes that were read or prefetched, as in 500M. 64 MiB by default, but at most a
    sixteenth of the memory of the machine or control group."""
    store: str | os.PathLike[str] | bool | None
    """Folder that remembers servers and files between runs; empty for none. The user's cache
    folder by default; ``False`` remembers nothing."""
    disk_cache: int | str | None
    """Maximum size of the disk cache in bytes, as in 500M or 20G."""
    decode_threads: int | None
    """Threads that decompress and decode. One for each processor by default."""
    staleness: float | str | None
    """Age up to which stored metadata is used without validation, as in 90s, 30m, 12h or 7d; 0 by
    default."""
    connect_timeout: float | None
    """Time limit for opening a connection, in seconds; 15 by default."""
    stall_timeout: float | None
    """Time limit for a transfer without progress, in seconds; twice that until the first byte; 30
    by default."""
    verify: Literal["never", "long", "always"] | None
    """Unencrypted root:// reads to verify with page checksums: never, long or always; never by
    default. Long reads are those of 64 KiB and more, where the server can; with ``"always"``,
    servers that cannot are refused."""
    headers: Mapping[str, str] | None
    """Header fields that are added to all HTTP requests. They go to the servers of the given URLs
    and those to which credentials may follow a redirect."""
    proxy: str | None
    """Proxy for all servers. The environment's by default; the empty string for none."""
    source_addresses: Sequence[str]
    """Addresses or interfaces of this machine over which connections are spread evenly. By default
    the routing table decides."""
    insecure: bool
    """Accept any server certificate without verification."""
    trace: str | os.PathLike[str] | None
    """File to write a trace of all reads to; %p stands for the process number."""
    config: str | os.PathLike[str] | None
    """Configuration file to use instead of the user's."""
    mirrors: Mapping[str, Sequence[str]] | None
    """Beginnings of URLs, and those of the URLs of their replicas, the best first."""
    token: str | None
    """Bearer token."""
    token_file: str | os.PathLike[str] | None
    """File with a bearer token."""
    token_command: str | None
    """Command that prints a bearer token."""
    user: str | None
    """User name."""
    password: str | None
    """Password of the user."""
    cert: str | os.PathLike[str] | None
    """Client certificate, PEM."""
    key: str | os.PathLike[str] | None
    """Key of the certificate, PEM, not encrypted."""
    proxy_cert: str | os.PathLike[str] | None
    """X.509 proxy, PEM."""
    ca: str | os.PathLike[str] | None
    """Further certificate authorities, PEM."""
    ca_dir: str | os.PathLike[str] | None
    """Folder of certificate authorities."""
    share_credentials: Sequence[str]
    """Hosts to which credentials may follow a redirect."""
    credentials_over_http: bool
    """Send credentials unencrypted over http:// to other machines."""
    anonymous: bool
    """Ignore all credentials found in the environment."""
