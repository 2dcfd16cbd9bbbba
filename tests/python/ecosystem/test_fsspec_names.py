"""Names, lists, interrupted calls and versions of the fsspec filesystem."""

import asyncio
import codecs
import contextlib
import os
import threading
import unicodedata
import urllib.parse
from pathlib import Path

import pytest
from needs import python_package

fsspec = python_package("fsspec")

from e2e.behaviours import foreign_server  # noqa: E402
from serving import serving  # noqa: E402

import hither  # noqa: E402
from bench.harness.waiting import wait_until  # noqa: E402
from hither.exceptions import ChangedError, CorruptError, ProtocolError  # noqa: E402
from hither.fsspec import HitherFileSystem  # noqa: E402
from hither.fsspec._calls import run_all, sync  # noqa: E402

FILES = {
    "/": None,
    "/a/": None,
    "/a/f": b"one",
    "/a/g": b"another",
    "/b/": None,
    "/b/f": b"two",
    "/there/": None,
    "/x[1]": b"brackets",
    "/x1": b"one",
}


@pytest.fixture
def fs(client):
    return HitherFileSystem(client=client, skip_instance_cache=True)


@pytest.fixture
def site():
    """A WebDAV server; tests replace responses with its `behaviour`."""
    return foreign_server.Site(dict(FILES), lambda _: False)


@pytest.fixture
def url(site):
    with foreign_server.serving(site) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def local(tmp_path):
    for name, content in FILES.items():
        if content is not None:
            path = tmp_path / "local" / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    (tmp_path / "local/there").mkdir()
    return str(tmp_path / "local")


SHARED = {
    "names": (["a/f", "b/f"], False),
    "patterns": (["a/*", "b/*"], False),
    "a name and a pattern": (["a/f", "b/*"], False),
    "trees": (["a", "b"], True),
    "a tree and a name": (["a", "b/f"], True),
    "a pattern of trees": (["[ab]"], True),
}
TARGETS = ("there", "there/", "new", "new/")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHARED)
@pytest.mark.parametrize("verb", ["get", "put", "copy", "mv"])
def test_no_two_sources_get_one_target(fs, site, url, local, verb, shape, target):
    sources, recursive = SHARED[shape]
    if verb == "mv" and recursive:
        # A directory is renamed as a whole: these get different names.
        sources = ["a/f", "b/?"]
    source_root, target_root = (local, url) if verb == "put" else (url, local if verb == "get" else url)
    with pytest.raises(ValueError, match="one name"):
        getattr(fs, verb)([f"{source_root}/{each}" for each in sources], f"{target_root}/{target}", recursive=recursive)
    assert not {"PUT", "MOVE", "DELETE"} & {command for command, _ in site.requests}
    assert not [path for _, _, files in os.walk(f"{local}/{target}") for path in files]


REMOTE_ALIASES = [
    ("root://h//n", "root://h/n"),
    ("hither+root://h/n", "root://h///n"),
    ("root://h//a/b", "root://h//a//b"),
    ("http://H/a//b", "http://h/a/./b"),
]
LOCAL_ALIASES = [("{}//n", "{}/n"), ("/{}/n", "{}/n"), ("n", "{}/n")]


@pytest.mark.parametrize(
    ("verb", "targets"),
    [(verb, names) for verb in ("put", "copy", "mv") for names in REMOTE_ALIASES]
    + [("get", names) for names in LOCAL_ALIASES],
)
def test_no_two_sources_get_two_names_of_one_file(fs, site, url, local, monkeypatch, verb, targets):
    monkeypatch.chdir(local)
    sources = [f"{local if verb == 'put' else url}/a/{name}" for name in "fg"]
    with pytest.raises(ValueError, match="one name"):
        getattr(fs, verb)(sources, [target.format(local) for target in targets])
    assert not site.requests


@pytest.mark.parametrize("verb", ["cp_file", "mv_file"])
def test_a_file_is_not_moved_or_copied_onto_another_of_its_names(fs, verb):
    for source, target in (("root://h//n", "root://h/n"), ("http://h/a/b", "http://h/a//b")):
        with pytest.raises(ValueError, match="itself"):
            getattr(fs, verb)(source, target)


