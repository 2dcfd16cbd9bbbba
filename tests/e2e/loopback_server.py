"""HTTP servers of tests, in this process: a handler that does not log, and a server that runs until the end of its
block."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


POLL_SECONDS = 0.02
"""Maximum time until a server notices the end of its block."""


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections open and prints nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """A body that is written after its header fields does not wait until these are acknowledged."""

    def log_message(self, *_arguments):
        pass


class LoopbackServer:
    """Responds with `handler` until the end of the block, or until it dies."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(POLL_SECONDS,))

    @property
    def port(self) -> int:
        return self.server.server_port

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_error):
        self.die()

    def die(self) -> None:
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()
