"""Files on tape, from Python, with a server of the WLCG Tape REST API."""

import asyncio
import http.server
import json
import threading

import pytest

import hither


class Handler(http.server.BaseHTTPRequestHandler):
    """Files `/new` and `/lost`: the second query reports the first file online, and the other
    failed."""

    protocol_version = "HTTP/1.1"

    def told(self, status, value):
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        if self.path == "/.well-known/wlcg-tape-rest-api":
            uri = f"http://127.0.0.1:{self.server.server_port}/api/v1"
            self.told(200, {"sitename": "test", "endpoints": [{"uri": uri, "version": "v1"}]})
            return
        self.server.asked += 1
        on_disk = self.server.never or self.server.asked < 2
        lost = (
            {"path": "/lost", "state": "SUBMITTED"}
            if on_disk
            else {"path": "/lost", "state": "FAILED", "error": "torn"}
        )
        self.told(200, {"id": "7", "files": [{"path": "/new", "onDisk": not on_disk}, lost]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posts.append((self.path, body))
        if self.path == "/api/v1/stage":
            self.told(201, {"requestId": "7"})
        elif self.path == "/api/v1/archiveinfo":
            self.told(200, [{"path": it, "locality": "TAPE"} for it in body["paths"]])
        else:
            self.told(200, {})

    def log_message(self, *_):
        pass


@pytest.fixture
def tape():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.asked, server.never, server.posts = 0, False, []
    server.urls = [f"http://127.0.0.1:{server.server_port}/{name}" for name in ("new", "lost")]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_files_are_staged_awaited_and_released(tape, client):
    new, lost = tape.urls
    assert client.localities(tape.urls) == {new: "tape", lost: "tape"}
    staging = client.stage(tape.urls)
    assert staging.requests == [("7", tape.urls)]
    assert staging.progress() == {new: "waiting", lost: "waiting"}
    assert staging.wait(60) == {new: "online", lost: "failed: torn"}
    client.release([new], request="7")
    client.cancel_staging([lost], request="7")
    paths = [path for path, _ in tape.posts]
    assert paths == ["/api/v1/archiveinfo", "/api/v1/stage", "/api/v1/release/7", "/api/v1/stage/7/cancel"]


def test_waiting_ends_with_its_time(tape, client):
    tape.never = True
    with pytest.raises(TimeoutError, match="2 of 2 files are not on disk yet"):
        client.stage(tape.urls).wait(0.05)


def test_every_question_about_tape_has_an_async_twin(tape, client):
    async def use():
        where = await client.localities_async(tape.urls)
        staging = await client.stage_async(tape.urls)
        await staging.progress_async()
        states = await staging.wait_async()
        await client.release_async(tape.urls, request="7")
        await client.cancel_staging_async(tape.urls, request="7")
        return [*where.values(), *states.values()]

    assert asyncio.run(use()) == ["tape", "tape", "online", "failed: torn"]


def test_what_cannot_be_asked_says_so(site, client):
    with pytest.raises(TypeError, match="list of URLs"):
        client.stage(site.url("f"))
    with pytest.raises(NotImplementedError):
        client.stage([site.put("f", b"1")])
    with pytest.raises(NotImplementedError, match="root://"):
        client.locate(site.url("f"))


def test_an_error_for_one_server_of_xrootd_names_it(client):
    with pytest.raises(hither.exceptions.UnavailableError, match=r"127\.0\.0\.1:1"):
        client.locate("root://127.0.0.1:1//f")