@pytest.mark.parametrize("slashes", ["/", "//", "///"])
def test_names_in_the_root_directory_of_xrootd_begin_as_it_does(fs, tmp_path, slashes):
    pa = python_package("pyarrow")
    parquet = python_package("pyarrow.parquet")
    for name in ("d/e/x", "d/y", "f1", "f2"):
        path = tmp_path / "www" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "www/set/p=1").mkdir(parents=True)
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "www/set/p=1/x.parquet")
    with serving("xrootd", tmp_path / "www") as url:
        host = url.split("/")[2]
        top = f"root://{host}{slashes}"

        def names(found):
            assert all(f"{name}/".startswith(top) for name in found)
            return sorted(name[len(top) :] for name in found)

        for prefix in ("", "hither+"):
            assert (
                names(fs.ls(prefix + top, detail=False))
                == names(fs.glob(f"{prefix}{top}*"))
                == ["d", "f1", "f2", "set"]
            )
            assert names(fs.glob(f"{prefix}{top}f?")) == names(fs.cat(f"{prefix}{top}f?")) == ["f1", "f2"]
        assert names(fs.find(top)) == ["d/e/x", "d/y", "f1", "f2", "set/p=1/x.parquet"]
        assert names(fs.glob(f"{top}d/**/x")) == ["d/e/x"]
        assert names(fs.glob(f"{top}**"))[-7:-3] == ["d/e/x", "d/y", "f1", "f2"]
        assert names([fs.info(f"{top}f1")["name"], fs._parent(f"{top}f1"), fs._parent(f"{top}d/y")]) == ["", "d", "f1"]
        assert sorted(fs.get_mapper(top)) == ["d/e/x", "d/y", "f1", "f2", "set/p=1/x.parquet"]
        assert parquet.read_table(f"{top}set", filesystem=fs).column_names == ["a", "p"]
        fs.get(top, f"{tmp_path}/got", recursive=True)
        assert (tmp_path / "got/d/e/x").read_text() == "d/e/x"
        assert (tmp_path / "got/f1").read_text() == "f1"


@pytest.mark.parametrize("listed", [True, False])
def test_a_name_that_exists_is_no_pattern(fs, url, local, listed):
    name = f"{url}/x[1]"
    if listed:
        (name,) = [each for each in fs.find(url) if each.startswith((f"{url}/x[", f"{url}/x%5B"))]
    assert fs.cat(name) == b"brackets"
    fs.get(name, f"{local}/got")
    assert Path(f"{local}/got").read_bytes() == b"brackets"
    fs.copy(name, f"{url}/copied")
    assert fs.cat_file(f"{url}/copied") == b"brackets"
    fs.put(f"{local}/x[1]", f"{url}/put")
    assert fs.cat_file(f"{url}/put") == b"brackets"
    fs.mv(name, f"{url}/moved")
    assert fs.cat_file(f"{url}/moved") == b"brackets"
    fs.mv(f"{url}/moved", name)
    fs.rm(name)
    assert fs.cat_file(f"{url}/x1") == b"one"
    assert not fs.exists(name)


def test_a_text_is_not_taken_for_the_name_of_a_local_file(fs, site, url, local):
    for content in (f"{local}/a/f", Path(local) / "a/f", None):
        for pipe in (lambda it: fs.pipe_file(f"{url}/new", it), lambda it: fs.pipe({f"{url}/new": it})):
            with pytest.raises(TypeError, match="expected bytes"):
                pipe(content)
    assert not site.requests


def test_only_an_empty_directory_is_removed_as_one(fs, site, url):
    for cached in (False, True):
        assert not cached or fs.isfile(f"{url}/a/f")
        with pytest.raises(NotADirectoryError, match="/a/f"):
            fs.rmdir(f"{url}/a/f")
    with pytest.raises(ValueError, match="not empty"):
        fs.rmdir(f"{url}/a")
    assert fs.isdir(f"{url}/there")
    site.files["/there"] = site.files.pop("/there/") or b"a file"
    with pytest.raises(NotADirectoryError):
        fs.rmdir(f"{url}/there")
    assert "DELETE" not in [command for command, _ in site.requests]


def test_a_pattern_matches_where_no_file_has_its_name(fs, url):
    assert fs.cat(f"{url}/a/[f]") == {f"{url}/a/f": b"one"}


ODD_NAMES = ("a", "a#b", "q", "q?x=1", "x y", "x%20y", "ü", "x;y", "100%", "[1]", "*")


