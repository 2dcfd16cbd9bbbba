"""Trees of small files from `hither cp` and `hither sync` to `hither serve`: their cost, resumption and refusals."""

import json
import os
import signal
import subprocess
from contextlib import suppress

import pytest
from served import PATIENCE, serving
from storage.test_copy import assert_same, behind_relay, cp, ended, killed_after, write_tree
from storage.test_directory_trees import MIN_BATCH_FILES, SIZES, TREE, Hostile, entry, hostile, methods, number, record
from storage.test_directory_trees import small_tree, stream

from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER
from bench.harness.servers import NO_FLOOR
from bench.harness.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("hither"), pytest.mark.in_memory]


@pytest.mark.parametrize("files", SIZES)
def test_thousands_of_files_go_in_few_requests(tmp_path, files):
    tree, store = tmp_path / "tree", tmp_path / "store"
    total = small_tree(tree, files)
    (tree / "empty/below").mkdir(parents=True)
    with serving(tmp_path, "--write") as served:
        told = ended(cp("-r", tree, served.url("copy"), store=store))
        again = ended(cp("-r", "-u", f"{tree}/.", served.url("copy"), store=store))
        served.stop()
        lines = served.logged()
        assert_same(tree, served.folder / "copy")
    assert (told["files"], told["bytes"], told["failures"]) == (files, total, [])
    assert (told["directories"], told["bytes_resent"]) == (53, 0)
    assert (again["files"], again["files_skipped"]) == (0, files)
    count = methods(lines)
    assert count.keys() == {"PROPFIND", "HEAD", "MKCOL", "POST", "QUERY"}
    # A 404 to the first PROPFIND may refer to the method, so a HEAD follows. At the end of each copy the directory with
    # names like "run 7" is listed: a server may store names with a blank otherwise.
    assert (count["PROPFIND"], count["HEAD"], count["MKCOL"]) == (6, 2, 1)
    # The second copy sends directories, and queries the existing files.
    assert count["POST"] <= 8 + files // MIN_BATCH_FILES
    posts = [line for line in lines if line["method"] == "POST"]
    assert sum(line["received"] for line in posts) < total + files * 100
    assert sum(line["ranges"] for line in posts) < files + len(posts) * 53


@pytest.mark.netns
def test_a_link_of_50_ms_is_crossed_a_few_times(tmp_path, netns):
    tree, store = tmp_path / "tree", tmp_path / "store"
    small_tree(tree, 1000)
    with Wan(Link("u", 50, None, "another country"), real_time=True) as where:
        folder, config = tmp_path / "www", tmp_path / "hither.toml"
        folder.mkdir()
        config.write_text(f"anonymous_write = true\n{NO_FLOOR}")
        address = f"{where.server_host}:8099"
        flags = ("--json", "--write", "--config", config, "--listen", address)
        command = where.server([str(it) for it in (HITHER, "serve", *flags, folder)])
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert json.loads(server.stdout.readline())
            trips = []
            for name in ("first", "second"):
                where.reset()
                ended(where.client(cp("-r", tree, f"http://{address}/{name}", store=store)))
                trips.append(where.stats()["round_trips"])
                assert_same(tree, folder / name)
        finally:
            server.terminate()
            server.wait(PATIENCE)
    # As single files, on the same number of connections, they take some 550.
    assert max(trips) <= 12, trips


def test_times_and_the_right_to_execute_go_with_the_files(tmp_path):
    tree = tmp_path / "tree"
    small_tree(tree, 60)
    script = tree / "run 1/event-1"
    script.chmod(0o700)
    os.utime(script, ns=(1, 1_500_000_000_123_456_789))
    with serving(tmp_path, "--write") as served:
        ended(cp("-r", tree, served.url("copy"), store=tmp_path / "store"))
        for path in (it for it in tree.rglob("*") if it.is_file()):
            copied = (served.folder / "copy" / path.relative_to(tree)).stat()
            assert copied.st_mtime_ns == path.stat().st_mtime_ns
            assert (copied.st_mode & 0o100 != 0) == (path == script)


