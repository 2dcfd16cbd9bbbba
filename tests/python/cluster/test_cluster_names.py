"""Names that the destination of a cluster takes for one."""

import contextlib

import pytest
from cluster_rig import content
from e2e.behaviours.foreign_server import FOLDS, RENAMES, Site, serving
from e2e.exfat import mounted_exfat
from needs import python_package

from bench.harness import servers
from bench.harness.links import Loopback

python_package("distributed")
import hither.cluster  # noqa: E402

pytestmark = pytest.mark.pair


@pytest.mark.parametrize("below", ["/to/", "/to/b/"], ids=["everywhere", "in one directory"])
@pytest.mark.usefixtures("patient")
def test_of_files_that_would_become_one_all_but_one_fail_alone(dask, tmp_path, below):
    root = tmp_path / "tree"
    pairs = {f"{folder}/{name}": folder + name for folder in ("a", "b") for name in ("Run.dat", "run.dat")}
    for path, text in {**pairs, "b/X/inner": "X", "b/x/inner": "x", "b/.hither-own": "", "other": "o"}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    there = {"/": None, "/to/": None, "/to/a/": None, "/to/b/": None}
    site = Site(there, lambda _: False, ignores_case=True, ignores_case_below=below)
    refused = {"b/run.dat", "b/x", "b/x/inner"} | ({"a/run.dat"} if below == "/to/" else set())
    with serving(site) as server:
        for _ in range(2):
            done = hither.cluster.copy(dask, f"{root}/.", f"http://127.0.0.1:{server.port}/to")
            assert done.failures.keys() == refused
            assert "b/Run.dat and b/run.dat would be one" in done.failures["b/run.dat"]
            assert done.notices == ["b/.hither-own: hither has such names for itself, left out"]
            held = {path.removeprefix("/to/"): data for path, data in site.files.items() if data is not None}
            kept = {path: data for path, data in held.items() if ".hither-" not in path}
            assert kept == {path: (root / path).read_bytes() for path in {*pairs, "b/X/inner", "other"} - refused}
        # One file is removed, and another file takes its name.
        for path in ("a/run.dat", "b/run.dat", "b/x/inner"):
            (root / path).unlink()
        (root / "b/x").rmdir()
        (root / "b/Run.dat").rename(root / "b/run.dat")
        assert hither.cluster.copy(dask, f"{root}/.", f"http://127.0.0.1:{server.port}/to").failures == {}
    assert not any(".hither-" in path for path in site.files)
    assert site.files[site.held("/to/b/run.dat")] == b"bRun.dat"


def test_names_are_one_by_any_rule_of_folding(dask, tmp_path):
    one, two = b"of one name" * 30, b"of the other name" * 30
    for number, (rule, pair) in enumerate(
        [
            ({"fold": FOLDS["upper case"]}, ("λογος.dat", "λογοσ.dat")),
            ({"fold": FOLDS["case folding"]}, ("strasse", "straße")),
            ({"fold": FOLDS["NFKC"]}, ("10µm", "10μm")),
            ({"renames": RENAMES["end"]}, ("a", "a.")),
            ({"renames": RENAMES["colon"]}, ("12:00/in", "12_00/in")),
        ]
    ):
        root = tmp_path / f"tree{number}"
        for name, data in zip((*pair, "z"), (one, two, one), strict=True):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        site = Site({"/": None, "/to/": None}, lambda _: False, **rule)
        with serving(site) as server:
            for _ in range(2):
                done = hither.cluster.copy(dask, f"{root}/.", f"http://127.0.0.1:{server.port}/to")
                assert set(done.failures) & set(pair), (pair, done)
                assert done.error_kind == "invalid"
                held = {path: data for path, data in site.files.items() if data and ".hither-" not in path}
                kept = next(data for name, data in zip(pair, (one, two), strict=True) if name not in done.failures)
                assert sorted(held.values()) == sorted([kept, one]), (pair, done)
            (failed,) = set(pair) & set(done.failures)
            (root / failed).unlink()
            if "/" in failed:
                (root / failed).parent.rmdir()
            assert hither.cluster.copy(dask, f"{root}/.", f"http://127.0.0.1:{server.port}/to").failures == {}


def test_no_file_is_replaced_by_one_that_the_server_stores_under_its_name(dask, tmp_path):
    root = tmp_path / "tree"
    files = {"x-at-y": b"of one name", "x@y": b"of another!", "z": b"z"}
    for name, data in files.items():
        (root / "d").mkdir(parents=True, exist_ok=True)
        (root / "d" / name).write_bytes(data)
    (root / "me@home").mkdir()
    site = Site({"/": None, "/to/": None}, lambda _: False, renames=RENAMES["unforeseen"])
    with serving(site) as server:
        copy = lambda: hither.cluster.copy(dask, f"{root}/.", f"http://127.0.0.1:{server.port}/to")  # noqa: E731
        for _ in range(2):
            done = copy()
            assert (set(done.failures), done.error_kind) == ({"d/x@y", "me@home"}, "invalid"), done
            assert all("another name" in why for why in done.failures.values())
        (root / "d/x@y").unlink()
        (root / "me@home").rmdir()
        assert copy().failures == {}
    held = {path: data for path, data in site.files.items() if data and ".hither-" not in path}
    assert held == {f"/to/d/{name}": data for name, data in files.items() if name != "x@y"}


@pytest.mark.parametrize("kind", ["a folder", "nginx"])
def test_a_real_file_system_that_ignores_case_is_recognised(dask, tmp_path, kind):
    root, www = tmp_path / "tree", tmp_path / "www"
    names = {f"{folder}/{name}" for folder in ("a", "b", "b/new") for name in ("Run.dat", "run.dat")}
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    www.mkdir()
    www.chmod(0o777)
    # Behind nginx, which copies if it cannot rename, only one directory is on that file system.
    is_whole = kind == "a folder"
    serving_it = {
        "a folder": contextlib.nullcontext,
        "nginx": lambda: servers.nginx(Loopback(), www, webdav=True),
    }[kind]
    with mounted_exfat(www if is_whole else www / "b", tmp_path / "image"), serving_it() as port:
        done = hither.cluster.copy(dask, f"{root}/.", f"http://127.0.0.1:{port}" if port else www)
        kept = {path: data for path, data in content(www).items() if data and ".hither-" not in path}
    refused = {name for name in names if "run" in name and (is_whole or not name.startswith("a"))}
    assert done.failures.keys() == refused
    assert kept.items() == {(name, content(root)[name]) for name in names - refused}
