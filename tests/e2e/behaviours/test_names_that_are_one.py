"""Destinations that ignore differences of names: no file of a source silently replaces another one."""

import pytest
from behaviours.foreign_server import Site, serving

ONE = b"of one name" * 30
TWO = b"of the other, longer one" * 30


@pytest.fixture
def site():
    return Site({"/": None, "/d/": None}, lambda _: False, ignores_case=True)


def tree(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def uploaded(site):
    return {path[3:]: data for path, data in site.files.items() if path.startswith("/d/") and data is not None}


@pytest.mark.parametrize("verb", ["cp -r", "sync", "sync --delete"])
@pytest.mark.parametrize("ignores_case", [True, False])
def test_two_files_that_would_become_one_are_told(hither, tmp_path, site, verb, ignores_case):
    site.ignores_case = ignores_case
    files = {"Run.dat": ONE, "run.dat": TWO, "x/a.dat": ONE, "X/a.dat": TWO, "other.dat": ONE}
    source = tree(tmp_path / "source", files)
    with serving(site) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
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
    with serving(site) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
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
    with serving(site) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
        for _ in range(2):
            done = hither("sync", "--delete", "--checksum", source, url, "--store", tmp_path / "store")
            assert done.code == 0, done
            held = {path.casefold(): data for path, data in uploaded(site).items()}
            assert held == {"a.dat": ONE, "data/b.dat": ONE, "c.dat": TWO}, done
        done = hither("check", source, url, "--checksum")
        assert done.code == 0, done


def test_a_list_of_names_is_refused_before_anything_moves(hither, tmp_path, site):
    tree(tmp_path, {"a/Run.dat": ONE, "b/run.dat": TWO})
    with serving(site) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
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
    with serving(site) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
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
    assert all(data == b"" for name, data in held.items() if name not in files)
