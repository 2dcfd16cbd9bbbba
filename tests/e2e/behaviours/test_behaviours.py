"""Every verb that reads against every behaviour: results with exit code 0 are correct, and no good file is lost."""

import os
from pathlib import Path

import pytest
from behaviours.foreign_server import MODIFIED, Exchange, Site, serving
from behaviours.storages.kinds import served
from behaviours.storages.listings import LISTINGS
from behaviours.table import BEHAVIOURS, FAILS, Behaviour

OLD = b"the copy of an earlier run"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def held(behaviour: Behaviour) -> dict[str, bytes]:
    """The files in `/d/`, by name."""
    return {path[3:]: data for path, data in behaviour.files.items() if path.startswith("/d/") and data is not None}


def mirror(folder: Path, files: dict[str, bytes], age: int) -> None:
    """Writes files with the times of the server's files, minus `age` seconds."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
        os.utime(folder / name, (MODIFIED - age, MODIFIED - age))


@pytest.mark.parametrize(
    ("behaviour", "verb"), [(row, verb) for row in [*BEHAVIOURS, *LISTINGS] for verb in row.verbs], ids=str
)
def test_what_ends_well_is_true(hither, tmp_path, monkeypatch, behaviour: Behaviour, verb: str):
    truth = held(behaviour)
    target = tmp_path / "target"
    before = {
        "cp -r": {},
        "cp -r onto old files": {"a.dat": OLD},
        "sync": {**truth, "a.dat": OLD},
        "sync --delete": {**truth, "only-here": OLD},
        "check": truth,
        "check empty files": dict.fromkeys(truth, b""),
        "ls": truth,
    }[verb]
    mirror(target, before, age=60 if verb == "sync" else 0)
    with served(behaviour.storage, behaviour.files, behaviour.answers, monkeypatch) as server:
        url = server.url
        copy = ["cp", "-r", url + "."]
        command = {"cp -r": copy, "cp -r onto old files": copy, "check empty files": ["check", url]}
        command = command.get(verb, [*verb.split(), url])
        done = hither(*command, *([] if verb == "ls" else [target]), "--store", tmp_path / "store")
    after = contents(target)
    expected = behaviour.codes.get(verb)
    assert expected is None or (done.code != 0 if expected == FAILS else done.code == expected), done
    assert behaviour.says.get(verb, "") in done.out + done.err, done
    for name, data in after.items():
        assert data == truth.get(name, OLD) or data == before.get(name), f"{name}: {len(data)} bytes; {done}"
    assert set(after) >= set(truth) & set(before), f"the server holds what was deleted; {done}"
    assert verb != "check empty files" or done.code != 0, "files are not equal to empty ones"
    if done.code == 0 and verb != "check":
        shown = {name: data for name, data in truth.items() if name not in behaviour.hidden}
        assert {name: after.get(name) for name in shown} == shown, done
    if done.code == 0 and verb == "sync --delete":
        assert set(after) == set(truth), done


@pytest.mark.parametrize("lists", ["PROPFIND", "index"])
@pytest.mark.parametrize("verb", ["cp -r", "sync --delete", "check"])
def test_a_directory_whose_listing_was_redirected_is_not_empty(hither, tmp_path, lists, verb):
    page = "<html><title>Index of /{0}</title>{1}</html>"

    def answers(server: Exchange) -> bool:
        is_asked = server.command in ("PROPFIND", "GET")
        if lists == "index" and server.command == "PROPFIND":
            return server.answer(405)
        if is_asked and server.name == "/d/sub/":
            return server.answer(302, Location="/empty/")
        if lists == "index" and server.name in ("/d/", "/empty/"):
            links = '<a href="../">..</a>' + ('<a href="sub/">sub/</a>' if server.name == "/d/" else "")
            return server.html(page.format(server.name, links))
        return False

    target = tmp_path / "target"
    if verb != "cp -r":
        (target / "sub").mkdir(parents=True)
        (target / "sub/a.dat").write_bytes(OLD)
    files = {"/": None, "/d/": None, "/d/sub/": None, "/d/sub/a.dat": OLD, "/empty/": None}
    with serving(Site(files, answers)) as server:
        url = f"http://127.0.0.1:{server.port}/d/" + ("." if verb == "cp -r" else "")
        done = hither(*verb.split(), url, target, "--no-store")
    assert (done.code != 0, "led there" in done.err) == (True, True), done
    assert verb == "cp -r" or (target / "sub/a.dat").read_bytes() == OLD


@pytest.mark.parametrize("verb", ["cat", "cp"])
@pytest.mark.parametrize("answered", [(), ("HEAD",), ("HEAD", "PROPFIND")])
def test_a_file_is_not_empty_because_all_ranges_are_refused(hither, tmp_path, answered, verb):
    target = tmp_path / "a.dat"
    target.write_bytes(OLD)
    site = Site({"/": None, "/a.dat": b""}, lambda server: server.command not in answered and server.answer(416))
    with serving(site) as server:
        command = [verb, f"http://127.0.0.1:{server.port}/a.dat", *([target] if verb == "cp" else [])]
        told = hither(*command, "--no-store")
    assert told.code != 0, told
    assert "416" in told.err, told
    assert target.read_bytes() == OLD


def test_a_directory_is_no_file_though_a_connection_to_the_first_replica_broke(hither, tmp_path):
    def breaks_off(server: Exchange) -> bool:
        return server.command == "GET" and server.break_off()

    def sends_page(server: Exchange) -> bool:
        return server.command == "GET" and server.answer(200, b"an index", Content_Type="text/plain")

    first, second = Site({"/": None, "/d/": None}, breaks_off), Site({"/": None}, sends_page)
    with serving(first) as one, serving(second) as other:
        url, replica = (f"http://127.0.0.1:{it.port}/d" for it in (one, other))
        told = hither("cp", url, tmp_path / "copied", "--replica", replica, "--no-store")
    assert told.code != 0, told
    assert "is a directory" in told.err, told
    assert not (tmp_path / "copied").exists()
