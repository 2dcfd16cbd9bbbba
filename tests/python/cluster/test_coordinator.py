"""Reactions of the coordinator to what Dask answers, without a cluster."""

import asyncio
import math
import queue
from concurrent.futures import CancelledError, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from bench.harness.waiting import wait_until
from hither.cluster import ClusterLostError, _coordinator, _node, _workers
from hither.cluster._coordinator import Coordinator
from hither.cluster._workers import Workers


@pytest.fixture
def coordinator():
    coordinator = Coordinator.__new__(Coordinator)
    coordinator._granted, coordinator._notices = {}, {}
    coordinator._events, coordinator._drain_announced = queue.SimpleQueue(), {}
    with ThreadPoolExecutor(1) as coordinator._dealer:
        yield coordinator


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


@pytest.mark.parametrize("error", [TimeoutError(), asyncio.TimeoutError()])
@pytest.mark.parametrize("status", ["error", "finished"])
def test_a_lease_is_taken_back_though_the_answer_comes_late(coordinator, monkeypatch, status, error):
    taken = []
    monkeypatch.setattr(coordinator, "_take_back", taken.append)
    coordinator._done("1.1", granted(coordinator, status, error))
    assert taken == ["1.1"]


def test_no_node_is_suspected_whose_report_waits(coordinator, monkeypatch):
    suspected, taken = [], []
    lease = SimpleNamespace(name="1.1")
    late = SimpleNamespace(last_seen=-math.inf, beat=1, worker="tcp://a", lease=lease)
    coordinator._granted["1.1"] = late
    coordinator._workers = SimpleNamespace(suspect=suspected.append)
    monkeypatch.setattr(coordinator, "_take_back", taken.append)
    coordinator._events.put(lambda: setattr(late, "last_seen", math.inf))
    coordinator._wait()
    assert (suspected, taken) == ([], [])
    late.last_seen = -math.inf
    coordinator._wait()
    assert (suspected, taken) == (["tcp://a"], ["1.1"])


def test_a_suspected_node_gets_work_again_when_its_mover_lives(coordinator, monkeypatch):
    workers = coordinator._workers = Workers(None, "job")
    monkeypatch.setattr(workers, "threads", lambda: {"tcp://a": 1, "tcp://b": 1})
    coordinator._manifest = SimpleNamespace(add_workers=lambda _: None)
    coordinator._shares = SimpleNamespace(began=lambda *_: None)
    taken = []
    monkeypatch.setattr(coordinator, "_take_back", lambda name: taken.append(coordinator._granted.pop(name)))
    lease = SimpleNamespace(lease=SimpleNamespace(name="1.1"), last_seen=None, beat=0.0, worker=None)
    coordinator._granted["1.1"] = lease
    report = {"lease": "1.1", "node": "a", "worker": "tcp://a", "sources": {}, "has_share": True, "arrived": 0}
    coordinator._reported({**report, "alive": 5.0})
    assert workers.trusted() is None
    lease.last_seen = -math.inf
    coordinator._look_for_silence()
    assert (workers.trusted(), taken) == (["tcp://b"], [lease])
    # The task reports again, but nothing new of the mover.
    coordinator._reported({**report, "alive": 5.0})
    assert workers.trusted() == ["tcp://b"]
    coordinator._reported({**report, "alive": 6.0})
    assert (workers.trusted(), workers.nodes["a"].is_suspected) == (None, False)
    # The lease stays taken back.
    assert coordinator._granted == {}


def test_a_suspected_node_without_tasks_is_asked_and_one_that_never_answers_is_named(coordinator, monkeypatch):
    asked = []

    def submit(*call, workers, **_):
        future = SimpleNamespace(status="pending", call=call, workers=workers)
        future.release = lambda: setattr(future, "status", "cancelled")
        future.add_done_callback = lambda done: setattr(future, "done", lambda: done(future))
        asked.append(future)
        return future

    def answer(status):
        asked[-1].status = status
        asked[-1].done()
        coordinator._events.get_nowait()()

    workers = Workers(SimpleNamespace(submit=submit), "job")
    workers._threads = {"tcp://a": 1, "tcp://b": 1}
    monkeypatch.setattr(workers, "threads", lambda: workers._threads)
    workers.node("a").workers.add("tcp://a")
    workers.suspect("tcp://a")
    for _ in range(2):
        workers.ask_suspected(["eth0"], coordinator._events)
    assert [(it.call, it.workers) for it in asked] == [((_node.await_status, "job", ["eth0"]), ["tcp://a"])]
    # Its mover is silent: it is asked again, but not at once.
    monkeypatch.setattr(_workers, "ASK_SECONDS", math.inf)
    answer("error")
    workers.ask_suspected(["eth0"], coordinator._events)
    assert (len(asked), workers.trusted()) == (1, ["tcp://b"])
    workers._ask_at.clear()
    monkeypatch.setattr(_workers, "ASK_SECONDS", -math.inf)
    workers.ask_suspected(["eth0"], coordinator._events)
    answer("finished")
    assert (len(asked), workers.trusted(), workers.nodes["a"].is_suspected) == (2, None, False)
    # It falls silent once more, for the rest of the job.
    workers.suspect("tcp://a")
    workers.ask_suspected(["eth0"], coordinator._events)
    workers.end()
    assert asked[-1].status == "cancelled"
    assert list(workers.notices) == ["tcp://a (a) fell silent and was not heard of again: other nodes did its work"]


def test_a_node_that_could_not_be_told_that_no_lease_waits_is_told_again_after_a_pause(coordinator, monkeypatch):
    monkeypatch.setattr(_coordinator, "RENOTIFY_SECONDS", math.inf)
    told, answers = [], [False, True]

    def run_on(node, what):
        told.append((node, what))
        return lambda: answers.pop(0)

    coordinator._manifest = SimpleNamespace(is_listed=True)
    coordinator._workers = SimpleNamespace(nodes={"a": None}, run_on=run_on)
    coordinator._announce_drain()
    coordinator._events.get(timeout=60)()
    coordinator._announce_drain()
    assert len(told) == 1
    monkeypatch.setattr(_coordinator, "RENOTIFY_SECONDS", 0.0)
    coordinator._announce_drain()
    wait_until(lambda: not answers, "the second answer")
    coordinator._announce_drain()
    assert told == [("a", _node.announce_drain)] * 2
