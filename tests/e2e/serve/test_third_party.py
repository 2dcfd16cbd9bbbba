"""Copies between servers on request of a client: with davix, gfal2 and curl as clients, and xrootd as the other
server."""

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from cutting import Relay
from loopback_server import LoopbackServer, QuietHandler
from served import CONTENT, DEBIANS_PYTHON, PATIENCE, Served, run, serving
from needs import require
from token_issuer import Issuer, Key

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until

SECRET = "Bearer c2VjcmV0LXRoYXQtbm9ib2R5LXNlZXM"
LARGE = b"".join(n.to_bytes(4, "big") for n in range(2 << 20))
PROBE = ("0", "12287")
"""The first and the last byte of the first request of a pull, as they are sent."""
SETTINGS = """
[third_party]
clear_text = true
networks = ["127.0.0.1", "::1"]
marker_seconds = 0.05
"""
# xrootd loads its third-party copy only with a certificate and authorities.
XROOTD = """
http.exthandler xrdtpc libXrdHttpTPC.so
xrootd.chksum max 2 adler32
xrd.tls {tls.certificate} {tls.key}
xrd.tlsca certfile {tls.authority}
"""


@contextmanager
def copying(folder: Path, settings: str = SETTINGS, *flags: str):
    """A server that copies from and to other servers on this machine."""
    folder.mkdir(exist_ok=True)
    config = folder / "serve.toml"
    config.write_text(f"write = true\n{settings}")
    with serving(folder, "--config", str(config), *flags) as served:
        yield served


@pytest.fixture
def here(tmp_path):
    with copying(tmp_path / "here") as served:
        yield served


@pytest.fixture
def there(tmp_path):
    with copying(tmp_path / "there") as served:
        yield served


@contextmanager
def xrootd(folder: Path):
    """xrootd with its third-party copy, with the same interface."""
    require("xrootd")
    folder.mkdir()
    folder.chmod(0o777)
    tls = servers.certificate(folder.parent)
    tls.key.chmod(0o400)
    if os.geteuid() == 0:
        shutil.chown(tls.key, "nobody")
    with servers.xrootd(Loopback(), folder, more=XROOTD.format(tls=tls)) as port:
        yield Served(f"http://127.0.0.1:{port}/", folder, folder, servers.PROCESSES[port], {})


def gfal(mode: str, source: str, destination: str, *flags: str) -> None:
    schemes = [url.replace("http://", "dav://") for url in (source, destination)]
    run("gfal-copy", "--copy-mode", mode, *flags, *schemes, **DEBIANS_PYTHON)


def davix(mode: str, source: str, destination: str) -> None:
    run("davix-cp", "--copy-mode", mode, source, destination)


def ours(mode: str, source: str, destination: str) -> None:
    run(HITHER, "cp", "--no-store", "--third-party", mode, source, destination)


CLIENTS = {"gfal-copy": gfal, "davix-cp": davix, "hither": ours}
KILLED = {
    "gfal-copy": ["gfal-copy", "--copy-mode", "pull"],
    "davix-cp": ["davix-cp", "--copy-mode", "pull"],
    "hither": [str(HITHER), "cp", "--no-store", "--third-party", "pull"],
}


def copy(active: Served, name: str, *fields: str, code: str = "202", **other: str) -> list[str]:
    """Requests a copy with curl; returns the lines of the response."""
    ((kind, url),) = other.items()
    shown = [word for field in (f"{kind.title()}: {url}", *fields) for word in ("-H", field)]
    told = run("curl", "-s", "-X", "COPY", *shown, "-w", "\n%{http_code}", active.url(name))
    *lines, status = told.splitlines()
    assert status == code, told
    return [line for line in lines if line]


def markers(lines: list[str]) -> list[int]:
    return [int(line.rpartition(" ")[2]) for line in lines if "Stripe Bytes Transferred" in line]


