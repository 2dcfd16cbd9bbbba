"""The share of each node in the job's limits for all nodes together: connections and bandwidth.

The whole is divided evenly between the nodes that have leases, anew as leases begin and end and
nodes vanish. The sum of all shares never exceeds the whole: a share that is to be reduced counts in
full until its node has confirmed the lower one, and only the rest that is free then goes to others.

A node keeps its share until all leases that it has reported have ended, or their fences are gone,
and LINGER_SECONDS more. Before that its mover has ended the share by itself, even if it is cut off:
it does so when it has had no lease for a second, and when a lease was revoked, for which it checks
each second (``crates/hither/src/mover/share.rs``). Only one node moves bytes of a lease, the one
that has claimed its fence: from then on the lease counts for no other.

This module is independent of Dask: the coordinator sends the results of :meth:`Shares.deal`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LINGER_SECONDS = 3.0
"""The time after the last lease of a node in which its mover may still use its share."""
RESEND_SECONDS = 1.0
"""The time after which a share is sent again if its arrival is unknown."""


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
    """The share that the node has confirmed, or had when the run began."""
    sent: Share | None = None
    """The share that was sent to it, and that it has not confirmed yet."""
    unconfirmed_at: float | None = None
    """The time of the last attempt to send one, if its arrival is unknown."""
    leases: set[str] = field(default_factory=set)
    """Leases on which it may be working."""
    idle_since: float = 0.0

    def most(self) -> Share:
        """Return the largest share that it may have at the moment."""
        sent = self.sent or NOTHING
        return Share(max(self.share.connections, sent.connections), max(self.share.bandwidth or 0, sent.bandwidth or 0))


class Shares:
    """The ledger of all shares."""

    def __init__(self, whole: Share) -> None:
        """Prepare to divide this between nodes."""
        self._whole = whole
        self._holders: dict[str, _Holder] = {}

    def found(self, node: str, share: Share, now: float) -> None:
        """Record a share that a node has from an earlier run."""
        self._holders[node] = _Holder(share, idle_since=now)

    def began(self, lease: str, node: str, now: float) -> None:
        """Record that a node has a lease; another node may have it, too."""
        holder = self._holders.setdefault(node, _Holder())
        holder.leases.add(lease)
        holder.idle_since = now

    def claimed(self, lease: str, node: str, now: float) -> None:
        """Record that a node, and therefore no other, works on a lease."""
        self.ended(lease, now, but=node)

    def ended(self, lease: str, now: float, *, but: str | None = None) -> None:
        """Record that no node can work on a lease any more, except ``but``."""
        for node, holder in self._holders.items():
            if lease in holder.leases and node != but:
                holder.leases.discard(lease)
                holder.idle_since = now

    def lost(self, node: str) -> None:
        """Record that a node reports that it has no share."""
        holder = self._holders.get(node)
        if holder is not None and holder.sent is None:
            holder.share = NOTHING

    def answered(self, node: str, share: Share, now: float, *, confirmed: bool) -> None:
        """Record that a node has confirmed a share, or that it is unknown whether it has it."""
        holder = self._holders.get(node)
        if holder is None or holder.sent != share:
            return
        holder.share = share if confirmed else holder.most()
        holder.unconfirmed_at = None if confirmed else now
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
            unconfirmed_at = holder.unconfirmed_at
            if holder.sent is not None or (unconfirmed_at is not None and now - unconfirmed_at < RESEND_SECONDS):
                continue
            # If connections do not divide evenly, the first nodes get one more.
            target = (
                max(0, (connections + len(working) - 1 - place) // len(working)),
                max(0, bandwidth // len(working)),
            )
            has = (holder.share.connections, holder.share.bandwidth or 0)
            more = (max(0, free_connections), max(0, free_bandwidth))
            new = tuple(min(want, had + free) for want, had, free in zip(target, has, more, strict=True))
            if (new == has and unconfirmed_at is None) or new[0] == 0 or (self._whole.bandwidth and not new[1]):
                continue
            free_connections -= max(0, new[0] - has[0])
            free_bandwidth -= max(0, new[1] - has[1])
            holder.sent = Share(new[0], new[1] if self._whole.bandwidth else None)
            dealt[node] = holder.sent
        return dealt
