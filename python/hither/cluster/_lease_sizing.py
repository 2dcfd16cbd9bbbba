"""The size of leases: the work of a node in a few seconds, measured on earlier leases."""

from __future__ import annotations

from hither.cluster._manifest import LeaseSize

LEASE_SECONDS = 4.0
"""The time that a lease should take: the loss when a node vanishes."""
FIRST = LeaseSize(16 << 20, 500)
"""The size of leases until the rate of a node has been measured."""
SMALLEST, LARGEST = LeaseSize(4 << 20, 64), LeaseSize(1 << 30, 5000)


class LeaseSizing:
    """The size of the next lease."""

    def __init__(self) -> None:
        """Begin without measurements."""
        self.size = FIRST
        self._rates = [0.0, 0.0]

    def next(self, left: LeaseSize | None, slots: int) -> LeaseSize:
        """Return the size of the next lease.

        ``left`` is the work that no node has yet, if known; ``slots`` tasks run at the same time.
        """
        if left is None:
            return self.size
        # Near the end, the rest is divided so that all tasks have work.
        return LeaseSize(
            min(self.size.bytes, max(left.bytes // slots, SMALLEST.bytes)),
            min(self.size.files, max(left.files // slots, SMALLEST.files)),
        )

    def learn(self, seconds: float, arrived: int, files: int) -> None:
        """Adapt the size to the measured rates of a lease."""
        seconds = max(seconds, 0.05)
        brought = (arrived / seconds, files / seconds)
        # Few files do not measure the rate of files, nor few bytes the rate of bytes.
        is_full = (arrived >= self.size.bytes / 2, files >= self.size.files / 2)
        self._rates = [
            old if not counts else new if old == 0 else 0.7 * old + 0.3 * new
            for old, new, counts in zip(self._rates, brought, is_full, strict=True)
        ]
        self.size = LeaseSize(
            int(min(max(self._rates[0] * LEASE_SECONDS, SMALLEST.bytes), LARGEST.bytes)),
            int(min(max(self._rates[1] * LEASE_SECONDS, SMALLEST.files), LARGEST.files)),
        )
