"""What it costs that a PUT is on the disk before it is answered: python -m bench.server.fsync FOLDER

Files of 4 kB by one client and by sixteen, and of 64 MB by one, with `durable = true` and `false` in turns; medians of three.
"""

import http.client
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.harness.paths import HITHER

CASES = {"4 kB, one client": (4096, 300, 1), "4 kB, sixteen clients": (4096, 60, 16), "64 MB, one client": (64 << 20, 6, 1)}


def put(port: int, number: int, size: int, count: int) -> None:
    connection, body = http.client.HTTPConnection("127.0.0.1", port), bytes(size)
    for n in range(count):
        connection.request("PUT", f"/{number}-{n}", body)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 201, answer.status


def measure(folder: Path, durable: bool, size: int, count: int, clients: int) -> float:
    """Files a second."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    (folder / "data").mkdir()
    config = folder / "serve.toml"
    text = f'root = "{folder}/data"\nlisten = ["127.0.0.1:0"]\nwrite = true\ndurable = {json.dumps(durable)}\n'
    config.write_text(text)
    command = [str(HITHER), "serve", "--json", "--config", str(config)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        port = int(json.loads(server.stdout.readline())["urls"][0].rstrip("/").rsplit(":", 1)[1])
        threads = [threading.Thread(target=put, args=(port, number, size, count)) for number in range(clients)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return clients * count / (time.monotonic() - began)
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(folder)


def main() -> None:
    folder = Path(sys.argv[1])
    print("| files | durable, files/s | not, files/s | durable, ms each | not, ms each |\n|---|---|---|---|---|")
    for name, (size, count, clients) in CASES.items():
        rates = {True: [], False: []}
        for _ in range(3):
            for durable in rates:
                rates[durable].append(measure(folder, durable, size, count, clients))
        yes, no = statistics.median(rates[True]), statistics.median(rates[False])
        print(f"| {name} | {yes:.0f} | {no:.0f} | {1000 * clients / yes:.1f} | {1000 * clients / no:.1f} |", flush=True)


if __name__ == "__main__":
    main()
