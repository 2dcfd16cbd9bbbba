"""Several machines behind one name, each with its own entity tags: a different tag is not mistaken for a change."""

import itertools
import re
import zlib
from email.utils import formatdate

import pytest
from behaviours.foreign_server import MODIFIED, Exchange, Site, serving

DATA = bytes(range(256)) * 40_000


def tagged(tags) -> type[Exchange]:
    """A server that takes the entity tag of each response from `tags`, and sends the whole file if the request has
    another."""

    class Tagged(Exchange):
        def answer(self, status, body=b"", **fields):
            return super().answer(status, body, ETag=self.tag, **fields) if status < 300 else super().answer(status, body)

        def answer_get(self):
            self.tag = next(tags)
            condition = self.headers.get("If-Range", self.tag)
            if condition.startswith('"') and condition != self.tag:
                del self.headers["Range"]
            return super().answer_get()

        answer_head = answer_get

        def answer_propfind(self):
            self.tag = None
            return super().answer_propfind()

    return Tagged


@pytest.mark.parametrize("tags", [['"a"', '"b"', '"c"'], ['W/"a"', 'W/"b"']], ids=["strong", "weak"])
@pytest.mark.parametrize("verb", ["cat", "cp"])
def test_a_file_is_read_where_tags_come_and_go(hither, tmp_path, verb, tags):
    site = Site({"/": None, "/a.dat": DATA}, lambda _: False)
    store = ["--store", tmp_path / "store"]
    target = [] if verb == "cat" else [tmp_path / "a.dat"]
    with serving(site, tagged(itertools.cycle(tags))) as server:
        url = f"http://127.0.0.1:{server.port}/a.dat"
        for run in ("first", "second"):
            done = hither(verb, url, *target, *store)
            assert done.code == 0, (run, done)
            assert ("taken for one file" in done.err) == (run == "first"), "the command tells what it assumes"
            if verb == "cp":
                assert target[0].read_bytes() == DATA
            # A copy also requests the checksum with a HEAD.
            looks = sum(method == "HEAD" for method, _ in site.requests) - (verb == "cp")
            site.requests.clear()
            assert looks <= 8 if run == "first" else looks == 0, "what a server does is remembered"


@pytest.mark.parametrize("verb", ["cat", "cp"])
def test_a_file_that_was_replaced_with_its_size_and_date_is_another_one(hither, tmp_path, verb):
    site = Site({"/": None, "/a.dat": DATA}, lambda _: False)
    target = [] if verb == "cat" else [tmp_path / "a.dat"]
    tags = itertools.chain(['"a"'] * 2, itertools.repeat('"b"'))
    with serving(site, tagged(tags)) as server:
        done = hither(verb, f"http://127.0.0.1:{server.port}/a.dat", *target, "--no-store")
    assert (done.code == 9 and "changed" in done.err) or (verb == "cp" and "copied again" in done.out + done.err), done
    assert re.search("changed", done.out + done.err), done


class Versions(Exchange):
    """Has the versions 1 and 2 of a file, of one size and one date at most. `is_second` decides which one is sent."""

    dates = False
    weak = "W/"

    def is_second(self) -> bool:
        raise NotImplementedError

    def answer(self, status, body=b"", **fields):
        if self.name.endswith("/") or status >= 300:
            return super().answer(status, body, **fields)
        fields["ETag"] = f'{self.weak}"{1 + self.is_second()}"'
        if not self.dates:
            fields["Last-Modified"] = None
        return super().answer(status, bytes(len(body)) if self.is_second() else body, **fields)


LARGE = bytes([1]) * (10 << 20)
INDEX = f"""<html><head><title>Index of /d/</title></head><body><h1>Index of /d/</h1><hr><pre><a href="../">../</a>
<a href="a.dat">a.dat</a>                  14-Nov-2023 22:13            {len(LARGE)}
</pre><hr></body></html>"""


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("verb", ["cat", "cp"])
def test_weak_tags_that_differ_are_two_versions(hither, tmp_path, verb, dated):
    class Replaced(Versions):
        dates = dated

        def is_second(self):
            return self.command == "HEAD" or not self.headers.get("Range", "").startswith("bytes=0-")

    target = [] if verb == "cat" else [tmp_path / "a.dat"]
    with serving(Site({"/": None, "/a.dat": LARGE}, lambda _: False), Replaced) as server:
        done = hither(verb, f"http://127.0.0.1:{server.port}/a.dat", *target, "--no-store")
    assert (done.code, "changed" in done.err) == (9, True), done.err
    assert not (tmp_path / "a.dat").exists()


@pytest.mark.parametrize("tag", ["", "W/"])
def test_a_change_that_only_the_response_about_the_checksum_shows_is_one(hither, tmp_path, tag):
    class Replaced(Versions):
        weak = tag

        def is_second(self):
            return self.command == "HEAD"

    with serving(Site({"/": None, "/a.dat": LARGE}, lambda _: False), Replaced) as server:
        done = hither("cp", f"http://127.0.0.1:{server.port}/a.dat", tmp_path / "a.dat", "--no-store")
    assert (done.code, "changed" in done.err, (tmp_path / "a.dat").exists()) == (9, True, False), done.err


