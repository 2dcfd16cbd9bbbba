"""The size of leases: what a node does in a few seconds, as the leases before have shown."""

from __future__ import annotations

from hither.cluster._manifest import LeaseSize

LEASE_SECONDS = 4.0
"""The time that a lease should take: what a node that vanishes costs."""
FIRST = LeaseSize(16 << 20, 500)
"""The size of leases until some have shown what a node does in a second."""
SMALLEST, LARGEST = LeaseSize(4 << 20, 64), LeaseSize(1 << 30, 5000)


class LeaseSizing:
    """The size of the next lease."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.size = FIRST
        self._rates = [0.0, 0.0]

    def next(self, left: LeaseSize | None, slots: int) -> LeaseSize:
        """Return the size of the next lease.

        ``left`` is what no node has yet, if that is known; ``slots`` tasks run at the same time.
        """
        if left is None:
            return self.size
        # All have something left to do until the end.
        return LeaseSize(
            min(self.size.bytes, max(left.bytes // slots, SMALLEST.bytes)),
            min(self.size.files, max(left.files // slots, SMALLEST.files)),
        )

    def learn(self, seconds: float, arrived: int, files: int) -> None:
        """Adapt the size to what a lease has brought."""
        seconds = max(seconds, 0.05)
        brought = (arrived / seconds, files / seconds)
        # Of few files the rate of files says nothing, and of many the rate of bytes.
        is_full = (arrived >= self.size.bytes / 2, files >= self.size.files / 2)
        self._rates = [
            old if not counts else new if old == 0 else 0.7 * old + 0.3 * new
            for old, new, counts in zip(self._rates, brought, is_full, strict=True)
        ]
        self.size = LeaseSize(
            int(min(max(self._rates[0] * LEASE_SECONDS, SMALLEST.bytes), LARGEST.bytes)),
            int(min(max(self._rates[1] * LEASE_SECONDS, SMALLEST.files), LARGEST.files)),
        )