def inside(folder: Path) -> list[str]:
    """All names in a folder, including hidden ones, none of which is a partial file."""
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mode", ["pull", "push"])
def test_a_file_is_copied_from_server_to_server(here, there, client, mode):
    source, destination = there.file("source", LARGE), here.url("copied")
    CLIENTS[client](mode, source, destination)
    assert (here.folder / "copied").read_bytes() == LARGE
    assert inside(here.folder) == ["copied"]
    active, other = (here, there) if mode == "pull" else (there, here)
    assert (here.stop(), there.stop()) == (0, 0)
    copies = [line for line in active.logged() if line["method"] == "COPY"]
    assert [(line["status"], line["complete"]) for line in copies] == [(202, True)], "no other way was taken"
    # The file was sent directly between the two servers, not through the client.
    agents = {line["agent"] for line in other.logged() if line["method"] in ("GET", "PUT")}
    assert all(agent.startswith("hither/") for agent in agents) and agents, agents


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mode", ["pull", "push"])
@pytest.mark.parametrize("active", ["ours", "xrootd"])
def test_a_file_is_copied_between_hither_and_xrootd(here, tmp_path, client, mode, active):
    with xrootd(tmp_path / "xrootd") as other:
        # The server that fetches is the destination; the server that sends is the source.
        ours_is_source = (active == "ours") == (mode == "push")
        source, destination = (here, other) if ours_is_source else (other, here)
        CLIENTS[client](mode, source.file("source", LARGE), destination.url("copied"))
        assert (destination.folder / "copied").read_bytes() == LARGE
    here.stop()
    methods = [(line["method"], line["status"]) for line in here.logged()]
    assert (("COPY", 202) in methods) == (active == "ours"), methods


