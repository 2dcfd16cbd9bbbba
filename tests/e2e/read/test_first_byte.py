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
# More than a server says of itself.
BYTES = 12_000
# Servers answer logins in many small segments, of which each takes a place in the window. What is left of a first window
# of ten does not hold the data: the rest of it would count as the answer to the request that is under way by then.
WINDOW = 64


@pytest.fixture(scope="module")
def away(netns):
    """A link on which one round trip is not counted as two, which takes longer than a server waits for a disk."""
    with Wan(Link("r", 240, None, "another continent"), real_time=True) as where:
        where.initial_window(WINDOW)
        yield where


@pytest.fixture
def trips(away, tmp_path, small):
    """Starts xrootd; gives how to read from it, and after how many round trips the data comes."""
    require("xrootd")
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "file").write_bytes(small.path.read_bytes()[: 2 * BYTES])
    tls = servers.certificate(tmp_path, away.server_host)

    def taken(scheme: str, more: str) -> list[int]:
        """Of two processes after one another, with what the first one learned."""
        with servers.xrootd(away, folder, tls=tls if scheme == "roots" else None, more=more) as port:
            url = f"{scheme}://{away.server_host}:{port}//file"
            seen = [counted(url, tmp_path / "store") for _ in range(2)]
        # Each connection begins with a handshake of TCP, and they are made one after the other here.
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
