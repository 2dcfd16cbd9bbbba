"""Fences at destinations of all kinds, and successive coordinators."""

import contextlib
import subprocess
import threading
from pathlib import Path

import pytest
from e2e.loopback_server import LoopbackServer, QuietHandler
from needs import require

import hither
from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until
from hither.cluster import _destination
from hither.cluster._destination import END_ATTEMPTS, Destination, Fences
from hither.cluster._manifest import Manifest
from hither.cluster._node import MoverFolder, packed
from hither.cluster._options import ClusterOptions

PATIENCE = 60
SELF_MADE = ["nginx with create_full_put_path", "xrootd", "root"]
"""Servers that create missing parent directories."""
KINDS = ["a file system", "nginx", "hither serve", *SELF_MADE]
FILES = 64
"""Files of a lease, more than a mover has in hand at a time."""


@contextlib.contextmanager
def destination(kind, folder):
    """The URL of an empty directory, and its path."""
    folder.mkdir()
    folder.chmod(0o777)
    if kind == "a file system":
        yield str(folder), folder
        return
    require("nginx")
    require("xrootd")
    serving = {
        "nginx": lambda: servers.nginx(Loopback(), folder, webdav=True),
        "nginx with create_full_put_path": lambda: servers.nginx(
            Loopback(), folder, locations="create_full_put_path on;", webdav=True
        ),
        "hither serve": lambda: servers.hither(Loopback(), folder, more=("--write",)),
    }.get(kind, lambda: servers.xrootd(Loopback(), folder))
    with serving() as port:
        yield f"root://127.0.0.1:{port}/" if kind == "root" else f"http://127.0.0.1:{port}", folder


@pytest.fixture
def options(tmp_path):
    source = tmp_path / "tree"
    source.mkdir()
    return lambda url, **more: ClusterOptions(str(source), url, **more)


def coordinator(options, job="a"):
    return Destination(options, Manifest(":memory:"), job * 16)


def hidden(folder):
    return sorted(path.name for path in folder.glob(".hither-*"))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_put_or_renamed_late_where_a_fence_was(kind, options, tmp_path):
    with destination(kind, tmp_path / "there") as (url, folder), hither.Client(store=False) as late:
        there = coordinator(options(f"{url}/to"))
        there.make_fence("1.1")
        fence = there.fence("1.1")
        late.put(f"{fence}/one", b"late")
        late.put(f"{there.target}/final", b"edited after the job")
        there.close_fence("1.1")
        for name in ("one", "deep/two"):
            with pytest.raises(hither.HitherError):
                late.put(f"{fence}/{name}", b"late")
            with pytest.raises(hither.HitherError):
                late.rename(f"{fence}/{name}", f"{there.target}/final", overwrite=True)
        if kind == "root":
            # hither asks for a directory first, but not for one that it has seen.
            command = [require("xrdcp"), "--nopbar", str(Path(__file__)), f"{fence}/three"]
            assert subprocess.run(command, check=False, capture_output=True).returncode != 0
        with pytest.raises(hither.HitherError):
            late.make_directory(f"{fence}/.hither-claim")
        assert (folder / "to" / "final").read_bytes() == b"edited after the job"
        # A node was lost with the lease, and stays lost.
        there.end(["b"], is_complete=True)
        with pytest.raises(hither.HitherError):
            late.put(f"{fence}/one", b"late")
        left = hidden(folder / "to")
        assert len(left) == len(there.notices) == (kind in SELF_MADE)
        assert all(f"{name} is left as a file" in notice for name, notice in zip(left, there.notices, strict=True))
        # Another copy to the same destination is not hindered, and leaves no files if no node was
        # lost.
        other = coordinator(options(f"{url}/to", include=("x",)), "b")
        assert other.target == f"{there.target}/tree"
        other.end([], is_complete=True)
        assert hidden(folder / "to/tree") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_coordinator_without_manifest_goes_on_where_the_one_before_it_was(kind, options, tmp_path):
    with destination(kind, tmp_path / "there") as (url, folder):
        first = coordinator(options(f"{url}/to"))
        first.make_fence("1.1")
        second = coordinator(options(f"{url}/to"), "b")
        assert second.target == first.target
        assert not (folder / "to/tree").exists()
        with pytest.raises(hither.HitherError):
            first.make_fence("2.1")
        with pytest.raises(hither.HitherError, match="taken it over"):
            first.check_owner()
        second.check_owner()
        second.end([], is_complete=False)
        assert coordinator(options(f"{url}/to"), "c").target == first.target, "files failed"
        (folder / "into").mkdir(mode=0o777)
        (folder / "into").chmod(0o777)
        into = coordinator(options(f"{url}/into"))
        assert into.target == f"{url}/into/tree" == coordinator(options(f"{url}/into"), "b").target


