"""One rule for every secret, whatever leads to another server: redirects, documents of servers and of this machine,
`Link` fields, a director. A secret is sent to the origin that the user named, to others only if they are configured,
and never from TLS to clear text.
"""

import os
import ssl
import subprocess
from dataclasses import dataclass

import pytest
from loopback_server import LoopbackServer, QuietHandler

from bench.harness import servers
from bench.harness.paths import HITHER

CONTENT = b"what is read"
HUSH = "hushhushhush"
SIGNED = {"AWS_ACCESS_KEY_ID": "AKIDHUSH", "AWS_SECRET_ACCESS_KEY": HUSH, "AWS_SESSION_TOKEN": HUSH, "AWS_REGION": "r"}
DOCUMENT = '<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="f"><size>{size}</size><url>{url}</url></file></metalink>'
REDIRECTS = [301, 302, 303, 307, 308]


class Server(LoopbackServer):
    """A server with one file, or with the responses of `answers`, that records all that it receives; over TLS or in
    clear text."""

    def __init__(self, tls: servers.Tls | None, clients=None, answers=lambda _request: None):
        self.seen: list[str] = []
        outer = self

        class Handler(QuietHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                certificate = self.connection.getpeercert() if tls else None
                outer.seen.append(f"{self.command} {self.path}\n{self.headers}\n{body!r}\n{certificate}")
                usual = {"GET": (200, CONTENT), "HEAD": (200, CONTENT), "PROPFIND": (405, b"")}.get(
                    self.command, (201, b"")
                )
                status, fields, content = answers(self) or (usual[0], {"ETag": '"1"'}, usual[1])
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_HEAD = do_PUT = do_PROPFIND = do_DELETE = do_MKCOL = do_MOVE = do_COPY = do_OPTIONS = do_POST = do_GET  # noqa: N815

            def handle_expect_100(self):
                return True

        super().__init__(Handler)
        self.scheme = "https" if tls else "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.certificate, tls.key)
            if clients:
                context.verify_mode = ssl.CERT_OPTIONAL
                context.load_verify_locations(clients)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    @property
    def base(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"

    def knows(self, secret: str) -> bool:
        return any(secret in text for text in self.seen)


@dataclass
class Secret:
    """A secret, the way in which the command gets it, and the text that identifies it in the server's record."""

    name: str
    options: tuple = ()
    environment: tuple = ()
    user: str = ""
    text: str = HUSH


SECRETS = [
    Secret("token", environment=(("BEARER_TOKEN", HUSH),)),
    Secret("password of the URL", user=f"alice:{HUSH}@", text="Authorization: Basic"),
    Secret("cookie", options=("--header", f"Cookie: {HUSH}")),
    Secret("field", options=("--header", f"Authorization: {HUSH}")),
    Secret("certificate", options=("--cert", "{home}/client.pem", "--key", "{home}/client.key"), text="hushclient"),
]
TARGETS = ["other", "clear", "shared", "shared clear"]


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return servers.certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home folder with a token and a client certificate."""
    folder = tmp_path_factory.mktemp("home")
    subject = ["-subj", "/CN=hushclient", "-days", "2", "-nodes", "-newkey", "rsa:2048"]
    key, certificate = folder / "client.key", folder / "client.pem"
    command = ["openssl", "req", "-x509", *subject, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "token").write_text(HUSH)
    for path in folder.iterdir():
        path.chmod(0o600)
    return folder


@pytest.fixture
def hither(home, tls, tmp_path):
    def run(*words, target: str, secret: Secret | None = None, **environment):
        shares = target.startswith("shared")
        # The most permissive configuration that a user can set for clear text with other servers.
        options = ["--share-credentials", "localhost", "--credentials-over-http"] if shares else []
        options += [word.format(home=home) for word in secret.options] if secret else []
        options += ["--no-store", "--stall-timeout", "5"]
        clean = {name: os.environ[name] for name in ("PATH",)}
        clean |= {"HOME": str(tmp_path), "SSL_CERT_FILE": str(tls.authority), **environment}
        clean |= dict(secret.environment) if secret else {}
        command = [str(word) for word in (HITHER, *words, *options)]
        return subprocess.run(command, env=clean, capture_output=True, text=True, timeout=100, check=False)

    return run


@pytest.fixture
def elsewhere(request, tls, home):
    """The other server, according to the parameter `target`."""
    target = request.getfixturevalue("target")
    with Server(None if "clear" in target else tls, home / "client.pem") as server:
        yield server


def may_get(target: str) -> bool:
    return target == "shared"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "secret, status",
    [(SECRETS[0], status) for status in REDIRECTS] + [(secret, 307) for secret in SECRETS[1:]],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_redirect(hither, tls, home, tmp_path, elsewhere, target, status, secret):
    (tmp_path / "up").write_bytes(CONTENT)
    with Server(tls, home / "client.pem", lambda _: (status, {"Location": f"{elsewhere.base}/f"}, b"")) as first:
        base = first.base.replace("://", f"://{secret.user}")
        for words in (
            ["cat", f"{base}/f"],
            ["stat", f"{base}/f"],
            ["ls", f"{base}/"],
            ["du", f"{base}/"],
            ["checksum", f"{base}/f"],
            ["cp", f"{base}/f", tmp_path / "down"],
            ["cp", tmp_path / "up", f"{base}/up"],
            ["sync", f"{base}/", tmp_path / "mirror"],
            ["mkdir", f"{base}/d"],
            ["mv", f"{base}/f", f"{base}/g"],
            ["rm", f"{base}/f"],
        ):
            hither(*words, target=target, secret=secret)
        assert first.knows(secret.text) and elsewhere.seen
    assert elsewhere.knows(secret.text) == may_get(target), elsewhere.seen


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("way", ["document", "local document", "link"])
@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret.name)
def test_a_document(hither, tls, home, tmp_path, elsewhere, target, way, secret):
    text = DOCUMENT.format(size=len(CONTENT), url=f"{elsewhere.base}/f")

    def answers(request):
        if way == "document":
            return 200, {"Content-Type": "application/metalink4+xml"}, text.encode()
        return 500, {"Link": f'<{elsewhere.base}/f>; rel="duplicate"; pri=1'}, b""

    with Server(tls, home / "client.pem", answers) as first:
        base = first.base.replace("://", f"://{secret.user}")
        if way == "local document":
            # The user and password in the URL belong to the author of the document.
            url = f"{elsewhere.base}/f".replace("://", f"://{secret.user}")
            (tmp_path / "x.meta4").write_text(DOCUMENT.format(size=len(CONTENT), url=url))
            words = ["cp", tmp_path / "x.meta4", tmp_path / "out"]
        else:
            words = ["cp", f"{base}/x.meta4" if way == "document" else f"{base}/f", tmp_path / "out"]
        hither(*words, target=target, secret=secret)
    assert elsewhere.seen
    if way == "local document" and secret.user:
        assert not elsewhere.knows(secret.text)
    else:
        allowed = (
            may_get(target) or ((way, target) == ("local document", "shared clear") and secret.name != "certificate")
        )
        assert elsewhere.knows(secret.text) == allowed, elsewhere.seen


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("status", REDIRECTS)
def test_a_signed_request(hither, tls, elsewhere, tmp_path, target, status):
    (tmp_path / "up").write_bytes(CONTENT)
    def leads_there(request):
        return status, {"Location": elsewhere.base + request.path.partition("?")[0]}, b""

    with Server(tls, None, leads_there) as first:
        environment = SIGNED | {"AWS_ENDPOINT_URL": first.base}
        for words in (
            ["ls", "s3://bucket/"],
            ["cat", "s3://bucket/k"],
            ["stat", "s3://bucket/k"],
            ["cp", tmp_path / "up", "s3://bucket/up"],
            ["rm", "s3://bucket/k"],
            ["mv", "s3://bucket/k", "s3://bucket/k2"],
        ):
            hither(*words, target=target, **environment)
        assert first.knows(HUSH) and first.knows("AKIDHUSH")
    assert (elsewhere.knows(HUSH), elsewhere.knows("AKIDHUSH")) == (may_get(target),) * 2, elsewhere.seen
    # 303 means that the change was made, and names the place of its result.
    assert elsewhere.knows("what is read") == (may_get(target) and status != 303), elsewhere.seen


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("what", ["token", "query"])
@pytest.mark.parametrize("mode", ["pull", "push"])
def test_what_one_server_is_told_for_another(hither, tls, elsewhere, target, mode, what):
    def answers(request):
        return (307, {"Location": f"{elsewhere.base}/f"}, b"") if request.command == "COPY" else None

    with Server(tls) as third, Server(tls, None, answers) as active:
        named = f"{third.base}/f" + (f"?authz={HUSH}" if what == "query" else "")
        ends = [named, f"{active.base}/g"] if mode == "pull" else [f"{active.base}/g", named]
        environment = {"BEARER_TOKEN": HUSH} if what == "token" else {}
        done = hither("cp", "--third-party", mode, *ends, target=target, **environment)
        assert any(text.startswith("COPY") and HUSH in text for text in active.seen), done.stderr
    assert elsewhere.knows(HUSH) == may_get(target), elsewhere.seen


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500, 507])
@pytest.mark.parametrize("secret", [*SECRETS[:4], Secret("query")], ids=lambda it: it.name)
def test_an_error_that_quotes_the_request(hither, tls, home, tmp_path, secret, status):
    def quotes(request):
        said = f"denied: {request.path} {str(request.headers).replace(chr(10), ' ')}"
        return status, {"Content-Type": "text/plain"}, said.encode()

    (tmp_path / "up").write_bytes(CONTENT)
    with Server(tls, home / "client.pem", quotes) as server:
        base = server.base.replace("://", f"://{secret.user}")
        url = f"{base}/f?authz={HUSH}%21{HUSH}" if secret.name == "query" else f"{base}/f"
        for words in (("cat", url), ("cp", tmp_path / "up", url), ("rm", url), ("ls", f"{base}/d/"), ("stat", url)):
            done = hither(*words, "-v", target="other", secret=secret)
            assert done.returncode != 0
            assert HUSH not in done.stdout + done.stderr, (words, done.stderr)


@pytest.mark.parametrize("answer", ["status", "marker"])
def test_a_third_party_copy_that_quotes_the_credential(hither, tls, home, answer):
    def quotes(request):
        if request.command != "COPY":
            return (404, {}, b"") if request.command in ("HEAD", "GET") else None
        said = f"failure: denied {str(request.headers).replace(chr(10), ' ')}".encode()
        return (403 if answer == "status" else 202), {"Content-Type": "text/plain"}, said

    with Server(tls) as source, Server(tls, home / "client.pem", quotes) as target:
        urls = (f"{source.base}/f?authz={HUSH}", f"{target.base}/f")
        words = ("cp", "--third-party", "pull", *urls, "-v")
        done = hither(*words, target="other", BEARER_TOKEN=HUSH)
        assert target.knows("COPY") and target.knows(HUSH), done.stderr
    assert done.returncode != 0
    assert "denied" in done.stderr, done.stderr
    assert HUSH not in done.stdout + done.stderr, done.stderr
