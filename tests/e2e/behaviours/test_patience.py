"""Servers that are busy: every verb waits for them, whatever they say of the time."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate

import pytest
from behaviours.foreign_server import Site, serving

OF_THE_SERVER = ["ls", "find", "du", "checksum", "stat", "cat", "rm", "mkdir", "mv"]
COPIES = ["down", "tree down", "sync down", "up", "tree up", "sync up"]


def arguments(verb: str, url: str, here) -> list:
    return {
        "ls": ["ls", f"{url}/d/"],
        "find": ["find", f"{url}/d/"],
        "du": ["du", f"{url}/d/"],
        "checksum": ["checksum", f"{url}/d/a.dat"],
        "stat": ["stat", f"{url}/d/a.dat"],
        "cat": ["cat", f"{url}/d/a.dat"],
        "rm": ["rm", f"{url}/d/a.dat"],
        "mkdir": ["mkdir", f"{url}/d/e"],
        "mv": ["mv", f"{url}/d/a.dat", f"{url}/d/c.dat"],
        "down": ["cp", f"{url}/d/a.dat", here / "copy"],
        "tree down": ["cp", "-r", f"{url}/d/.", here / "copy"],
        "sync down": ["sync", f"{url}/d/", here / "copy"],
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

        def is_busy(it) -> bool:
            # Two of three requests, as long as that may still be called busy.
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
            if verb in ("tree down", "sync down"):
                assert {path.name for path in (here / "copy").iterdir()} == {"a.dat", "b.dat"}
            gone = {"rm": {"/d/a.dat"}, "mv": {"/d/a.dat"}}.get(verb, set())
            assert set(files) - set(held) == gone, verb