def test_large_and_small_files_go_together(tmp_path):
    write_tree(tmp_path / "tree", 20, 500)
    with serving(tmp_path, "--write") as served:
        told = ended(cp("-r", tmp_path / "tree", served.url("copy"), store=tmp_path / "store"))
        assert_same(tmp_path / "tree", served.folder / "copy")
    assert (told["files"], told["failures"]) == (501, [])


def test_existing_files_are_kept_updated_or_replaced(tmp_path):
    tree, store = tmp_path / "tree", tmp_path / "store"
    small_tree(tree, 100)
    with serving(tmp_path, "--write") as served:
        there = served.folder / "copy"
        for name in ("run 1/event-1", "run 2/event-2"):
            served.file(f"copy/{name}", b"another")
        (there / "run 3/event-3").mkdir(parents=True)

        def copied(*flags: str) -> dict:
            command = cp("-r", *flags, f"{tree}/.", served.url("copy"), store=store)
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
            assert done.returncode != 0, "a directory is in the way of a file"
            told = json.loads(done.stdout)
            assert [it["source"].endswith("run 3/event-3") for it in told["failures"]] == [True]
            return told

        assert copied("-n")["files_skipped"] == 2
        assert (there / "run 1/event-1").read_bytes() == b"another"
        assert copied("-u")["files"] == 2, "those of another size"
        assert (there / "run 1/event-1").read_bytes() == (tree / "run 1/event-1").read_bytes()
        (there / "run 3/event-3").rmdir()
        assert ended(cp("-r", f"{tree}/.", served.url("copy"), store=store))["files"] == 1, "the journal has the others"
        assert_same(tree, there)


def test_a_mirror_sends_what_differs_together(tmp_path):
    tree = tmp_path / "tree"
    small_tree(tree, 500)
    with serving(tmp_path, "--write") as served:
        command = [HITHER, "sync", "--json", "--delete", "--store", tmp_path / "store", tree, served.url("mirror")]
        first = ended([str(it) for it in command])
        (tree / "run 1/event-1").write_bytes(b"changed")
        (tree / "run 2/event-2").unlink()
        (tree / "new/folder").mkdir(parents=True)
        second = ended([str(it) for it in command])
        assert_same(tree, served.folder / "mirror")
        served.stop()
        lines = served.logged()
    assert (first["files"], second["files"], second["files_deleted"]) == (500, 1, 1)
    assert "PUT" not in methods(lines)
    assert methods(lines)["MKCOL"] == 1


# Soak: a kill in the middle needs 20,000 files.
@pytest.mark.soak
def test_a_killed_upload_continues(tmp_path):
    tree = tmp_path / "tree"
    small_tree(tree, 20_000)
    with serving(tmp_path, "--write") as served:
        command = cp("-r", tree, served.url("copy"), store=tmp_path / "store")
        kills = sum(killed_after(command, served.log, requests) for requests in (6, 9, 14, 12))
        assert_same(tree, served.folder / "copy", whole=False)
        told = ended(command)
        assert_same(tree, served.folder / "copy")
    assert kills >= 3
    assert 0 < told["files"] < 20_000, "what an earlier attempt has sent is left alone"


@pytest.mark.parametrize("verb", ["cp", "cp -r", "sync"])
def test_killed_uploads_leave_no_partial_files_once_one_has_ended(tmp_path, verb):
    """The files are larger than those that go together, and smaller than what the journal records blocks of."""
    tree, store = tmp_path / "tree", tmp_path / "store"
    tree.mkdir()
    for nth in range(1 if verb == "cp" else 4):
        (tree / f"f{nth}").write_bytes(os.urandom(3 << 20))
    with serving(tmp_path, "--write") as served, behind_relay(served.base) as relay:
        url = f"http://127.0.0.1:{relay.port}/copy"
        source, target = (tree / "f0", url) if verb == "cp" else (tree, url)
        command = [HITHER, *verb.split(), "--json", "--store", store, source, target]
        # What a server can is found out with files that a kill would leave, once.
        learning = [HITHER, "cp", "--json", "--store", store, tree / "f0", url.replace("/copy", "/learnt")]
        ended(list(map(str, learning)))
        (served.folder / "learnt").unlink()

        def partial() -> bool:
            # One that was left before may be removed meanwhile.
            with suppress(FileNotFoundError):
                return any(path.stat().st_size for path in served.folder.rglob(".hither-*.part"))
            return False

        for held_after in (1 << 20, 2 << 20, 2 << 20):
            relay.hold_after(held_after)
            client = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until(lambda: relay.held.is_set() and partial(), "a partial file")
            client.kill()
            client.wait(PATIENCE)
            relay.release(cut=True)
        ended(list(map(str, command)))
        there = [path for path in served.folder.rglob("*") if path.is_file()]
        assert sorted(path.read_bytes() for path in there) == sorted(path.read_bytes() for path in tree.iterdir())