@pytest.mark.parametrize("kind", KINDS)
def test_a_destination_tells_what_it_has_lost(kind, options, tmp_path):
    with destination(kind, tmp_path / "there") as (url, folder):
        there = coordinator(options(f"{url}/to"))
        for name in ("kept", "short", "lost", "ä 1%?" if kind not in {"root", "xrootd"} else "ä 1%", "link"):
            (folder / "to" / name).write_bytes(b"12")
        (folder / "to/d").mkdir()
        wanted = {path.name: (path.is_dir(), 2) for path in (folder / "to").glob("[!.]*")}
        assert there.lost("", wanted) == ([], None)
        (folder / "to/short").write_bytes(b"1")
        (folder / "to/lost").unlink()
        (folder / "to/d").rmdir()
        (folder / "to/d").write_bytes(b"12")
        lost, failure = there.lost("", wanted)
        assert (sorted(lost), failure) == (["d", "lost", "short"], None)
        assert there.lost("none", {"a": (False, 2)}) == (["a"], None)


def test_where_no_directory_can_be_listed_each_file_is_looked_at(server, monkeypatch):
    there = coordinator(ClusterOptions("/tree/.", "http://host/to"))
    server.names |= {"http://host/to/d": None, "http://host/to/d/a%20b": b"12", "http://host/to/d/short": b"1"}

    def refuse(url):
        raise hither.exceptions.PermissionDeniedError(url)

    monkeypatch.setattr(server, "list", refuse, raising=False)
    lost, failure = there.lost("d", {"a b": (False, 2), "short": (False, 2), "none": (True, -1)})
    assert (lost, str(failure)) == (["short", "none"], "http://host/to/d")


def test_a_directory_is_not_copied_into_itself(tmp_path, server):
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tree)
    server.names |= {"http://host/a": None, "http://host/a%20b": None}
    server.names |= {str(path): None for path in (tmp_path, tree, tree / "sub", tmp_path / "link", f"file://{tree}")}
    before = dict(server.names)
    for source, to in [
        (tree, tree),
        (f"{tree}/.", tree),
        (tree, tree / "new"),
        (tree, tree / "sub/new"),
        (tree, tmp_path / "link/new"),
        (tmp_path / "link", tree / "new"),
        (f"file://{tree}", tree / "new"),
        ("http://host/a", "http://host/a/new"),
        ("http://host/a%20b", "http://host/a%20b/new"),
    ]:
        with pytest.raises(hither.exceptions.InvalidError, match="cannot be copied into itself"):
            coordinator(ClusterOptions(str(source), str(to)))
    assert server.names == before
    for source, to in [
        (tree / "sub", tree / "new"),
        (f"{tree}/.", tmp_path / "trees"),
        ("http://host/a", "http://host/a2"),
    ]:
        coordinator(ClusterOptions(str(source), str(to)))


def test_a_file_that_is_no_mark_is_an_error_that_names_it(options, tmp_path):
    there = coordinator(options(f"{tmp_path}/to"))
    (mark,) = (path for path in (tmp_path / "to").glob(".hither-*") if path.is_file())
    for junk in (b"../../etc", b"a" * 100, b""):
        mark.write_bytes(junk)
        with pytest.raises(hither.HitherError, match=mark.name):
            coordinator(options(f"{tmp_path}/to"), "b")
    assert (tmp_path / "to" / there.aside).is_dir()


