"""PUTs that are on disk before they are answered, beside others: files of 4 kB and of 64 MB.

    python -m bench.server.fsync FOLDER        on the disk to be measured

`durable = true` and `false` take turns; medians.
"""

import http.client
import json
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

from bench.harness import tables
from bench.harness.arguments import Arguments
from bench.harness.interleaved import say
from bench.harness.servers import hither_process

CASES = {
    "4 kB, one client": (4096, 300, 1),
    "4 kB, sixteen clients": (4096, 60, 16),
    "64 MB, one client": (64 << 20, 6, 1),
}


def put(address: str, number: int, size: int, count: int) -> None:
    connection, body = http.client.HTTPConnection(address), bytes(size)
    for n in range(count):
        connection.request("PUT", f"/{number}-{n}", body)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 201:
            raise RuntimeError(f"PUT /{number}-{n}: status {answer.status} instead of 201")


def measure(folder: Path, durable: bool, size: int, count: int, clients: int) -> float:
    """Files a second."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    (folder / "data").mkdir()
    config = folder / "serve.toml"
    config.write_text(
        f'root = "{folder}/data"\nlisten = ["127.0.0.1:0"]\nwrite = true\ndurable = {json.dumps(durable)}\n'
    )
    server, address = hither_process("--config", config)
    try:
        threads = [threading.Thread(target=put, args=(address, number, size, count)) for number in range(clients)]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return clients * count / (time.monotonic() - started)
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(folder)


def main() -> None:
    parser = Arguments(__doc__, "server/fsync")
    parser.add_argument("folder", type=Path, help="on the disk to be measured")
    options = parser.parse(needs_root=False)
    rows = []
    for name, (size, count, clients) in CASES.items():
        rates = {True: [], False: []}
        for _ in range(options.runs):
            for durable, measured in rates.items():
                measured.append(measure(options.folder, durable, size, count, clients))
        yes, no = statistics.median(rates[True]), statistics.median(rates[False])
        rows.append([name, f"{yes:.0f}", f"{no:.0f}", f"{1000 * clients / yes:.1f}", f"{1000 * clients / no:.1f}"])
        say(", ".join(rows[-1]))
    heads = ["files", "durable, files/s", "not, files/s", "durable, ms each", "not, ms each"]
    note = f"Medians of {options.runs} in turns, over loopback."
    tables.save(options.output, ["# The cost of a durable PUT", "", note, "", *tables.markdown(heads, rows)])


if __name__ == "__main__":
    main()
