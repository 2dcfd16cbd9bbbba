"""Trees between `hither serve` and `hither cp`: their cost, resumption and refusals."""

import json
import random
import re
import socketserver
import struct
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from served import PATIENCE, serving
from storage.test_copy import assert_same, behind_relay, cp, ended, journal_of, killed_when, write_tree

SIZES = [1000, pytest.param(5000, marks=pytest.mark.soak)]
"""Files of a tree."""
MIN_BATCH_FILES = 16
TREE = "application/vnd.hither.tree.v1"
QUERY = "application/vnd.hither.tree-query.v1"


def small_tree(root: Path, files: int) -> int:
    """Writes small files in fifty directories. Returns their total size."""
    noise = random.Random(files).randbytes(1 << 16)
    total = 0
    for number in range(files):
        folder = root / f"run {number % 50}"
        folder.mkdir(parents=True, exist_ok=True)
        total += (folder / f"event-{number}").write_bytes(noise[number : number + number % 4000])
    return total


def methods(lines: list[dict]) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in lines:
        found[line["method"]] = found.get(line["method"], 0) + 1
    return found


pytestmark = [pytest.mark.usefixtures("hither"), pytest.mark.in_memory]


@pytest.mark.parametrize("count", SIZES)
def test_thousands_of_files_take_few_requests(tmp_path, count):
    with serving(tmp_path) as served:
        total = small_tree(served.folder / "tree", count)
        told = ended(cp("-r", served.url("tree"), tmp_path / "copy", store=tmp_path / "store"))
        again = ended(cp("-r", "-u", served.url("tree/."), tmp_path / "copy", store=tmp_path / "store"))
        served.stop()
        lines = served.logged()
    assert (told["files"], told["bytes"], told["failures"]) == (count, total, [])
    assert (again["files"], again["files_skipped"]) == (0, count)
    assert_same(served.folder / "tree", tmp_path / "copy")
    # The first copy queries the directory once. The second knows the server, and sends requests by name.
    assert methods(lines) == {"PROPFIND": 1, "QUERY": methods(lines)["QUERY"]}
    assert methods(lines)["QUERY"] <= 2 + count // MIN_BATCH_FILES
    assert sum(line.get("ranges") or 0 for line in lines) == count, "each file is asked for once"
    assert sum(line["sent"] for line in lines) < total + count * 300


def test_times_and_modes_come_with_the_files(tmp_path):
    with serving(tmp_path) as served:
        small_tree(served.folder / "tree", 60)
        script = served.folder / "tree/run 1/event-1"
        script.chmod(0o755)
        ended(cp("-r", served.url("tree"), tmp_path / "copy", store=tmp_path / "store"))
    for path in (it for it in (served.folder / "tree").rglob("*") if it.is_file()):
        copied = (tmp_path / "copy" / path.relative_to(served.folder / "tree")).stat()
        assert copied.st_mtime_ns == path.stat().st_mtime_ns
        assert (copied.st_mode & 0o100 != 0) == (path == script)


def test_large_and_small_files_mix(tmp_path):
    with serving(tmp_path) as served:
        write_tree(served.folder / "tree", 60, 500)
        told = ended(cp("-r", served.url("tree"), tmp_path / "copy", store=tmp_path / "store"))
    assert (told["files"], told["failures"]) == (501, [])
    assert_same(served.folder / "tree", tmp_path / "copy")


