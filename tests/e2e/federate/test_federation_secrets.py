"""Secrets in the URLs of endpoints, and hosts of the federation's own network: its clients get neither."""

import base64
import http.client
import urllib.error
import urllib.request
from http import HTTPStatus

import pytest
from federated import running
from loopback_server import LoopbackServer, QuietHandler

CONTENT = b"of the endpoint"
INSIDE = b"of the network"
FOUND = """<?xml version="1.0"?><D:multistatus xmlns:D="DAV:"><D:response><D:href>{path}</D:href><D:propstat><D:prop>{kind}
</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>"""


class Endpoint(LoopbackServer):
    """A server with the file `/d/f` for accepted requests, or a redirect for all readers."""

    def __init__(self, content: bytes = CONTENT, accepts=lambda _request: True):
        self.redirect = None
        self.asked: list[str] = []
        outer = self

        class Handler(QuietHandler):
            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.asked.append(f"{self.command} {self.path}")
                if not accepts(self):
                    return self.answer(HTTPStatus.UNAUTHORIZED, b"")
                path = self.path.split("?")[0]
                if self.command == "PROPFIND":
                    if path.rstrip("/") not in ("", "/d", "/d/f"):
                        return self.answer(HTTPStatus.NOT_FOUND, b"")
                    size = f"<D:resourcetype/><D:getcontentlength>{len(content)}</D:getcontentlength>"
                    kind = size if path == "/d/f" else "<D:resourcetype><D:collection/></D:resourcetype>"
                    return self.answer(HTTPStatus.MULTI_STATUS, FOUND.format(path=path, kind=kind).encode())
                if outer.redirect:
                    return self.answer(HTTPStatus.FOUND, b"", {"Location": outer.redirect})
                return self.answer(HTTPStatus.OK, content, {"ETag": '"1"'})

            do_HEAD = do_PROPFIND = do_OPTIONS = do_GET  # noqa: N815

            def answer(self, status, body, fields=()):
                self.send_response(status)
                for name, value in dict(fields).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        super().__init__(Handler)


class Unredirected(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments):
        return None


def ask(federated, path: str, **fields: str) -> tuple[int, str, bytes]:
    """The status, fields and body of a response; redirects are not followed.

    A relayed response that fails at its first byte may end before its header was sent.
    """
    request = urllib.request.Request(federated.url(path), headers=fields)
    try:
        answer = urllib.request.build_opener(Unredirected).open(request, timeout=60)
    except urllib.error.HTTPError as error:
        answer = error
    except http.client.RemoteDisconnected:
        return 0, "", b""
    try:
        body = answer.read()
    except http.client.IncompleteRead as error:
        body = error.partial
    return answer.status, str(answer.headers), body


def table(url: str, more: str = "") -> str:
    return f'[[endpoints]]\nname = "one"\nurl = "{url}"\n{more}\n'


def knows(request) -> bool:
    password = base64.b64encode(b"user:hush").decode()
    return request.headers.get("Authorization") == f"Basic {password}" or request.path.endswith("?authz=hush")


@pytest.mark.parametrize("url", ["http://user:hush@127.0.0.1:{}/", "http://127.0.0.1:{}/?authz=hush"])
def test_a_url_with_a_secret_is_given_to_nobody_and_its_files_are_relayed(tmp_path, url):
    with Endpoint(accepts=knows) as endpoint, running(tmp_path, table(url.format(endpoint.port)), {}, {}) as federated:
        answers = [
            ask(federated, "d/f"),
            ask(federated, "d/f?metalink"),
            ask(federated, "d/f", Accept="application/metalink4+xml"),
            ask(federated, "d/f", Range="bytes=0-1", **{"Hither-Follows": "root"}),
            ask(federated, "d/"),
            ask(federated, "d/missing"),
        ]
        assert answers[0][0] == HTTPStatus.OK and answers[0][2] == CONTENT, answers[0]
        for status, fields, body in answers:
            assert "hush" not in fields and b"hush" not in body and "user" not in fields, (status, fields, body)


@pytest.mark.parametrize(
    "url", ["https://user:hush@h/x", "root://hush@h//x", "https://h/x?authz=hush", "root://h//x?authz=hush"]
)
def test_redirects_with_a_secret_are_refused_without_showing_it(tmp_path, hither, url):
    config = tmp_path / "federation.toml"
    config.write_text(table("http://127.0.0.1:1/", f'redirects = ["{url}"]'))
    done = hither("federate", "--config", config, "--check-config")
    assert done.code == 2 and "redirects" in done.err, done.err
    assert "hush" not in done.err


@pytest.mark.parametrize("allowed", [False, True])
def test_an_endpoint_leads_to_the_federations_own_machine_only_by_configuration(tmp_path, allowed):
    settings = '[federation]\nnetworks = ["127.0.0.0/8"]\n' if allowed else ""
    with Endpoint() as endpoint, Endpoint(INSIDE.ljust(len(CONTENT))) as inside:
        endpoint.redirect = f"http://127.0.0.1:{inside.port}/secret"
        text = settings + table(f"http://127.0.0.1:{endpoint.port}/", "redirects = []")
        with running(tmp_path, text, {}, {}) as federated:
            status, _, body = ask(federated, "d/f")
    assert any(line.startswith("GET") for line in endpoint.asked)
    assert (INSIDE in body) == allowed, (status, body)
    assert bool(inside.asked) == allowed
