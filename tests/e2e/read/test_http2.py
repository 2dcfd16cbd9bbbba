"""HTTP/2 with servers that send one range per request over TLS: detected, stored, and not used for others."""

import math
import random

import pytest
from command import run
from needs import require
from cutting import Relay

from bench.harness import access_log, servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER_BENCH
from bench.harness.waiting import wait_until

RANGES = 3000
SIZE = 3_000_000


@pytest.fixture
def secure(tmp_path):
    """A folder with a random file, and a certificate for its servers."""
    require("nginx")
    folder = tmp_path / "www"
    folder.mkdir()
    (folder / "x.bin").write_bytes(random.Random(1).randbytes(SIZE))
    return folder, servers.certificate(tmp_path)


@pytest.fixture
def read(secure, tmp_path):
    """Reads many ranges in a separate process with a store of servers, checks every byte, and returns the report."""
    folder, tls = secure
    content = (folder / "x.bin").read_bytes()

    def read(port: int, seed: int, *options, count: int = RANGES, length: int = 400) -> dict:
        chance = random.Random(seed)
        firsts = [n * 2 * length for n in chance.sample(range(SIZE // (2 * length)), count)]
        wanted, output = tmp_path / "ranges", tmp_path / "bytes"
        wanted.write_text("".join(f"{first} {length}\n" for first in firsts))
        command = ["env", f"SSL_CERT_FILE={tls.authority}", HITHER_BENCH, "read-ranges", f"https://127.0.0.1:{port}/x.bin", wanted]
        done = run([*command, "--exact", "--output", output, "--store", tmp_path / "store", *options])
        assert done.code == 0, done.err
        assert output.read_bytes() == b"".join(content[first : first + length] for first in firsts)
        return done.json

    return read


def nginx(secure, log, limits=servers.ONE_RANGE, http2=True):
    folder, tls = secure
    return servers.nginx(Loopback(), folder, log, limits=limits, tls=tls, http2=http2)


def asked(log, report, known=(), least=None):
    """The requests of the process with this report, on connections other than `known`.

    nginx logs some of them after the process has received their responses and ended. Waits for all of them, or `least`.
    """
    count = report["requests"] if least is None else least

    def found():
        requests = [request for request in access_log.read(log, "/x.bin") if request.connection not in known]
        return requests if len(requests) >= count else None

    return wait_until(found, f"{count} requests in nginx's log")


def connections(requests) -> set[str]:
    """The connections with requests; a report also counts connections that were opened and not needed."""
    return {request.connection for request in requests}


def test_thousands_of_ranges_share_few_connections_to_a_known_server(secure, read, tmp_path):
    log = tmp_path / "access.log"
    with nginx(secure, log) as port:
        first = read(port, seed=1)
        learning = asked(log, first)
        assert len(learning) == first["requests"]
        assert len(connections(learning)) <= first["connections"]

        report = read(port, seed=2)
        known = asked(log, report, connections(learning))
        assert len(known) == report["requests"] <= RANGES + 2
        assert len(connections(known)) <= report["connections"] <= 8
        assert all(request.status == 206 for request in known)
        assert report["bytes_requested"] == report["bytes_used"] == report["bytes_payload"]
        assert report["bytes_received"] > report["bytes_payload"]


def test_one_connection_suffices_if_only_one_is_allowed(secure, read, tmp_path):
    log = tmp_path / "access.log"
    with nginx(secure, log) as port:
        before = connections(asked(log, read(port, 1, "--max-connections", 1)))
        report = read(port, 2, "--max-connections", 1)
        assert len(connections(asked(log, report, before))) == report["connections"] == 1


def test_goaway_frames_lose_nothing(secure, read, tmp_path):
    folder, tls = secure
    log = tmp_path / "access.log"
    # Debian's default is 1,000.
    few = "keepalive_requests 100;"
    with servers.nginx(Loopback(), folder, log, few, servers.ONE_RANGE, tls, http2=True) as port:
        # Requests that cross a GOAWAY frame are repeated, and nginx logs them once.
        before = connections(asked(log, read(port, seed=1), least=RANGES))
        report = read(port, seed=2)
        assert report["connections"] >= math.ceil(RANGES / 100)
        assert sum(request.status == 206 for request in asked(log, report, before, least=RANGES)) >= RANGES


def test_the_stream_limit_of_a_server_is_obeyed(secure, read, tmp_path):
    log = tmp_path / "access.log"
    with nginx(secure, log, f"{servers.ONE_RANGE} http2_max_concurrent_streams 5;") as port:
        # Requests that it refuses before its limit is known are repeated, and nginx does not log them.
        before = connections(asked(log, read(port, seed=1), least=RANGES))
        report = read(port, seed=2)
        assert len(connections(asked(log, report, before))) <= report["connections"] <= 8
        assert report["requests"] <= RANGES + 2


def test_the_request_limit_of_a_server_is_obeyed(secure, read, tmp_path):
    """nginx counts each stream as a connection here, and responds with 429 above the limit."""
    log = tmp_path / "access.log"
    limits = f"{servers.ONE_RANGE} limit_conn_zone $server_name zone=all:1m; limit_conn all 40; limit_conn_status 429;"
    with nginx(secure, log, limits) as port:
        before = connections(asked(log, read(port, seed=1)))
        known = asked(log, read(port, seed=2), before)
        assert sum(request.status == 206 for request in known) >= RANGES


def test_servers_without_http2_or_with_multiple_ranges_use_http1(secure, read, tmp_path):
    for limits, http2 in ((servers.ONE_RANGE, False), ("", True)):
        log = tmp_path / f"{http2}.log"
        with nginx(secure, log, limits, http2) as port:
            before = connections(asked(log, read(port, 1, "--max-connections", 4)))
            report = read(port, 2, "--max-connections", 4)
            known = asked(log, report, before)
            assert len(known) == report["requests"]
            assert len(connections(known)) <= report["connections"] <= 4
            counts = {request.range_count for request in known}
            assert counts == {1} if limits else max(counts) > 100


def test_caddy_after_a_server_of_single_ranges_uses_http2(secure, read, tmp_path):
    """Caddy sends many ranges, and chooses HTTP/2 itself. The store has another server at its address."""
    require("caddy")
    folder, tls = secure
    log = tmp_path / "access.log"
    with nginx(secure, log) as before, servers.caddy(Loopback(), folder, tls=tls) as after, Relay(before) as relay:
        learning = read(relay.port, seed=1)
        before = asked(log, learning)
        relay.upstream = after
        report = read(relay.port, seed=2)
        assert asked(log, learning) == before
        assert RANGES <= report["requests"] <= RANGES + 2
        assert report["connections"] <= 8
        # Over HTTP/1.1, at most one request per connection would be in flight.
        assert report["round_trips"] < RANGES / 64
