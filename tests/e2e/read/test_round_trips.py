"""Round trips at 240 ms, counted by the link itself: real packets, real TCP (needs root)."""

import functools

import numpy
import pytest
import uproot
from needs import require

from bench.harness import servers

pytestmark = pytest.mark.netns

QUERY = ("rawtr", "--where", "E33>5", "--json")


def counted(hither, far, *options):
    """One run: hither's own report, and the counters of the link."""
    far.where.reset()
    told = hither("draw", far.url("talk.root") + ":T", *QUERY, *options, where=far.where)
    assert told.code == 0, told.err
    return told.json, far.where.stats()


@pytest.fixture(scope="module")
def cold(hither, far):
    """The query by a command that knows nothing, run once for each number of connections."""
    return functools.cache(lambda most: counted(hither, far, "--no-store", "--max-connections", most))


@pytest.mark.parametrize("connections", [16, 64])
def test_a_cold_query_takes_three_round_trips(cold, talk, connections):
    answer, seen = cold(connections)
    assert answer["selected"] == talk.facts["selected"]
    assert seen["round_trips"] == 3
    assert answer["report"]["round_trips"] == seen["round_trips"]


def test_a_warm_query_takes_one_round_trip(hither, far, talk, tmp_path):
    counted(hither, far, "--store", tmp_path)
    answer, seen = counted(hither, far, "--store", tmp_path)
    assert answer["selected"] == talk.facts["selected"]
    assert seen["round_trips"] == 1
    assert answer["report"]["round_trips"] == seen["round_trips"]


def test_a_warm_query_over_xrootd_opens_its_connections_at_once(hither, far, talk, tmp_path):
    require("xrootd")
    with servers.xrootd(far.where, far.folder) as port:
        command = ("draw", f"root://{far.where.server_host}:{port}//talk.root:T", *QUERY, "--store", tmp_path)
        assert hither(*command, where=far.where).code == 0
        far.where.reset()
        told = hither(*command, where=far.where)
    assert told.code == 0, told.err
    assert told.json["selected"] == talk.facts["selected"]
    assert told.json["report"]["round_trips"] <= 2
    assert far.where.stats()["connections"] == told.json["report"]["connections"] >= 32


def test_the_report_matches_the_connections_and_bytes_on_the_link(hither, far):
    answer, seen = counted(hither, far, "--no-store", "--max-connections", 8)
    assert answer["report"]["connections"] == seen["connections"] <= 8
    # Repeated segments would be counted twice.
    assert seen["to_client"]["repeated_segments"] == 0
    assert seen["to_client"]["payload_bytes"] == answer["report"]["bytes_received"]


def test_payload_stays_close_to_needed_bytes(hither, far, talk):
    answer, seen = counted(hither, far, "--no-store")
    needed = talk.facts["query_bytes"] + talk.facts["tree_bytes"]
    assert answer["report"]["bytes_requested"] <= 1.1 * needed
    # This includes part headers.
    assert seen["to_client"]["payload_bytes"] <= 1.2 * needed


def test_requests_stay_within_the_limit(cold, talk):
    for connections in (1, 16, 64):
        answer, _ = cold(connections)
        needed = 2 + talk.facts["query_baskets"] / 400
        assert answer["report"]["requests"] <= max(1.2 * needed, 2 * connections + 4)


def test_a_small_file_takes_one_request_per_round_trip(hither, far):
    """Many files are opened concurrently: a second request for one of them would delay another."""
    columns = {f"column{at}": numpy.arange(1000, dtype="f4") * at for at in range(12)}
    with uproot.recreate(far.folder / "few.root") as file:
        file.mktree("events", {name: values.dtype for name, values in columns.items()}).extend(columns)
    told = hither("draw", far.url("few.root") + ":events", "column3", "--json", "--no-store", where=far.where)
    assert told.code == 0, told.err
    assert told.json["selected"] == 1000
    assert told.json["report"]["requests"] == told.json["report"]["round_trips"] == 4
