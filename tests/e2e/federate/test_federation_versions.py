"""One version of each file: writes through a federation while endpoints are down, and the bytes that its relay
sends."""

import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
from federated import ask, endpoints, running
from loopback_server import LoopbackServer, QuietHandler
from served import PATIENCE

from bench.harness import servers
from bench.harness.links import Loopback

MIB = 1 << 20
SIZE = 12 * MIB
MONDAY, SUNDAY = "Mon, 23 Nov 2026 10:00:00 GMT", "Sun, 22 Nov 2026 10:00:00 GMT"


class Replica(LoopbackServer):
    """A server with the file `/f`, which repeats one byte; serves ranges of it up to `until`, and then breaks
    connections."""

    def __init__(self, byte: bytes, date: str | None, until: int = SIZE):
        class Handler(QuietHandler):
            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                start, end = (int(found[1]), int(found[2]) + 1) if found else (0, SIZE)
                if self.path != "/f":
                    return self.answer(HTTPStatus.NOT_FOUND)
                if self.command not in ("GET", "HEAD"):
                    return self.answer(HTTPStatus.METHOD_NOT_ALLOWED)
                if end > until and self.command == "GET":
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return None
                fields = {"Accept-Ranges": "bytes", "ETag": f'"{byte.decode()}"'}
                fields |= {"Last-Modified": date} if date else {}
                if found:
                    fields["Content-Range"] = f"bytes {start}-{end - 1}/{SIZE}"
                status = HTTPStatus.PARTIAL_CONTENT if found else HTTPStatus.OK
                return self.answer(status, end - start, fields)

            do_HEAD = do_PROPFIND = do_OPTIONS = do_QUERY = do_GET  # noqa: N815

            def answer(self, status, size=0, fields=()):
                self.send_response(status)
                for name, value in dict(fields).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(size))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(byte * size)

        super().__init__(Handler)


def relayed(folder: Path, first: Replica, second: Replica) -> tuple[int, bytes]:
    """The status of a relayed response, and the received part of its body."""
    with first, second:
        ports = {"first": first.port, "second": second.port}
        text = endpoints(ports, **dict.fromkeys(ports, "redirects = []"))
        with running(folder, text, {}, ports) as federated, socket.create_connection(
            ("127.0.0.1", int(federated.base.rstrip("/").rpartition(":")[2])), PATIENCE
        ) as connection:
            connection.sendall(b"GET /f HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            response = b"".join(iter(lambda: connection.recv(MIB), b""))
    head, _, body = response.partition(b"\r\n\r\n")
    assert f"content-length: {SIZE}".encode() in head.lower()
    return int(head.split()[1]), body


@pytest.mark.parametrize("date", [SUNDAY, None], ids=["older", "undated"])
def test_a_relayed_response_breaks_off_before_another_version(tmp_path, date):
    status, body = relayed(tmp_path, Replica(b"1", MONDAY, until=4 * MIB), Replica(b"2", date))
    # On a busy machine the first may be silent for so long that the second is asked before.
    assert (status, body in (b"1" * min(len(body), 4 * MIB), b"2" * SIZE)) == (200, True), len(body)
    assert body


def test_a_relayed_response_goes_on_with_the_same_version(tmp_path):
    status, body = relayed(tmp_path, Replica(b"1", MONDAY, until=4 * MIB), Replica(b"2", MONDAY))
    # The second may be asked before, as above.
    assert (status, len(body), set(body[: 4 * MIB]) <= set(b"12")) == (200, SIZE, True)
    assert body[4 * MIB :] == b"2" * 8 * MIB


@contextmanager
def two_of_ours(folder: Path, federations: int = 1):
    """Runs federations over two writable servers; returns the federations, and the servers' folders and ports."""
    with ExitStack() as stack:
        folders = {name: folder / name for name in ("one", "other")}
        ports = {}
        for name, path in folders.items():
            path.mkdir()
            ports[name] = stack.enter_context(servers.hither(Loopback(), path, more=("--write",)))
        text = "write = true\n[federation]\ndeletes = 'all'\n" + endpoints(ports, **dict.fromkeys(ports, "write = true"))
        started = []
        for number in range(federations):
            (folder / f"{number}").mkdir()
            started.append(stack.enter_context(running(folder / f"{number}", text, folders, ports)))
        yield started


@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "known"])
def test_nothing_is_written_elsewhere_while_the_holder_of_a_name_is_down(tmp_path, is_known):
    with two_of_ours(tmp_path) as [federated]:
        federated.put("d/held", "one")
        federated.put("d/there", "other")
        if is_known:
            assert ask(federated.url("d/held"))[0] == 302
            assert ask(federated.url("d/new"))[0] == 404
            assert ask(federated.url("d/"), "PROPFIND", {"Depth": "1"})[0] == 207
        servers.kill(federated.ports["one"])
        before = sorted(federated.folders["other"].rglob("*"))
        to = federated.url("d/held")
        for method, name, fields in [
            ("PUT", "d/held", {}),
            ("PUT", "d/held", {"If-None-Match": "*"}),
            ("PUT", "d/new", {"If-None-Match": "*"}),
            ("COPY", "d/held", {"Source": "https://else.example/f"}),
            ("MOVE", "d/there", {"Destination": to}),
            ("MOVE", "d/there", {"Destination": to, "Overwrite": "F"}),
            ("MOVE", "d/held", {"Destination": federated.url("d/moved")}),
            ("DELETE", "d/held", {}),
            ("DELETE", "d/there", {}),
            ("MKCOL", "d/made", {}),
        ]:
            status, answer, body = ask(federated.url(name), method, fields, b"new" if method == "PUT" else None)
            assert (status, "retry-after" in answer) == (503, True), (method, name, fields)
            assert b"have not answered: one" in body, (method, name, fields)
        assert sorted(federated.folders["other"].rglob("*")) == before


def test_two_federations_send_the_writers_of_one_new_name_to_one_endpoint(tmp_path):
    barrier = threading.Barrier(2)

    def put(base: str, name: str, content: bytes) -> tuple[str, int]:
        barrier.wait(PATIENCE)
        status, fields, _ = ask(f"{base}{name}", "PUT", {"If-None-Match": "*"}, content)
        assert status == 307
        return fields["location"], ask(fields["location"], "PUT", {"If-None-Match": "*"}, content)[0]

    with two_of_ours(tmp_path, 2) as federations, ThreadPoolExecutor(2) as pool:
        used = set()
        for number in range(16):
            name = f"d{number}/new"
            (federations[0].folders["one"] / name).parent.mkdir()
            bases = [it.base for it in federations]
            (here, one), (there, other) = pool.map(put, bases, [name] * 2, [b"1", b"2"])
            assert here == there
            assert sorted([one, other]) == [201, 412]
            used.add(here.partition("/d")[0])
        assert len(used) == 2
