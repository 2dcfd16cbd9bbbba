"""A director of a Pelican federation, written from Pelican's description of its headers (pelican-http-headers.md and
the behaviour of version 7): a description of the federation, and redirects that name all servers, without data of
files.

Reads are redirected to caches, writes and listings to origins. The query of a redirect of a read contains what a
director adds for the request itself; the links do not contain it.
"""

import json
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from loopback_server import LoopbackServer, QuietHandler

from bench.harness import servers


@dataclass
class Namespace:
    """A namespace, with the roots of its servers, best first."""

    path: str
    caches: list[str]
    origins: list[str] = field(default_factory=list)
    needs_token: bool = False
    issuer: str = "https://issuer.example"


class Director(LoopbackServer):
    """Responds over TLS until the end of the block; `asked` has the requests for files, as `METHOD path`."""

    def __init__(self, tls: servers.Tls, *namespaces: Namespace):
        self.asked: list[str] = []
        self.tokens: list[str | None] = []
        self.described = 0
        outer = self

        class Handler(QuietHandler):
            def do_GET(self):
                if "Expect" in self.headers:
                    # It is not known if a body follows.
                    self.close_connection = True
                else:
                    self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path = urlsplit(self.path).path
                if path == "/.well-known/pelican-configuration":
                    outer.described += 1
                    return self.answer(200, {}, {"director_endpoint": outer.url, "discovery_endpoint": outer.url})
                outer.asked.append(f"{self.command} {self.path}")
                outer.tokens.append(self.headers.get("Authorization"))
                inside = [it for it in namespaces if (path + "/").startswith(it.path + "/")]
                if self.command in ("MKCOL", "MOVE"):
                    return self.answer(404, {}, {"msg": "404 page not found"})
                if not inside:
                    return self.answer(404, {}, {"status": "error", "msg": f"No sources found for {path}"})
                return self.refer(max(inside, key=lambda it: len(it.path)), path)

            def refer(self, namespace: Namespace, path: str) -> None:
                reads = self.command in ("GET", "HEAD") and "directread" not in self.path
                chosen = namespace.caches if reads else namespace.origins
                depth = path.removeprefix(namespace.path).strip("/").count("/") + 1
                links = [
                    f'<{url}{path}>; rel="duplicate"; pri={at}; depth={depth}' for at, url in enumerate(chosen, start=1)
                ]
                described = f"namespace={namespace.path}, require-token={str(namespace.needs_token).lower()}"
                if namespace.origins:
                    described += f", collections-url={namespace.origins[0]}"
                fields = {
                    "Location": f"{chosen[0]}{path}?pelican.timeout=5s",
                    "Link": ", ".join(links),
                    "X-Pelican-Namespace": described,
                    "X-Pelican-JobId": "00000000-0000-0000-0000-000000000001",
                }
                if namespace.needs_token:
                    fields["X-Pelican-Authorization"] = f"issuer={namespace.issuer}"
                    fields["X-Pelican-Token-Generation"] = (
                        f"issuer={namespace.issuer}, max-scope-depth=3, strategy=OAuth2, base-path={namespace.path}"
                    )
                self.answer(307, fields, None)

            def answer(self, status: int, fields: dict[str, str], content: dict | None) -> None:
                body = json.dumps(content).encode() if content else b""
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_PUT = do_PROPFIND = do_DELETE = do_MKCOL = do_MOVE = do_GET  # noqa: N815

            def handle_expect_100(self):
                return True

        super().__init__(Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.certificate, tls.key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.port}"
        self.base = f"pelican://localhost:{self.port}"
