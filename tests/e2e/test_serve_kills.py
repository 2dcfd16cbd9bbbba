"""`hither serve` killed amid its work: what it has promised is kept, and nothing is left over (bench/server/crashes.py, shortened)."""

import pytest

from bench.server import crashes


@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_answered_is_kept_and_nothing_is_left_over(hither, tmp_path, seed):
    counts = crashes.torture(tmp_path, kills=6, seed=seed)
    assert counts["kills"] == 6
    assert counts["requests"] > 50 and counts["sums"] > 10
