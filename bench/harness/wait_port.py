"""Waits until HOST PORT accepts a connection; at the server's end, so the link counts nothing."""

import socket
import sys
import time

deadline = time.monotonic() + 20
while True:
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1).close()
        sys.exit(0)
    except OSError:
        if time.monotonic() > deadline:
            sys.exit(1)
        time.sleep(0.02)
