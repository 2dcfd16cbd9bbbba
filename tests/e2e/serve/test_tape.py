"""The WLCG Tape REST API of `hither serve`, with a script and a folder of "tapes"."""

import contextlib
import json
import os
import random
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from served import Served, serving

from bench.harness.waiting import readable, wait_until

OFFLINE, ONLINE = 190, 10
# A file is on tape while its content is in TAPES. The first query after its request brings it to disk.
COMMAND = """#!/bin/sh
action=$1 path=$2 name=${2##*/}
echo "$action $name" >> LOG
case $action in
state)
    if [ -e "TAPES/$name" ]; then
        echo nearline
        [ -e "WANTED/$name" ] && cp "TAPES/$name" "$path" && rm "TAPES/$name" "WANTED/$name"
    else echo online; fi ;;
stage)
    [ "$name" = broken ] && echo "the tape is torn" && exit 3
    touch "WANTED/$name" ;;
release) echo gone > "$path.released" ;;
esac
exit 0
"""


class Site:
    """A server, its folder, and the content of its tape system."""

    def __init__(self, folder: Path, served: Served):
        self.folder, self.served = folder, served
        self.tapes, self.log = folder / "tapes", folder / "log"

    def url(self, name: str = "") -> str:
        return self.served.url(name)

    def put(self, name: str, content: bytes, *, on_tape: bool) -> None:
        path = self.served.folder / name
        path.parent.mkdir(exist_ok=True)
        # The stub has the size of the file.
        path.write_bytes(bytes(len(content)) if on_tape else content)
        if on_tape:
            (self.tapes / path.name).write_bytes(content)

    def ran(self, action: str) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{action} ")]

    def ask(self, method: str, path: str, body: object = None, **fields: str) -> tuple[int, object]:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url(path), content, fields, method=method)
        try:
            with urllib.request.urlopen(request) as response:
                text = response.read()
                return response.status, json.loads(text) if response.headers["Content-Type"] == JSON else text
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


JSON = "application/json"
API = ".well-known/hither/tape/v1"


@pytest.fixture
def start(tmp_path):
    with contextlib.ExitStack() as stack:

        def begin(settings: str = "") -> Site:
            served = tmp_path / "served"
            for folder in (served, tmp_path / "tapes", tmp_path / "wanted"):
                folder.mkdir()
            command = tmp_path / "command"
            text = COMMAND.replace("LOG", str(tmp_path / "log"))
            text = text.replace("TAPES", str(tmp_path / "tapes")).replace("WANTED", str(tmp_path / "wanted"))
            command.write_text(text)
            command.chmod(0o755)
            config = tmp_path / "serve.toml"
            config.write_text(f'write = true\n[tape]\ncommand = ["{command}"]\n{settings}')
            return Site(tmp_path, stack.enter_context(serving(served, "--config", str(config))))

        yield begin


def test_files_on_tape_are_staged_in_one_request_and_copied_as_they_arrive(start, hither, tmp_path):
    site = start()
    numbers = random.Random(23)
    files = {f"run/f{n:03}": numbers.randbytes(2000) for n in range(OFFLINE + ONLINE)}
    for n, (name, content) in enumerate(files.items()):
        site.put(name, content, on_tape=n < OFFLINE)
    target = tmp_path / "copied"
    told = hither("cp", "--json", "--no-store", "--stage", "-r", site.url("run"), target)
    assert told.code == 0, told.err
    assert told.json["files"] == len(files)
    for name, content in files.items():
        assert (target / Path(name).name).read_bytes() == content, name
    assert len(site.ran("stage")) == OFFLINE, "each file on tape is asked for once, and no other"
    assert [notice.rpartition(" ")[0] for notice in told.json["notices"]] == ["200 files are being staged by request"]
    assert site.served.stop() == 0
    staged = [line for line in site.served.logged() if line["method"] == "POST"]
    assert [line["status"] for line in staged] == [201], "one request for all"


def test_a_file_on_tape_is_refused_with_the_reason_and_never_recalled(start, hither, tmp_path):
    site = start()
    site.put("d/old", b"on tape", on_tape=True)
    site.put("d/new", b"on disk", on_tape=False)
    status, reason = site.ask("GET", "d/old")
    assert status == 409
    assert "on tape" in reason
    assert site.ask("HEAD", "d/old")[0] == 200
    copied = hither("cp", "--json", "--no-store", "-r", site.url("d"), tmp_path / "copied")
    assert copied.code != 0
    assert copied.json["files"] == 1
    assert "on tape" in copied.err
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "old").write_bytes(b"on tape")
    (mine / "new").write_bytes(b"on disk")
    for command in (("check", "--checksum"), ("sync", "--dry-run", "--checksum")):
        hither(*command, "--no-store", site.url("d"), mine)
    for name in ("d/old", "d/"):
        assert site.ask("COPY", name, Destination=site.url("copy"))[0] == 409
    assert site.ran("stage") == []
    assert (site.tapes / "old").exists()