def third_party(mode: str, *words: str, code: int = 0) -> tuple[dict, str]:
    """Returns the JSON object of a third-party copy by `hither cp`, and its messages."""
    command = [HITHER, "cp", "--json", "--no-store", "--third-party", mode, *words]
    told = subprocess.run([str(it) for it in command], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert told.returncode == code, told.stderr
    return json.loads(told.stdout), told.stderr


@pytest.mark.parametrize("mode", ["pull", "push", "auto"])
def test_no_byte_of_a_third_party_copy_passes_the_client(here, there, mode):
    there.file("tree/large", LARGE)
    there.file("tree/below/small", b"small")
    told, _ = third_party(mode, "-r", there.url("tree"), here.url("copied"))
    assert (told["files"], told["bytes"], told["bytes_arrived"]) == (2, len(LARGE) + 5, 0), told
    assert [it["compared"] for it in told["checksums"]] == [True]
    assert (here.folder / "copied/large").read_bytes() == LARGE
    assert (here.folder / "copied/below/small").read_bytes() == b"small"


def test_files_wait_for_their_turn_where_the_server_moves_fewer_at_a_time(tmp_path):
    files, waits = 10, threading.Event()
    with copying(tmp_path / "here", SETTINGS + "transfers = 3\n") as here, Peer(CONTENT, waits=waits) as peer:

        def answers(status: int) -> list[str]:
            lines = map(json.loads, here.log.read_text().rpartition("\n")[0].splitlines())
            return [line["target"] for line in lines if (line["method"], line["status"]) == ("COPY", status)]

        urls = [f"http://127.0.0.1:{peer.port}/{number:02}" for number in range(files)]
        with ThreadPoolExecutor(1) as pool:
            copied = pool.submit(third_party, "pull", *urls, here.url("copied/"))
            try:
                # Four are requested at the start, and one client gets two of three places.
                wait_until(lambda: answers(503), "a file that has to wait")
            finally:
                waits.set()
            told, _ = copied.result()
        assert told["files"] == files, told
        assert [(here.folder / f"copied/{number:02}").read_bytes() for number in range(files)] == [CONTENT] * files
    assert len(answers(202)) == files
    # The others were requested as places became free.
    assert len(set(answers(503))) < 5, answers(503)
    assert ["moves no more files at a time" in notice for notice in told["notices"]] == [True], told


def test_more_files_at_a_time_are_moved_where_that_brings_more(tmp_path):
    """From a server that sends each of them with 200 kB/s."""
    files, size, slow = 30, 1 << 20, tmp_path / "slow"
    slow.mkdir(mode=0o755)
    names = [f"{number:02}" for number in range(files)]
    for name in names:
        (slow / name).write_bytes(LARGE[:size])
    limit, settings = "limit_rate 200k;", SETTINGS + "transfers = 64\n"
    with copying(tmp_path / "here", settings) as here, servers.nginx(Loopback(), slow, limits=limit) as port:
        urls = [f"http://127.0.0.1:{port}/{name}" for name in names]
        told, _ = third_party("pull", "--explain-tuning", *urls, here.url("copied/"))
        copied = [(here.folder / "copied" / name).read_bytes() == LARGE[:size] for name in names]
    assert (told["files"], all(copied)) == (files, True), told
    first, second = told["tuning"][:2]
    assert (first["knob"], first["phase"], first["to"]) == ("files", "ladder", 2 * first["from"]), told["tuning"]
    assert second["to"] >= first["to"], told["tuning"]


def test_servers_that_cannot_copy_are_gone_around_only_by_auto(tmp_path):
    with ExitStack() as stack:
        plain = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            plain.append(stack.enter_context(serving(tmp_path / name, "--write")))
        source, target = plain[0].file("source", LARGE), plain[1].url("copied")
        for mode in ("pull", "push"):
            told, _ = third_party(mode, source, target, code=8)
            assert "no third-party copies" in told["error"]["message"], told
        assert inside(plain[1].folder) == []
        told, said = third_party("auto", source, target)
        assert told["bytes_arrived"] >= len(LARGE) and "through this machine" in said, said
        assert (plain[1].folder / "copied").read_bytes() == LARGE
        local, _ = third_party("pull", source, str(tmp_path / "here"), code=8)
        assert "needs two servers" in local["error"]["message"]


def test_a_wrong_checksum_fails_the_copy_of_both_servers(here):
    with Peer(LARGE, digest="adler32=00000001") as peer:
        told, _ = third_party("pull", peer.url, here.url("copied"), code=7)
    assert "adler32:00000001" in told["error"]["message"]
    assert inside(here.folder) == []


def test_a_copy_over_tls_requires_a_trusted_certificate(tmp_path):
    tls = servers.certificate(tmp_path)
    flags = ["--tls-cert", str(tls.certificate), "--tls-key", str(tls.key)]
    known = f'[third_party]\nnetworks = ["127.0.0.1"]\nauthorities = "{tls.authority}"\n'
    unknown = '[third_party]\nnetworks = ["127.0.0.1"]\n'
    with ExitStack() as stack:
        there = stack.enter_context(copying(tmp_path / "there", "", *flags))
        source = there.file("source", LARGE)
        trusting = stack.enter_context(copying(tmp_path / "trusting", known))
        assert copy(trusting, "copied", source=source)[-1] == "success: Created"
        assert (trusting.folder / "copied").read_bytes() == LARGE
        careful = stack.enter_context(copying(tmp_path / "careful", unknown))
        last = copy(careful, "copied", source=source)[-1]
        assert last.startswith("failure: ") and "certificate" in last
        assert inside(careful.folder) == []


def test_markers_count_up_to_the_size_and_name_the_other_address(here, there):
    lines = copy(here, "copied", source=there.file("source", LARGE))
    counts = markers(lines)
    assert counts == sorted(counts) and counts[-1] == len(LARGE)
    port = there.base.rstrip("/").rpartition(":")[2]
    assert f"    RemoteConnections: tcp:127.0.0.1:{port}" in lines
    assert (lines[0], lines[-2], lines[-1]) == ("Perf Marker", "End", "success: Created")


def test_an_existing_file_is_kept_on_request(here, there):
    source = there.file("source", b"new")
    here.file("file", b"old")
    assert "the file exists" in copy(here, "file", "Overwrite: F", source=source, code="412")[0]
    assert (here.folder / "file").read_bytes() == b"old"
    gfal("pull", source, here.url("file"), "-f")
    assert (here.folder / "file").read_bytes() == b"new"
    assert "exists" in copy(there, "source", "Overwrite: F", destination=here.url("file"), code="412")[0]


class Peer(LoopbackServer):
    """A source that behaves according to `does` until the end of the block; `asked` has the methods and fields of
    requests."""

    def __init__(self, content: bytes, digest: str = "", **does):
        self.content, self.digest, self.does = content, digest, does
        self.asked: list[tuple[str, dict]] = []
        # `sent` is set after a part of the file was sent, `closed` once the other end has closed the connection.
        self.sent, self.closed = threading.Event(), threading.Event()
        self.sent_bytes, self.counting = 0, threading.Lock()
        peer = self

        class Handler(QuietHandler):
            def answer(self, status: int, content: bytes, **fields: str) -> None:
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()

            def common(self) -> bool:
                peer.asked.append((self.command, dict(self.headers)))
                needed = peer.does.get("needs")
                if needed and self.headers.get("Authorization") != needed:
                    self.answer(401, b"")
                    return False
                if to := peer.does.get("redirects"):
                    self.answer(307, b"", Location=to)
                    return False
                return True

            def do_HEAD(self):
                if self.common():
                    wanted = {"Digest": peer.digest} if peer.digest and "Want-Digest" in self.headers else {}
                    self.answer(200, peer.content, **wanted)

            def do_GET(self):
                if not self.common():
                    return
                if peer.does.get("whole"):
                    self.answer(200, peer.content)
                    self.wfile.write(peer.content)
                    return
                first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
                piece = peer.content[int(first) : int(last) + 1]
                self.answer(206, piece, Content_Range=f"bytes {first}-{last}/{len(peer.content)}")
                if waits := peer.does.get("waits"):
                    waits.wait(PATIENCE)
                # The first request shows if there is a page in place of the file.
                if peer.does.get("stalls") and (first, last) != PROBE:
                    with peer.counting:
                        peer.sent_bytes += len(piece) // 2
                    self.wfile.write(piece[: len(piece) // 2])
                    self.wfile.flush()
                    peer.sent.set()
                    # No more is sent; the next event is the end of the connection.
                    self.connection.settimeout(PATIENCE)
                    if self.connection.recv(1) == b"":
                        peer.closed.set()
                    self.close_connection = True
                elif peer.does.get("dies"):
                    self.wfile.write(piece[: len(piece) // 2])
                    self.close_connection = True
                else:
                    self.wfile.write(piece)

        super().__init__(Handler)
        self.url = f"http://127.0.0.1:{self.port}/file"

    def methods(self) -> set[str]:
        return {method for method, _ in self.asked}


def test_markers_count_no_bytes_that_have_not_arrived(here):
    """The source sends half of a large request, and then nothing."""
    require("curl")
    with Peer(LARGE, stalls=True) as peer:
        command = ["curl", "-sN", "-X", "COPY", "-H", f"Source: {peer.url}", here.url("copied")]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            lines = (line.rstrip() for line in client.stdout)
            # Markers come before the first byte, too.
            counts = (count for line in lines for count in markers([line]) if count > 0)
            assert max(itertools.islice(counts, 3)) <= peer.sent_bytes
        finally:
            client.kill()
            client.wait(PATIENCE)


def test_a_file_with_a_wrong_checksum_gets_no_name(here):
    with Peer(LARGE, digest="adler32=00000001") as peer:
        last = copy(here, "copied", source=peer.url)[-1]
        right = f"adler32:{zlib.adler32(LARGE):08x}"
        assert last.startswith("failure: ") and "adler32:00000001" in last and right in last, last
        with pytest.raises(AssertionError, match="adler32:00000001"):
            davix("pull", peer.url, here.url("copied"))
    assert inside(here.folder) == []
    for name, value in [("md5", hashlib.md5(LARGE)), ("sha-256", hashlib.sha256(LARGE))]:
        with Peer(LARGE, digest=f"{name}={value.hexdigest()}") as peer:
            required = "RequireChecksumVerification: true"
            assert copy(here, name, required, source=peer.url)[-1] == "success: Created"


def test_a_source_without_ranges_is_copied_by_a_confined_server(here):
    """The whole file is kept in a temporary file meanwhile, which the server may make in its own folder only."""
    with Peer(LARGE, whole=True) as peer:
        assert copy(here, "copied", source=peer.url)[-1] == "success: Created"
    assert inside(here.folder) == ["copied"]
    assert (here.folder / "copied").read_bytes() == LARGE


def test_a_source_that_keeps_failing_leaves_nothing(here):
    with Peer(LARGE, dies=True) as peer:
        # Each response delivers half of the rest, and the last one no byte.
        last = copy(here, "copied", source=peer.url)[-1]
    assert last.startswith("failure: ") and peer.url in last, last
    assert inside(here.folder) == []


def test_a_source_that_is_killed_leaves_nothing(tmp_path, here):
    with copying(tmp_path / "there") as there, Relay(int(there.base.rstrip("/").rpartition(":")[2])) as relay:
        there.file("source", LARGE)
        source = f"http://127.0.0.1:{relay.port}/source"
        relay.hold_after(len(LARGE) // 2)
        command = ["curl", "-sN", "-X", "COPY", "-H", f"Source: {source}", here.url("copied")]
        require("curl")
        client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in client.stdout:
            if re.search(r"Transferred: [1-9]", line):
                break
        there.process.kill()
        relay.release(cut=True)
        last = client.communicate(timeout=PATIENCE)[0].splitlines()[-1]
    assert last.startswith("failure: ") and f"127.0.0.1:{relay.port}" in last, last
    assert inside(here.folder) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_is_killed_ends_its_copy(here, client):
    require(KILLED[client][0])
    with Peer(LARGE, stalls=True) as peer:
        urls = [peer.url, here.url("copied")]
        process = subprocess.Popen([*KILLED[client], *urls], start_new_session=True, **DEBIANS_PYTHON)
        try:
            assert peer.sent.wait(PATIENCE)
            assert not peer.closed.is_set()
        finally:
            # Its own process group: the client, and programs that it may have started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)
        assert peer.closed.wait(PATIENCE), "the server still reads"
    assert here.stop() == 0
    assert inside(here.folder) == []
    assert [line["complete"] for line in here.logged() if line["method"] == "COPY"] == [False]


def test_a_copy_from_a_stalled_source_is_cancelled(tmp_path):
    settings = SETTINGS + "stall_seconds = 0.5\n"
    with copying(tmp_path / "here", settings) as here, Peer(LARGE, stalls=True) as peer:
        last = copy(here, "copied", source=peer.url)[-1]
        assert last.startswith("failure: ") and peer.url.removesuffix("/file") in last, last
        assert inside(here.folder) == []


def test_hosts_that_are_not_allowed_get_no_connection(tmp_path, here):
    with Peer(CONTENT) as peer:
        for settings in [
            "[third_party]\nclear_text = true\n",
            "[third_party]\nnetworks = ['127.0.0.1']\n",
            f"{SETTINGS}hosts = ['*.cern.ch']\n",
            f"{SETTINGS}ports = ['443']\n",
        ]:
            with copying(tmp_path / "careful", settings) as careful:
                host = peer.url.replace("127.0.0.1", "localhost")
                for url in [peer.url, host]:
                    copy(careful, "copied", source=url, code="403")
                    careful.file("file")
                    copy(careful, "file", destination=url, code="403")
        with serving(tmp_path, "--write") as closed:
            copy(closed, "copied", source=peer.url, code="501")
        assert peer.asked == []
        # A redirect does not extend the allowed addresses.
        with Peer(CONTENT, redirects=peer.url.replace("127.0.0.1", "127.0.0.2")) as sly:
            told = copy(here, "copied", source=sly.url, code="403")
            assert "127.0.0.2 has no public address" in told[0]
        assert peer.asked == []
    assert inside(here.folder) == []


def test_forwarded_fields_reach_only_the_other_server(tmp_path):
    settings = SETTINGS.replace('"::1"', '"127.0.0.2"')
    shown = [f"TransferHeaderAuthorization: {SECRET}", "TransferHeaderX-More: more", "Credential: none"]
    with copying(tmp_path / "here", settings) as here, Peer(CONTENT, needs=SECRET) as peer:
        assert copy(here, "copied", *shown, source=peer.url)[-1] == "success: Created"
        assert all(fields["Authorization"] == SECRET and fields["X-More"] == "more" for _, fields in peer.asked)
        without = copy(here, "other", source=peer.url)[-1]
        assert "401: the request has no TransferHeaderAuthorization" in without, without
        wrong = copy(here, "other", "TransferHeaderAuthorization: Bearer b3RoZXI", source=peer.url)[-1]
        assert "401: the credentials in TransferHeaderAuthorization are not sufficient" in wrong, wrong
        with Peer(CONTENT, redirects=peer.url.replace("127.0.0.1", "localhost")) as sly:
            assert copy(here, "other", *shown, source=sly.url)[-1].startswith("failure: ")
        assert "Authorization" not in peer.asked[-1][1], "behind a redirect it is another host"
        assert copy(here, "other", "Credential: gridsite", source=peer.url, code="400")
        here.stop()
        everything = here.log.read_text() + without + wrong
        assert SECRET.split()[1] not in everything and "b3RoZXI" not in everything


def test_a_copy_needs_the_permissions_of_its_request(tmp_path, there):
    with Issuer(Key(tmp_path, "key")) as issuer:
        auth = f'[auth]\naudience = ["https://se.example"]\n[[auth.issuers]]\nurl = "{issuer.url}"\n'
        with copying(tmp_path / "here", SETTINGS + auth) as here:
            (here.folder / "mine").mkdir()
            here.file("mine/file", b"mine")
            here.file("other", b"other")
            source, destination = there.file("source", b"source"), there.url("pushed")

            def token(scope: str) -> str:
                return f"Authorization: Bearer {issuer.token(scope)}"

            create, read = token("storage.create:/mine"), token("storage.read:/mine")
            assert copy(here, "mine/new", create, source=source)[-1] == "success: Created"
            assert copy(here, "mine/file", read, destination=destination)[-1] == "success: Created"
            copy(here, "mine/file", create, source=source, code="403")
            copy(here, "mine/newer", read, source=source, code="403")
            copy(here, "newer", create, source=source, code="403")
            copy(here, "mine/file", create, destination=destination, code="403")
            copy(here, "other", read, destination=destination, code="403")
            copy(here, "mine/newer", source=source, code="401")
            copy(here, "mine/file", destination=destination, code="401")
            assert (here.folder / "mine/new").read_bytes() == b"source"
            assert (here.folder / "mine/file").read_bytes() == b"mine"
            assert (there.folder / "pushed").read_bytes() == b"mine"


def test_a_file_without_space_is_not_fetched(tmp_path):
    with copying(tmp_path / "here", f"{SETTINGS}[lots]\nbytes = {1 << 30}\n") as here, Peer(LARGE) as peer:
        (here.folder / "lot").mkdir()
        wanted = json.dumps({"path": "/lot", "bytes": len(LARGE) + 100, "lease_seconds": 600})
        api = here.url(".well-known/hither/lots")
        made = json.loads(run("curl", "-sf", "-X", "POST", "-d", wanted, api))

        def used() -> int:
            return json.loads(run("curl", "-sf", f"{api}/{made['id']}"))["used_bytes"]

        assert copy(here, "lot/first", source=peer.url)[-1] == "success: Created"
        assert used() == len(LARGE)
        peer.asked.clear()
        assert "bytes are left" in copy(here, "lot/second", source=peer.url, code="507")[0]
        assert peer.methods() == {"HEAD"}
        assert (inside(here.folder / "lot"), used()) == (["first"], len(LARGE))


def test_a_partial_file_of_a_failed_push_is_removed(here):
    """A server that writes a PUT in place, and loses its disk in the middle of it."""
    taken: list[str] = []
    deleted = threading.Event()

    class Handler(QuietHandler):
        def do_HEAD(self):
            self.send_response(200 if taken else 404)
            self.send_header("Content-Length", "5")
            self.end_headers()

        def do_PUT(self):
            taken.append(self.path)
            self.rfile.read(1 << 20)
            self.send_response(507)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.close_connection = True

        def do_DELETE(self):
            deleted.set()
            self.send_response(204)
            self.end_headers()

    with LoopbackServer(Handler) as server:
        here.file("file", LARGE)
        url = f"http://127.0.0.1:{server.port}/file"
        last = copy(here, "file", destination=url)[-1]
        assert last.startswith("failure: ") and "127.0.0.1" in last, last
        assert deleted.wait(PATIENCE)


def test_an_error_names_the_host_that_does_not_resolve(here):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        last = copy(here, "copied", source=f"http://127.0.0.1:{nobody.getsockname()[1]}/file")[-1]
        assert last.startswith("failure: ") and "127.0.0.1" in last, last
    last = copy(here, "copied", source="http://no-such-host.invalid:8080/file")[-1]
    assert last.startswith("failure: ") and "no-such-host.invalid" in last, last
