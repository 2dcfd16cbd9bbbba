"""A server that restarts: connections are refused for two seconds, before a program begins or during its run."""

import contextlib
import threading

import pytest
from cutting import Relay
from needs import require

from bench.harness import servers
from bench.harness.links import Loopback

PAUSE = 2
SCHEMES = {"http": "http://127.0.0.1:{}/{}", "root": "root://127.0.0.1:{}//{}"}


@pytest.fixture(params=SCHEMES)
def server(request, tmp_path, talk):
    """A server with the talk's file: its scheme and its port."""
    folder = tmp_path / "www"
    folder.mkdir()
    tmp_path.chmod(0o755)
    (folder / talk.path.name).symlink_to(talk.path)
    name = {"http": "nginx", "root": "xrootd"}[request.param]
    require(name)
    with getattr(servers, name)(Loopback(), folder) as port:
        yield request.param, port


@contextlib.contextmanager
def restarting(upstream: int, dies_after: int | None):
    """A port that leads to a server until this many bytes have passed, and again after a pause; `None` refuses from the
    start."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Relay(upstream, dies_after=dies_after))
        if dies_after is None:
            first.die()

        def start_again():
            first.died.wait(60)
            later = threading.Timer(PAUSE, lambda: stack.enter_context(Relay(upstream, port=first.port)))
            later.start()
            later.join()

        watcher = threading.Thread(target=start_again)
        watcher.start()
        try:
            yield first.port
        finally:
            first.die()
            watcher.join()


@pytest.mark.parametrize("dies_after", [None, 40_000_000], ids=["at first", "in the middle"])
def test_a_copy_outlasts_a_restart(hither, server, talk, tmp_path, dies_after):
    scheme, upstream = server
    with restarting(upstream, dies_after) as port:
        done = hither("cp", "--no-store", SCHEMES[scheme].format(port, talk.path.name), tmp_path / "copy")
    assert done.code == 0, done.err
    assert (tmp_path / "copy").read_bytes() == talk.path.read_bytes()


@pytest.mark.parametrize("dies_after", [None, 100_000], ids=["at first", "in the middle"])
def test_a_query_outlasts_a_restart(hither, server, talk, dies_after):
    scheme, upstream = server
    with restarting(upstream, dies_after) as port:
        url = SCHEMES[scheme].format(port, talk.path.name)
        done = hither("draw", url + ":T", "rawtr", "--where", "E33>5", "--no-store", "--json")
    assert done.code == 0, done.err
    assert done.json["selected"] == talk.facts["selected"]