class Server:
    """A client of a server in memory that creates parent directories itself."""

    def __init__(self, *, stores_below_files=False):
        self.names = {"http://host": None, "/tree": None}
        self.stores_below_files = stores_below_files
        self.after_removal = []
        """Calls of late nodes, one after each removal."""
        self._core = None

    def stat(self, url):
        if url not in self.names:
            raise hither.exceptions.NotFoundError(url)
        content = self.names[url]
        return type("Entry", (), {"kind": "directory" if content is None else "file", "size": len(content or b"")})

    def make_directory(self, url):
        if url in self.names:
            raise hither.exceptions.AlreadyExistsError(url)
        self.put(url, None)

    def put(self, url, content, *, overwrite=False):
        above = url.rpartition("/")[0]
        if self.names.get(above) is not None and not self.stores_below_files:
            raise hither.exceptions.UnavailableError(f"{above} is a file")
        if url in self.names and not overwrite:
            raise hither.exceptions.AlreadyExistsError(url)
        while above not in self.names:
            self.names[above] = None
            above = above.rpartition("/")[0]
        self.names[url] = content

    def get(self, url, path):
        Path(path).write_bytes(self.names[url])

    def remove(self, url, *, recursive=False):
        self.stat(url)
        assert recursive or not [it for it in self.names if it.startswith(f"{url}/")]
        self.names = {it: content for it, content in self.names.items() if it != url and not it.startswith(f"{url}/")}
        if self.after_removal:
            self.after_removal.pop(0)()


@pytest.fixture
def server(monkeypatch):
    server = Server()
    monkeypatch.setattr(_destination, "default_client", lambda: server)
    monkeypatch.setattr(_destination.time, "sleep", lambda _: None)
    return server


def test_a_lease_is_dealt_out_again_when_a_tombstone_stands(server):
    there = coordinator(ClusterOptions("/tree/.", "http://host/to"))
    there.make_fence("1.1")
    fence = there.fence("1.1")
    for n in range(2):
        server.after_removal.append(lambda n=n: server.put(f"{fence}/late{n}", b"late"))
    done, events = [], []
    fences = Fences(there, events.append, {})
    fences._ended.wait = lambda _: events.clear()
    fences.remove("1.1", done.append)
    wait_until(lambda: events, "the tombstone")
    assert server.stat(fence).kind == "file"
    assert server.after_removal == []
    events[0]()
    assert done == ["1.1"]
    fences.close()


@pytest.mark.parametrize("makes_it_again", [END_ATTEMPTS - 1, END_ATTEMPTS])
def test_the_end_of_a_job_waits_for_its_tombstone(makes_it_again, server):
    there = coordinator(ClusterOptions("/tree/.", "http://host/to"))
    server.after_removal += [lambda: server.put(f"{there.fence('1.1')}/late", b"late")] * makes_it_again
    with contextlib.nullcontext() if makes_it_again < END_ATTEMPTS else pytest.raises(hither.HitherError):
        there.end(["b"], is_complete=True)
    assert (server.stat(there.aside).kind == "file") == (makes_it_again < END_ATTEMPTS)


def test_a_server_that_stores_files_below_files_is_refused(server):
    server.stores_below_files = True
    with pytest.raises(hither.exceptions.UnsupportedError, match="below a name that is a file"):
        coordinator(ClusterOptions("/tree/.", "http://host/to"))
    assert set(server.names) == {"http://host", "/tree"}


def test_the_next_run_of_a_job_that_lost_a_node_has_another_directory(server):
    manifest = Manifest(":memory:")
    options = ClusterOptions("/tree/.", "http://host/to")
    first = Destination(options, manifest, "a" * 16)
    first.end(["b"], is_complete=False)
    again = Destination(options, manifest, "a" * 16)
    assert again.aside == f"{first.aside}.2"
    again.make_fence("1.2")
    again.end([], is_complete=True)
    assert [it for it in server.names if ".hither-" in it] == [first.aside]


def test_the_search_for_a_directory_of_fences_ends(server, monkeypatch):
    monkeypatch.setattr(_destination, "MAX_RUNS", 3)
    options = ClusterOptions("/tree/.", "http://host/to")
    first = coordinator(options)
    first.end([], is_complete=True)
    left = [first.aside, f"{first.aside}.2", f"{first.aside}.3"]
    server.names |= dict.fromkeys(left, b"a tombstone")
    with pytest.raises(hither.exceptions.InvalidError, match="3 files of earlier runs"):
        coordinator(options)
    assert [it for it in server.names if ".hither-" in it] == left
    del server.names[left[2]]
    assert coordinator(options).aside == left[2]


