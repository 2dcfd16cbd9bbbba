"""Fixtures of the end-to-end tests: the built command, generated files, and servers on loopback or across a link."""

import json
import os
from fcntl import LOCK_EX, flock
from importlib.util import find_spec
from pathlib import Path

import pytest
from command import run_hither
from needs import missing, require, require_network_namespaces
from root_program import RootPlugin, setup
from served import serving
from site_folder import LOCATIONS, Data, Site

from bench.generators import talkfile
from bench.harness import servers
from bench.harness.links import LINKS, Loopback, Wan
from bench.harness.paths import BINARIES, HITHER

@pytest.fixture(scope="session")
def hither():
    if not HITHER.exists():
        pytest.fail(f"{HITHER} is not built; make test builds it")
    return run_hither


@pytest.fixture(scope="session")
def talk() -> Data:
    """The talk's file, 275 MB."""
    return Data(talkfile.DEFAULT_OUTPUT, talkfile.ensure(talkfile.DEFAULT_OUTPUT))


@pytest.fixture(scope="session")
def small() -> Data:
    """A file of the same structure with 3,000 events, some 3 MB, for tests that do not need a large file."""
    path = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    return Data(path, talkfile.ensure(path, events=3000))


@pytest.fixture
def site(tmp_path):
    require("nginx")
    folder = tmp_path / "www"
    folder.mkdir()
    where = Loopback()
    with servers.nginx(where, folder, tmp_path / "access.log", LOCATIONS) as port:
        yield Site(where, port, folder, tmp_path / "access.log")


@pytest.fixture(scope="module")
def netns():
    """Skips tests on machines that do not support links."""
    require_network_namespaces()


@pytest.fixture(scope="module")
def far(tmp_path_factory, talk, netns):
    """The talk's file at the far end of link G: 240 ms, unlimited."""
    folder = tmp_path_factory.mktemp("far")
    (folder / talk.path.name).symlink_to(talk.path)
    where = Wan(LINKS["G"], real_time=True)
    with where, servers.nginx(where, folder, folder / "access.log") as port:
        yield Site(where, port, folder, folder / "access.log")


@pytest.fixture(scope="session")
def root_package() -> Path:
    """The folder of the Python package ROOT."""
    found = find_spec("ROOT")
    if found is None:
        missing("ROOT")
    return Path(found.submodule_search_locations[0])


@pytest.fixture(scope="session")
def root_plugin(root_package, tmp_path_factory):
    """The plug-in, which one worker builds for all of them: they only read it."""
    if not (BINARIES / "libhither_capi.a").exists():
        missing("libhither (make build)")
    require("g++")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    home, result_file = folder / "root-home", folder / "root-plugin.json"
    with (folder / "root-plugin.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not result_file.exists():
            (home / ".config/hither").mkdir(parents=True, exist_ok=True)
            (home / ".config/hither/config.toml").write_text('store = ""\n')
            done = setup(home, "--json", "--root-config", root_package / "bin/root-config")
            assert done.returncode == 0, done.stderr
            result_file.write_text(done.stdout)
    plugin = RootPlugin(home, json.loads(result_file.read_text()))
    with plugin.running:
        yield plugin


@pytest.fixture
def served_small(tmp_path, small):
    """A writable `hither serve` with the small file."""
    with serving(tmp_path, "--write") as served:
        served.file("small.root", small.path.read_bytes())
        yield served


@pytest.fixture
def xrootd(tmp_path, small):
    """The URL of an xrootd folder with the small file."""
    require("xrootd")
    folder = tmp_path / "xrootd"
    folder.mkdir()
    (folder / "small.root").write_bytes(small.path.read_bytes())
    with servers.xrootd(Loopback(), folder) as port:
        yield f"root://127.0.0.1:{port}//"
