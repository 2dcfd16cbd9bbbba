"""`hither serve` killed during its work: confirmed files are kept, and no partial ones are left
(bench/server/crashes.py, shortened)."""

import pytest

from bench.server import crashes


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_server_keeps_what_it_confirmed_and_leaves_nothing_else(hither, tmp_path, seed):
    counts = crashes.torture(tmp_path, kills=6, seed=seed)
    assert counts["kills"] == 6
    assert counts["requests"] > 50 and counts["sums"] > 10
