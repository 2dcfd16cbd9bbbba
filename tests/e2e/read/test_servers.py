"""The servers that users have, as shipped by Debian: the same results from all, and few more requests than necessary.

The capacity of one request depends on the server (see bench/harness/servers.py), and hither has to find it by itself:
the first process may spend a few requests on that, the second one reads it from the store.
"""

import math
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import run
from site_folder import Site
from needs import require
from cutting import Relay

from bench.harness import access_log, servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER, HITHER_BENCH

QUERY = ("rawtr", "--where", "E33>5", "--json")
RANGES = 5000
CONNECTIONS = 4
TEXT = len("123456789-123457788,")  # what a range of this file takes in a header


@dataclass(frozen=True)
class Kind:
    """A server, and the maximum number of these ranges in one request to it."""

    program: str
    start: Callable
    ranges: int


KINDS = {
    "nginx": Kind("nginx", servers.nginx, 8100 // TEXT),
    "nginx one range": Kind("nginx", lambda *at: servers.nginx(*at, limits=servers.ONE_RANGE), 1),
    "apache": Kind("apache2", servers.apache, 200),
    "caddy": Kind("caddy", servers.caddy, 65536 // TEXT),
    "lighttpd": Kind("lighttpd", servers.lighttpd, 10),
    "xrootd": Kind("xrootd", servers.xrootd, 15000 // TEXT),
}


def every_kind():
    return pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in KINDS.items()])


@pytest.fixture
def server(kind, tmp_path):
    require(kind.program)
    folder = tmp_path / "www"
    folder.mkdir()
    log = tmp_path / "access.log"
    where = Loopback()
    with kind.start(where, folder, log) as port:
        yield Site(where, port, folder, log)


@pytest.fixture
def read(talk, tmp_path):
    """Reads ranges of a file in a separate process, checks every byte, and returns the report."""

    def read(url: str, ranges: list[tuple[int, int]], *options, path: Path = talk.path) -> dict:
        wanted, output = tmp_path / "ranges", tmp_path / "bytes"
        wanted.write_text("".join(f"{first} {length}\n" for first, length in ranges))
        done = run([HITHER_BENCH, "read-ranges", url, wanted, "--output", output, *options])
        assert done.code == 0, done.err
        found = memoryview(output.read_bytes())
        with path.open("rb") as file:
            for first, length in ranges:
                file.seek(first)
                assert found[:length] == file.read(length), f"bytes {first} to {first + length} differ"
                found = found[length:]
        assert len(found) == 0
        return done.json

    return read


def scattered(size: int, count: int, seed: int, longest: int = 2000) -> list[tuple[int, int]]:
    """Ranges in random order, few of which touch."""
    chance = random.Random(seed)
    return [(chance.randrange(size - longest), chance.randint(1, longest)) for _ in range(count)]


def whole_files(requests) -> int:
    return sum(request.method == "GET" and request.status == 200 for request in requests)


@every_kind()
def test_the_query_matches_root(hither, server, talk):
    answer = hither("draw", server.link_in(talk) + ":T", *QUERY, "--no-store").json
    assert answer["selected"] == talk.facts["selected"]
    assert math.isclose(answer["mean"], talk.facts["mean"], rel_tol=1e-12)


@every_kind()
@pytest.mark.parametrize("wanted", ["0-99", "1000000-1999999", "275000000-", "-1000"])
def test_cat_prints_the_bytes(server, talk, tmp_path, wanted):
    first, last = wanted.split("-")
    content = talk.path.read_bytes()
    expected = content[-int(last) :] if not first else content[int(first) : int(last) + 1 if last else None]
    command = [HITHER, "cat", "--no-store", "--range", wanted, server.link_in(talk)]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout == expected


@every_kind()
@pytest.mark.parametrize("verb", ["cat", "stat", "checksum", "cp"])
def test_an_empty_file_is_read(server, hither, verb, tmp_path):
    (server.folder / "empty").touch()
    target = [tmp_path / "copy"] if verb == "cp" else []
    told = hither(verb, "--no-store", server.url("empty"), *target)
    assert told.code == 0, told.err
    if verb == "cp":
        assert target[0].read_bytes() == b""


@every_kind()
def test_thousands_of_ranges_take_few_requests_to_a_known_server(server, kind, talk, read, tmp_path):
    url, options = server.link_in(talk), ("--store", tmp_path / "store", "--max-connections", CONNECTIONS)
    size = talk.facts["bytes"]
    read(url, scattered(size, RANGES, seed=1), *options)
    learning = server.requests("/talk.root")
    # Each connection may have sent a request before the first response showed that the server sends one range at a
    # time.
    assert whole_files(learning) <= CONNECTIONS

    # By another name: servers log a whole file that nobody reads to its end late.
    (server.folder / "known.root").symlink_to(talk.path)
    # Over one connection: another one may take over half of a slow request on a busy machine.
    one = ("--store", tmp_path / "store", "--max-connections", 1)
    report = read(server.url("known.root"), scattered(size, RANGES, seed=2), *one)
    known = server.requests("/known.root")
    assert whole_files(known) == 0
    needed = math.ceil(RANGES / kind.ranges)
    assert len(known) <= max(1.2 * needed, 6)
    # If a request takes one range, gaps are also read as long as they cost less than a request.
    assert kind.ranges == 1 or report["bytes_requested"] <= 1.25 * report["bytes_used"]


def test_a_corrupt_response_to_too_many_ranges_is_repeated(tmp_path, read):
    """For more than 1,024 ranges, xrootd 5.5 begins a response with 206, and writes an error into the middle of it. It
    gets that many because the store has another server at its address, which accepted more."""
    for name in ("caddy", "xrootd"):
        require(name)
    folder, log = tmp_path / "www", tmp_path / "access.log"
    folder.mkdir()
    path = folder / "x.bin"
    path.write_bytes(random.Random(1).randbytes(999_999))
    # Short numbers: the header stays below the 16 KB at which it drops the connection.
    ranges = [(first, 5) for first in range(0, 999_990, 880)]
    where, options = Loopback(), ("--store", tmp_path / "store", "--max-connections", 1)
    with servers.caddy(where, folder) as before, servers.xrootd(where, folder, log) as after, Relay(before) as relay:
        url = f"http://127.0.0.1:{relay.port}/x.bin"
        read(url, ranges, *options, path=path)
        relay.upstream = after
        read(url, ranges, *options, path=path)
        read(url, ranges, *options, path=path)
    asked = [request.range_count for request in access_log.read(log, "/x.bin")]
    assert sum(count > 1024 for count in asked) == 1, asked