def test_names_arrive_as_they_are(fs, site, url, tmp_path):
    (tmp_path / "odd").mkdir()
    for name in ODD_NAMES:
        (tmp_path / "odd" / name).write_text(name)
    fs.put(f"{tmp_path}/odd", f"{url}/odd", recursive=True)
    assert {name: content for name, content in site.files.items() if name.startswith("/odd/") and content} == {
        f"/odd/{name}": name.encode() for name in ODD_NAMES
    }
    fs.put([f"{tmp_path}/odd/{name}" for name in ODD_NAMES], f"{url}/there/")
    assert sum(name.startswith("/there/") for name in site.files) == len(ODD_NAMES) + 1
    fs.get(f"{url}/odd", f"{tmp_path}/got", recursive=True)
    assert {path.name: path.read_text() for path in (tmp_path / "got").iterdir()} == {name: name for name in ODD_NAMES}


def test_patterns_match_names_as_they_are(fs, site, url):
    site.files.update({f"/p/{name}": b"" for name in ("a b.root", "run2.root", "ü.root", "ä*", "x[1]")} | {"/p/": None})

    def found(pattern):
        return sorted(
            site.files[f"/p/{name}"] is not None and name for name in map(plain, fs.glob(f"{url}/p/{pattern}"))
        )

    def plain(name):
        return urllib.parse.unquote(name.rsplit("/", 1)[-1])

    assert found("*2*") == ["run2.root"]
    assert found("*[A-F]*") == []
    assert found("?.root") == ["ü.root"]
    assert found("a%20*") == found("a *") == ["a b.root"]
    assert found("*%2A") == found("*[*]") == ["ä*"]
    assert found("x%5B*") == ["x[1]"]
    assert [plain(name) for name in fs.glob(f"{url}/**/run?.root")] == ["run2.root"]
    fs.rm(f"{url}/p/*2*")
    assert {name for name in site.files if name.startswith("/p/")} == {
        "/p/",
        "/p/a b.root",
        "/p/ü.root",
        "/p/ä*",
        "/p/x[1]",
    }


def test_a_name_that_no_local_file_can_have_is_an_error(fs, url, tmp_path):
    for name in ("..%2Fx", "%2E%2E", "a%00"):
        with pytest.raises(ValueError, match="no local file can have"):
            fs.get([f"{url}/{name}", f"{url}/a/f"], f"{tmp_path}/got")
    assert not (tmp_path / "got").exists()


@pytest.mark.parametrize("size", [1, 200])
def test_a_file_that_was_replaced_after_it_was_looked_at_is_read_whole(fs, site, url, size):
    assert fs.exists(f"{url}/a/f")
    site.files["/a/f"] = b"2" * size
    with fs.open(f"{url}/a/f") as file:
        assert file.read() == b"2" * size
        assert file.size == size


def test_a_position_from_the_size_of_another_version_is_an_error(fs, site, url):
    assert fs.exists(f"{url}/a/f")
    site.files["/a/f"] = b"2" * 200
    with fs.open(f"{url}/a/f") as file:
        file.seek(-1, os.SEEK_END)
        with pytest.raises(ChangedError, match="3 bytes and is 200 now"):
            file.read()
    with fs.open(f"{url}/a/f") as file:
        file.seek(-1, os.SEEK_END)
        assert file.read() == b"2"


@pytest.mark.parametrize("options", [{"mode": "wt"}, {"mode": "wb"}, {"mode": "wb", "compression": "gzip"}])
def test_a_file_that_is_not_closed_is_not_sent_at_the_end_of_a_transaction(fs, site, url, options):
    fs.start_transaction()
    file = fs.open(f"{url}/a/f", **options)
    file.write("1" if options["mode"] == "wt" else b"1")
    with pytest.raises(ValueError, match="not closed"):
        fs.end_transaction()
    assert site.files["/a/f"] == b"one"
    (file.buffer if options["mode"] == "wt" else file).discard()


def test_a_file_that_is_discarded_does_not_end_its_transaction(fs, site, url):
    with fs.transaction:
        for name in ("t1", "t2", "t3"):
            with contextlib.suppress(KeyError), fs.open(f"{url}/{name}", "wt") as file:
                file.write(name)
                if name == "t2":
                    raise KeyError
    assert [name for name in site.files if name.startswith("/t")] == ["/there/", "/t1", "/t3"]


def test_a_transaction_that_fails_names_the_files_that_were_not_sent(fs, site, url):
    site.behaviour = lambda it: it.content == b"t2" and it.answer(403)
    fs.start_transaction()
    for name in ("t1", "t2", "t3"):
        with fs.open(f"{url}/{name}", "wt") as file:
            file.write(name)
    with pytest.raises(PermissionError, match=r"of 3 files of the transaction, 2 were not sent: \S+/t2, \S+/t3$"):
        fs.end_transaction()
    assert [name for name in site.files if name.startswith("/t")] == ["/there/", "/t1"]


