"""An issuer of tokens, like an IAM: keys of both kinds, which it publishes on loopback until it dies, and the tokens
that they sign."""

import base64
import json
import ssl
import subprocess
import time
from pathlib import Path

from loopback_server import LoopbackServer, QuietHandler

from bench.harness import servers


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def openssl(*arguments: str | Path, given: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *map(str, arguments)], input=given, capture_output=True, check=True).stdout


def part(content: dict) -> str:
    """A part of a token."""
    return encoded(json.dumps(content).encode())


def numbers_of(signature: bytes) -> bytes:
    """The two numbers of an ECDSA signature, which OpenSSL writes in DER, in the format of tokens."""
    at, numbers = 2, b""
    for _ in range(2):
        length = signature[at + 1]
        number = signature[at + 2 : at + 2 + length].lstrip(b"\0")
        numbers += number.rjust(32, b"\0")
        at += 2 + length
    return numbers


class Key:
    """A named key, for RSA or for the curve P-256."""

    def __init__(self, folder: Path, name: str, algorithm: str = "ES256"):
        self.name, self.algorithm, self.path = name, algorithm, folder / f"{name}.pem"
        kind = ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"] if algorithm == "ES256" else ["RSA"]
        openssl("genpkey", "-quiet", "-algorithm", *kind, "-out", str(self.path))

    def public(self) -> dict:
        if self.algorithm == "RS256":
            told = openssl("rsa", "-in", str(self.path), "-noout", "-modulus").decode()
            modulus = bytes.fromhex(told.strip().partition("=")[2])
            material = {"kty": "RSA", "n": encoded(modulus), "e": "AQAB"}
        else:
            point = openssl("pkey", "-in", str(self.path), "-pubout", "-outform", "DER")[-64:]
            material = {"kty": "EC", "crv": "P-256", "x": encoded(point[:32]), "y": encoded(point[32:])}
        return material | {"kid": self.name, "use": "sig", "alg": self.algorithm}

    def token(self, header: dict | None = None, **claims) -> str:
        header = {"alg": self.algorithm, "kid": self.name, "typ": "JWT"} | (header or {})
        message = f"{part(header)}.{part(claims)}"
        signature = openssl("dgst", "-sha256", "-sign", str(self.path), given=message.encode())
        return f"{message}.{encoded(numbers_of(signature) if self.algorithm == 'ES256' else signature)}"


class Issuer(LoopbackServer):
    """Publishes keys below `folder`, over TLS if `tls` is given, until the end of the block or until it dies."""

    def __init__(self, *keys: Key, audience: str = "https://se.example", folder: str = "/iam", tls: servers.Tls | None = None):
        self.keys, self.audience, self.asked = list(keys), audience, []
        outer = self

        class Handler(QuietHandler):
            # Connections do not outlive the issuer.
            protocol_version = "HTTP/1.0"

            def do_GET(self):
                outer.asked.append(self.path)
                documents = {
                    f"{folder}/.well-known/openid-configuration": {"issuer": outer.url, "jwks_uri": f"{outer.url}/jwk"},
                    f"{folder}/jwk": {"keys": [key.public() for key in outer.keys]},
                }
                document = documents.get(self.path)
                body = json.dumps(document or {}).encode()
                self.send_response(200 if document else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)
        self.url = f"http://127.0.0.1:{self.port}{folder}"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.certificate, tls.key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.url = f"https://localhost:{self.port}{folder}"

    def claims(self, scope: str, **others) -> dict:
        now = int(time.time())
        usual = {"wlcg.ver": "1.0", "iss": self.url, "sub": "alice", "aud": self.audience, "jti": str(time.time_ns())}
        return usual | {"iat": now - 10, "nbf": now - 10, "exp": now + 600, "scope": scope} | others

    def token(self, scope: str = "storage.read:/", key: Key | None = None, **others) -> str:
        """A token with this scope for ten minutes; `others` replace its claims."""
        return (key or self.keys[0]).token(**self.claims(scope, **others))
