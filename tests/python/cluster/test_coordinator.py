"""What the coordinator does with answers of Dask, without a cluster."""

from concurrent.futures import CancelledError
from types import SimpleNamespace

import pytest

from hither.cluster import ClusterLostError
from hither.cluster._coordinator import Coordinator


@pytest.fixture
def coordinator():
    coordinator = Coordinator.__new__(Coordinator)
    coordinator._granted, coordinator._notices = {}, {}
    return coordinator


def granted(coordinator, status, error):
    """A lease whose task has this status, and whose result or exception raises an error."""

    def fail(timeout):  # noqa: ARG001
        raise error

    future = SimpleNamespace(status=status, result=fail, exception=fail)
    coordinator._granted["1.1"] = SimpleNamespace(future=future)
    return future


@pytest.mark.parametrize("error", [CancelledError(), OSError()])
def test_a_scheduler_that_is_lost_while_a_result_is_requested_is_named(coordinator, error):
    future = granted(coordinator, "finished", error)
    with pytest.raises(ClusterLostError):
        coordinator._done("1.1", future)


def test_a_lease_is_taken_back_though_the_reason_comes_late(coordinator, monkeypatch):
    taken = []
    monkeypatch.setattr(coordinator, "_take_back", taken.append)
    coordinator._done("1.1", granted(coordinator, "error", TimeoutError()))
    assert taken == ["1.1"]
