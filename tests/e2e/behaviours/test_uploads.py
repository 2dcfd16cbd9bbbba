"""Uploads to foreign servers."""

import zlib

import pytest
from behaviours.foreign_server import Exchange, Site, serving

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
    # If other clients may rename, an existing file is not replaced unless its version was seen.
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


@pytest.mark.parametrize("size", [3_000, 3 << 20])
def test_a_directory_without_moves_says_nothing_of_another(hither, tmp_path, size):
    local = tmp_path / "a.dat"
    local.write_bytes(bytes(size))
    refuses = lambda it: it.command == "MOVE" and it.name.startswith("/a/") and it.answer(405)  # noqa: E731
    site = Site({"/": None, "/a/": None, "/a/a.dat": OLD, "/b/": None, "/b/a.dat": OLD}, refuses)
    with serving(site) as server:
        for _ in range(2):
            site.requests.clear()
            done = hither("cp", local, f"http://127.0.0.1:{server.port}/a/a.dat", "--store", tmp_path / "store")
            assert (done.code, site.files["/a/a.dat"]) == (0, bytes(size)), done
        site.requests.clear()
        done = hither("cp", local, f"http://127.0.0.1:{server.port}/b/a.dat", "--store", tmp_path / "store")
    assert (done.code, site.files["/b/a.dat"]) == (0, bytes(size)), done
    assert ("PUT", "/b/a.dat") not in site.requests, "the file that is there is replaced as a whole"


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
    # XrdHttp replaces files without being asked: before each MOVE the client checks that the name is free.
    each = 3 if behaviour is as_xrdhttp else 2
    assert len(methods) <= 30 * each + 8, methods


class Idle(Exchange):
    """Confirms changes of names and does not make them. States entity tags, and checksums if it `has_checksums`."""

    has_checksums = True

    def answer(self, status, body=b"", **fields):
        data = self.site.files.get(self.name)
        if data and self.command in ("GET", "HEAD"):
            fields["ETag"] = f'"{zlib.crc32(data):08x}"'
            if self.has_checksums and "Want-Digest" in self.headers:
                fields["Digest"] = f"adler32={zlib.adler32(data):08x}"
        return super().answer(status, body, **fields)

    def properties(self, path, **changed):
        data = self.site.files[path]
        return super().properties(path, getetag=data and f'"{zlib.crc32(data):08x}"', **changed)

    def do_COPY(self):
        self.content = b""
        self.answer(201, b"success: Created\n", Content_Type="text/plain")


class WithoutChecksums(Idle):
    has_checksums = False


@pytest.mark.parametrize("target_size", [2_000, 3_000])
@pytest.mark.parametrize("idle", [Idle, WithoutChecksums])
def test_a_third_party_copy_that_did_nothing_is_told(hither, tmp_path, idle, target_size):
    """A target with the same size, date and tag may be the old file, whatever the server states; it is kept."""
    new, old = b"1" * 3_000, b"2" * target_size
    with (
        serving(Site({"/": None, "/a": new}, lambda _: False), idle) as source,
        serving(target := Site({"/": None, "/b": old}, lambda _: False), idle) as target_server,
    ):
        urls = [f"http://127.0.0.1:{source.port}/a", f"http://127.0.0.1:{target_server.port}/b"]
        done = hither("cp", "--third-party", "pull", *urls, "--no-store")
    if idle is Idle or target_size != len(new):
        assert (done.code != 0, "expected" in done.err, "left there" in done.err) == (True, True, True), done
    else:
        assert "not compared" in done.err, done
    assert target.files["/b"] == old


def test_an_upload_in_place_that_did_nothing_leaves_the_old_file(hither, tmp_path):
    local = tmp_path / "a.dat"
    local.write_bytes(b"1" * len(OLD))
    site = Site({"/": None, "/a.dat": OLD}, lambda it: it.command == "PUT" and it.name == "/a.dat" and it.answer(204))
    with serving(site, type("InPlace", (Idle,), {"answer_move": Exchange.refuse})) as server:
        done = hither("cp", "--checksum", "adler32", local, f"http://127.0.0.1:{server.port}/a.dat", "--no-store")
    assert (done.code, "the server has" in done.err) == (7, True), done
    assert site.files == {"/": None, "/a.dat": OLD}


@pytest.mark.parametrize("words", [["rm"], ["cp", "{local}"], ["mv", "{url}/b"], ["mkdir"]])
def test_a_url_with_a_fragment_changes_nothing(hither, tmp_path, words):
    (tmp_path / "a").write_bytes(b"new")
    site = Site({"/": None, "/a": OLD, "/b": OLD}, lambda _: False)
    with serving(site) as server:
        url = f"http://127.0.0.1:{server.port}"
        done = hither(*[word.format(local=tmp_path / "a", url=url) for word in words], f"{url}/a#b", "--no-store")
    assert (done.code, "%23" in done.err) == (2, True), done
    assert site.files == {"/": None, "/a": OLD, "/b": OLD}


def test_a_name_that_is_listed_and_cannot_be_looked_at_is_no_pattern(hither):
    """Like a link without a target."""
    site = Site({"/": None, "/x1": OLD, "/x[1]": b"1"}, lambda it: it.command != "DELETE" and it.name == "/x[1]" and it.answer(404))
    with serving(site) as server:
        done = hither("rm", f"http://127.0.0.1:{server.port}/x[1]", "--no-store")
    assert "/x1" in site.files, done


@pytest.mark.parametrize("size", [5_000, 3 << 20])
@pytest.mark.parametrize("algorithm", ["md5", "adler32"])
def test_a_checksum_of_the_command_is_compared_by_reading_back(hither, tmp_path, size, algorithm):
    def damage(it) -> bool:
        if it.command != "PUT":
            return False
        it.site.files[it.name] = it.content[:-1] + b"?"
        return it.answer(201)

    local = tmp_path / "a.dat"
    local.write_bytes(bytes(size))
    site = Site({"/": None, "/d/": None, "/d/a.dat": OLD}, damage)
    with serving(site) as server:
        done = hither("cp", "--checksum", algorithm, local, f"http://127.0.0.1:{server.port}/d/a.dat", "--no-store")
    assert done.code == 7, done
    assert f"the server has {algorithm}:" in done.err
    assert site.files == {"/": None, "/d/": None, "/d/a.dat": OLD}
