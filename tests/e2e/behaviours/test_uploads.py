"""Uploads to servers that are not ours."""

import pytest
from behaviours.foreign_server import Site, serving

OLD = b"what was there before"


@pytest.mark.parametrize("size", [0, 3_000, 3 << 20])
@pytest.mark.parametrize("status", [403, 404, 405, 501])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_file_gets_its_name_where_nothing_may_be_renamed(hither, tmp_path, size, status, is_new):
    local = tmp_path / "a.dat"
    local.write_bytes(bytes(range(1, 256)) * (size // 255) + b"x" * (size % 255))
    before = {} if is_new else {"/d/a.dat": OLD}
    site = Site({"/": None, "/d/": None, **before}, lambda it: it.command == "MOVE" and it.answer(status))
    with serving(site) as server:
        done = hither("cp", local, f"http://127.0.0.1:{server.port}/d/a.dat", "--no-store")
    held = {path: data for path, data in site.files.items() if data is not None}
    # Where others may rename, a file that is there is not replaced by one that nobody has seen.
    if is_new or status in (405, 501):
        assert (done.code, held) == (0, {"/d/a.dat": local.read_bytes()}), done
    else:
        assert (done.code != 0, held) == (True, before), done
    assert not any(".hither-" in path for path in site.files), "no partial file is left"


@pytest.mark.parametrize("size", [3_000, 3 << 20])
def test_the_scope_that_is_missing_is_named(hither, tmp_path, size):
    local = tmp_path / "a.dat"
    local.write_bytes(bytes(size))
    refused = lambda it: (it.command == "MOVE" or (it.command == "PUT" and it.name == "/d/a.dat")) and it.answer(403)  # noqa: E731
    with serving(Site({"/": None, "/d/": None}, refused)) as server:
        done = hither("cp", local, f"http://127.0.0.1:{server.port}/d/a.dat", "--no-store")
    assert done.code == 4, done
    if size < 1 << 20:
        assert "storage.modify" in done.err, done


def as_xrdhttp(it) -> bool:
    """The response of XrdHttp before 5.6 to a PUT."""
    if it.command != "PUT":
        return False
    it.site.files[it.name] = it.content
    return it.answer(200, b":-)")


@pytest.mark.parametrize("verb", [["cp", "-r"], ["sync"]])
@pytest.mark.parametrize("behaviour", [lambda _: False, as_xrdhttp], ids=["201", "XrdHttp"])
def test_one_listing_shows_all_uploads_of_a_directory(hither, tmp_path, verb, behaviour):
    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.dat").write_bytes(bytes(range(256)) * (number + 1))
    source = f"{folder}/." if verb[0] == "cp" else folder
    site = Site({"/": None, "/d/": None}, behaviour)
    with serving(site) as server:
        done = hither(*verb, source, f"http://127.0.0.1:{server.port}/d/", "--no-store")
    assert done.code == 0, done
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path[3:]: data for path, data in site.files.items() if data is not None
    }
    methods = [method for method, _ in site.requests]
    assert (methods.count("PUT"), methods.count("MOVE")) == (30, 30)
    assert len(methods) <= 60 + 8, methods