def test_what_a_killed_server_has_reported_is_there(tmp_path):
    tree, store = tmp_path / "tree", tmp_path / "store"
    total = small_tree(tree, 10_000)
    with serving(tmp_path, "--write") as served, behind_relay(served.base) as relay:
        # The client waits a second for a server that refuses connections.
        command = cp("-r", "--connect-timeout", "1", tree, f"http://127.0.0.1:{relay.port}/copy", store=store)
        relay.hold_after(total // 2)
        client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        wait_until(lambda: served.log.read_text().count('"POST"') >= 6, "six answers")
        served.process.send_signal(signal.SIGKILL)
        relay.die()
        told = json.loads(client.communicate(timeout=PATIENCE)[0])
        served.process.wait(PATIENCE)
    assert client.returncode != 0
    assert told["files"] + len(told["failures"]) >= 10_000
    assert_same(tree, served.folder / "copy", whole=False)
    there = [it for it in (served.folder / "copy").rglob("*") if it.is_file() and not it.name.startswith(".hither-")]
    assert 0 < told["files"] <= len(there) < 10_000
    with serving(tmp_path, "--write") as served:
        again = ended(cp("-r", "-u", f"{tree}/.", served.url("copy"), store=store))
        assert_same(tree, served.folder / "copy")
    assert (again["files"], again["files_skipped"]) == (10_000 - len(there), len(there))


class HostileTaker(Hostile):
    """Offers to accept uploads, and responds to each with the same bytes."""

    def answer(self, status: bytes, kind: bytes, body: bytes) -> None:
        kind += b"\r\nAccept-Post: " + TREE.encode()
        super().answer(status, kind, body)


def stored(path: bytes, size: int) -> bytes:
    return record(b"S", entry(path, size))


def failed(path: bytes, status: int, reason: bytes) -> bytes:
    return record(b"E", number(status) + number(len(reason)) + reason + path)


GOOD = stored(b"a", 5)
ANSWERS = {
    "no result": stream(),
    "no end": GOOD,
    "a result twice": stream(GOOD, GOOD),
    "another file": stream(stored(b"b", 5)),
    "a file that leads out": stream(stored(b"../a", 5)),
    "another size": stream(stored(b"a", 4)),
    "a record of a walk": stream(record(b"F", entry(b"a", 5))),
    "a flipped bit": stream(GOOD[:-1] + bytes([GOOD[-1] ^ 1])),
    "a refusal": stream(failed(b"a", 403, b"not here")),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_a_server_that_does_not_say_that_a_file_is_stored_is_not_believed(what, tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_bytes(b"bytes")
    with hostile(b"", ANSWERS[what], HostileTaker) as (server, url):
        command = cp("-r", f"{tmp_path}/tree/.", url, store=tmp_path / "store")
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        asked = len(server.asked)
    assert told.returncode != 0, told.stdout
    summary = json.loads(told.stdout)
    assert (summary["files"], len(summary["failures"])) == (0, 1)
    assert 1 <= asked <= 6, "attempts are bounded"
    assert what != "a refusal" or "not here" in told.stderr


def test_a_server_that_says_so_is_believed(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_bytes(b"bytes")
    with hostile(b"", stream(GOOD), HostileTaker) as (server, url):
        told = ended(cp("-r", f"{tmp_path}/tree/.", url, store=tmp_path / "store"))
        (body,) = server.asked
    assert (told["files"], told["bytes"]) == (1, 5)
    assert body.startswith(b"C") and b"bytes" in body
