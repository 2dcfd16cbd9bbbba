"""A listing that states, in any way, that it is incomplete is an error, and no file is deleted because of it."""

from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import pytest
from command import run
from loopback_server import LoopbackServer, QuietHandler

from bench.harness.paths import HITHER

CONTENT = b"x"
PAGE = """<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>
<IsTruncated>{cut}</IsTruncated>{contents}{more}</ListBucketResult>"""
OBJECT = """<Contents><Key>{name}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>"1"</ETag>
<Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>"""
FILE = """<D:response><D:href>/d/{name}</D:href><D:propstat><D:prop><D:resourcetype/>
<D:getcontentlength>1</D:getcontentlength><D:getetag>"1"</D:getetag></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
</D:response>"""
DIRECTORY = """<D:response><D:href>/d/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop>
<D:status>HTTP/1.1 {status}</D:status></D:propstat></D:response>"""
LACKS = "<D:response><D:href>{path}</D:href><D:status>HTTP/1.1 507 Insufficient Storage</D:status></D:response>"


def bucket(name: str, cut: bool, token: str | None) -> str:
    more = "" if token is None else f"<NextContinuationToken>{token}</NextContinuationToken>"
    return PAGE.format(cut=str(cut).lower(), contents=OBJECT.format(name=name), more=more)


def multistatus(*responses: str) -> str:
    return f'<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">{"".join(responses)}</D:multistatus>'


def spelled(flag: str) -> dict[None, str]:
    return {None: bucket("a", True, None).replace("<IsTruncated>true</IsTruncated>", flag)}


PAGES = {
    # The content of each page, by the token that requests it.
    "no token": {None: bucket("a", True, None)},
    "empty token": {None: bucket("a", True, "")},
    "same token": {None: bucket("a", True, "t"), "t": bucket("b", True, "t")},
    "tokens in a circle": {None: bucket("a", True, "t"), "t": bucket("b", True, "u"), "u": bucket("c", True, "t")},
    "an error": {None: bucket("a", True, "t"), "t": "<Error><Code>InternalError</Code></Error>"},
    "a login page": {None: bucket("a", True, "t"), "t": "<html><head><title>Sign in</title></head></html>"},
    "half a page": {None: bucket("a", True, "t"), "t": bucket("b", False, None)[:-9]},
    "capital": spelled("<IsTruncated>True</IsTruncated>"),
    "number": spelled("<IsTruncated>1</IsTruncated>"),
    "attribute": spelled("<IsTruncated a='b'>true</IsTruncated>"),
    "prefix": spelled("<s:IsTruncated xmlns:s='urn:s'>true</s:IsTruncated>"),
    "marker of the first version": spelled("<NextMarker>a</NextMarker>"),
    "no word of an end": spelled(""),
}
MULTISTATUS = {
    "507 for the directory": multistatus(
        DIRECTORY.format(status="200 OK"), FILE.format(name="a"), LACKS.format(path="/d/")
    ),
    "507 for a name": multistatus(DIRECTORY.format(status="200 OK"), FILE.format(name="a"), LACKS.format(path="/d/b")),
    "507 for its properties": multistatus(DIRECTORY.format(status="507 X"), FILE.format(name="a")),
    "500 for its properties": multistatus(DIRECTORY.format(status="500 X"), FILE.format(name="a")),
}


def serving(pages=None, document=None):
    class Handler(QuietHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = parse_qs(urlsplit(self.path).query)
            if pages and "list-type" in asked:
                return self.answer(HTTPStatus.OK, pages[asked.get("continuation-token", [None])[0]].encode())
            if document and self.command == "PROPFIND":
                return self.answer(HTTPStatus.MULTI_STATUS, document.encode())
            return self.answer(HTTPStatus.OK, CONTENT)

        do_HEAD = do_PROPFIND = do_GET  # noqa: N815

        def answer(self, status, body):
            self.send_response(status)
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    return LoopbackServer(Handler)


def refuse(url: str, folder, **environment):
    """Lists and mirrors; both have to fail, and must not change existing files."""
    kept = folder / "kept"
    kept.write_bytes(CONTENT)
    words = [f"{name}={value}" for name, value in environment.items()]
    for command in (["ls", url], ["cp", "-r", url, folder / "copy"], ["sync", "--delete", url, folder]):
        done = run(["env", *words, HITHER, *command, "--no-store"])
        assert done.code != 0, (command, done.out)
        assert kept.exists(), command


@pytest.mark.parametrize("pages", PAGES.values(), ids=PAGES)
def test_pages_of_an_object_store(tmp_path, pages):
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "r"}
    with serving(pages=pages) as server:
        refuse("s3://bucket/", tmp_path, AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.port}", **keys)


@pytest.mark.parametrize("document", MULTISTATUS.values(), ids=MULTISTATUS)
def test_multistatus(tmp_path, document):
    with serving(document=document) as server:
        refuse(f"http://127.0.0.1:{server.port}/d/", tmp_path)
