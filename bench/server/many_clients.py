"""Many clients of `hither serve` at once, some of them slow: errors, latencies, peak memory.

10,000 connections stay open. 500 of them read without a pause: 1,000 files of 4 kB to 1 MB, the
n-th with weight 1/n; slow readers take 1 kB a second. The clients are the example `load` of
testkit.
"""

import json
import random
import re
import subprocess
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.paths import HITHER_BENCH, temporary_folder

FILES = 1000
LARGE = 64 << 20


def make_files(folder: Path) -> None:
    chance = random.Random(1)
    for number in range(FILES):
        size = int(4096 * 256 ** chance.random())
        (folder / str(number)).write_bytes(f"{number:>8}".encode() + bytes(size - 8))
    (folder / "large").write_bytes(bytes(LARGE))


def peak_mb(process: subprocess.Popen) -> float:
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024


def measure(seconds: int, connections: int, active: int, slow: int) -> dict:
    with temporary_folder() as folder:
        make_files(folder)
        server, address = servers.hither_process("--listen", "127.0.0.1:0", folder)
        try:
            numbers = [seconds, connections - active - slow, active, slow, FILES]
            load = [HITHER_BENCH, "load", address, *numbers]
            output = subprocess.run([str(word) for word in load], stdout=subprocess.PIPE, text=True, check=True).stdout
            *remarks, last = output.strip().splitlines()
            found = {**json.loads(last), "peak_mb": round(peak_mb(server)), "cpu_s": servers.cpu_seconds(server.pid)}
        finally:
            server.terminate()
            server.wait(60)
    print("\n".join(remarks))
    return {"duration_s": seconds, "connections": connections, "active": active, "slow": slow, **found}


def main() -> None:
    parser = Arguments(__doc__, "server/many_clients")
    parser.add_argument("--seconds", type=int, default=300, help="default %(default)s")
    parser.add_argument("--connections", type=int, default=10_000, help="default %(default)s")
    parser.add_argument("--active", type=int, default=500, help="those that read without a pause (default %(default)s)")
    parser.add_argument("--slow", type=int, default=50, help="those that read 1 kB a second (default %(default)s)")
    arguments = parser.parse(needs_root=False)
    found = measure(arguments.seconds, arguments.connections, arguments.active, arguments.slow)
    tables.add_rows(arguments.output, "# Ten thousand connections", [found])


if __name__ == "__main__":
    main()
