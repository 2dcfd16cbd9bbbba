"""The kinds of storages of the table of behaviours: each serves the files of a row, and shows them afterwards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from behaviours.foreign_server import Site, serving
from behaviours.storages.object_store import Store, environment, serving_objects
from behaviours.storages.root_server import RootExchange
from e2e.loopback_server import LoopbackServer


@dataclass(frozen=True)
class Served:
    url: str
    """The directory `/d/`."""
    files: Callable[[], dict[str, bytes | None]]
    """The present files by path; directories end with a slash, and have no bytes."""
    requests: Callable[[], list]


@contextmanager
def served(storage: str, files: dict[str, bytes | None], answers, monkeypatch) -> Iterator[Served]:
    """Serves `files` with the behaviour `answers`: a function of an exchange, for `s3` the settings of its `Store`."""
    if storage == "s3":
        objects = {path.removeprefix("/"): data for path, data in files.items() if data is not None}
        store = Store(objects, **answers)
        with serving_objects(store) as port:
            for name, value in environment(port).items():
                monkeypatch.setenv(name, value)
            yield Served(
                "s3://bucket/d/", lambda: {f"/{key}": data for key, data in objects.items()}, lambda: store.log
            )
        return
    site = Site(dict(files), answers)
    run = serving(site) if storage == "webdav" else LoopbackServer(type("Own", (RootExchange,), {"site": site}))
    scheme, slashes = ("root", "//") if storage == "root" else ("http", "/")
    with run as server:
        yield Served(f"{scheme}://127.0.0.1:{server.port}{slashes}d/", lambda: site.files, lambda: site.requests)
