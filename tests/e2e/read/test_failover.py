"""A server that dies during a query, while another one has the same file."""

import math

import pytest
from site_folder import Site
from needs import require
from cutting import Relay

from bench.harness import servers
from bench.harness.links import Loopback

QUERY = ("rawtr", "--where", "E33>5", "--no-store", "--json")


@pytest.fixture
def second(tmp_path):
    """Another nginx with the same files."""
    require("nginx")
    where, folder = Loopback(), tmp_path / "www"
    with servers.nginx(where, folder, tmp_path / "second.log") as port:
        yield Site(where, port, folder, tmp_path / "second.log")


def draw(hither, talk, first: int, second: Site, *options) -> dict:
    """Runs the query with a first server at a port and the second one as its replica, and checks the result."""
    url, replica = f"http://127.0.0.1:{first}/talk.root:T", second.url("talk.root")
    done = hither("draw", url, *QUERY, "--replica", replica, *options)
    assert done.code == 0, done.err
    assert done.json["selected"] == talk.facts["selected"]
    assert math.isclose(done.json["mean"], talk.facts["mean"], rel_tol=1e-12)
    return done.json["report"]


@pytest.mark.parametrize("connections", [1, 8])
@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.9])
def test_a_dying_server_costs_only_the_bytes_in_flight(hither, site, second, talk, share, connections):
    """Before the first byte, in the file's head, in the tree, in the data."""
    site.link_in(talk)
    needed = talk.facts["query_bytes"] + talk.facts["tree_bytes"]
    with Relay(site.port, dies_after=int(share * needed)) as relay:
        report = draw(hither, talk, relay.port, second, "--max-connections", connections)
        passed = relay.passed
    sent = sum(request.bytes_sent for request in second.requests("/talk.root"))
    assert sent > 0
    # The bytes that the first server had delivered are kept, except for those in flight in its sockets and in the
    # relay. With several connections an idle one requests the rest of a slow response again, once.
    assert passed + sent <= (1.2 if connections == 1 else 2.2) * needed + 200_000
    assert report["bytes_used"] >= needed


def test_an_unreachable_replica_is_no_failure(hither, site, second, talk):
    site.link_in(talk)
    with Relay(None) as relay:
        gone = relay.port
    report = draw(hither, talk, gone, second)
    assert report["requests"] == len(second.requests("/talk.root"))
