"""A server on loopback that counts requests."""

import http.server
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    """GET with single ranges, and HEAD; records the requests."""

    protocol_version = "HTTP/1.1"
    # Header and body are two writes; with Nagle's algorithm the second waits 40 ms for an ACK.
    disable_nagle_algorithm = True

    def answer(self, *, body: bool) -> None:
        site = self.server.site
        site.requests.append((self.command, self.path, self.headers.get("Range")))
        site.headers = self.headers
        site.asked.set()
        site.held.wait()
        name = self.path.split("?")[0].lstrip("/")
        content = site.files.get(name)
        if content is None:
            self.send_response(site.statuses.get(name, 404))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start, stop, status = 0, len(content), 200
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes=") and "," not in asked:
            first, last = asked[len("bytes=") :].split("-")
            status = 206
            if first == "":
                start = max(0, len(content) - int(last))
            else:
                start = int(first)
                stop = min(len(content), int(last) + 1) if last else len(content)
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self.send_response(status)
        if site.tag is None:
            self.send_header("Last-Modified", "Sun, 22 Nov 2026 10:00:00 GMT")
        else:
            self.send_header("ETag", site.tag)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(stop - start))
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        self.end_headers()
        if body:
            self.wfile.write(content[start:stop])

    def do_GET(self):
        self.answer(body=True)

    def do_HEAD(self):
        self.answer(body=False)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Ignores clients that disconnect."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class Site:
    """A server; while `held` is cleared, responses wait. A request sets `asked`."""

    def __init__(self):
        self.files = {}
        self.statuses = {}
        self.requests = []
        self.headers = None
        self.tag = '"1"'
        self.asked = threading.Event()
        self.held = threading.Event()
        self.held.set()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.site = self
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{name}"

    def put(self, name: str, content: bytes) -> str:
        self.files[name] = content
        return self.url(name)

    def close(self):
        self.held.set()
        self.server.shutdown()
        self.server.server_close()
