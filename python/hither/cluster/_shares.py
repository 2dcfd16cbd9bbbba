"""The share of each node in what all nodes of a job may have together: connections and bandwidth.

The whole is divided evenly between the nodes that have leases, anew as leases begin and end and
nodes vanish. What nodes have together never exceeds the whole: a share that is to fall counts in
full until its node has confirmed the lower one, and only what is free then goes to others.

A node keeps its share until all leases that it was seen with have ended, or their fences are gone,
and LINGER_SECONDS more. By then its mover has ended the share by itself, wherever it is: it does so
when it has had no lease for a second, and when a lease was taken back, for which it looks each
second (``crates/hither/src/mover/share.rs``). Only one node moves bytes of a lease, the one that
has claimed its fence: from then on the lease counts for no other.

Nothing here knows of Dask: whoever sends shares passes on what :meth:`Shares.deal` returns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LINGER_SECONDS = 3.0
"""The time after the last lease of a node in which its mover may still use its share."""
REPEAT_SECONDS = 1.0
"""A share of which nobody knows whether it came is sent again after this time."""


@dataclass(frozen=True)
class Share:
    """The limits of a node, or of all of them together."""

    connections: int
    bandwidth: int | None = None
    """Bytes a second."""


NOTHING = Share(0, 0)


@dataclass
class _Holder:
    share: Share = NOTHING
    """The one that it has confirmed, or had been found to have."""
    sent: Share | None = None
    """The one that it was sent, and has not confirmed yet."""
    doubted_at: float | None = None
    """When the last one was sent, if nobody knows whether it came."""
    leases: set[str] = field(default_factory=set)
    """Leases that it may be at work on."""
    idle_since: float = 0.0

    def most(self) -> Share:
        """Return the most that it may have at the moment."""
        sent = self.sent or NOTHING
        return Share(max(self.share.connections, sent.connections), max(self.share.bandwidth or 0, sent.bandwidth or 0))


class Shares:
    """The ledger of all shares."""

    def __init__(self, whole: Share) -> None:
        """Divide this between the nodes to come."""
        self._whole = whole
        self._holders: dict[str, _Holder] = {}

    def found(self, node: str, share: Share, now: float) -> None:
        """Note a share that a node has of an earlier run."""
        self._holders[node] = _Holder(share, idle_since=now)

    def began(self, lease: str, node: str, now: float) -> None:
        """Note that a node has a lease; another node may have it, too."""
        holder = self._holders.setdefault(node, _Holder())
        holder.leases.add(lease)
        holder.idle_since = now

    def claimed(self, lease: str, node: str, now: float) -> None:
        """Note that a node is at work on a lease, and thus no other."""
        self.ended(lease, now, but=node)

    def ended(self, lease: str, now: float, *, but: str | None = None) -> None:
        """Note that no node can be at work on a lease any more, but one."""
        for node, holder in self._holders.items():
            if lease in holder.leases and node != but:
                holder.leases.discard(lease)
                holder.idle_since = now

    def lost(self, node: str) -> None:
        """Note that a node says that it has no share."""
        holder = self._holders.get(node)
        if holder is not None and holder.sent is None:
            holder.share = NOTHING

    def answered(self, node: str, share: Share, now: float, *, confirmed: bool) -> None:
        """Note that a node has taken a share, or that nobody knows whether it has."""
        holder = self._holders.get(node)
        if holder is None or holder.sent != share:
            return
        holder.share = share if confirmed else holder.most()
        holder.doubted_at = None if confirmed else now
        holder.sent = None

    def deal(self, now: float) -> dict[str, Share]:
        """Return the shares to send now."""
        for node, holder in list(self._holders.items()):
            is_over = not holder.leases and holder.sent is None
            if is_over and now - holder.idle_since >= LINGER_SECONDS:
                del self._holders[node]
        working = {node: holder for node, holder in self._holders.items() if holder.leases}
        if not working:
            return {}
        idle = [holder.most() for holder in self._holders.values() if not holder.leases]
        connections = self._whole.connections - sum(share.connections for share in idle)
        bandwidth = (self._whole.bandwidth or 0) - sum(share.bandwidth or 0 for share in idle)
        taken = [holder.most() for holder in self._holders.values()]
        free_connections = self._whole.connections - sum(share.connections for share in taken)
        free_bandwidth = (self._whole.bandwidth or 0) - sum(share.bandwidth or 0 for share in taken)
        dealt = {}
        for place, (node, holder) in enumerate(sorted(working.items())):
            doubted_at = holder.doubted_at
            if holder.sent is not None or (doubted_at is not None and now - doubted_at < REPEAT_SECONDS):
                continue
            # Of connections that do not divide evenly the first ones have one more.
            target = (
                max(0, (connections + len(working) - 1 - place) // len(working)),
                max(0, bandwidth // len(working)),
            )
            has = (holder.share.connections, holder.share.bandwidth or 0)
            more = (max(0, free_connections), max(0, free_bandwidth))
            new = tuple(min(want, had + free) for want, had, free in zip(target, has, more, strict=True))
            if (new == has and doubted_at is None) or new[0] == 0 or (self._whole.bandwidth and not new[1]):
                continue
            free_connections -= max(0, new[0] - has[0])
            free_bandwidth -= max(0, new[1] - has[1])
            holder.sent = Share(new[0], new[1] if self._whole.bandwidth else None)
            dealt[node] = holder.sent
        return dealt
