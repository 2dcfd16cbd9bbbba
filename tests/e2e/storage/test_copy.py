"""`hither cp`: trees down and up, interrupted at any time, and the cost according to the server's log."""

import filecmp
import json
import random
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from behaviours import foreign_server
from behaviours.foreign_server import Exchange, Site
from cutting import Relay
from needs import require
from served import serving

from bench.harness import access_log, servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until

BLOCK = 4 << 20
CONNECTIONS = 4
KILLS = 20
HEAD = 600  # bytes of an answer's head, at the most
CORRUPT = 7


def write_tree(root: Path, megabytes: int, files: int) -> int:
    """Writes one large file, and many small ones in forty directories. Returns their total size."""
    numbers = random.Random(megabytes)
    noise = numbers.randbytes(1 << 20)
    total = 0
    root.mkdir()
    with (root / "large").open("wb") as large:
        for number in range(megabytes):
            total += large.write(number.to_bytes(8, "little") + noise[8:])
    for number in range(files):
        folder = root / f"run {number % 40}"
        folder.mkdir(exist_ok=True)
        start = numbers.randrange(1 << 19)
        total += (folder / f"event-{number}").write_bytes(noise[start : start + numbers.randrange(20_000)])
    return total


def assert_same(left: Path, right: Path, whole: bool = True) -> None:
    """Asserts that `left` has the files of `right`, byte for byte; and vice versa, if `whole`."""
    for path in (it for it in right.rglob("*") if it.is_file() and not it.name.startswith(".hither-")):
        assert filecmp.cmp(left / path.relative_to(right), path, shallow=False), path
    if whole:
        there = ([it for it in root.rglob("*") if not it.name.startswith(".hither-")] for root in (left, right))
        names = [sorted(it.relative_to(root) for it in found) for root, found in zip((left, right), there, strict=True)]
        assert names[0] == names[1]


def cp(*arguments, store: Path, connections: int = CONNECTIONS) -> list[str]:
    command = [HITHER, "cp", "--json", "--max-connections", connections, "--store", store, *arguments]
    return [str(it) for it in command]


