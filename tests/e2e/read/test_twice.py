"""Every verb, twice over a path whose latency TCP does not show, such as a tunnel or a proxy: the second
time with the stored data of the server.
"""

import random
from http import HTTPStatus

import pytest
from loopback_server import LoopbackServer, QuietHandler

from bench.harness.links import Link, Proxied

CONTENT = random.Random(5).randbytes(3_000_000).hex().encode()
RELAYED = Link("relayed", 20, None, "behind a tunnel")

VERBS = [
    ("cat", "{url}/big"),
    ("cat", "--range", "0-5000000", "{url}/big"),
    ("cat", "--range", "1000000-", "{url}/big"),
    ("cat", "--range", "-3000000", "{url}/big"),
    ("cat", "--range", "3-9", "{url}/big"),
    ("cat", "--max-connections", "1", "--range", "0-5000000", "{url}/big"),
    ("explain", "cat", "--range", "0-5000000", "{url}/big"),
    ("cp", "{url}/big", "{out}/big"),
    ("cp", "-r", "{url}/.", "{out}/tree"),
    ("sync", "{url}/", "{out}/mirror"),
    ("check", "{url}/", "{source}"),
    ("ls", "{url}/"),
    ("find", "{url}/"),
    ("du", "{url}/"),
    ("stat", "{url}/big"),
    ("checksum", "--algorithm", "adler32", "{url}/big"),
    ("tree", "{url}/small.root"),
    ("draw", "{url}/small.root:T", "rawtr"),
    ("explain", "draw", "{url}/small.root:T", "rawtr"),
    ("cp", "{source}/big", "{url}/up {turn}"),
    ("cp", "-r", "{here}/tree", "{url}/up {turn}"),
    ("sync", "--delete", "{here}/tree", "{url}/up"),
    ("mkdir", "{url}/made {turn}"),
    ("mv", "{url}/old {turn}", "{url}/new {turn}"),
    ("rm", "{url}/old {turn}"),
    ("rm", "-r", "{url}/old directory {turn}"),
]


class Plain(QuietHandler):
    """Serves single ranges of one file without a validator."""

    def do_GET(self):
        first, last = 0, len(CONTENT) - 1
        if wanted := self.headers.get("Range"):
            a, b = wanted.removeprefix("bytes=").split("-")
            first, last = int(a), min(int(b or last), last)
        self.send_response(HTTPStatus.PARTIAL_CONTENT if wanted else HTTPStatus.OK)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(CONTENT)}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        self.wfile.write(CONTENT[first : last + 1])

    def do_PROPFIND(self):
        self.send_response(HTTPStatus.METHOD_NOT_ALLOWED)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def relayed():
    with Proxied(RELAYED) as where:
        yield where


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_verb_ends_and_gives_the_same_each_time(hither, served_small, relayed, tmp_path, verb):
    served_small.file("big", CONTENT)
    port = int(served_small.base.rstrip("/").rsplit(":", 1)[1])
    host, relay = relayed.reach(port)
    names = {"url": f"http://{host}:{relay}", "out": tmp_path / "out", "source": served_small.folder, "here": tmp_path}
    for turn in (1, 2):
        served_small.file(f"old {turn}", b"old")
        served_small.file(f"old directory {turn}/file", b"old")
        (tmp_path / "tree").mkdir(exist_ok=True)
        (tmp_path / "tree" / f"{turn}").write_bytes(CONTENT[: 1000 * turn])
    (tmp_path / "out").mkdir()
    # The stored data of the path then suggest many connections.
    assert hither("cp", f"{names['url']}/big", tmp_path / "first").code == 0
    seen = [hither(*(word.format(turn=turn, **names) for word in verb)) for turn in (1, 2)]
    assert [done.code for done in seen] == [0, 0], [done.err for done in seen]
    if verb[0] in {"cat", "ls", "find", "du", "stat", "checksum", "tree"}:
        assert seen[0].out and len({done.out for done in seen}) == 1


@pytest.mark.parametrize("connections", [1, 64])
def test_a_server_that_names_no_version_is_asked_about_a_directory_beside_the_read(hither, relayed, connections):
    with LoopbackServer(Plain) as server:
        host, relay = relayed.reach(server.port)
        for _ in range(3):
            options = ("--max-connections", connections, "--range", "0-5000000")
            done = hither("cat", *options, f"http://{host}:{relay}/big")
            assert done.code == 0, done.err
            assert done.out == CONTENT[:5_000_001].decode()
