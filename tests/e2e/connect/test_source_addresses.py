"""Machines with two network interfaces: connections use both evenly, and no bytes are lost when one of them fails."""

import json
import os
import subprocess

import pytest

from bench.cluster.machines import Machines
from bench.harness import servers
from bench.harness.content import numbered_blocks
from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until

pytestmark = [pytest.mark.netns, pytest.mark.pair]

MBIT = 40
# The larger file is more than the system may hold for eight connections while the server is stopped: 32 MB.
SIZE_MB, SMALL_MB = 60, 15
PATIENCE = 120


@pytest.fixture
def site(tmp_path):
    """A machine with two lines to a server; yields the machine and the URL of the server."""
    (tmp_path / "www").mkdir()
    for name, size in (("file", SIZE_MB), ("small", SMALL_MB)):
        with (tmp_path / "www" / name).open("wb") as file:
            file.writelines(numbered_blocks(size, 1 << 20))
    with Machines("a", MBIT, lines=2) as machines:
        log = tmp_path / "access.log"
        with servers.nginx(machines.hub, tmp_path / "www", log, "", workers=2) as port:
            yield machines, f"http://{machines.hub.server_host}:{port}"


def copying(machines, url, target, sources, level="warn"):
    """A running copy, with its log next to the target."""
    words = [HITHER, "--no-store", "--json", "--max-connections", "8", "--source-address", sources, "cp", url, target]
    words = machines.machines["a"].client([str(word) for word in words])
    with target.with_suffix(".log").open("w") as log:
        environment = {**os.environ, "HITHER_LOG": level}
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)


def ended(process):
    """The traffic per source address of a successful copy."""
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    return {it["source"]: it for it in json.loads(said)["source_addresses"]}


def until(condition, what, process):
    wait_until(lambda: condition() or process.poll() is not None, what, PATIENCE)
    assert process.poll() is None, process.communicate()


def is_logged(tmp_path, words):
    return words in (tmp_path / "to.log").read_text()


def is_equal(tmp_path, name="small"):
    return (tmp_path / "to").read_bytes() == (tmp_path / "www" / name).read_bytes()


def test_both_interfaces_have_several_connections_and_carry_bytes(site, tmp_path):
    machines, url = site
    sources = ended(copying(machines, f"{url}/small", tmp_path / "to", "line,line1"))
    received = [machines.received("a", line) for line in (0, 1)]
    assert is_equal(tmp_path)
    # A connection whose handshake is slow is opened over the other line, too; what is too many there is closed, and
    # opened again: how many there were in all, the time decides.
    connections = [sources[line]["connections"] for line in ("line", "line1")]
    assert min(connections) > 1, connections
    # The counters contain the bytes read of those received over the line, without packet headers. Which of them get more
    # depends on the time: an idle connection takes the next piece, and the rest of a slow one.
    counted = [sources[line]["bytes_received"] for line in ("line", "line1")]
    assert all(0 < source < over_line for source, over_line in zip(counted, received, strict=True)), (counted, received)
    assert sum(counted) > SMALL_MB << 20


def test_addresses_are_sources_too(site, tmp_path):
    machines, url = site
    second = machines.machines["a"].client_host.replace(".11", ".111")
    sources = ended(copying(machines, f"{url}/small", tmp_path / "to", second))
    assert is_equal(tmp_path)
    assert list(sources) == [second]
    assert machines.received("a", 1) > SMALL_MB << 20


@pytest.mark.parametrize("fail", [Machines.cut, Machines.silence])
def test_an_interface_that_dies_is_dropped_and_used_again_when_it_works(site, tmp_path, fail):
    machines, url = site
    process = copying(machines, f"{url}/file", tmp_path / "to", "line,line1", "warn,hither_transport=debug")
    until(lambda: machines.received("a", 1) > 3 << 20, "3 MiB over the second line", process)
    # The server sends nothing until the line works again, so the copy cannot end before. Its kernel answers.
    with servers.stopped(int(url.rpartition(":")[2])):
        fail(machines, "a", off=True, line=1)
        until(lambda: is_logged(tmp_path, "nothing answers"), "the end of the second line", process)
        before = machines.received("a", 1)
        fail(machines, "a", off=False, line=1)
        until(lambda: is_logged(tmp_path, "works again"), "the second line", process)
    sources = ended(process)
    assert is_equal(tmp_path, "file")
    assert machines.received("a", 1) > before + (1 << 20), "it carries bytes again"
    assert sources["line1"]["failures"] == 1
    assert sources["line"]["failures"] == 0


def test_a_copy_needs_no_interface_that_is_dead_from_the_beginning(site, tmp_path):
    machines, url = site
    machines.cut("a", off=True, line=1)
    sources = ended(copying(machines, f"{url}/small", tmp_path / "to", "line,line1,10.78.0.99,nothere"))
    assert is_equal(tmp_path)
    assert sources["line"]["bytes_received"] > SMALL_MB << 20
    assert [name for name, it in sources.items() if it["connections"]] == ["line"]