def ended(command: list[str]) -> dict:
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def lines(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def killed_when(command: list[str], reached: Callable[[], bool]) -> bool:
    """Runs `command` and kills it once `reached` returns true. Returns false if it ended before."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: reached() or process.poll() is not None, "what the command is killed at", 240, every=0.002)
    process.kill()
    return process.wait() < 0


def killed_after(command: list[str], log: Path, requests: int) -> bool:
    """Runs `command` and kills it after the server has logged this many further requests. Returns false if it ended
    before."""
    most = lines(log) + requests
    return killed_when(command, lambda: lines(log) >= most)


def behind_relay(url: str) -> Relay:
    """A relay before the server with this URL, which can hold a transfer in its middle."""
    return Relay(int(url.rstrip("/").rpartition(":")[2]))


def journal_of(store: Path) -> bytes:
    """The journal of the only job; empty if there is none."""
    try:
        return b"".join(it.read_bytes() for it in (store / "copies").glob("*"))
    except FileNotFoundError:  # the job has ended meanwhile
        return b""


@pytest.fixture
def dav(tmp_path):
    """Apache over a readable and writable folder, with its log."""
    require("apache2")
    # Apache's workers run as another user, who needs access.
    folder = tmp_path / "www"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    for parent in tmp_path.parents:
        if parent.stat().st_mode & 0o005 != 0o005 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    tmp_path.chmod(0o755)
    log = tmp_path / "access.log"
    log.touch()
    log.chmod(0o666)
    with servers.apache(Loopback(), folder, log, webdav=True) as port:
        yield folder, f"http://127.0.0.1:{port}", log


@pytest.mark.slow
@pytest.mark.parametrize("megabytes, connections", [(300, 2), pytest.param(1000, CONNECTIONS, marks=pytest.mark.soak)])
def test_a_copy_killed_twenty_times_costs_one_block_per_worker_each_time(hither, dav, tmp_path, megabytes, connections):
    folder, url, log = dav
    total = write_tree(folder / "tree", megabytes, 2 * megabytes)
    target, store = tmp_path / "copy", tmp_path / "store"
    command = cp("-r", f"{url}/tree", target, store=store, connections=connections)
    numbers = random.Random(20)
    kills = sum(killed_after(command, log, numbers.randrange(1, megabytes // 5)) for _ in range(KILLS))
    told = ended(command)
    assert kills >= KILLS / 2
    assert_same(folder / "tree", target)
    assert told["failures"] == []
    assert list((store / "copies").iterdir()) == []
    gets = [it for it in access_log.table_rows(log.read_text()) if it.method == "GET"]
    sent = sum(it.bytes_sent for it in gets)
    # A run that ended before it was to be killed has copied everything, and the next one begins anew.
    whole = total * (1 + KILLS - kills)
    assert sent - whole <= kills * connections * BLOCK + len(gets) * HEAD


@pytest.mark.slow
def test_an_incomplete_file_never_has_its_final_name(hither, dav, tmp_path):
    folder, url, log = dav
    write_tree(folder / "tree", 100, 500)
    target, store = tmp_path / "copy", tmp_path / "store"
    command = cp("-r", f"{url}/tree", target, store=store)
    numbers = random.Random(5)
    while killed_after(command, log, numbers.randrange(1, 120)):
        assert_same(folder / "tree", target, whole=False)
    assert_same(folder / "tree", target)


def test_a_killed_upload_continues(hither, dav, tmp_path):
    folder, url, _ = dav
    total = write_tree(tmp_path / "tree", 96, 60)
    numbers, kills = random.Random(7), 4
    with behind_relay(url) as relay:
        command = cp("-r", tmp_path / "tree", f"http://127.0.0.1:{relay.port}/up", store=tmp_path / "store")
        for _ in range(kills):
            # Together less than the tree.
            relay.hold_after(numbers.randrange(total // (kills + 1)))
            assert killed_when(command, relay.held.is_set)
            relay.release(cut=True)
        told = ended(command)
    assert told["failures"] == []
    assert_same(tmp_path / "tree", folder / "up")


@pytest.fixture(params=["apache", "hither"])
def writable(request, tmp_path):
    """A server that accepts files in pieces: its folder, and a relay before it."""
    if request.param == "apache":
        folder, url, _ = request.getfixturevalue("dav")
        with behind_relay(url) as relay:
            yield folder, relay
        return
    with serving(tmp_path, "--write") as served, behind_relay(served.base) as relay:
        yield served.folder, relay


@pytest.mark.parametrize("connections", [1, CONNECTIONS])
def test_a_killed_upload_continues_over_one_connection(writable, tmp_path, connections):
    """Either the first blocks have arrived, or some of several connections. At most one block of each connection is
    sent again."""
    folder, relay = writable
    url = f"http://127.0.0.1:{relay.port}"
    content = random.Random(9).randbytes(64 << 20)
    local, store = tmp_path / "large", tmp_path / "store"
    local.write_bytes(content)
    command = [local, f"{url}/large"]
    first = cp(*command, store=store, connections=connections)
    relay.hold_after(11 * BLOCK + BLOCK // 2)
    whole = 11 - connections
    assert killed_when(first, lambda: journal_of(store).count(b'"block"') >= whole)
    relay.release(cut=True)
    told = ended(cp(*command, store=store, connections=1))
    assert told["bytes_resumed"] >= whole * BLOCK
    assert relay.taken <= len(content) + (connections + 1) * BLOCK
    assert (folder / "large").read_bytes() == content
    printed = [HITHER, "cp", "--no-store", "--max-connections", "1", f"{url}/large", "-"]
    assert subprocess.run(printed, capture_output=True, check=True, timeout=240).stdout == content


def test_an_uploaded_tree_downloads_unchanged(hither, dav, tmp_path):
    folder, url, _ = dav
    write_tree(tmp_path / "tree", 9, 50)
    store = tmp_path / "store"
    up = ended(cp("-r", tmp_path / "tree", f"{url}/up", store=store))
    assert up["files"] == 51
    assert_same(tmp_path / "tree", folder / "up")
    down = ended(cp("-r", f"{url}/up", tmp_path / "down", store=store))
    assert down["files"] == 51
    assert_same(tmp_path / "tree", tmp_path / "down")
    again = ended(cp("-r", "-u", f"{url}/up/.", tmp_path / "down", store=store))
    assert (again["files"], again["files_skipped"]) == (0, 51)
    across = ended(cp("-r", f"{url}/up", f"{url}/across", store=store))
    assert across["files"] == 51
    assert_same(tmp_path / "tree", folder / "across")


def test_a_file_is_copied_from_a_server_without_listings(hither, site, tmp_path):
    content = random.Random(1).randbytes(5_000_000)
    url = site.put("one file", content).replace(" ", "%20")
    target = tmp_path / "here"
    target.mkdir()
    told = hither("cp", "--json", "--no-store", "--checksum", "sha256", url, target)
    assert told.code == 0, told.err
    assert (target / "one file").read_bytes() == content
    printed = subprocess.run([HITHER, "cp", "--no-store", url, "-"], capture_output=True, check=True).stdout
    assert printed == content
    nowhere = hither("cp", "--json", "--no-store", url, "/dev/null")
    assert nowhere.json["bytes"] == len(content)


@pytest.mark.parametrize("stores", [("one", "other"), ("", "")])
def test_two_downloads_to_one_name_at_once_leave_the_file(tmp_path, stores):
    """Both have begun before the server sends the file to either of them."""
    begun = threading.Barrier(2)
    asked: list[int] = []

    def together(server: Exchange) -> bool:
        if server.command == "GET" and len(asked) < 2:
            asked.append(server.client_address[1])
            begun.wait(120)
        return False

    content = random.Random(30).randbytes(300_000)
    target = tmp_path / "here"
    target.mkdir()
    with foreign_server.serving(Site({"/": None, "/a.dat": content}, together)) as server:
        url = f"http://127.0.0.1:{server.port}/a.dat"
        kept = [["--store", str(tmp_path / store)] if store else ["--no-store"] for store in stores]
        jobs = [subprocess.Popen([HITHER, "cp", *store, url, str(target)], stderr=subprocess.PIPE) for store in kept]
        said = [(job.communicate(timeout=240)[1].decode(), job.returncode) for job in jobs]
    assert [code for _, code in said] == [0, 0], said
    assert [(path.name, path.read_bytes()) for path in target.iterdir()] == [("a.dat", content)]


def test_a_wrong_checksum_is_an_error_and_leaves_nothing(hither, site, tmp_path):
    url = site.put("file", bytes(5_000_000))
    told = hither("cp", "--no-store", "--checksum", "adler32:12345678", url, tmp_path / "file")
    assert told.code == CORRUPT, told.err
    assert "12345678" in told.err
    assert not any(it.name == "file" or it.name.startswith(".hither") for it in tmp_path.iterdir())


def test_every_failure_is_reported_and_the_other_files_are_copied(hither, site, tmp_path):
    good = site.put("good", b"good")
    target = tmp_path / "here"
    target.mkdir()
    told = hither("cp", "--json", "--no-store", site.url("none"), good, site.url("forbidden"), target)
    assert told.code in (3, 4), told.err
    assert [it["error"]["kind"] for it in told.json["failures"]].count("not_found") == 1
    assert (target / "good").read_bytes() == b"good"
    assert "404" in told.err and "403" in told.err


def test_a_copy_reads_from_replicas_of_options_and_rules(hither, site, tmp_path):
    content = random.Random(3).randbytes(9_000_000)
    url, again = site.put("file", content), site.put("again", content)
    nowhere = "http://127.0.0.1:1/file"
    # A server that refuses connections is waited for.
    cp = ("cp", "--json", "--no-store", "--connect-timeout", "1")
    told = hither(*cp, "--replica", again, "--replica", nowhere, url, tmp_path / "copied")
    assert told.code == 0, told.err
    assert (tmp_path / "copied").read_bytes() == content
    servers = {it["server"]: it["bytes"] for it in told.json["sources"]}
    # The rest of a slow piece is requested again.
    assert len(content) <= sum(servers.values()) < 2 * len(content) and servers["http://127.0.0.1:1"] == 0
    assert "127.0.0.1:1" in "".join(told.json["notices"])
    config = tmp_path / "config.toml"
    config.write_text(f'[[mirror]]\nprefix = "http://127.0.0.1:1/"\nelsewhere = ["{site.url("")}"]\n')
    told = hither(*cp, "--config", config, nowhere, tmp_path / "by rule")
    assert told.code == 0, told.err
    assert (tmp_path / "by rule").read_bytes() == content


def test_replicas_belong_to_one_source(hither, site, tmp_path):
    url = site.put("file", b"bytes")
    told = hither("cp", "--no-store", "--replica", site.url("other"), url, url, tmp_path)
    assert told.code == 2 and "replicas of one source" in told.err
    dav = url.replace("http://", "dav://")
    assert hither("cat", "--no-store", "--replica", dav, dav).out == "bytes"
