"""Access through a proxy: tinyproxy, which logs the requested hosts."""

import pytest
from command import run
from site_folder import Site
from needs import require

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER

CREDENTIALS, UNAVAILABLE = 4, 5


@pytest.fixture
def proxied(tmp_path):
    """Starts a proxy with these options; returns its address and its log."""
    require("tinyproxy")
    started = []

    def start(options=""):
        log = tmp_path / f"tinyproxy{len(started)}.log"
        proxy = servers.tinyproxy(Loopback(), log, options)
        started.append(proxy)
        return f"127.0.0.1:{proxy.__enter__()}", log

    yield start
    for proxy in started:
        proxy.__exit__(None, None, None)


@pytest.fixture
def secure(tmp_path, small):
    """The small file over TLS, and the authority of the server."""
    require("nginx")
    folder = tmp_path / "secure"
    folder.mkdir()
    tls = servers.certificate(folder)
    with servers.nginx(Loopback(), folder, folder / "access.log", tls=tls) as port:
        site = Site(Loopback(), port, folder, folder / "access.log")
        yield site.link_in(small).replace("http://", "https://"), tls.authority


def draw(url, *options, **environment):
    settings = [f"{name}={value}" for name, value in environment.items()]
    return run(["env", *settings, HITHER, "draw", f"{url}:T", "rawtr", "--json", "--no-store", *options])


def test_plain_http_goes_through_the_proxy(site, small, proxied):
    url = site.link_in(small)
    proxy, log = proxied()
    for told in (draw(url, "--proxy", f"http://{proxy}"), draw(url, http_proxy=proxy), draw(url, ALL_PROXY=proxy)):
        assert told.code == 0, told.err
        assert told.json["selected"] > 0
    assert f"GET {url} HTTP/1.1" in log.read_text()


def test_tls_goes_through_a_tunnel(secure, small, proxied):
    url, authority = secure
    proxy, log = proxied()
    told = draw(url, https_proxy=f"http://{proxy}", SSL_CERT_FILE=authority)
    assert told.code == 0, told.err
    assert told.json["selected"] > 0
    assert "CONNECT 127.0.0.1:" in log.read_text()


def test_hosts_of_no_proxy_are_reached_directly(site, small, proxied):
    url = site.link_in(small)
    proxy, log = proxied()
    told = draw(url, http_proxy=proxy, no_proxy="example.org,127.0.0.0/8")
    assert told.code == 0, told.err
    assert draw(url, "--proxy", "", http_proxy=proxy).code == 0
    assert "GET" not in log.read_text()


def test_a_proxy_gets_its_password(site, small, secure, proxied):
    url, authority = secure
    proxy, log = proxied("BasicAuth me secret")
    for target in (url, site.link_in(small)):
        told = draw(target, "--proxy", f"http://{proxy}", SSL_CERT_FILE=authority)
        assert told.code == CREDENTIALS, told.err
        assert "407" in told.err
        assert "user and password" in told.err
        told = draw(target, "--proxy", f"http://me:wrong@{proxy}", SSL_CERT_FILE=authority)
        assert told.code in (CREDENTIALS, UNAVAILABLE), told.err
        assert "wrong" not in told.err
        told = draw(target, "--proxy", f"http://me:secret@{proxy}", SSL_CERT_FILE=authority)
        assert told.code == 0, told.err
    assert log.exists()


def test_an_error_of_a_proxy_names_it(secure, proxied):
    url, authority = secure
    proxy, _ = proxied("ConnectPort 443")
    told = draw(url, "--proxy", f"http://{proxy}", SSL_CERT_FILE=authority)
    assert told.code == CREDENTIALS, told.err
    assert proxy in told.err
    assert "403" in told.err
