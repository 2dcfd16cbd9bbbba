"""Sends as many bytes as requested: eight bytes in (a big-endian count), that many out.

python -m bench.peers.bytes.raw_server HOST PORT
"""

import socket
import sys
import threading


def serve(connection: socket.socket, block: memoryview) -> None:
    with connection:
        request = b""
        while len(request) < 8:
            more = connection.recv(8 - len(request))
            if not more:
                return
            request += more
        left = int.from_bytes(request, "big")
        while left > 0:
            left -= connection.send(block[: min(left, len(block))])


def main() -> None:
    block = memoryview(bytes(1 << 20))
    with socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=256) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, block), daemon=True).start()


if __name__ == "__main__":
    main()
