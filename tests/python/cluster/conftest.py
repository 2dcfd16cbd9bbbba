"""A cluster of two nodes, and a tree on a server."""

from urllib.parse import urlsplit

import pytest
from cluster_rig import PATIENCE, connected, write_tree
from e2e.cutting import Relay
from needs import require

from bench.cluster.nodes import nodes
from bench.harness import servers
from bench.harness.links import Loopback
from hither.cluster import _coordinator


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Two nodes. The client's own state is also in the folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "client"))
    (tmp_path / "nodes").mkdir()
    with nodes(tmp_path / "nodes", "ab") as running:
        yield running


@pytest.fixture
def dask(cluster):
    with connected(cluster) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        yield client


@pytest.fixture
def patient(monkeypatch):
    """No node is suspected for a silence, so no lease is granted twice: the machine may be busy."""
    monkeypatch.setattr(_coordinator, "SILENCE_SECONDS", PATIENCE)
    monkeypatch.setattr(_coordinator, "START_SECONDS", PATIENCE)


@pytest.fixture
def source(tmp_path):
    """A tree on nginx, its size, and its URL."""
    require("nginx")
    root = tmp_path / "www" / "tree"
    size = write_tree(root)
    secret = f"location /tree/d1/secret {{ if (!-f {tmp_path}/open) {{ return 403; }} }}"
    log = tmp_path / "source.log"
    with servers.nginx(Loopback(), tmp_path / "www", log, f"autoindex on; {secret}") as port:
        yield root, size, f"http://127.0.0.1:{port}/tree"


@pytest.fixture
def relayed(source):
    """The tree on nginx, its size, its URL behind a relay, and the relay, which can hold a copy."""
    root, size, url = source
    with Relay(urlsplit(url).port) as relay:
        yield root, size, f"http://127.0.0.1:{relay.port}/tree", relay
