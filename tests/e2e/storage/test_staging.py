"""`hither stage` and `cp --stage` with a server of the WLCG Tape REST API whose files are staged one by one."""

import json
import random
import re

import pytest
from loopback_server import LoopbackServer, QuietHandler
from storage.test_copy_messages import on_a_terminal

from bench.harness.paths import HITHER

OFFLINE, ONLINE = 190, 10


class TapeServer(LoopbackServer):
    """Files, some of which are on tape: each query of the progress brings `step` more of them to disk."""

    def __init__(self, files: dict[str, bytes], offline: set[str], step: int = 40, lost: str = "", dropped: str = ""):
        self.files, self.offline, self.step, self.lost, self.dropped = files, set(offline), step, lost, dropped
        self.asked: list[tuple[str, str, dict]] = []
        self.read_offline: list[str] = []
        tape = self

        class Handler(QuietHandler):
            def answer(self, status: int, content: bytes = b"", **fields: str) -> None:
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def told(self, status: int, value: object) -> None:
                self.answer(status, json.dumps(value).encode(), Content_Type="application/json")

            def do_HEAD(self):
                self.do_GET()

            def do_PROPFIND(self):
                self.answer(405)

            def do_GET(self):
                if self.path == "/.well-known/wlcg-tape-rest-api":
                    uri = f"http://127.0.0.1:{tape.port}/api/v1"
                    return self.told(200, {"sitename": "test", "endpoints": [{"uri": uri, "version": "v1"}]})
                if self.path == "/api/v1/stage/request-1":
                    tape.asked.append(("GET", self.path, {}))
                    states = [tape.state(path) for path in tape.requested if path != tape.dropped]
                    tape.offline -= set(sorted(tape.offline)[: tape.step])
                    return self.told(200, {"id": "request-1", "files": states})
                content = tape.files.get(self.path)
                if content is None:
                    return self.answer(404)
                if self.path in tape.offline:
                    tape.read_offline.append(self.path)
                    return self.answer(503)
                wanted = self.headers.get("Range")
                if not wanted:
                    return self.answer(200, content, Accept_Ranges="bytes", ETag='"1"')
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                piece = content[int(first) : int(last) + 1 if last else None]
                end = int(first) + len(piece) - 1
                return self.answer(206, piece, Content_Range=f"bytes {first}-{end}/{len(content)}", ETag='"1"')

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                tape.asked.append(("POST", self.path, body))
                if self.path == "/api/v1/stage":
                    tape.requested = [file["path"] for file in body["files"]]
                    return self.told(201, {"requestId": "request-1"})
                if self.path == "/api/v1/archiveinfo":
                    where = [{"path": it, "locality": "TAPE" if it in tape.offline else "DISK"} for it in body["paths"]]
                    return self.told(200, where)
                return self.answer(200)

        super().__init__(Handler)

    def state(self, path: str) -> dict:
        if path == self.lost:
            return {"path": path, "state": "FAILED", "error": "the tape is broken"}
        return {"path": path, "onDisk": path not in self.offline}

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def posts(self, path: str) -> list[dict]:
        return [body for method, at, body in self.asked if (method, at) == ("POST", path)]


