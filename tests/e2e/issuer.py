"""An issuer of tokens, as an IAM is one: its keys are to be had over TLS, and what it signs can be checked with them."""

import base64
import json
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import servers

AUDIENCE = "https://wlcg.cern.ch/jwt/v1/any"


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def openssl(*arguments: str | Path, given: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *map(str, arguments)], input=given, capture_output=True, check=True).stdout


class Issuer:
    """Answers `/.well-known/openid-configuration` and `/jwks` with a certificate of `tls`, while the block lasts."""

    def __init__(self, folder: Path, tls: servers.Tls):
        self.key = folder / "issuer.key"
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.key)
        modulus = openssl("rsa", "-in", self.key, "-noout", "-modulus").decode().strip().partition("=")[2]
        self.keys = {"keys": [{"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "e": "AQAB", "n": encoded(bytes.fromhex(modulus))}]}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                known = {"/.well-known/openid-configuration": {"issuer": outer.url, "jwks_uri": outer.url + "/jwks"}, "/jwks": outer.keys}
                body = json.dumps(known.get(self.path)).encode()
                self.send_response(200 if self.path in known else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.certificate, tls.key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_error):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def token(self, **claims) -> str:
        """One that may read everything for an hour, but for what `claims` say."""
        now = int(time.time())
        usual = {"wlcg.ver": "1.0", "iss": self.url, "sub": "alice", "aud": AUDIENCE, "jti": str(time.time_ns())}
        usual |= {"iat": now - 10, "nbf": now - 10, "exp": now + 3600, "scope": "storage.read:/"}
        parts = {"alg": "RS256", "typ": "JWT", "kid": "1"}, usual | claims
        signed = ".".join(encoded(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{encoded(openssl('dgst', '-sha256', '-sign', self.key, given=signed.encode()))}"
