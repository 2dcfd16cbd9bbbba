"""Responses without a length that break off: readers compare the received size with the size that the server states."""

import pytest
from behaviours.foreign_server import Exchange, Site, serving

DATA = bytes(range(256)) * 40
HALF = len(DATA) // 2


def no_length(server: Exchange) -> bool:
    return server.answer(200, Content_Length=None)


STATED = {
    "HEAD": lambda it: it.command == "PROPFIND" and it.answer(405),
    "PROPFIND": lambda it: it.command == "HEAD" and no_length(it),
    "HEAD is of a page": lambda it: it.command == "HEAD" and it.answer(200, b"<p>", Content_Type="text/html"),
    "nobody": lambda it: it.command == "PROPFIND" and it.answer(405) or it.command == "HEAD" and no_length(it),
}


def of_chunks(server: Exchange, body: bytes) -> bool:
    """Sends a chunked response with its last chunk, so nothing shows that it is incomplete."""
    server.protocol_version = "HTTP/1.1"
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    server.close_connection = True
    return server.answer(200, chunk, Content_Length=None, Transfer_Encoding="chunked")


CUT = {
    "closed": lambda it: it.stream(DATA, whole=False),
    "chunked": lambda it: of_chunks(it, DATA[:HALF]),
}


@pytest.mark.parametrize("verb", ["cat", "checksum -a md5", "cp"])
@pytest.mark.parametrize("stated", STATED)
@pytest.mark.parametrize("cut", CUT)
def test_a_file_that_breaks_off_is_not_whole(hither, tmp_path, cut, stated, verb):
    def answers(server: Exchange) -> bool:
        return (server.command == "GET" and CUT[cut](server)) or STATED[stated](server)

    site = Site({"/": None, "/a.dat": DATA}, answers)
    with serving(site) as server:
        target = [tmp_path / "copy"] if verb == "cp" else []
        done = hither(*verb.split(), f"http://127.0.0.1:{server.port}/a.dat", *target, "--no-store")
    if stated == "nobody":
        assert done.code == 0, done
    else:
        assert done.code != 0, done
        assert f"ended after {HALF} bytes, but the server states {len(DATA)}" in done.err, done
        assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("verb", ["cat", "checksum -a md5", "cp"])
@pytest.mark.parametrize("failure", [502, None])
def test_a_file_that_breaks_off_with_its_server_is_not_whole(hither, tmp_path, failure, verb):
    """A server that is gone behind its proxy ends a response, and fails the requests that follow."""

    def answers(server: Exchange) -> bool:
        if server.command == "GET" and "GET" not in {command for command, _ in site.requests[:-1]}:
            return of_chunks(server, DATA[:HALF])
        server.close_connection = True
        return failure is None or server.answer(failure)

    site = Site({"/": None, "/a.dat": DATA}, answers)
    with serving(site) as server:
        target = [tmp_path / "copy"] if verb == "cp" else []
        done = hither(*verb.split(), f"http://127.0.0.1:{server.port}/a.dat", *target, "--no-store")
    assert done.code != 0, done
    assert not (tmp_path / "copy").exists()


def test_a_length_causes_no_further_request(hither):
    site = Site({"/": None, "/a.dat": DATA}, lambda _: False)
    with serving(site) as server:
        assert hither("cat", f"http://127.0.0.1:{server.port}/a.dat", "--no-store").code == 0
    assert {command for command, _ in site.requests} == {"GET"}