@pytest.mark.slow
@pytest.mark.parametrize("count", [5_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_a_killed_copy_of_small_files_continues(tmp_path, count):
    with serving(tmp_path) as served, behind_relay(served.base) as relay:
        total = small_tree(served.folder / "tree", count)
        target, store = tmp_path / "copy", tmp_path / "store"
        command = cp("-r", f"http://127.0.0.1:{relay.port}/tree", target, store=store)
        numbers, kills = random.Random(9), 8
        for _ in range(kills):
            relay.hold_after(numbers.randrange(total // 20, total // 5))
            assert killed_when(command, relay.held.is_set)
            relay.release(cut=True)
        assert_same(served.folder / "tree", target, whole=False)
        # A record is for all files of a request, so those of the interrupted ones are fetched again.
        done = set(re.findall(rb'"done":{"target":"([^"]*)"', journal_of(store)))
        told = ended(command)
    assert told["failures"] == []
    assert_same(served.folder / "tree", target)
    assert (told["files"], told["files_skipped"]) == (count - len(done), len(done))
    assert done


def test_a_directory_that_is_refused_fails_alone(tmp_path):
    config = tmp_path / "hither.toml"
    config.write_text("[limits]\nnames = 100\n")
    with serving(tmp_path, "--config", config) as served:
        for number in range(150):
            served.file(f"tree/many/{number}", b"x")
            served.file(f"tree/few/{number % 90}", b"y")
        told = subprocess.run(
            cp("-r", served.url("tree"), tmp_path / "copy", store=tmp_path / "store"),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    summary = json.loads(told.stdout)
    assert told.returncode != 0
    assert [it["source"].endswith("tree/many") for it in summary["failures"]] == [True]
    assert "more than 100 entries" in told.stderr
    assert len(list((tmp_path / "copy/few").iterdir())) == 90


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def number(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def record(kind: bytes, text: bytes, content: bytes = b"") -> bytes:
    head = kind + len(text).to_bytes(3, "big") + struct.pack(">I", len(content))
    return head + struct.pack(">I", crc32c(head + text + content)) + text + content


def entry(path: bytes, size: int) -> bytes:
    return number(0) + number(size) + number(0) + path


def stream(*records: bytes, contents: int = 0) -> bytes:
    return b"".join(records) + record(b"Z", number(len(records)) + number(contents))


class Hostile(socketserver.StreamRequestHandler):
    """Responds to every walk with the same bytes, and to every request for files with other ones."""

    def handle(self) -> None:
        while head := self.rfile.readline():
            length = 0
            while (line := self.rfile.readline()).strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            body = self.rfile.read(length)
            if head.startswith(b"PROPFIND"):
                told = (
                    b'<D:multistatus xmlns:D="DAV:"><D:response><D:href>/tree/</D:href><D:propstat><D:prop>'
                    b"<D:resourcetype><D:collection/></D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status>"
                    b"</D:propstat></D:response></D:multistatus>"
                )
                self.answer(b"207 Multi-Status", b"application/xml", told)
            elif body.startswith(b"W"):
                self.server.asked.append(body)
                self.answer(b"200 OK", TREE.encode(), self.server.walk)
            else:
                self.server.asked.append(body)
                self.answer(b"200 OK", TREE.encode(), self.server.files)

    def answer(self, status: bytes, kind: bytes, body: bytes) -> None:
        fields = b'Accept-Query: "%s"\r\nContent-Type: %s\r\nContent-Length: %d' % (QUERY.encode(), kind, len(body))
        self.wfile.write(b"HTTP/1.1 " + status + b"\r\n" + fields + b"\r\n\r\n" + body)


@contextmanager
def hostile(walk: bytes, files: bytes, handler: type[Hostile] = Hostile):
    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), handler) as server:
        server.walk, server.files, server.asked = walk, files, []
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_address[1]}/tree"
        finally:
            server.shutdown()
            thread.join()


GOOD = record(b"C", entry(b"a", 5), b"bytes")
WALK = stream(record(b"F", entry(b"a", 5)))
FLIPPED = GOOD[:-1] + bytes([GOOD[-1] ^ 1])

HOSTILE = {
    "a name that leads out": (stream(record(b"F", entry(b"../evil", 5))), b""),
    "an absolute name": (stream(record(b"F", entry(b"/tmp/evil", 5))), b""),
    "a name with NUL": (stream(record(b"F", entry(b"a\0b", 5))), b""),
    "a name twice": (stream(record(b"F", entry(b"a", 5)), record(b"F", entry(b"a", 5))), stream(GOOD, contents=5)),
    "a file without its directory": (stream(record(b"F", entry(b"d/a", 5))), b""),
    "a truncated walk": (WALK[:-3], stream(GOOD, contents=5)),
    "a walk without its end": (record(b"F", entry(b"a", 5)), stream(GOOD, contents=5)),
    "a truncated file": (WALK, stream(GOOD, contents=5)[:-30]),
    "a flipped bit": (WALK, stream(FLIPPED, contents=5)),
    "another file": (WALK, stream(record(b"C", entry(b"b", 5), b"bytes"), contents=5)),
    "a file that leads out": (WALK, stream(record(b"C", entry(b"../a", 5), b"bytes"), contents=5)),
    "a file less": (WALK, stream()),
    "no end of a record": (WALK, b"C\xff\xff\xff\xff\xff\xff\xff" + bytes(4)),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_server_is_reported_and_writes_nothing_elsewhere(what, tmp_path):
    walk, files = HOSTILE[what]
    (tmp_path / "into").mkdir()
    with hostile(walk, files) as (server, url):
        command = cp("-r", url, tmp_path / "into/copy", store=tmp_path / "store")
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        asked = len(server.asked)
    assert told.returncode != 0, told.stdout
    assert json.loads(told.stdout)["failures"], told.stderr
    assert asked <= 12, "attempts are bounded"
    left = [it for it in tmp_path.rglob("*") if it.is_file() and tmp_path / "store" not in it.parents]
    assert [it.name for it in left if not it.name.startswith(".hither-")] in ([], ["a"])
    assert all(it.parent == tmp_path / "into/copy" for it in left)


def test_what_a_good_server_sends_is_copied(tmp_path):
    with hostile(WALK, stream(GOOD, contents=5)) as (_, url):
        told = ended(cp("-r", url, tmp_path / "copy", store=tmp_path / "store"))
    assert (told["files"], (tmp_path / "copy/a").read_bytes()) == (1, b"bytes")


# Soak: more small files than may wait, so that a walk which kept the connection busy would never end.
@pytest.mark.parametrize("count", [500, pytest.param(20_000, marks=pytest.mark.soak)])
def test_a_large_tree_is_copied_over_a_single_connection(tmp_path, count):
    """None of the small files that wait for the only connection may keep it busy: the walk is over before."""
    with serving(tmp_path) as served:
        for nth in range(count):
            served.file(f"tree/{nth}", b"1")
        command = cp("-r", served.url("tree"), tmp_path / "copy", store=tmp_path / "store", connections=1)
        assert ended(command)["files"] == count
        served.stop()
        assert methods(served.logged()).keys() == {"PROPFIND", "GET"}, "no walk in one request"
