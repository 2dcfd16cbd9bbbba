"""The plug-in for ROOT, built once for all tests, and servers with a file of ROOT."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from needs import missing, require
from root_program import RootPlugin, setup
from served import serving

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import BINARIES


@pytest.fixture(scope="session")
def root_package() -> Path:
    """The folder of the package ROOT."""
    found = find_spec("ROOT")
    if found is None:
        missing("ROOT")
    return Path(found.submodule_search_locations[0])


@pytest.fixture(scope="session")
def root_plugin(root_package, tmp_path_factory) -> RootPlugin:
    if not (BINARIES / "libhither_capi.a").exists():
        missing("libhither (make build)")
    require("g++")
    home = tmp_path_factory.mktemp("home")
    done = setup(home, "--json", "--root-config", root_package / "bin/root-config")
    assert done.returncode == 0, done.stderr
    return RootPlugin(home, json.loads(done.stdout))


@pytest.fixture
def served_small(tmp_path, small):
    """A writable `hither serve` with the small file."""
    with serving(tmp_path, "--write") as served:
        served.file("small.root", small.path.read_bytes())
        yield served


@pytest.fixture
def xrootd(tmp_path, small):
    """The URL of a folder of xrootd with the small file."""
    require("xrootd")
    folder = tmp_path / "xrootd"
    folder.mkdir()
    (folder / "small.root").write_bytes(small.path.read_bytes())
    with servers.xrootd(Loopback(), folder) as port:
        yield f"root://127.0.0.1:{port}//"
