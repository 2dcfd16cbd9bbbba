"""Copies of many small files from servers without tree streams: connections, requests, round trips, kills."""

import os
import random
from contextlib import ExitStack
from pathlib import Path

import pytest
from connect.test_tls import trusting
from cutting import Relay
from needs import require
from storage import test_copy
from storage.test_copy import (
    BLOCK,
    assert_same,
    behind_relay,
    cp,
    ended,
    journal_of,
    killed_after,
    killed_when,
)

from bench.harness import access_log, servers
from bench.harness.links import Link, Loopback, Wan

FILES = 500
FILE_BYTES = 10 << 10
LARGE_BYTES = 192 << 20
STEP_BYTES = 3 * FILE_BYTES
LINK = Link("S", 50, None, "another country")

pytestmark = pytest.mark.usefixtures("hither")

dav = test_copy.dav
"""The fixture, which tests name as a parameter."""


def small_tree(root: Path, files: int = FILES) -> int:
    """Writes files of 10 KiB in five directories. Returns their total size."""
    noise = random.Random(files).randbytes(FILE_BYTES)
    for number in range(files):
        folder = root / f"run {number % 5}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"event-{number}").write_bytes(number.to_bytes(8, "little") + noise[8:])
    return files * FILE_BYTES


@pytest.fixture(scope="module")
def link(netns):
    with Wan(LINK, real_time=True) as where:
        yield where


@pytest.mark.netns
def test_five_hundred_files_over_root_take_few_sessions_and_round_trips(hither, link, tmp_path):
    require("xrootd")
    small_tree(tmp_path / "www/tree")
    with servers.xrootd(link, tmp_path / "www") as port:
        link.reset()
        url = f"root://{link.server_host}:{port}//tree"
        told = hither("cp", "-r", "--json", "--no-store", url, tmp_path / "copy", where=link)
        seen = link.stats()
    assert told.code == 0, told.err
    assert told.json["files"] == FILES
    assert_same(tmp_path / "www/tree", tmp_path / "copy")
    # Each session has sixty-four files in flight.
    assert seen["connections"] <= FILES // 64 + 2
    assert seen["round_trips"] <= 40


@pytest.mark.netns
def test_five_hundred_files_over_http2_take_few_connections_and_round_trips(link, tmp_path):
    require("nginx")
    small_tree(tmp_path / "www/tree")
    tls = servers.certificate(tmp_path, link.server_host)
    log = tmp_path / "access.log"
    with servers.nginx(link, tmp_path / "www", log, "autoindex on;", tls=tls, http2=True) as port:
        link.reset()
        url = f"https://{link.server_host}:{port}/tree"
        told = trusting(tls.authority, "cp", "-r", "--json", "--no-store", url, tmp_path / "copy", where=link)
        seen = link.stats()
    assert told.code == 0, told.err
    assert told.json["files"] == FILES
    assert_same(tmp_path / "www/tree", tmp_path / "copy")
    gets = [it for it in access_log.table_rows(log.read_text()) if "event" in it.uri]
    assert len(gets) == FILES, "each file is asked for once"
    assert seen["connections"] <= 16
    assert seen["round_trips"] <= 40


def test_a_tree_of_nginx_takes_a_request_for_each_file_and_directory(tmp_path):
    require("nginx")
    small_tree(tmp_path / "www/tree")
    log = tmp_path / "access.log"
    with servers.nginx(Loopback(), tmp_path / "www", log, "autoindex on;") as port:
        command = cp("-r", f"http://127.0.0.1:{port}/tree/.", tmp_path / "copy", store=tmp_path / "store")
        told = ended(command)
        servers.settle(Loopback(), port)
        first = list(access_log.table_rows(log.read_text()))
        ended(command)
        servers.settle(Loopback(), port)
        second = list(access_log.table_rows(log.read_text()))[len(first) :]
    assert (told["files"], told["bytes"]) == (FILES, FILES * FILE_BYTES)
    assert_same(tmp_path / "www/tree", tmp_path / "copy")
    # Six directories. Each copy checks once if the server supports WebDAV: a refusal in one directory does not imply
    # one in another.
    for requests in (first, second):
        assert [it.method for it in requests if it.method != "GET"] == ["PROPFIND"]
        assert len(requests) == 1 + 6 + FILES
    # One file per connection, and `cp` has four.
    assert len({it.connection for it in first}) <= 4


def test_an_upload_of_what_is_newer_asks_for_each_directory_not_for_each_file(dav, tmp_path):
    folder, url, log = dav
    small_tree(tmp_path / "tree")
    for path in (tmp_path / "tree").rglob("event-*"):
        # Apache reports times in whole seconds.
        os.utime(path, (1_700_000_000, 1_700_000_000))
    command = cp("-r", "-u", tmp_path / "tree", f"{url}/up/", store=tmp_path / "store")
    assert ended(command)["files"] == FILES
    before = len(log.read_text().splitlines())
    again = ended(command)
    assert (again["files"], again["files_skipped"]) == (0, FILES)
    (tmp_path / "tree/run 1/event-1").write_bytes(b"newer")
    newer = ended(command)
    assert (newer["files"], newer["files_skipped"]) == (1, FILES - 1)
    assert (folder / "up/tree/run 1/event-1").read_bytes() == b"newer"
    rows = list(access_log.table_rows(log.read_text()))[before:]
    # In each run, two files of each directory are queried before it is listed, and others wait for the listing.
    assert sum(it.method == "PROPFIND" for it in rows) <= FILES / 5


