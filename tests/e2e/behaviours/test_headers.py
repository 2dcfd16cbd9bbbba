"""Response headers that other clients evaluate."""

import gzip
import re
import zlib

import pytest
from behaviours.foreign_server import Exchange, Site, serving
from behaviours.table import part_as_whole

from bench.harness.waiting import wait_until

DATA = b"of the file"


class Folded(Exchange):
    def end_headers(self):
        self._headers_buffer.append(b"X-Folded: one\r\n two\r\n\tthree\r\n")
        super().end_headers()


class Wordy(Exchange):
    def end_headers(self):
        for number in range(300):
            self.send_header(f"X-Field-{number}", "value")
        super().end_headers()


@pytest.mark.parametrize("exchange", [Folded, Wordy])
def test_folds_and_hundreds_of_fields_are_read(hither, tmp_path, exchange):
    site = Site({"/": None, "/d/": None, "/d/a.dat": DATA}, lambda _: False)
    with serving(site, exchange) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
        read = hither("cat", f"{url}a.dat", "--no-store")
        copied = hither("cp", "-r", f"{url}.", tmp_path / "copy", "--no-store")
    assert (read.code, read.out.encode()) == (0, DATA), read
    assert (copied.code, (tmp_path / "copy/a.dat").read_bytes()) == (0, DATA), copied


@pytest.mark.parametrize("verb", ["cat", "checksum", "cp"])
def test_a_part_with_the_status_of_a_whole_file_is_not_the_file(hither, tmp_path, verb):
    data = b"".join(b"%015d\n" % line for line in range(400_000))
    target = [tmp_path / "copy"] if verb == "cp" else []
    with serving(Site({"/": None, "/a.dat": data}, part_as_whole)) as server:
        done = hither(verb, f"http://127.0.0.1:{server.port}/a.dat", *target, "--no-store")
    assert done.code == 0, done
    if verb == "checksum":
        assert done.out.split()[0] == f"{zlib.adler32(data):08x}"
    else:
        assert (target[0].read_text() if target else done.out) == data.decode()


@pytest.mark.parametrize("verb", ["cat", "checksum", "cp"])
@pytest.mark.parametrize("data", [DATA, DATA * 3000], ids=["small", "large"])
def test_ranges_without_a_length_are_read(hither, tmp_path, verb, data):
    """As of a cache for a file that it still fetches: `Content-Range: bytes 0-9/*`."""

    def without_length(server: Exchange) -> bool:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", server.headers.get("Range", ""))
        if server.command != "GET" or not asked or int(asked[1]) >= len(data):
            return False
        first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
        return server.answer(206, data[first : last + 1], Content_Range=f"bytes {first}-{last}/*")

    target = [tmp_path / "copy"] if verb == "cp" else []
    with serving(Site({"/": None, "/a.dat": data}, without_length)) as server:
        done = hither(verb, f"http://127.0.0.1:{server.port}/a.dat", *target, "--no-store")
    assert done.code == 0, done
    if verb == "checksum":
        assert done.out.split()[0] == f"{zlib.adler32(data):08x}"
    else:
        assert (target[0].read_text() if target else done.out) == data.decode()


@pytest.mark.parametrize("verb", ["cat", "cp", "cp -r", "sync"])
def test_a_transfer_coding_that_nobody_asked_for_is_not_the_file(hither, tmp_path, verb):
    def coded(server: Exchange) -> bool:
        if server.command != "GET" or server.name != "/d/a.dat":
            return False
        body = gzip.compress(DATA * 1000)
        server.answer(200, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), Content_Length=None, Transfer_Encoding="gzip, chunked")
        return True

    target = tmp_path / "copy"
    with serving(Site({"/": None, "/d/": None, "/d/a.dat": DATA * 1000}, coded)) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
        source = f"{url}a.dat" if verb in ("cat", "cp") else url
        done = hither(*verb.split(), source, *([] if verb == "cat" else [target]), "--no-store")
    assert (done.code != 0, done.out if verb == "cat" else "", "Transfer-Encoding" in done.err) == (True, "", True), done
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes()]


@pytest.mark.parametrize("verb", ["rm", "ls", "mkdir", "cp"])
def test_an_error_is_not_waited_for_to_its_end(hither, tmp_path, verb):
    def drips(server: Exchange) -> bool:
        server.answer(403, Content_Length=None, Transfer_Encoding="chunked", Content_Type="text/plain")

        def is_gone() -> bool:
            try:
                server.wfile.write(b"1\r\n.\r\n")
            except OSError:
                return True
            return False

        wait_until(is_gone, "the client to go")
        server.close_connection = True
        return True

    source = [tmp_path / "a.dat"] if verb == "cp" else []
    (tmp_path / "a.dat").write_bytes(DATA)
    with serving(Site({"/": None}, drips)) as server:
        done = hither(verb, *source, f"http://127.0.0.1:{server.port}/d", "--no-store", "--stall-timeout", "0.5")
    assert (done.code, "403" in done.err) == (4, True), done


def test_a_size_that_nobody_tells_is_not_looked_for_by_stat(hither):
    """The file is endless, so a copy would never reach its end."""

    def streams(server: Exchange) -> bool:
        if server.command != "GET":
            return server.answer(403)
        server.answer(200, Content_Length=None, Transfer_Encoding="chunked")
        piece = bytes(1 << 16)

        def is_gone() -> bool:
            try:
                server.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            except OSError:
                return True
            return False

        wait_until(is_gone, "the client to go")
        server.close_connection = True
        return True

    with serving(Site({"/": None}, streams)) as server:
        done = hither("stat", f"http://127.0.0.1:{server.port}/d", "--no-store")
    assert (done.code, "unknown" in done.out) == (0, True), done


PAGE = b"<!DOCTYPE html>\n<html><title>Log in</title><form></form></html>"


@pytest.mark.parametrize(
    "name, content, code",
    [("a.root", PAGE, 5), ("a.root", DATA, 0), ("page.html", PAGE, 0), ("page", PAGE, 0)],
)
def test_a_page_is_no_file_that_is_named_as_data(hither, tmp_path, name, content, code):
    """No listing names the file; a script that sends data may leave the content type at HTML."""

    def login(server: Exchange) -> bool:
        if server.name == "/login":
            server.answer(200, content, Content_Type="text/html; charset=utf-8")
        elif server.command in ("GET", "HEAD"):
            server.answer(302, Location="/login?next=" + server.name)
        return server.command in ("GET", "HEAD")

    target = tmp_path / name
    target.write_bytes(b"good")
    with serving(Site({"/": None}, login)) as server:
        done = hither("cp", f"http://127.0.0.1:{server.port}/{name}", target, "--no-store")
    assert (done.code, "an HTML page in place of the file" in done.err) == (code, code != 0), done
    assert target.read_bytes() == (b"good" if code else content)
