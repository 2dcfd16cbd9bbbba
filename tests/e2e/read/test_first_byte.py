"""Round trips to the first data over root:// and roots://, counted by the link itself (needs root)."""

from pathlib import Path

import pytest
from command import run
from needs import require

from bench.harness import servers
from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER

pytestmark = pytest.mark.netns

UNIX = "xrootd.seclib libXrdSec.so\nsec.protocol unix\nsec.protbind * only unix\n"
# More than the size of a server's greeting.
BYTES = 12_000
# Servers respond to logins with many small segments, each of which uses a place in the window. The rest of a first
# window of ten segments cannot hold the data, so its remainder would count as the response to the next request.
WINDOW = 64


@pytest.fixture(scope="module")
def away(netns):
    """A link with a latency longer than a server's wait for a disk, so that one round trip is not counted as two."""
    with Wan(Link("r", 240, None, "another continent"), real_time=True) as where:
        where.initial_window(WINDOW)
        yield where


@pytest.fixture
def trips(away, tmp_path, small):
    """Returns a function that starts xrootd, reads from it, and counts the round trips until the data arrive."""
    require("xrootd")
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "file").write_bytes(small.path.read_bytes()[: 2 * BYTES])
    tls = servers.certificate(tmp_path, away.server_host)

    def taken(scheme: str, more: str) -> list[int]:
        """The counts of two processes, the second of which uses what the first one learned."""
        with servers.xrootd(away, folder, tls=tls if scheme == "roots" else None, more=more) as port:
            url = f"{scheme}://{away.server_host}:{port}//file"
            seen = [counted(url, tmp_path / "store") for _ in range(2)]
        # Each connection begins with a TCP handshake, and here handshakes are made one after the other.
        print(seen)
        return [it["connections"] + it["first_data_round_trip"] for it in seen]

    def counted(url: str, store: Path) -> dict:
        command = ["env", f"SSL_CERT_FILE={tls.authority}", HITHER, "cat", "--range", f"0-{BYTES - 1}", url]
        away.reset()
        told = run([*command, "--store", store], away)
        assert told.code == 0, told.err
        return away.stats()

    return taken


@pytest.mark.parametrize(
    ("scheme", "more", "stranger", "acquaintance"),
    [("root", "", 2, 2), ("root", UNIX, 4, 2), ("roots", "", 3, 3), ("roots", UNIX, 6, 3)],
    ids=["no proof wanted", "unix", "TLS", "TLS and unix"],
)
def test_the_first_data_takes_the_minimum_of_round_trips(trips, scheme, more, stranger, acquaintance):
    first, second = trips(scheme, more)
    assert second == acquaintance
    assert first <= stranger
