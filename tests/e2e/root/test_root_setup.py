"""`hither root-setup`: the files that it writes, and its messages if something is missing."""

import json
import os

import pytest
from root_program import fake_root, setup

# The compiler and ROOT of these tests are scripts: other tests build and use the real plug-in.


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def test_it_builds_registers_replaces_and_removes(home, tmp_path):
    (home / ".rootrc").write_text("Rint.History: none\n")
    root = fake_root(tmp_path)
    for _ in range(2):
        done = setup(home, "--json", *root.arguments, **root.environment)
        assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["root"] == "6.99.00"
    (build,) = (path for path in (home / "data/hither/root").iterdir() if path.is_dir())
    assert told["build"] == str(build)
    assert {"libHitherFile.so", "THitherFile.h", "hither.h"} <= set(os.listdir(build))
    lines = (home / ".rootrc").read_text().splitlines()
    assert lines[0] == "Rint.History: none"
    assert sum(line.startswith("+Plugin.TFile: ^https?: THitherFile") for line in lines) == 1
    done = setup(home, "--remove", "--json")
    assert json.loads(done.stdout)["removed"]
    assert (home / ".rootrc").read_text() == "Rint.History: none\n"
    assert not (home / "data/hither/root").exists()


def test_each_root_has_a_build_of_its_own(home, tmp_path):
    builds = set()
    for name in ("one", "two"):
        root = fake_root(tmp_path / name)
        builds.add(json.loads(setup(home, "--json", *root.arguments, **root.environment).stdout)["build"])
    assert len(builds) == 2


@pytest.mark.parametrize(
    ("what", "arguments", "environment", "expected"),
    [
        ("no ROOT", [], {"PATH": "/nowhere"}, "name one with --root-config"),
        ("no headers", ["--root-config", "FAKE"], {"FAKE_HEADERS": "no"}, "has no TFile.h in"),
        ("no compiler", ["--root-config", "FAKE", "--libhither", "FAKE"], {"CXX": ""}, "no compiler for C++"),
        ("no library", ["--root-config", "FAKE", "--libhither", "/nowhere"], {}, "there is no library /nowhere"),
        ("a space", ["--root-config", "FAKE", "--libhither", "FAKE"], {"XDG_DATA_HOME": "/tmp/a b"}, "XDG_DATA_HOME"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_missing_is_named(home, tmp_path, what, arguments, environment, expected):
    root = fake_root(tmp_path, headers="FAKE_HEADERS" not in environment)
    environment = {name: value.replace("/tmp/a b", str(tmp_path / "a b")) for name, value in environment.items()}
    arguments = [str(root.script) if word == "FAKE" else word for word in arguments]
    # Then only the scripts of the fake ROOT can be executed.
    path = {"PATH": str(root.script.parent) + "/none"} if what == "no compiler" else {}
    done = setup(home, *arguments, **{**root.environment, **path, **environment})
    assert done.returncode != 0, what
    assert expected in done.stderr
    assert not (home / ".rootrc").exists()