@pytest.mark.parametrize("verb", ["mv", "copy"])
def test_no_source_is_replaced_by_another(fs, site, url, verb):
    for other in ("a/g", "a/%67"):
        with pytest.raises(ValueError, match="which is to be moved or copied, too"):
            getattr(fs, verb)([f"{url}/a/f", f"{url}/a/g"], [f"{url}/{other}", f"{url}/a/h"])
    assert not {"PUT", "MOVE"} & {command for command, _ in site.requests}


def test_names_of_a_directory_with_a_query_have_it_at_their_end(fs, site, url, tmp_path):
    query = "?authz=a/b"
    names = fs.ls(f"{url}/a{query}", detail=False)
    assert names == [f"{url}/a/f?authz=a%2Fb", f"{url}/a/g?authz=a%2Fb"]
    assert fs.cat_file(names[0]) == b"one"
    assert fs.find(f"{url}/a{query}") == names
    fs.get(f"{url}/a{query}", f"{tmp_path}/got", recursive=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "got").iterdir()} == {"f": b"one", "g": b"another"}
    fs.put(f"{tmp_path}/got", f"{url}/new{query}", recursive=True)
    fs.mv(f"{url}/b/f{query}", f"{url}/there/{query}")
    assert site.files["/new/f"] == b"one"
    assert site.files["/there/f"] == b"two"
    fs.rm(names[0], recursive=True)
    assert "/a/f" not in site.files
    assert "/a/g" in site.files


@pytest.mark.parametrize(("one", "two"), [("Run", "run"), ("\u00e9", "e\u0301"), ("\u00c9", "e\u0301")])
def test_two_names_that_are_one_for_the_server_are_refused(fs, site, url, local, one, two):
    def folds(exchange):
        name = unicodedata.normalize("NFC", exchange.name.casefold())
        exchange.name = next(
            (it for it in site.files if unicodedata.normalize("NFC", it.casefold()) == name), exchange.name
        )
        return False

    (Path(local) / "a" / one).write_text("1")
    (Path(local) / "a" / two).write_text("2")
    fs.put(f"{local}/a", f"{url}/kept", recursive=True)
    assert len([name for name in site.files if name.startswith("/kept/")]) == 5
    site.behaviour = folds
    before = set(site.files)
    with pytest.raises(ValueError, match="makes no difference between"):
        fs.put(f"{local}/a", f"{url}/new", recursive=True)
    assert set(site.files) == before
    with pytest.raises(ValueError, match="makes no difference between"):
        fs.mv([f"{url}/a/f", f"{url}/a/g"], [f"{url}/there/{one}", f"{url}/there/{two}"])
    assert set(site.files) == before


@pytest.mark.parametrize("verb", ["get", "copy"])
@pytest.mark.parametrize(("answer", "error"), [("page", CorruptError), ("cut", ProtocolError)])
def test_a_response_of_another_size_than_the_server_states_replaces_nothing(fs, site, url, local, verb, answer, error):
    def behaviour(exchange):
        if exchange.command != "GET" or exchange.name != "/a/g":
            return False
        return exchange.html("<h1>Log in</h1>") if answer == "page" else exchange.stream(b"another", whole=False)

    site.behaviour = behaviour
    target = f"{local}/there" if verb == "get" else f"{url}/there"
    (Path(local) / "there" / "g").write_bytes(b"good")
    site.files["/there/g"] = b"good"
    with pytest.raises(error, match="the server states 7"):
        getattr(fs, verb)(f"{url}/a/g", f"{target}/g")
    assert (Path(local) / "there" / "g").read_bytes() == site.files["/there/g"] == b"good"


def test_files_that_vanish_during_a_copy_are_named(fs, site, url):
    site.behaviour = lambda it: it.command == "GET" and it.name == "/a/g" and it.answer(404)
    with pytest.raises(FileNotFoundError, match="/a/g"):
        fs.copy(f"{url}/a", f"{url}/new", recursive=True)
    assert fs.cat_file(f"{url}/new/f") == b"one"
    fs.copy(f"{url}/a", f"{url}/newer", recursive=True, on_error="ignore")