# Soak: 5,000 files, copied until they are killed three times.
@pytest.mark.soak
def test_a_killed_copy_of_small_files_leaves_whole_files_and_continues(dav, tmp_path):
    folder, url, log = dav
    total = small_tree(folder / "tree", 5000)
    command = cp("-r", f"{url}/tree/.", tmp_path / "copy", store=tmp_path / "store")
    numbers = random.Random(3)
    copy = tmp_path / "copy"
    kills = sum(killed_after(command, log, numbers.randrange(300, 1500)) for _ in range(5))
    assert_same(folder / "tree", copy, whole=False)
    # The last kill comes when the journal contains whole files.
    kills += killed_when(command, lambda: b'"done"' in journal_of(tmp_path / "store"))
    assert_same(folder / "tree", copy, whole=False)
    told = ended(command)
    assert kills >= 3
    assert told["failures"] == []
    assert_same(folder / "tree", tmp_path / "copy")
    assert not [it for it in (tmp_path / "copy").rglob("*") if it.name.startswith(".hither-")]
    assert told["files"] < 5000, "what an earlier attempt has brought is left alone"
    gets = [it for it in access_log.table_rows(log.read_text()) if "event" in it.uri]
    # Data that were not flushed to disk are sent again.
    assert sum(it.bytes_sent for it in gets) <= total * 1.1 + kills * 4096 * FILE_BYTES


@pytest.mark.slow
def test_a_killed_copy_from_a_listing_without_versions_sends_nothing_twice(tmp_path):
    require("nginx")
    folder, log = tmp_path / "www", tmp_path / "access.log"
    total = small_tree(folder / "tree", 2000)
    where = Loopback()
    with servers.nginx(where, folder, log, locations="autoindex on;") as port, Relay(port) as relay:
        url = f"http://{where.server_host}:{relay.port}/tree/."
        command = cp("-r", url, tmp_path / "copy", store=tmp_path / "store")
        # Some hundred files are in flight at a time.
        relay.hold_after(total * 3 // 4)
        assert killed_when(command, lambda: journal_of(tmp_path / "store").count(b'"done"') > 800)
        relay.release(cut=True)
        told = ended(command)
    assert (told["failures"], told["files_skipped"] > 800) == ([], True)
    assert_same(folder / "tree", tmp_path / "copy")
    gets = [it for it in access_log.table_rows(log.read_text()) if "event" in it.uri and it.method == "GET"]
    assert sum(it.bytes_sent for it in gets) <= total + 700 * FILE_BYTES


@pytest.mark.slow
def test_a_killed_copy_resumes_a_large_file_of_a_listing_without_versions(tmp_path):
    require("nginx")
    folder = tmp_path / "www"
    (folder / "tree").mkdir(parents=True)
    (folder / "tree/large").write_bytes(random.Random(1).randbytes(LARGE_BYTES))
    where = Loopback()
    with servers.nginx(where, folder, locations="autoindex on;") as port, Relay(port) as relay:
        url = f"http://{where.server_host}:{relay.port}/tree/."
        # Over one connection nothing is requested twice, so that a block that arrives again was not kept.
        command = cp("-r", url, tmp_path / "copy", store=tmp_path / "store", connections=1)
        relay.hold_after(LARGE_BYTES // 2)
        # One block is not complete, because headers have passed, too.
        whole = LARGE_BYTES // 2 // BLOCK - 2
        assert killed_when(command, lambda: journal_of(tmp_path / "store").count(b'"block"') >= whole)
        relay.release(cut=True)
        assert ended(command)["failures"] == []
    assert_same(folder / "tree", tmp_path / "copy")
    assert relay.passed <= LARGE_BYTES + 3 * BLOCK


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["dav", "root"])
def test_a_killed_upload_of_small_files_leaves_no_parts(protocol, dav, tmp_path):
    folder, url, _ = dav
    total = small_tree(tmp_path / "tree", 2000)
    with ExitStack() as stack:
        if protocol == "root":
            require("xrootd")
            url = f"root://127.0.0.1:{stack.enter_context(servers.xrootd(Loopback(), folder))}"
        relay = stack.enter_context(behind_relay(url))
        base = f"root://127.0.0.1:{relay.port}/" if protocol == "root" else f"http://127.0.0.1:{relay.port}"
        command = cp("-r", f"{tmp_path}/tree/.", f"{base}/copy/", store=tmp_path / "store")

        def some_are_under_way() -> bool:
            if not relay.held.is_set():
                return False
            if any((folder / "copy").rglob(".hither-*")):
                return True
            # Everything was renamed when the relay stopped: some more.
            relay.release()
            relay.hold_after(STEP_BYTES)
            return False

        relay.hold_after(total // 4)
        assert killed_when(command, some_are_under_way)
        relay.release(cut=True)
        assert ended(command)["failures"] == []
    assert_same(tmp_path / "tree", folder / "copy")
    assert not [it for it in (folder / "copy").rglob("*") if it.name.startswith(".hither-")]
