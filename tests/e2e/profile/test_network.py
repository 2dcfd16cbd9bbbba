"""`hither profile network`: a cap per connection, a link, TLS, root://, and its exit."""

import json
import signal
import subprocess

import pytest
from command import run
from needs import require

from bench.harness import access_log, servers
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until

SIZE = 64_000_000
RATE = 2_000_000


def profile(url, *words, where=None, authority=None) -> dict:
    trust = ["env", f"SSL_CERT_FILE={authority}"] if authority else []
    told = run([*trust, HITHER, "profile", "network", "--json", url, *words], where)
    assert told.code == 0, told.err
    assert told.json["bandwidth"] and told.json["cpu_seconds_per_gb"] > 0, told.json
    assert told.json["request_ms"] > 0
    assert (told.json["tls_handshake_ms"] is None) == (authority is None)
    return told.json


@pytest.fixture
def folder(tmp_path):
    require("nginx")
    folder = tmp_path / "www"
    folder.mkdir()
    (folder / "file").write_bytes(bytes(SIZE))
    return folder


# In real time: the steps end where more connections bring no more, as on a machine that is busy meanwhile.
@pytest.mark.netns
def test_a_cap_per_connection_is_found(folder, netns):
    link = Wan(Link("o", 10, None, "another site", ("--rate-each", f"{RATE * 8 // 10**6}Mbit")), real_time=True)
    with link as where, servers.nginx(where, folder) as port:
        found = profile(f"http://{where.server_host}:{port}/file", "--seconds", "5", where=where)
    rates = {step["connections"]: step["bytes_per_s"] for step in found["bandwidth"]}
    assert list(rates) == [1, 2, 4, 8, 16]
    assert rates[1] < 1.1 * RATE, rates
    assert found["limit"] == "connection" and "one connection brings" in found["advice"][0]


@pytest.mark.netns
def test_round_trips_are_those_of_the_link(folder, netns):
    link = Wan(Link("p", 50, 400, "another country"), real_time=True)
    with link as where, servers.nginx(where, folder) as port:
        found = profile(f"http://{where.server_host}:{port}/file", "--seconds", "10", where=where)
    # No round trip is shorter than that of the link.
    assert min(found["tcp_handshake_ms"], found["request_ms"]) >= 0.99 * 50, found
    assert max(step["bytes_per_s"] for step in found["bandwidth"]) < 1.05 * 50e6, found


@pytest.mark.parametrize("scheme", ["http", "https", "root", "roots"])
def test_every_scheme_is_measured_within_the_limit(folder, tmp_path, scheme):
    tls = servers.certificate(tmp_path) if scheme.endswith("s") else None
    require("xrootd")
    server = servers.nginx if scheme.startswith("http") else servers.xrootd
    with server(Loopback(), folder, tls=tls) as port:
        url = f"{scheme}://localhost:{port}//file"
        found = profile(url, "--bytes", "100M", authority=tls and tls.authority)
    assert found["file_bytes"] == SIZE and found["bytes_received"] < 1.05 * 100 * 2**20


def test_failures_have_their_exit_codes(site, hither, tmp_path):
    unused = f"http://127.0.0.1:{servers.free_port()}/file"
    for url, code in [(site.url("gone"), 3), (unused, 5), (tmp_path, 2)]:
        assert hither("profile", "network", "--connect-timeout", "1", url).code == code, url
    assert hither("profile", "network", unused, "--replica", unused).code == 2
    assert hither("profile", "--pid", "1", "network", unused).code == 2


def test_an_interrupt_ends_it_with_what_was_found(folder):
    log = folder.parent / "access.log"
    (folder / "file").write_bytes(bytes(2 * RATE))
    with servers.nginx(Loopback(), folder, log, limits=f"limit_rate {RATE};") as port:
        command = [HITHER, "profile", "network", "--json", f"http://127.0.0.1:{port}/file", "--seconds", "600"]
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        # The log has an answer when all of it is sent; the next one is requested when all of it has arrived.
        whole = lambda: sum(it.bytes_sent > RATE / 10 for it in access_log.read(log, "/file"))  # noqa: E731
        wait_until(lambda: whole() > 1, "an answer that was measured")
        process.send_signal(signal.SIGINT)
        found = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 0 and found["interrupted"] and found["bandwidth"], found