@pytest.mark.parametrize("unreadable", ["directory", "broken link", "link to a directory"])
def test_a_local_tree_that_cannot_be_read_whole_is_an_error(fs, url, local, monkeypatch, unreadable):
    found = f"{local}/a/unreadable"
    if unreadable == "directory":
        Path(found).mkdir()
        scan = os.scandir

        def refuse(path):
            if str(path).rstrip("/") == found:
                raise PermissionError(13, "Permission denied", path)
            return scan(path)

        monkeypatch.setattr(os, "scandir", refuse)
    else:
        Path(found).symlink_to("nowhere" if unreadable == "broken link" else f"{local}/b")
    with pytest.raises((OSError, ValueError), match="unreadable"):
        fs.put(f"{local}/a", f"{url}/new", recursive=True)


def test_a_download_that_ends_short_is_an_error(fs, url, local, monkeypatch):
    async def short(_file, _offset, length):
        return b"one"[: min(2, length)]

    monkeypatch.setattr(hither.RemoteFile, "read_at_async", short)
    with pytest.raises(ChangedError, match="2 bytes of 3"):
        fs.get_file(f"{url}/a/f", f"{local}/got")
    assert not Path(f"{local}/got").exists()


def test_a_file_is_downloaded_whatever_the_length_of_its_name(fs, site, url, local):
    name = "x" * 255
    site.files[f"/{name}"] = b"long"
    fs.get(f"{url}/{name}", f"{local}/{name}")
    assert Path(f"{local}/{name}").read_bytes() == b"long"


def test_calls_that_were_not_begun_are_not_begun_after_an_interrupt():
    loop = fsspec.asyn.get_loop()
    begun, ended, running = [], [], threading.Event()

    async def call(at):
        begun.append(at)
        running.set()
        try:
            await loop.create_future()
        finally:
            # The second one still cleans up when the first one has ended.
            for _ in range(9 * at):
                await asyncio.to_thread(int)
            ended.append(at)

    async def all_of_them():
        await run_all([lambda at=at: call(at) for at in range(9)], 2)

    class Interrupting(threading.Event):
        def wait(self, timeout=None):
            if timeout is None:
                return super().wait()
            running.wait()
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsspec.asyn.threading, "Event", Interrupting)
        with pytest.raises(KeyboardInterrupt):
            sync(loop, all_of_them)
    assert len(begun) == 2
    assert sorted(ended) == sorted(begun)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("is_passed", [False, True])
def test_an_interrupt_before_a_call_begins_ends_the_wait(is_passed):
    loop = fsspec.asyn.get_loop()
    begun, held, raised = [], threading.Event(), []
    submit = asyncio.run_coroutine_threadsafe

    async def call():
        begun.append(True)

    def interrupting(coroutine, loop):
        if is_passed:
            submit(coroutine, loop)
        else:
            coroutine.close()
        raise KeyboardInterrupt

    def interrupted():
        with pytest.raises(KeyboardInterrupt):
            sync(loop, call)
        raised.append(True)

    loop.call_soon_threadsafe(held.wait)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "run_coroutine_threadsafe", interrupting)
        caller = threading.Thread(target=interrupted, daemon=True)
        caller.start()
        caller.join(10)
    held.set()
    assert raised == [True]
    sync(loop, asyncio.sleep, 0)
    assert begun == []


def test_a_call_that_is_cancelled_by_itself_is_no_result():
    async def call(at):
        if at == 1:
            raise asyncio.CancelledError
        return at

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run_all([lambda at=at: call(at) for at in range(3)], 3))
    assert asyncio.run(run_all([])) == []


def test_a_removal_that_is_interrupted_removes_nothing_more(fs, site, url, monkeypatch):
    sent, held = threading.Event(), threading.Event()

    def hold(it):
        if it.command == "DELETE":
            sent.set()
            held.wait()
        return False

    class Interrupting(threading.Event):
        def wait(self, timeout=None):
            if timeout is None:
                return super().wait()
            sent.wait()
            raise KeyboardInterrupt

    site.behaviour = hold
    try:
        with monkeypatch.context() as patch:
            patch.setattr(fsspec.asyn.threading, "Event", Interrupting)
            with pytest.raises(KeyboardInterrupt):
                fs.rm([f"{url}/a/f", f"{url}/a/g", f"{url}/b/f"])
        # The call has ended, but its task a moment later.
        wait_until(lambda: not asyncio.all_tasks(fs.loop), "the end of all tasks")
    finally:
        held.set()
    assert [path for command, path in site.requests if command == "DELETE"] == ["/a/f"]


