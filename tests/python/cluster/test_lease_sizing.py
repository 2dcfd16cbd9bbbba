"""The size of leases."""

import pytest

from hither.cluster._lease_sizing import FIRST, LARGEST, LEASE_SECONDS, SMALLEST, LeaseSizing
from hither.cluster._manifest import LeaseSize


def test_leases_are_what_the_ones_before_brought_in_some_seconds():
    sizing = LeaseSizing()
    assert sizing.next(None, 4) == FIRST
    sizing.learn(2.0, 20_000_000, 3)
    # Three files are too few to learn from their number.
    assert sizing.next(None, 4) == LeaseSize(int(10_000_000 * LEASE_SECONDS), SMALLEST.files)
    sizing.learn(0.001, 10**12, 10**9)
    assert sizing.next(None, 4) == LARGEST


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (LeaseSize(4 * FIRST.bytes, 4 * FIRST.files), FIRST),
        (LeaseSize(2 * FIRST.bytes, 10**6), LeaseSize(FIRST.bytes // 2, FIRST.files)),
        (LeaseSize(0, 4 * 100), LeaseSize(SMALLEST.bytes, 100)),
        (LeaseSize(0, 0), SMALLEST),
    ],
)
def test_what_is_left_is_divided_between_all(left, expected):
    assert LeaseSizing().next(left, 4) == expected
