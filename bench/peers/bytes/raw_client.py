"""The floor: seconds that BYTES take over new TCP connections, with handshake and request.

python -m bench.peers.bytes.raw_client HOST PORT BYTES [CONNECTIONS]
"""

import json
import socket
import sys
import threading
import time


def fetch(host: str, port: int, count: int) -> None:
    buffer = bytearray(1 << 20)
    with socket.create_connection((host, port)) as connection:
        connection.sendall(count.to_bytes(8, "big"))
        left = count
        while left > 0:
            received = connection.recv_into(buffer)
            if received == 0:
                raise ConnectionError(f"{left} of {count} bytes missing")
            left -= received


def main() -> None:
    host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    connections = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    share, rest = divmod(count, connections)
    threads = [threading.Thread(target=fetch, args=(host, port, share + (i < rest))) for i in range(connections)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"seconds": time.monotonic() - started, "connections": connections, "bytes": count}))


if __name__ == "__main__":
    main()