@pytest.mark.parametrize("verb", ["rm", "put", "pipe", "copy"])
def test_nothing_is_sent_after_a_call_was_cancelled(fs, site, url, local, verb):
    sent, held = threading.Event(), threading.Event()

    def hold(it):
        if it.command in ("DELETE", "PUT"):
            sent.set()
            held.wait()
        return False

    site.behaviour = hold
    names = [f"{url}/{verb}{at}" for at in range(9)]
    call = {
        "rm": lambda: fs._rm([f"{url}/a/f", f"{url}/a/g", f"{url}/b/f"]),
        "put": lambda: fs._put([f"{local}/a/f"] * 9, names, batch_size=1),
        "pipe": lambda: fs._pipe(dict.fromkeys(names, b"1"), batch_size=1),
        "copy": lambda: fs._copy([f"{url}/a/f"] * 9, names, batch_size=1),
    }[verb]

    async def cancel():
        task = asyncio.ensure_future(call())
        await asyncio.to_thread(sent.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    try:
        asyncio.run(cancel())
    finally:
        held.set()
    assert fs.exists(f"{url}/b/f")
    assert len([command for command, _ in site.requests if command in ("DELETE", "PUT")]) == 1


def encode(fs, url):
    with codecs.getwriter("utf-8")(fs.open(url, "wb")) as file:
        file.write("half")
        raise KeyError


def close(fs, url):
    with contextlib.closing(fs.open(url, "wb")) as file:
        file.write(b"half")
        raise KeyError


def close_in_a_generator(fs, url):
    @contextlib.contextmanager
    def opened():
        file = fs.open(url, "wt")
        try:
            yield file
        finally:
            file.close()

    with opened() as file:
        file.write("half")
        raise KeyError


def close_what_was_opened_before(fs, url):
    file = fs.open(url, "wt")
    file.write("half")
    with contextlib.ExitStack() as stack:
        stack.callback(file.close)
        raise KeyError


def close_in_a_later_asynchronous_step(fs, url):
    async def write():
        file = fs.open(url, "wb")

        async def close():
            await asyncio.to_thread(int)
            file.close()

        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(close)
            file.write(b"half")
            raise KeyError

    asyncio.run(write())


def write_csv(_, url):
    pandas = python_package("pandas")
    options = {"store": False, "anonymous": True}
    pandas.DataFrame({"a": ["x"] * 9999 + ["\u20ac"]}).to_csv(
        f"hither{url}", encoding="latin-1", storage_options=options
    )


def write_parquet(fs, url):
    pa = python_package("pyarrow")
    parquet = python_package("pyarrow.parquet")
    table = pa.table({"a": [1, 2]})
    with parquet.ParquetWriter(url, table.schema, filesystem=fs) as writer:
        writer.write_table(table)
        raise KeyError


@pytest.mark.parametrize(
    "write",
    [
        encode,
        close,
        close_in_a_generator,
        close_what_was_opened_before,
        close_in_a_later_asynchronous_step,
        write_csv,
        write_parquet,
    ],
)
def test_a_file_that_a_failing_block_closes_is_not_sent_and_gives_a_warning(fs, site, url, write):
    with (
        pytest.warns(RuntimeWarning, match="/a/f was not sent, because it was closed while an exception ended"),
        pytest.raises((KeyError, UnicodeEncodeError)),
    ):
        write(fs, f"{url}/a/f")
    assert site.files["/a/f"] == b"one"
    assert "PUT" not in [command for command, _ in site.requests]


def test_a_file_that_is_never_closed_gives_a_warning(fs, site, url):
    with pytest.warns(RuntimeWarning, match="not sent"):
        fs.open(f"{url}/unsent", "wb").write(b"1")
    assert "/unsent" not in site.files


SECRET = "?token=hidden"


@pytest.mark.parametrize(
    "call",
    [
        lambda fs, url: fs.open(url, "xb"),
        lambda fs, url: fs.created(url),
        lambda fs, url: fs.cp_file(url, url),
        lambda fs, url: fs.copy([url, url + "2"], [url, url]),
    ],
)
def test_messages_show_no_secret(fs, url, call):
    with pytest.raises((OSError, ValueError, NotImplementedError)) as raised:
        call(fs, f"{url}/a/f{SECRET}".replace("//", "//me:hidden@", 1))
    assert "hidden" not in str(raised.value)
