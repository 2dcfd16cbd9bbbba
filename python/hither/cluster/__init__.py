"""Copies by a Dask cluster: many nodes move one tree, and any of them may vanish meanwhile.

The guide "A cluster of nodes" shows how to use it. The nodes need this package, and reach source
and destination by the same names: servers, or a file system that they share.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hither._options.sizes import parse_bytes
from hither.cluster._coordinator import ClusterProgress, Coordinator
from hither.cluster._manifest import Totals
from hither.cluster._options import ClusterOptions
from hither.cluster._workers import ClusterLostError, NodeFigures

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from distributed import Client as DaskClient

__all__ = ["ClusterLostError", "ClusterProgress", "ClusterSummary", "NodeFigures", "Totals", "copy"]


@dataclass(frozen=True)
class ClusterSummary:
    """Result of a copy."""

    files: int
    """Files that have been copied, those of earlier runs of the same copy included."""
    bytes: int
    """Their size."""
    failures: dict[str, str]
    """Errors of files that could not be copied, by their paths; the first thousand."""
    files_failed: int
    """Number of these files."""
    error_kind: str | None
    """Kind of the error by which the first of them failed; None if it is not known."""
    bytes_arrived: int
    """Bytes that came in at the nodes in this run."""
    nodes: dict[str, int]
    """The same by node."""
    sources: dict[str, dict[str, int]]
    """Bytes over each source address of each node that has any, headers and framing included."""
    seconds: float
    """Length of this run."""
    notices: list[str]
    """Names that were left out, and problems from which the copy recovered."""


def copy(
    client: DaskClient,
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    max_connections: int = 64,
    bandwidth: int | str | None = None,
    third_party: str | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    large: int | str = "64 MiB",
    source_addresses: Sequence[str] = (),
    detach: bool = False,
    progress: Callable[[ClusterProgress], object] = lambda _: None,
) -> ClusterSummary | None:
    """Copy the directory ``source`` to ``destination`` by all workers of a Dask cluster.

    A copy that was interrupted resumes when it is called again on the same machine, with the same
    names; only data in progress at the nodes, and files that have changed since, are sent again.

    Parameters
    ----------
    client
        The client of the cluster.
    source, destination
        URLs, or paths of a file system that all nodes share. As in ``cp -r``: the directory goes
        into a destination that exists, and becomes one that does not; ``SOURCE/.`` is what is in
        it.
    max_connections
        Most connections to a server, of all nodes together.
    bandwidth
        Most bytes a second, of all nodes together: a number, or text such as ``"100 MB"``.
    third_party
        ``"auto"``, ``"pull"`` or ``"push"``: the servers move the files, as the nodes request.
    include, exclude
        Patterns of files to include or exclude, as for :func:`hither.copy`.
    large
        Files from this size on are copied in ranges, by several nodes at the same time, where the
        destination permits it.
    source_addresses
        Addresses or interfaces over which each node spreads its connections, such as
        ``["eth0", "eth1"]``; by default those of its own configuration.
    detach
        Coordinate the copy on a worker of the cluster, and return immediately: the copy continues
        without this process. Otherwise it pauses when this process ends.
    progress
        Function to call about ten times a second.

    Raises
    ------
    ClusterLostError
        The scheduler is gone.

    """
    options = ClusterOptions(
        source=str(source),
        destination=str(destination),
        max_connections=max(1, max_connections),
        bandwidth=None if bandwidth is None else parse_bytes(bandwidth),
        third_party=third_party,
        include=tuple(include),
        exclude=tuple(exclude),
        large_bytes=parse_bytes(large),
        source_addresses=tuple(source_addresses),
    )
    if detach:
        from distributed import fire_and_forget

        name = f"hither-copy-{options.job_folder().name}"
        fire_and_forget(client.submit(_copy_on_worker, options, key=name, pure=False))
        return None
    return _copy(client, options, progress)


def _copy(client: Any, options: ClusterOptions, progress: Callable[[ClusterProgress], object]) -> ClusterSummary:  # noqa: ANN401
    coordinator = Coordinator(client, options)
    try:
        ended = coordinator.run(progress)
        return ClusterSummary(
            files=ended.totals.files_done,
            bytes=ended.totals.bytes_done,
            failures=dict(coordinator.failures()),
            files_failed=ended.totals.files_failed,
            error_kind=coordinator.error_kind(),
            bytes_arrived=ended.bytes_arrived,
            nodes={node.name: node.bytes for node in ended.nodes},
            sources={node.name: node.by_source() for node in ended.nodes if node.sources},
            seconds=ended.seconds,
            notices=coordinator.notices(),
        )
    finally:
        coordinator.close()


def _copy_on_worker(options: ClusterOptions) -> dict[str, Any]:
    """Run a whole copy as a task that occupies no thread of its worker."""
    from distributed import worker_client

    with worker_client() as client:
        return asdict(_copy(client, options, lambda _: None))