def test_the_api_answers_as_it_is_specified(start):
    site = start()
    site.put("old", b"on tape", on_tape=True)
    site.put("broken", b"torn", on_tape=True)
    site.put("new", b"on disk", on_tape=False)
    status, document = site.ask("GET", ".well-known/wlcg-tape-rest-api")
    assert status == 200
    assert document["endpoints"] == [{"uri": site.url(API), "version": "v1", "metadata": {}}]
    paths = ["/old", "/new", "/none"]
    status, told = site.ask("POST", f"{API}/archiveinfo", {"paths": paths})
    assert status == 200
    assert [it.get("locality") for it in told] == ["TAPE", "DISK", None]
    assert told[2]["error"]
    files = [{"path": path, "diskLifetime": "P1D"} for path in ["/old", "/new", "/none", "/broken"]]
    status, told = site.ask("POST", f"{API}/stage", {"files": files})
    assert status == 201
    request = f"{API}/stage/{told['requestId']}"
    told = until_over(site, request)
    states = {it["path"]: it["state"] for it in told["files"]}
    assert states == {"/old": "COMPLETED", "/new": "COMPLETED", "/none": "FAILED", "/broken": "FAILED"}
    assert "the tape is torn" in next(it["error"] for it in told["files"] if it["path"] == "/broken")
    assert told["createdAt"] <= told["startedAt"] <= told["completedAt"]
    assert site.ask("GET", "old") == (200, b"on tape")
    released = f"{API}/release/{told['id']}"
    assert site.ask("POST", released, {"paths": ["/old"]})[0] == 200
    assert site.ask("POST", released, {"paths": ["/foreign"]})[0] == 400
    assert site.ran("release") == ["old"]
    assert site.ask("POST", f"{request}/cancel", {"paths": ["/foreign"]})[0] == 400
    assert site.ask("DELETE", request)[0] == 200
    assert site.ask("GET", request)[0] == 404


def until_over(site: Site, request: str) -> dict:
    def told():
        status, told = site.ask("GET", request)
        assert status == 200, told
        return told if "completedAt" in told else None

    return wait_until(told, "the end of the request")


def test_a_file_that_is_being_staged_is_promised_for_later(start):
    site = start()
    site.put("old", b"on tape", on_tape=True)
    (site.folder / "command").write_text("#!/bin/sh\n[ $1 = state ] && echo nearline\nexit 0\n")
    assert site.ask("POST", f"{API}/stage", {"files": [{"path": "old"}]})[0] == 201
    assert site.ask("GET", "old")[0] == 202
    # A request belongs to its client: another client cannot know its id.
    assert site.ask("GET", f"{API}/stage/0123456789abcdef")[0] == 404


def test_requests_are_bounded(start):
    site = start("requests = 2\nfiles = 3\n")
    site.put("old", b"on tape", on_tape=True)
    (site.folder / "command").write_text("#!/bin/sh\n[ $1 = state ] && echo nearline\nexit 0\n")
    many = {"files": [{"path": f"/f{n}"} for n in range(4)]}
    assert site.ask("POST", f"{API}/stage", many)[0] == 413
    one = {"files": [{"path": "/old"}]}
    ids = [site.ask("POST", f"{API}/stage", one) for _ in range(3)]
    assert [status for status, _ in ids] == [201, 201, 429]
    request = f"{API}/stage/{ids[0][1]['requestId']}"
    assert site.ask("POST", f"{request}/cancel", {"paths": ["/old"]})[0] == 200
    assert site.ask("POST", f"{API}/stage", one)[0] == 201, "one that is over makes room"
    assert site.ask("GET", request)[0] == 404


def test_a_command_ends_with_its_client(start):
    site = start("command_seconds = 3000\ncommands = 1\n")
    site.put("old", b"on disk", on_tape=False)
    command = (site.folder / "command").read_text()
    (site.folder / "command").write_text(f"#!/bin/sh\necho $$ >{site.folder}/next && mv {site.folder}/next {site.folder}/pid\nexec sleep 3000\n")
    port = int(site.url().rstrip("/").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /old HTTP/1.1\r\nHost: localhost\r\n\r\n")
        process = wait_until(lambda: (site.folder / "pid").exists() and (site.folder / "pid").read_text(), "the command")
        watched = os.pidfd_open(int(process))
    assert readable(watched, timeout=60), "nobody waits for the command"
    os.close(watched)
    (site.folder / "command").write_text(command)
    assert site.ask("GET", "old") == (200, b"on disk"), "the next client gets the slot"


def test_a_command_that_hangs_is_killed_and_the_confined_server_runs_none(start):
    site = start("command_seconds = 1\n")
    site.put("old", b"on tape", on_tape=True)
    (site.folder / "command").write_text("#!/bin/sh\nexec sleep 1000\n")
    status, reason = site.ask("GET", "old")
    assert status == 503
    assert "killed after 1 s" in reason
    children = Path(f"/proc/{site.served.process.pid}/task/{site.served.process.pid}/children").read_text().split()
    assert len(children) == 1, "the helper is the only child"
    watched = os.pidfd_open(int(children[0]))
    assert site.served.stop() == 0
    assert readable(watched, timeout=60), "the helper ends with the server"
    os.close(watched)
