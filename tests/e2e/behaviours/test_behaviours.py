"""Every verb against every behaviour of `table.py`: what ends with exit code 0 is true, and nothing good is lost."""

import os
from pathlib import Path

import pytest
from behaviours.foreign_server import MODIFIED, Site, serving
from behaviours.table import BEHAVIOURS, FAILS, Behaviour

OLD = b"the copy of an earlier run"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def held(behaviour: Behaviour) -> dict[str, bytes]:
    """The files of `/d/`, by name."""
    return {path[3:]: data for path, data in behaviour.files.items() if path.startswith("/d/") and data is not None}


def mirror(folder: Path, files: dict[str, bytes], age: int) -> None:
    """Writes files that are as old as those of the server, but for `age` seconds."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
        os.utime(folder / name, (MODIFIED - age, MODIFIED - age))


@pytest.mark.parametrize("verb", ["cp -r", "cp -r onto old files", "sync", "sync --delete", "check"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda it: it.name)
def test_what_ends_well_is_true(hither, tmp_path, behaviour: Behaviour, verb: str):
    truth = held(behaviour)
    target = tmp_path / "target"
    before = {
        "cp -r": {},
        "cp -r onto old files": {"a.dat": OLD},
        "sync": {**truth, "a.dat": OLD},
        "sync --delete": {**truth, "only-here": OLD},
        "check": truth,
    }[verb]
    mirror(target, before, age=60 if verb == "sync" else 0)
    with serving(Site(dict(behaviour.files), behaviour.answers)) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
        command = {"cp -r": ["cp", "-r", url + "."], "cp -r onto old files": ["cp", "-r", url + "."]}
        done = hither(*command.get(verb, [*verb.split(), url]), target, "--store", tmp_path / "store")
    after = contents(target)
    expected = behaviour.codes.get(verb)
    assert expected is None or (done.code != 0 if expected == FAILS else done.code == expected), done
    assert behaviour.says.get(verb, "") in done.out + done.err, done
    for name, data in after.items():
        assert data == truth.get(name, OLD) or data == before.get(name), f"{name}: {len(data)} bytes; {done}"
    assert set(after) >= set(truth) & set(before), f"the server holds what was deleted; {done}"
    if done.code == 0 and verb != "check":
        shown = {name: data for name, data in truth.items() if name not in behaviour.hidden}
        assert {name: after.get(name) for name in shown} == shown, done
    if done.code == 0 and verb == "sync --delete":
        assert set(after) == set(truth), done
