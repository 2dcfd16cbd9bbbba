"""`hither draw` with a real nginx: ROOT's results, and a report that matches the server's log."""

import math

import pytest

from bench.harness.links import Loopback

QUERY = ("rawtr", "--where", "E33>5", "--no-store")


def histogram_options(facts):
    h = facts["histogram"]
    return "--bins", h["bins"], "--range", f"{h['lo']:g}:{h['hi']:g}"


def test_the_talks_query_matches_root(hither, site, talk):
    answer = hither("draw", site.link_in(talk) + ":T", *QUERY, "--json").json
    assert answer["entries"] == talk.facts["entries"]
    assert answer["selected"] == talk.facts["selected"]
    assert math.isclose(answer["mean"], talk.facts["mean"], rel_tol=1e-12)
    assert math.isclose(answer["stddev"], talk.facts["stddev"], rel_tol=1e-12)


def test_bins_match_root(hither, site, talk):
    expected = talk.facts["histogram"]
    answer = hither("draw", site.link_in(talk) + ":T", *QUERY, *histogram_options(talk.facts), "--json").json
    drawn = answer["histogram"]
    assert drawn["counts"] == expected["contents"]
    assert (drawn["underflow"], drawn["overflow"]) == (expected["underflow"], expected["overflow"])
    assert (drawn["bins"], drawn["lo"], drawn["hi"]) == (expected["bins"], expected["lo"], expected["hi"])
    assert math.isclose(drawn["mean"], expected["mean"], rel_tol=1e-12)
    assert math.isclose(drawn["stddev"], expected["stddev"], rel_tol=1e-12)


def test_report_equals_the_servers_log(hither, site, talk):
    # On one connection: on a busy machine another connection may take over half of a request, and the server then sends
    # more than is read.
    report = hither("draw", site.link_in(talk) + ":T", *QUERY, "--max-connections", 1, "--json").json["report"]
    log = site.requests("/talk.root")
    assert report["requests"] == len(log)
    assert report["connections"] == len({request.connection for request in log})
    assert report["bytes_received"] == sum(request.bytes_sent for request in log)
    assert {request.status for request in log} == {206}


def test_fetched_bytes_stay_close_to_needed_bytes(hither, site, talk):
    # On one connection: another one requests the rest of a slow response again.
    report = hither("draw", site.link_in(talk) + ":T", *QUERY, "--max-connections", 1, "--json").json["report"]
    needed = talk.facts["query_bytes"] + talk.facts["tree_bytes"]
    assert needed <= report["bytes_requested"] <= 1.1 * needed
    assert report["bytes_used"] <= report["bytes_requested"] <= report["bytes_received"]


def test_memory_stays_below_150_mb(hither, site, talk):
    assert hither("draw", site.link_in(talk) + ":T", *QUERY, "--json", where=Loopback()).peak_mb < 150


@pytest.mark.parametrize("connections", [1, 2, 7, 64])
def test_the_number_of_connections_is_obeyed_and_does_not_change_the_result(hither, site, talk, connections):
    answer = hither("draw", site.link_in(talk) + ":T", *QUERY, "--max-connections", connections, "--json").json
    assert answer["selected"] == talk.facts["selected"]
    assert 1 <= len({request.connection for request in site.requests("/talk.root")}) <= connections


def test_requests_stay_within_the_limit(hither, site, talk):
    """1.2 times the requests that the header limit (8 KB, some 430 of these ranges) needs, or two per connection and
    four. Several connections, of which one requests the rest of a slow response again, are counted over a link."""
    connections = 1
    answer = hither("draw", site.link_in(talk) + ":T", *QUERY, "--max-connections", connections, "--json").json
    needed = 2 + math.ceil(talk.facts["query_baskets"] / 400)
    assert answer["report"]["requests"] <= max(1.2 * needed, 2 * connections + 4)


def test_a_second_process_requests_no_metadata(hither, site, talk, tmp_path):
    url, store = site.link_in(talk) + ":T", ("--store", tmp_path / "store")
    first = hither("draw", url, "rawtr", "--where", "E33>5", *store, "--json").json
    asked = site.requests("/talk.root")
    second = hither("draw", url, "rawtr", "--where", "E33>5", *store, "--json").json
    assert second["selected"] == first["selected"] == talk.facts["selected"]
    assert any(reaches_metadata(request, talk) for request in asked)
    assert not any(reaches_metadata(request, talk) for request in site.requests("/talk.root")[len(asked) :])


def reaches_metadata(request, talk) -> bool:
    """Returns true for a request for the tree's object, which lies after all data, or for bytes after it."""
    bounds = [piece.strip().partition("-") for piece in request.ranges.removeprefix("bytes=").split(",")]
    return any("" in (start, end) or int(end) >= talk.facts["tree_offset"] for start, _, end in bounds)


def test_a_changed_file_is_not_read_from_the_store(hither, site, talk, small, tmp_path):
    store = ("--store", tmp_path / "store")
    url = site.put("changing.root", small.path.read_bytes())
    before = hither("draw", url + ":T", "rawtr", *store, "--json").json
    site.put("changing.root", talk.path.read_bytes()[: 1 << 20])
    after = hither("draw", url + ":T", "rawtr", *store, "--json")
    assert before["entries"] == small.facts["entries"]
    assert after.code in (7, 9), after.err


def test_a_part_of_the_entries_reads_a_part_of_the_file(hither, site, talk):
    url = site.link_in(talk) + ":T"
    part = hither("draw", url, "rawtr", "--entries", "1000:2000", "--no-store", "--json").json
    assert part["selected"] == 1000 * 17
    assert part["report"]["bytes_used"] < talk.facts["tree_bytes"] + 200_000


def test_text_output_has_a_histogram_and_a_summary(hither, site, small):
    told = hither("draw", site.link_in(small) + ":T", *QUERY)
    assert told.code == 0
    assert str(small.facts["selected"]) in told.out.replace(",", "") + told.err.replace(",", "")
    assert "round trips" in told.out + told.err


def test_pictures_are_written(hither, site, small, tmp_path):
    png, svg = tmp_path / "h.png", tmp_path / "h.svg"
    assert hither("draw", site.link_in(small) + ":T", *QUERY, "--png", png, "--svg", svg).code == 0
    assert png.read_bytes().startswith(b"\x89PNG\r\n")
    assert "<svg" in svg.read_text()


def test_an_only_tree_needs_no_name(hither, site, small):
    answer = hither("draw", site.link_in(small), *QUERY, "--json").json
    assert (answer["tree"], answer["selected"]) == ("T", small.facts["selected"])


def test_a_local_file_gives_the_same_result(hither, small):
    answer = hither("draw", f"{small.path}:T", *QUERY, "--json").json
    assert answer["selected"] == small.facts["selected"]
