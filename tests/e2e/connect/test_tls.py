"""https: the same results one round trip later, and servers with wrong identities."""


import certificates
import pytest
from command import run
from site_folder import Site
from needs import require

from bench.harness import servers
from bench.harness.links import LINKS, Loopback, Wan
from bench.harness.paths import HITHER

CREDENTIALS, UNAVAILABLE = 4, 5
QUERY = ("rawtr", "--where", "E33>5", "--json")


def trusting(authority, *arguments, where=None):
    """Runs the command with an authority that only this run trusts."""
    return run(["env", f"SSL_CERT_FILE={authority}", HITHER, *arguments], where)


def secure(site: Site, name: str) -> str:
    return site.url(name).replace("http://", "https://")


@pytest.fixture
def serve(tmp_path, small):
    """Starts nginx with a certificate; returns the URL of the small file."""
    require("nginx")
    folder = tmp_path / "secure"
    folder.mkdir()
    started = []

    def start(tls, limits=""):
        where = Loopback()
        server = servers.nginx(where, folder, folder / "access.log", limits=limits, tls=tls)
        started.append(server)
        site = Site(where, server.__enter__(), folder, folder / "access.log")
        site.link_in(small)
        return secure(site, small.path.name)

    yield start
    for server in started:
        server.__exit__(None, None, None)


def test_tls_gives_the_same_values(hither, serve, small, tmp_path):
    tls = servers.certificate(tmp_path)
    url = serve(tls)
    told = trusting(tls.authority, "draw", f"{url}:T", *QUERY, "--no-store")
    assert told.code == 0, told.err
    assert told.json["selected"] == small.facts["selected"]
    named = trusting(tls.authority, "stat", url.replace("127.0.0.1", "localhost"), "--no-store")
    assert named.code == 0, named.err
    careless = hither("stat", url, "--no-store", "--insecure")
    assert careless.code == 0, careless.err


def refused(hither_or_told, code, *words):
    told = hither_or_told
    assert told.code == code, f"exit code {told.code}: {told.err}"
    for word in words:
        assert word in told.err, told.err


def test_an_error_names_the_unknown_authority(hither, serve, tmp_path):
    url = serve(servers.certificate(tmp_path))
    refused(hither("stat", url, "--no-store"), UNAVAILABLE, "CN=hither test authority", "not trusted")


def test_an_error_says_when_a_certificate_expired(serve, tmp_path):
    tls = certificates.certificate(tmp_path / "old", "IP:127.0.0.1", ("20190101000000Z", "20200229000000Z"))
    told = trusting(tls.authority, "stat", serve(tls), "--no-store")
    refused(told, UNAVAILABLE, "expired on Sat, 29 Feb 2020")


def test_an_error_names_the_hosts_of_a_certificate(serve, tmp_path):
    tls = certificates.certificate(tmp_path / "other", "DNS:one.example,DNS:*.two.example")
    told = trusting(tls.authority, "stat", serve(tls), "--no-store")
    refused(told, UNAVAILABLE, "one.example, *.two.example", "127.0.0.1")


def test_a_missing_client_certificate_is_explained(serve, tmp_path):
    tls = servers.certificate(tmp_path)
    wants = f"ssl_verify_client on; ssl_client_certificate {tls.authority};"
    told = trusting(tls.authority, "stat", serve(tls, wants), "--no-store")
    refused(told, CREDENTIALS, "requires a client certificate")


def test_the_wrong_scheme_is_explained(hither, serve, site, small, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    tls = servers.certificate(own)
    url = serve(tls)
    plain = url.replace("https://", "http://")
    refused(hither("stat", plain, "--no-store"), UNAVAILABLE, "use https://")
    refused(hither("draw", f"{plain}:T", "rawtr", "--no-store"), UNAVAILABLE, "use https://")
    told = trusting(tls.authority, "stat", secure(site, small.path.name), "--no-store")
    refused(told, UNAVAILABLE, "http:// rather than https://")


@pytest.fixture(scope="module")
def far_and_secure(tmp_path_factory, talk, netns):
    """The talk's file at the far end of link G, over TLS with nginx's default settings, and the authority of the
    server."""
    folder = tmp_path_factory.mktemp("far")
    (folder / talk.path.name).symlink_to(talk.path)
    where = Wan(LINKS["G"], real_time=True)
    with where:
        tls = servers.certificate(folder, where.server_host)
        with servers.nginx(where, folder, folder / "access.log", tls=tls) as port:
            yield Site(where, port, folder, folder / "access.log"), tls.authority


@pytest.mark.netns
@pytest.mark.parametrize("connections", [16, 64])
def test_a_handshake_costs_one_round_trip(far_and_secure, talk, tmp_path, connections):
    site, authority = far_and_secure
    for round_trips in (4, 2):
        site.where.reset()
        options = ("--max-connections", connections, "--store", tmp_path / "store")
        target = secure(site, talk.path.name) + ":T"
        told = trusting(authority, "draw", target, *QUERY, *options, where=site.where)
        assert told.code == 0, told.err
        seen = site.where.stats()
        assert told.json["selected"] == talk.facts["selected"]
        assert told.json["report"]["round_trips"] == round_trips
        # TLS closes the connection after the last response, which the link may still count.
        assert round_trips <= seen["round_trips"] <= round_trips + 1
        assert seen["to_client"]["payload_bytes"] == told.json["report"]["bytes_received"]
