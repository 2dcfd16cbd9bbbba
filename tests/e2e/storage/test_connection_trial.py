"""A server that limits the rate of each connection: copies, reads and queries try more of them."""

import os
import time

import pytest
from conftest import Site
from needs import require

from bench.harness import servers
from bench.harness.links import Loopback

SIZE = 16_000_000
RATE = 300_000


@pytest.fixture
def limited(tmp_path):
    require("nginx")
    folder, log = tmp_path / "www", tmp_path / "access.log"
    folder.mkdir()
    where = Loopback()
    with servers.nginx(where, folder, log, limits=f"limit_rate {RATE};") as port:
        yield Site(where, port, folder, log)


def assert_many_connections(site, name, bytes_read, seconds, *, as_fast_as=8):
    """Assert that there were many connections, and that it took less time than some of them."""
    assert seconds < bytes_read / (as_fast_as * RATE), seconds
    assert len({request.connection for request in site.requests(f"/{name}")}) >= 16


def test_a_copy_takes_more_connections_where_each_is_limited(hither, limited, tmp_path):
    content = os.urandom(SIZE)
    url = limited.put("file", content)
    began = time.monotonic()
    done = hither("cp", "--no-store", url, tmp_path / "copy")
    seconds = time.monotonic() - began
    assert done.code == 0, done.err
    assert (tmp_path / "copy").read_bytes() == content
    # Four connections, as the path alone is worth, take 13 s.
    assert_many_connections(limited, "file", SIZE, seconds)


def test_a_read_takes_more_connections_where_each_is_limited(hither, limited):
    content = bytes(range(32, 127)) * (SIZE // 95)
    url = limited.put("file", content)
    began = time.monotonic()
    done = hither("cat", "--no-store", url)
    seconds = time.monotonic() - began
    assert (done.code, done.out == content.decode()) == (0, True), done.err
    assert_many_connections(limited, "file", SIZE, seconds)


def test_a_query_takes_more_connections_where_each_is_limited(hither, limited, talk):
    url = limited.link_in(talk)
    began = time.monotonic()
    done = hither("draw", f"{url}:T", "rawtr", "--where", "E33>5", "--no-store", "--json")
    seconds = time.monotonic() - began
    assert done.code == 0, done.err
    # Twice as long as it takes at rest. The description of the tree, 0.9 MB, alone takes a connection 3 s.
    payload = done.json["report"]["bytes_payload"]
    assert_many_connections(limited, talk.path.name, payload, seconds, as_fast_as=4)
