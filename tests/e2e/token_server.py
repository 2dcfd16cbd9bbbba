"""A server that checks the claims of tokens, as storage servers do: expiry, audience, scope. It does not check
signatures."""

import base64
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from loopback_server import LoopbackServer, QuietHandler


def token(**claims) -> str:
    """A token without a valid signature."""

    def part(content: dict) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'ES256'})}.{part(claims)}.c2lnbmF0dXJl"


def good(**claims) -> str:
    usual = {"iss": "https://iam.example", "sub": "alice", "aud": "https://wlcg.cern.ch/jwt/v1/any"}
    return token(**usual | {"exp": int(time.time()) + 3600, "scope": "storage.read:/"} | claims)


def claims_of(header: str | None) -> dict | None:
    try:
        scheme, _, text = (header or "").partition(" ")
        payload = text.split(".")[1]
        return json.loads(base64.urlsafe_b64decode(payload + "==")) if scheme == "Bearer" else None
    except (ValueError, IndexError):
        return None


class TokenServer(LoopbackServer):
    """Serves one file; `accepts` may refuse tokens that are otherwise valid, and gets the number of the request."""

    def __init__(self, file: Path):
        self.content = file.read_bytes()
        self.accepts: Callable[[int, str], bool] = lambda _number, _header: True
        self.redirect: str | None = None
        self.log: list[tuple[int, str | None]] = []
        self.lock = threading.Lock()
        outer = self

        class Handler(QuietHandler):
            def do_GET(self):
                outer.answer(self)

            def do_HEAD(self):
                outer.answer(self)

        super().__init__(Handler)

    def url(self, path: str = "/data/small.root") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        header = request.headers.get("Authorization")
        with self.lock:
            number = len(self.log)
            status = self.judge(number, request.path, header)
            self.log.append((status, header))
        if status != 206:
            request.send_response(status)
            if status == 401:
                request.send_header("WWW-Authenticate", 'Bearer realm="test", error="invalid_token"')
            if status == 302:
                request.send_header("Location", self.redirect)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        if request.command == "HEAD":
            request.send_response(200)
            request.send_header("Content-Length", str(len(self.content)))
            request.send_header("ETag", '"one"')
            request.end_headers()
            return
        # One range at a time, like many servers.
        spec = request.headers.get("Range", "bytes=0-").removeprefix("bytes=").split(",")[0].strip()
        first, last = spec.split("-")
        size = len(self.content)
        start = int(first) if first else size - int(last)
        end = min(int(last) + 1, size) if first and last else size
        request.send_response(206)
        request.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        request.send_header("Content-Length", str(end - start))
        request.send_header("ETag", '"one"')
        request.end_headers()
        request.wfile.write(self.content[start:end])

    def judge(self, number: int, path: str, header: str | None) -> int:
        if self.redirect:
            return 302
        claims = claims_of(header)
        if claims is None or claims["exp"] <= time.time() or not self.accepts(number, header or ""):
            return 401
        allowed = [word.removeprefix("storage.read:") for word in claims["scope"].split() if word.startswith("storage.read:")]
        covers = any(path == below or path.startswith(below.rstrip("/") + "/") for below in allowed)
        return 206 if covers else 403
