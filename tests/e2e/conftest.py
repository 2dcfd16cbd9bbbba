"""Fixtures of the end-to-end tests: the built command, generated files, and servers on loopback or across a link."""

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from needs import missing, require, require_network_namespaces
from root_program import RootPlugin, setup
from served import serving

from bench.generators import talkfile
from bench.harness import access_log, servers
from bench.harness.contenders import timed
from bench.harness.links import LINKS, Loopback, Wan
from bench.harness.paths import BINARIES, HITHER

# Generous: a test that hangs must end, a slow machine must not fail.
TIMEOUT = 120


@dataclass
class Finished:
    """How a run of the command ended."""

    code: int
    out: str
    err: str
    peak_mb: float

    @property
    def json(self) -> dict:
        return json.loads(self.out)


def run_hither(*arguments, where: Loopback | None = None) -> Finished:
    """Runs the command to its end, at the client's end of a link if one is given."""
    return run([HITHER, *arguments], where)


def run(command: list, where: Loopback | None = None) -> Finished:
    command = [str(word) for word in command]
    told = timed(where or Loopback(), command, TIMEOUT)
    assert not told["timeout"], f"{' '.join(command)} did not end within {TIMEOUT} s"
    return Finished(told["exit"], told["stdout"], told["stderr"], told["peak_mb"])


@pytest.fixture(scope="session")
def hither():
    if not HITHER.exists():
        pytest.fail(f"{HITHER} is not built; make test builds it")
    return run_hither


@dataclass(frozen=True)
class Data:
    """A generated file, and what ROOT says about it."""

    path: Path
    facts: dict


@pytest.fixture(scope="session")
def talk() -> Data:
    """The talk's file, 275 MB."""
    return Data(talkfile.DEFAULT_OUTPUT, talkfile.ensure(talkfile.DEFAULT_OUTPUT))


@pytest.fixture(scope="session")
def small() -> Data:
    """The same shape with 3,000 events, some 3 MB, for what needs no size."""
    path = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    return Data(path, talkfile.ensure(path, events=3000))


class Site:
    """A server over a folder, with its access log."""

    def __init__(self, where: Loopback, port: int, folder: Path, log: Path):
        self.where = where
        self.port = port
        self.folder = folder
        self.log = log

    def url(self, name: str) -> str:
        host, port = self.where.reach(self.port)
        return f"http://{host}:{port}/{name}"

    def link_in(self, data: Data) -> str:
        """Puts a generated file into the folder; returns its URL."""
        target = self.folder / data.path.name
        if not target.exists():
            target.symlink_to(data.path)
        return self.url(data.path.name)

    def put(self, name: str, content: bytes) -> str:
        (self.folder / name).write_bytes(content)
        return self.url(name)

    def requests(self, uri: str) -> list[access_log.Logged]:
        """Returns what was logged for a path. nginx logs when an answer is complete, which is before the client can end."""
        return access_log.read(self.log, uri)


LOCATIONS = """
        location /forbidden { return 403; }
        location /login { return 401; }
        location /broken { return 500; }
        location /busy { return 503; }
"""


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
    """Skips where there can be no link."""
    require_network_namespaces()


@pytest.fixture(scope="module")
def far(tmp_path_factory, talk, netns):
    """The talk's file at the far end of link G: 240 ms, unlimited."""
    folder = tmp_path_factory.mktemp("far")
    (folder / talk.path.name).symlink_to(talk.path)
    where = Wan(LINKS["G"])
    with where, servers.nginx(where, folder, folder / "access.log") as port:
        yield Site(where, port, folder, folder / "access.log")


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
