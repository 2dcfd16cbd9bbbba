"""Destinations that ignore differences of names: no file of a source silently replaces another one."""

import urllib.request
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

import pytest
import served
from behaviours.foreign_server import FOLDS, RENAMES, Exchange, Site, serving

ONE = b"of one name" * 30
TWO = b"of the other, longer one" * 30


@pytest.fixture
def site():
    return Site({"/": None, "/d/": None}, lambda _: False, ignores_case=True)


class CachedNames(Site):
    """A server that stores a tab as its symbol, and caches names as they were written, as rclone does."""

    names: set[str]

    def held(self, path):
        if path in self.names:
            return path.replace("\t", "\u2409")
        return path if path not in self.files else path + "\0"

    def within(self, path):
        shown = {name: None for name in self.names if self.held(name) in self.files}
        return Site.within(Site(shown, lambda _: False), path)


class CachesNames(Exchange):
    def answer_put(self):
        self.site.names.add(self.asked)
        self.name = self.site.held(self.asked)
        return super().answer_put()

    def answer_move(self):
        self.site.names.add(unquote(urlsplit(self.headers["Destination"]).path))
        return super().answer_move()

    def answer_delete(self):
        self.site.names.discard(self.asked)
        return super().answer_delete()


class Copies(Exchange):
    """A server that fetches files by itself."""

    def do_COPY(self):
        with urllib.request.urlopen(self.headers["Source"]) as source:
            self.content = source.read()
        self.name = self.site.held(unquote(self.path))
        self.site.requests.append((self.command, self.name))
        self.site.files[self.name] = self.content
        self.answer(201, b"success: Created\n", Content_Type="text/plain")