@pytest.mark.parametrize("listed", [False, True])
def test_a_copy_is_not_resumed_with_another_weak_tag(hither, tmp_path, listed):
    class Replaced(Versions):
        dates = True
        weak = "" if listed else "W/"
        breaks = True

        def is_second(self):
            return not self.breaks

        answer_propfind = Exchange.refuse

        def answer_get(self):
            if self.name.endswith("/"):
                return self.html(INDEX)
            first = int(re.match(r"bytes=(\d+)|", self.headers.get("Range", ""))[1] or 0)
            return self.break_off() if self.breaks and first >= 6 << 20 else super().answer_get()

    def copy():
        url = f"http://127.0.0.1:{server.port}/d/"
        source = ["-r", url] if listed else [url + "a.dat"]
        return hither("cp", "--json", *source, tmp_path / "out", "--store", tmp_path / "store", "--max-connections", 1)

    with serving(Site({"/d/": None, "/d/a.dat": LARGE}, lambda _: False), Replaced) as server:
        assert copy().code != 0
        Replaced.breaks = False
        done = copy()
    assert done.code == 0, done.err
    (copied,) = (tmp_path / "out").rglob("a.dat") if listed else [tmp_path / "out"]
    assert copied.read_bytes() == bytes(len(LARGE))


def test_a_checksum_that_a_server_leaves_out_is_asked_for_again_and_reported(hither, tmp_path):
    class Summed(Exchange):
        def answer(self, status, body=b"", **fields):
            if self.command == "HEAD" and self.name == "/d/a.dat":
                fields["Digest"] = f"adler32={zlib.adler32(LARGE):08x}"
            return super().answer(status, body, ETag='"1"', **fields)

    site = Site({"/d/": None, "/d/a.dat": LARGE, "/d/b.dat": LARGE}, lambda _: False)
    with serving(site, Summed) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
        done = hither("cp", "--json", url + "a.dat", url + "b.dat", tmp_path, "--transfers", 1, "--no-store")
    assert done.code == 0, done.err
    (notice,) = done.json["notices"]
    assert "b.dat: not compared with a checksum" in notice
    assert site.requests.count(("HEAD", "/d/a.dat")) == 1
    assert site.requests.count(("HEAD", "/d/b.dat")) == 2


def test_a_tag_of_listings_alone_is_not_looked_for(hither, tmp_path):
    class Listed(tagged(itertools.repeat('"of the file"'))):
        def properties(self, path, **changed):
            return super().properties(path, getetag='"of the listing"', **changed)

    site = Site({"/": None, "/d/": None, "/d/a.dat": DATA}, lambda _: False)
    with serving(site, Listed) as server:
        done = hither("cp", "-r", f"http://127.0.0.1:{server.port}/d/.", tmp_path / "copy", "--no-store")
    assert (done.code, (tmp_path / "copy/a.dat").read_bytes() == DATA) == (0, True), done
    # Both attempts request the checksum.
    assert sum(method == "HEAD" for method, _ in site.requests) <= 2, site.requests


def test_a_listed_tag_without_quotes_is_none(hither, tmp_path):
    class Listed(tagged(itertools.repeat('"of the file"'))):
        def properties(self, path, **changed):
            return super().properties(path, getetag="of the file", **changed)

    site = Site({"/": None, "/d/": None, "/d/a.dat": DATA}, lambda _: False)
    with serving(site, Listed) as server:
        done = hither("cp", "-r", f"http://127.0.0.1:{server.port}/d/.", tmp_path / "copy", "--no-store")
    assert (done.code, "changed" in done.err) == (0, False), done
    assert (tmp_path / "copy/a.dat").read_bytes() == DATA


@pytest.mark.parametrize("verb", ["cat", "cp"])
def test_a_tag_that_is_gone_and_another_date_are_another_version(hither, tmp_path, verb):
    """Of two machines that ignore `If-Range`, the second has a newer file, and sends no tags."""
    requests = itertools.count()

    class Replaced(Exchange):
        def answer(self, status, body=b"", **fields):
            if self.command == "GET" and next(requests) < 3:
                fields["ETag"] = '"a"'
            elif self.command == "GET":
                fields["Last-Modified"] = formatdate(MODIFIED + 60, usegmt=True)
                body = bytes(len(body))
            return super().answer(status, body, **fields)

    target = tmp_path / "a.dat"
    with serving(Site({"/": None, "/a.dat": DATA}, lambda _: False), Replaced) as server:
        done = hither(verb, f"http://127.0.0.1:{server.port}/a.dat", *([target] if verb == "cp" else []), "--no-store")
    if done.code == 0 and verb == "cat":
        # On a busy machine it requests larger parts, and three of them are the whole file.
        assert next(requests) == 3, done
    elif done.code == 0:
        assert target.read_bytes() == bytes(len(DATA)), done
    else:
        assert (done.code, "changed" in done.err, target.exists()) == (9, True, False), done