def test_each_directory_of_a_destination_is_asked_about_names(server, monkeypatch):
    there = coordinator(ClusterOptions("/tree/.", "http://host/to"))
    for directory in ("a", "b"):
        server.names[f"http://host/to/{directory}"] = None
    # One directory is on another file system.
    answers = {f"http://host/to{it}": it == "/b" for it in ("", "/a", "/b")}
    questions = []

    def is_one_name(_, *question):
        questions.append(question)
        return type("Job", (), {"wait": lambda _: answers[question[0]]})()

    monkeypatch.setattr(_destination, "is_one_name", is_one_name)
    pairs = (("R.dat", "r.dat"), ("Run.dat", "run.dat"), ("a", "a."), ("strasse", "straße"))
    for directory, is_other in {"": False, "a/": False, "a/new/": False, "b/": True, "b/new/er/": True}.items():
        for one, other in pairs:
            assert there.is_one(f"{directory}{one}", f"{directory}{other}") == is_other, (directory, one)
    assert sorted(questions) == sorted((it, *pair) for it in answers for pair in (pairs[0], *pairs[2:]))


def is_removed(there, client, is_closed):
    """True if the fence could be removed: the mover may make files in it meanwhile."""
    try:
        if is_closed:
            there.close_fence("1.1")
        else:
            client.remove(there.fence("1.1"), recursive=True)
    except hither.HitherError:
        return False
    return True


@pytest.mark.parametrize(
    ("kind", "is_closed"), [*((kind, True) for kind in KINDS), *((kind, False) for kind in SELF_MADE)]
)
def test_a_mover_gives_no_names_out_of_a_fence_that_was_removed(kind, is_closed, options, tmp_path, monkeypatch):
    """Nor does it make the fence again, where the coordinator has closed it."""
    asked, go_on = threading.Event(), threading.Event()

    class Source(QuietHandler):
        def do_HEAD(self):  # noqa: N802
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()

        def do_GET(self):  # noqa: N802
            asked.set()
            go_on.wait(PATIENCE)
            self.do_HEAD()
            self.wfile.write(b"late")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    mover = MoverFolder("a" * 16)
    with (
        contextlib.ExitStack() as stack,
        destination(kind, tmp_path / "there") as (url, folder),
        LoopbackServer(Source) as source,
        hither.Client(store=False) as client,
    ):
        there = coordinator(options(f"{url}/to"))
        there.make_fence("1.1")
        fence = there.fence("1.1")
        client.put(f"{url}/to/0", b"edited after the job")
        file = {"size": 4, "modified": None, "validator": None}
        lease = {
            "source": f"http://127.0.0.1:{source.port}",
            "target": f"{url}/to",
            "fence": fence,
            "third_party": None,
            "work": {
                "kind": "files",
                "files": [{"path": f"{number}", **file} for number in range(FILES)],
                "directories": [],
            },
        }
        running = subprocess.Popen([HITHER, "mover", mover.path])
        stack.callback(running.wait)
        stack.callback(running.kill)
        # It begins without a share, and ends one that it has had without a lease for a second.
        wait_until(mover.status, "the mover")
        mover.give("1.1", packed(lease))
        mover.take_share({"connections": 2, "bandwidth": None})
        assert asked.wait(PATIENCE)
        wait_until(lambda: is_removed(there, client, is_closed), "the removal of the fence")
        go_on.set()
        result = wait_until(lambda: mover.result("1.1"), "the end of the lease")
        kinds = {result["error"][0]} if result["error"] else {kind for _, kind, _ in result["failures"]}
        assert kinds
        assert is_closed or kinds <= {"NotFound", "Cancelled"}, result
        assert [path.name for path in (folder / "to").iterdir() if ".hither-" not in path.name] == ["0"]
        assert (folder / "to/0").read_bytes() == b"edited after the job"
        assert not is_closed or not (folder / "to" / Path(there.aside).name / "1.1").is_dir()