def tree(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def uploaded(site):
    return {path[3:]: data for path, data in site.files.items() if path.startswith("/d/") and data is not None}


@contextmanager
def destination(site):
    """The URL of the site's folder."""
    with serving(site) as server:
        yield f"http://127.0.0.1:{server.port}/d/"


@pytest.mark.parametrize("verb", ["cp -r", "sync", "sync --delete"])
@pytest.mark.parametrize("ignores_case", [True, False])
def test_two_files_that_would_become_one_are_told(hither, tmp_path, site, verb, ignores_case):
    site.ignores_case = ignores_case
    files = {"Run.dat": ONE, "run.dat": TWO, "x/a.dat": ONE, "X/a.dat": TWO, "other.dat": ONE}
    source = tree(tmp_path / "source", files)
    with destination(site) as url:
        for _ in range(2):
            done = hither(*verb.split(), f"{source}/.", url, "--store", tmp_path / "store")
            if ignores_case:
                assert done.code != 0 and "Run.dat" in done.err and "run.dat" in done.err, done
            else:
                assert (done.code, uploaded(site)) == (0, files), done
    kept = uploaded(site)
    assert {"other.dat"} < set(kept) <= set(files), "of each pair one is there, and nothing else"
    assert kept == {name: files[name] for name in kept}
    assert len(kept) == (3 if ignores_case else 5)


@pytest.mark.parametrize("ignores_case", [True, False])
def test_mv_gives_no_two_files_one_name(hither, tmp_path, site, ignores_case):
    site.ignores_case = ignores_case
    site.files |= {"/d/x/": None, "/d/y/": None, "/d/out/": None, "/d/x/Run.dat": ONE, "/d/y/run.dat": TWO}
    with serving(site) as server:
        url = f"http://127.0.0.1:{server.port}/d"
        done = hither("mv", f"{url}/x/Run.dat", f"{url}/y/run.dat", f"{url}/out", "--store", tmp_path / "store")
    if ignores_case:
        assert done.code == 2 and "Run.dat" in done.err and "run.dat" in done.err, done
        assert uploaded(site) == {"x/Run.dat": ONE, "y/run.dat": TWO}
    else:
        assert (done.code, uploaded(site)) == (0, {"out/Run.dat": ONE, "out/run.dat": TWO}), done


@pytest.mark.parametrize("verb", ["cp -r", "sync", "sync --delete"])
@pytest.mark.parametrize("is_new", [False, True], ids=["there", "in a new directory"])
def test_each_directory_of_the_destination_is_asked(hither, tmp_path, site, verb, is_new):
    site.ignores_case_below = "/d/b/"
    site.files["/d/b/"] = None
    inner = "b/new" if is_new else "b"
    pair = {"Run.dat": ONE, "run.dat": TWO}
    distinct = {f"{folder}/{name}": data for folder in ("a", "c") for name, data in pair.items()}
    source = tree(tmp_path / "source", {**distinct, **{f"{inner}/{name}": data for name, data in pair.items()}})
    with destination(site) as url:
        for _ in range(2):
            done = hither(*verb.split(), f"{source}/.", url, "--store", tmp_path / "store")
            assert done.code != 0 and "Run.dat" in done.err and "run.dat" in done.err, done
            assert done.err.count("would be one file") == 1, done
    kept = uploaded(site)
    assert distinct.items() <= kept.items()
    (name,) = kept.keys() - distinct.keys()
    assert kept[name] == pair[name.removeprefix(f"{inner}/")]


@pytest.mark.parametrize("old", [TWO, ONE], ids=["other bytes", "same bytes"])
@pytest.mark.parametrize("name", ["A.dat", "a.dat"])
def test_a_file_whose_case_was_changed_is_not_deleted(hither, tmp_path, site, name, old):
    site.files["/d/Data/"] = None
    site.files["/d/Data/B.dat"] = old
    site.files[f"/d/{name.swapcase()}"] = old
    source = tree(tmp_path / "source", {name: ONE, "data/b.dat": ONE, "c.dat": TWO})
    with destination(site) as url:
        for _ in range(2):
            done = hither("sync", "--delete", "--checksum", source, url, "--store", tmp_path / "store")
            assert done.code == 0, done
            held = {path.casefold(): data for path, data in uploaded(site).items()}
            assert held == {"a.dat": ONE, "data/b.dat": ONE, "c.dat": TWO}, done
        done = hither("check", source, url, "--checksum")
        assert done.code == 0, done


@pytest.mark.parametrize("verb", ["cp -r", "sync --delete"])
@pytest.mark.parametrize(
    ("fold", "pair"),
    [
        ("upper case", ("λογος.dat", "λογοσ.dat")),  # noqa: RUF001
        ("case folding", ("strasse", "straße")),
        ("upper case", ("10µm", "10μm")),  # noqa: RUF001
        ("NFKC", ("10µm", "10μm")),  # noqa: RUF001
    ],
)
def test_names_are_one_by_any_rule_of_folding(hither, tmp_path, site, verb, fold, pair):
    site.ignores_case, site.fold = False, FOLDS[fold]
    source = tree(tmp_path / "source", {pair[0]: ONE, pair[1]: TWO, "z": ONE})
    with destination(site) as url:
        for _ in range(2):
            done = hither(*verb.split(), f"{source}/.", url, "--store", tmp_path / "store")
            assert done.code == 2 and pair[0] in done.err and pair[1] in done.err, done
            assert sorted(uploaded(site).values()) in (sorted([ONE, ONE]), sorted([ONE, TWO]))
        (source / pair[0]).unlink()
        site.files = {"/": None, "/d/": None, f"/d/{pair[0]}": b"old"}
        done = hither("sync", "--delete", f"{source}/.", url, "--store", tmp_path / "store")
        assert (done.code, sorted(uploaded(site).values())) == (0, sorted([ONE, TWO])), done


@pytest.mark.parametrize(
    ("rule", "name"), [("end", "run7."), ("colon", "12:00.log"), ("plus", "a+b"), ("unforeseen", "me@home")]
)
@pytest.mark.parametrize("folder", ["", "in/"])
def test_what_a_server_stores_under_another_name_is_not_deleted(hither, tmp_path, site, rule, name, folder):
    site.ignores_case, site.renames = False, RENAMES[rule]
    source = tree(tmp_path / "source", {f"{folder}{name}": ONE, "z": TWO})
    with destination(site) as url:
        for run in range(3):
            done = hither("sync", "--delete", source, url, "--store", tmp_path / "store")
            if rule == "unforeseen":
                assert done.code == 2 and name in done.err and "another name" in done.err, done
            else:
                assert done.code == 0 and ("spelled otherwise" in done.err) == (run > 0), done
            assert sorted(data for data in uploaded(site).values() if data) == sorted([ONE, TWO]), done


def test_a_directory_that_a_server_stores_under_another_name_is_not_deleted(hither, tmp_path, site):
    site.ignores_case, site.renames = False, RENAMES["unforeseen"]
    source = tree(tmp_path / "source", {"me@home/plain": ONE, "z": TWO})
    with destination(site) as url:
        for run in range(2):
            done = hither("sync", "--delete", source, url, "--store", tmp_path / "store")
            assert run or (done.code == 2 and "me@home" in done.err and "another name" in done.err), done
            assert uploaded(site) == {"me-at-home/plain": ONE, "z": TWO}, done


@pytest.mark.parametrize("other", [b"of the twin" * 30, TWO], ids=["of one size", "of two sizes"])
@pytest.mark.parametrize(("rule", "names"), [("end", ("a", "a.")), ("unforeseen", ("x-at-y", "x@y"))])
def test_no_run_of_a_copy_replaces_a_file_by_another_one_silently(hither, tmp_path, site, rule, names, other):
    site.ignores_case, site.renames = False, RENAMES[rule]
    source = tree(tmp_path / "source", {names[0]: ONE, names[1]: other, "z": TWO})
    with destination(site) as url:
        for _ in range(3):
            done = hither("cp", "-r", f"{source}/.", url, "--store", tmp_path / "store")
            assert done.code != 0 and names[1] in done.err, done
        (source / names[1]).unlink()
        assert hither("cp", "-r", f"{source}/.", url, "--store", tmp_path / "store").code == 0
    assert uploaded(site) == {names[0]: ONE, "z": TWO}


def test_a_name_is_not_deleted_that_a_server_lists_under_another_name_later(hither, tmp_path):
    site = CachedNames({"/": None, "/d/": None}, lambda _: False)
    source = tree(tmp_path / "source", {"a\tb": ONE, "z": TWO})
    with serving(site, CachesNames) as server:
        for _ in range(3):
            # Names in the cache expire.
            site.names = set(site.files)
            done = hither("sync", "--delete", source, f"http://127.0.0.1:{server.port}/d/", "--no-store")
            assert (done.code, uploaded(site)) == (0, {"a\u2409b": ONE, "z": TWO}), done


def test_a_list_of_names_is_refused_before_anything_moves(hither, tmp_path, site):
    tree(tmp_path, {"a/Run.dat": ONE, "b/run.dat": TWO})
    with destination(site) as url:
        done = hither("cp", tmp_path / "a/Run.dat", tmp_path / "b/run.dat", url, "--store", tmp_path / "store")
    assert done.code == 2 and "Run.dat" in done.err and "run.dat" in done.err, done
    assert uploaded(site) == {}


@pytest.mark.parametrize("is_local", [True, False], ids=["local", "WebDAV"])
def test_files_of_a_pattern_with_one_name_are_refused_before_anything_moves(hither, tmp_path, is_local):
    runs = {f"/run{number}/": None for number in (1, 2)}
    site = Site({"/": None, "/d/": None, **runs, **{f"{run}hist.root": run.encode() for run in runs}}, lambda _: False)
    before = dict(site.files)
    with serving(site) as server:
        url = f"http://127.0.0.1:{server.port}"
        done = hither("cp", f"{url}/run*/hist.root", tmp_path if is_local else f"{url}/d/", "--no-store")
    assert done.code == 2 and "run1/hist.root" in done.err and "run2/hist.root" in done.err, done
    assert site.files == before
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_made_at_a_destination_of_names_that_differ(hither, tmp_path, site):
    source = tree(tmp_path / "source", {"a.dat": ONE, "b.dat": TWO})
    with destination(site) as url:
        assert hither("cp", "-r", f"{source}/.", url).code == 0
    made = {name for command, name in site.requests if command in ("PUT", "MOVE")}
    assert {name for name in made if ".hither-" not in name} <= {"/d/a.dat", "/d/b.dat"}


def test_a_server_that_removes_nothing_is_asked_all_the_same(hither, tmp_path, site):
    site.ignores_case = False
    site.behaviour = lambda it: it.command == "DELETE" and it.answer(403)
    files = {"Run.dat": ONE, "run.dat": TWO}
    source = tree(tmp_path / "source", files)
    with serving(site) as server:
        done = hither("cp", "-r", f"{source}/.", f"http://127.0.0.1:{server.port}/d/", "--no-store")
    assert done.code == 0, done
    held = uploaded(site)
    assert {name: held[name] for name in files} == files
    assert all(data == b"1" for name, data in held.items() if name not in files)


@pytest.mark.parametrize("third_party", [[], ["--third-party", "pull"]], ids=["relayed", "third-party"])
@pytest.mark.parametrize("name", ["me@home", "me@home/file"])
def test_names_are_looked_at_where_a_tree_goes_from_server_to_server(hither, tmp_path, site, third_party, name):
    site.ignores_case, site.renames = False, RENAMES["unforeseen"]
    tree(tmp_path / "served/www/source", {name: ONE, "z": TWO})
    with serving(site, Copies) as server, served.serving(tmp_path / "served") as source:
        to = f"http://127.0.0.1:{server.port}/d/"
        done = hither("cp", "-r", *third_party, f"{source.base}source/.", to, "--store", tmp_path / "store")
    assert done.code == 2 and "me@home" in done.err and "another name" in done.err, done
    assert uploaded(site) == {RENAMES["unforeseen"](name): ONE, "z": TWO}
    assert ("COPY" in {method for method, _ in site.requests}) == bool(third_party)