def test_a_wait_for_a_busy_server_is_shown_on_a_terminal_and_not_begun_where_it_is_too_long():
    asked = []

    class Busy(QuietHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append(self.command)
            self.send_response(503)
            # At last it is too long to be waited for.
            self.send_header("Retry-After", "1" if len(asked) < 2 else "3600")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_PROPFIND = do_GET

    with LoopbackServer(Busy) as server:
        url = f"http://127.0.0.1:{server.port}/file"
        shown = on_a_terminal(HITHER, "stat", "--no-store", url, code=5)
    said = re.findall(rb"waiting, asking again in 1 s", shown)
    assert len(said) == 1, shown
    assert b"503 (Service Unavailable)" in shown
    assert 2 <= len(asked) < 20, asked


@pytest.fixture
def files() -> dict[str, bytes]:
    numbers = random.Random(17)
    return {f"/data/file-{n:03}": numbers.randbytes(1000) for n in range(OFFLINE + ONLINE)}


def test_files_are_staged_in_one_request_and_copied_as_they_arrive(hither, files, tmp_path):
    with TapeServer(files, set(sorted(files)[:OFFLINE])) as tape:
        told = hither("cp", "--json", "--no-store", "--stage", *map(tape.url, files), tmp_path)
        assert told.code == 0, told.err
        assert told.json["files"] == len(files)
        for path, content in files.items():
            assert (tmp_path / path.rpartition("/")[2]).read_bytes() == content
        staged = tape.posts("/api/v1/stage")
        assert [len(body["files"]) for body in staged] == [len(files)], "one request for all"
        assert tape.read_offline == [], "nothing was read before it was on disk"
        assert "request-1" in told.err


def test_a_file_that_cannot_be_staged_fails_alone(hither, files, tmp_path):
    paths = sorted(files)[:3]
    with TapeServer(files, set(paths), lost=paths[1]) as tape:
        told = hither("cp", "--json", "--no-store", "--stage", *map(tape.url, paths), tmp_path)
        assert told.code == 5 and told.json["files"] == 2, told.err
        assert "the tape is broken" in told.json["failures"][0]["error"]["message"]


def test_a_file_that_the_request_does_not_have_any_more_fails_alone(hither, files, tmp_path):
    paths = sorted(files)[:3]
    with TapeServer(files, set(paths), step=1, dropped=paths[0]) as tape:
        copied = hither("cp", "--json", "--no-store", "--stage", *map(tape.url, paths), tmp_path)
        assert copied.code == 5 and copied.json["files"] == 2, copied.err
        waited = hither("stage", "--wait", "--json", *map(tape.url, paths))
        assert waited.code == 5 and len(waited.json["requests"][0]["online"]) == 2, waited.err
        for told in (copied.json["failures"][0], waited.json["errors"][0]):
            assert "does not have this file" in told["error"]["message"], told


def test_stage_requests_waits_releases_and_cancels(hither, files):
    paths = sorted(files)[:5]
    with TapeServer(files, set(paths[:3]), step=1) as tape:
        urls = [tape.url(path) for path in paths]
        told = hither("stage", "--json", *urls)
        assert told.json["requests"] == [{"urls": urls, "request": "request-1", "online": []}]
        shown = hither("stage", "--status", *urls)
        assert shown.out.count("tape") == 3 and shown.out.count("disk") == 2, shown.out
        waited = hither("stage", "--wait", "--json", *urls)
        assert waited.code == 0 and waited.json["requests"][0]["online"] == urls, waited.err
        assert hither("stage", "--release", *urls).code == 2, "the API needs the id"
        assert hither("stage", "--release", "--request", "request-1", *urls).code == 0
        assert hither("stage", "--cancel", "--request", "request-1", *urls).code == 0
        assert tape.posts("/api/v1/release/request-1") == [{"paths": paths}]
        assert tape.posts("/api/v1/stage/request-1/cancel") == [{"paths": paths}]


def test_a_wait_ends_at_its_limit_and_says_what_is_left(hither, files):
    paths = sorted(files)[:4]
    with TapeServer(files, set(paths[:2]), step=0) as tape:
        told = hither("stage", "--wait", "--timeout", "0.7", "--json", *map(tape.url, paths))
        assert told.code == 6, told.err
        assert "2 of 4 files are not on disk yet" in told.json["errors"][0]["error"]["message"]
        assert len(told.json["requests"][0]["online"]) == 2


def test_a_server_without_a_tape_api_is_an_error(hither, site):
    told = hither("stage", site.put("file", b"bytes"))
    assert told.code == 8 and "no tape API" in told.err
