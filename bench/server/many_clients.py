"""Many clients of `hither serve` at once: python -m bench.server.many_clients [--seconds 300]; with --slow 50 some that crawl.

10,000 connections that are kept open, of which 500 read without a pause: 1,000 files of 4 kB to 1 MB, the n-th as often as
1/n. Prints what examples/load of testkit saw, and how much memory the server took at most.
"""

import argparse
import json
import random
import re
import subprocess
import tempfile
from pathlib import Path

from bench.harness.paths import BINARIES, HITHER

FILES = 1000
LARGE = 64 << 20


def make_files(folder: Path) -> int:
    chance, total = random.Random(1), 0
    for number in range(FILES):
        size = int(4096 * 256 ** chance.random())
        (folder / str(number)).write_bytes(f"{number:>8}".encode() + bytes(size - 8))
        total += size
    (folder / "large").write_bytes(bytes(LARGE))
    return total


def peak_mb(process: subprocess.Popen) -> float:
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024


def cpu_seconds(process: subprocess.Popen) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def measure(seconds: int, connections: int, active: int, slow: int) -> dict:
    with tempfile.TemporaryDirectory(prefix="load-") as name:
        folder = Path(name)
        make_files(folder)
        command = [HITHER, "serve", "--json", "--listen", "127.0.0.1:0", folder]
        server = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        try:
            address = json.loads(server.stdout.readline())["urls"][0].removeprefix("http://").rstrip("/")
            numbers = [seconds, connections - active - slow, active, slow, FILES]
            load = [BINARIES / "examples" / "load", address, *numbers]
            told = subprocess.run([str(word) for word in load], stdout=subprocess.PIPE, text=True, check=True).stdout
            *remarks, last = told.strip().splitlines()
            found = {**json.loads(last), "peak_mb": round(peak_mb(server)), "cpu_s": cpu_seconds(server)}
        finally:
            server.terminate()
            server.wait(60)
    print("\n".join(remarks))
    return {"connections": connections, "active": active, "slow": slow, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--active", type=int, default=500)
    parser.add_argument("--slow", type=int, default=50)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.seconds, arguments.connections, arguments.active, arguments.slow)))


if __name__ == "__main__":
    main()
