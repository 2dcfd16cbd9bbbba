"""Busy servers: every verb waits for them, whatever time they state."""

import itertools
import os
import pty
import re
import select
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate

import pytest
from behaviours.foreign_server import Site, serving

from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until

OF_THE_SERVER = ["ls", "find", "du", "checksum", "stat", "cat", "check", "rm", "rm -r", "mkdir", "mv"]
COPIES = ["down", "tree down", "sync down", "sync --delete down", "up", "tree up", "sync up"]


def arguments(verb: str, url: str, here) -> list:
    return {
        "ls": ["ls", f"{url}/d/"],
        "find": ["find", f"{url}/d/"],
        "du": ["du", f"{url}/d/"],
        "checksum": ["checksum", f"{url}/d/a.dat"],
        "stat": ["stat", f"{url}/d/a.dat"],
        "cat": ["cat", f"{url}/d/a.dat"],
        "check": ["check", "--size-only", f"{url}/d/", here / "same"],
        "rm": ["rm", f"{url}/d/a.dat"],
        "rm -r": ["rm", "-r", f"{url}/d"],
        "mkdir": ["mkdir", f"{url}/d/e"],
        "mv": ["mv", f"{url}/d/a.dat", f"{url}/d/c.dat"],
        "down": ["cp", f"{url}/d/a.dat", here / "copy"],
        "tree down": ["cp", "-r", f"{url}/d/.", here / "copy"],
        "sync down": ["sync", f"{url}/d/", here / "copy"],
        "sync --delete down": ["sync", "--delete", f"{url}/d/", here / "copy"],
        "up": ["cp", here / "tree/u.dat", f"{url}/d/u.dat"],
        "tree up": ["cp", "-r", f"{here}/tree/.", f"{url}/d/"],
        "sync up": ["sync", here / "tree", f"{url}/d/"],
    }[verb]


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (429, lambda: "1"),
        (503, lambda: formatdate(time.time() + 1, usegmt=True)),
        (408, lambda: None),
        (425, lambda: "soon, please"),
    ],
    ids=["429, seconds", "503, a date", "408, nothing", "425, nonsense"],
)
def test_every_verb_waits_for_a_busy_server(hither, tmp_path, status, says):
    def run(verb: str):
        number = itertools.count()
        here = tmp_path / verb
        (here / "tree").mkdir(parents=True)
        (here / "tree/u.dat").write_bytes(b"up" * 1000)
        files = {"/": None, "/d/": None, "/d/a.dat": b"a" * 5000, "/d/b.dat": b"b" * 100}
        for folder in ("same", "copy") if verb in ("check", "sync --delete down") else ():
            (here / folder).mkdir()
            for name in ("a", "b") if verb == "check" else ("b", "c"):
                (here / folder / f"{name}.dat").write_bytes(files.get(f"/d/{name}.dat", b"c"))

        def is_busy(it) -> bool:
            # Two of three requests, the highest share that still counts as busy.
            turn = next(number)
            return turn < 6 and turn % 3 != 2 and it.answer(status, b"busy", Retry_After=says())

        site = Site(dict(files), is_busy)
        with serving(site) as server:
            done = hither(*arguments(verb, f"http://127.0.0.1:{server.port}", here), "--no-store")
        assert done.code == 0, (verb, done)
        assert len(site.requests) >= 3, verb
        return verb, site.files, files, here

    with ThreadPoolExecutor(6) as pool:
        for verb, held, files, here in pool.map(run, [*OF_THE_SERVER, *COPIES]):
            if verb.endswith("up"):
                assert held["/d/u.dat"] == (here / "tree/u.dat").read_bytes(), verb
            if verb in ("tree down", "sync down", "sync --delete down"):
                assert {path.name for path in (here / "copy").iterdir()} == {"a.dat", "b.dat"}
            gone = {"rm": {"/d/a.dat"}, "mv": {"/d/a.dat"}, "rm -r": {"/d/", "/d/a.dat", "/d/b.dat"}}.get(verb, set())
            assert set(files) - set(held) == gone, verb


@pytest.mark.parametrize("verb", ["cat", "cp", "checksum", "stat", "ls"])
def test_a_server_that_stays_busy_is_given_up(hither, tmp_path, verb):
    def wait(it) -> int:
        """It says once that it will be ready in a second, and then for longer than anybody waits."""
        return 1 if len(it.site.requests) == 1 else 3600

    site = Site(
        {"/": None, "/a.dat": b"a"},
        lambda it: it.answer(503, b"no disk answers", Retry_After=wait(it), Content_Type="text/plain"),
    )
    with serving(site) as server:
        target = [tmp_path / "copy"] if verb == "cp" else []
        done = hither(verb, f"http://127.0.0.1:{server.port}/a.dat", *target, "--no-store")
    assert (done.code in (5, 6), "503" in done.err, "no disk answers" in done.err) == (True, True, verb != "checksum"), done


def test_a_query_waits_for_a_server_with_a_limit_of_requests(hither, small):
    number = itertools.count()

    def is_limited(it) -> bool:
        turn = next(number)
        return turn < 9 and turn % 3 != 2 and it.answer(429, b"slow down", Retry_After="1")

    site = Site({"/": None, "/small.root": small.path.read_bytes()}, is_limited)
    with serving(site) as server:
        url = f"http://127.0.0.1:{server.port}/small.root:T"
        drawn = hither("draw", url, "rawtr", "--where", "E33>5", "--no-store", "--json")
    assert drawn.code == 0, drawn
    assert drawn.json["selected"] == small.facts["selected"]
    assert next(number) >= 3


def test_a_file_that_is_being_staged_is_waited_for_without_a_terminal(hither, tmp_path):
    for verb in ("stat", "cat", "cp"):
        number = itertools.count()

        def is_staged(it, number=number) -> bool:
            if it.command == "PROPFIND":
                return it.answer(405)
            return next(number) < 2 and it.answer(202, Retry_After="1")

        site = Site({"/": None, "/a.dat": b"content"}, is_staged)
        with serving(site) as server:
            target = [tmp_path / "copy"] if verb == "cp" else []
            url = f"http://127.0.0.1:{server.port}/a.dat"
            done = hither(verb, url, *target, "--no-store")
        assert done.code == 0, (verb, done)
        assert "the file is being staged, try again later: waiting, asking again in 1 s" in done.err, verb
        assert done.out.startswith({"stat": url, "cat": "content", "cp": ""}[verb])
    assert (tmp_path / "copy").read_bytes() == b"content"


def test_a_file_that_is_being_staged_is_said_to_be_on_a_terminal(tmp_path):
    site = Site({"/": None, "/a.dat": b"a"}, lambda it: it.command == "GET" and it.answer(202))
    master, terminal = pty.openpty()
    shown = b""

    def is_shown() -> bool:
        nonlocal shown
        if select.select([master], [], [], 0)[0]:
            shown += os.read(master, 1 << 16)
        # At least two seconds: the bar appears after one.
        return b"being staged" in shown and re.search(rb" ([2-9]|\d\d)s, ", shown)

    with serving(site) as server:
        command = [HITHER, "cp", f"http://127.0.0.1:{server.port}/a.dat", tmp_path / "copy", "--no-store"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal)
        try:
            wait_until(is_shown, "word of the staging, and how long it has taken")
        finally:
            process.kill()
            process.wait()
            os.close(master)
            os.close(terminal)
    assert b"s left" not in shown
