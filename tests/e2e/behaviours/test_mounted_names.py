"""A destination with two file systems, one of which ignores case."""

from contextlib import contextmanager, nullcontext

import pytest
from exfat import mounted_exfat
from needs import require
from served import serving

from bench.harness import servers
from bench.harness.links import Loopback

PAIR = {"Run.dat": b"of one name" * 30, "run.dat": b"of the other, longer one" * 30}


@pytest.fixture
def mounted(tmp_path):
    """A folder `www` whose file system is case-sensitive, and in it `b`, whose file system is not."""
    www = tmp_path / "www"
    www.mkdir()
    with mounted_exfat(www / "b", tmp_path / "image"):
        yield www


@contextmanager
def behind_nginx(www):
    require("nginx")
    for path in (www, *www.iterdir()):
        path.chmod(0o777)
    with servers.nginx(Loopback(), www, webdav=True) as port:
        yield f"http://127.0.0.1:{port}/"


@contextmanager
def behind_hither(www):
    with serving(www.parent, "--write") as server:
        yield server.base


DESTINATIONS = {"a folder": lambda www: nullcontext(f"{www}/"), "nginx": behind_nginx, "hither serve": behind_hither}


def held(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("verb", ["cp -r", "sync --delete"])
@pytest.mark.parametrize("kind", DESTINATIONS)
def test_pairs_fail_where_they_are_one_and_nowhere_else(hither, tmp_path, mounted, verb, kind):
    source = tmp_path / "source"
    for folder in ("a", "b", "b/new", "c"):
        (source / folder).mkdir(parents=True, exist_ok=True)
        for name, data in PAIR.items():
            (source / folder / name).write_bytes(data)
    with DESTINATIONS[kind](mounted) as url:
        for _ in range(2):
            done = hither(*verb.split(), f"{source}/.", url, "--store", tmp_path / "store")
            assert done.code != 0, done
            assert done.err.count("would be one file") == 2, done
        kept = held(mounted)
        distinct = {f"{folder}/{name}": data for folder in ("a", "c") for name, data in PAIR.items()}
        assert distinct.items() <= kept.items()
        others = {path: data for path, data in kept.items() if path not in distinct}
        assert {path.casefold() for path in others} == {"b/run.dat", "b/new/run.dat"}
        assert all(data == PAIR[path.rpartition("/")[2]] for path, data in others.items())
        # The case of a name changes at the source.
        for folder in ("b", "b/new"):
            (source / folder / "Run.dat").unlink()
        done = hither(*verb.split(), f"{source}/.", url, "--no-store")
        assert done.code == 0, done
    for folder in ("b", "b/new"):
        (name,) = (path for path in (mounted / folder).iterdir() if path.is_file())
        assert name.read_bytes() == PAIR["run.dat"]
