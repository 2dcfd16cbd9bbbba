"""A million random reads over root:// while a proxy flips one bit in ten million.

The server is xrootd; the proxy between it and the reader flips bits in both directions, of data,
headers and requests alike. The reader verifies page checksums
(`bench/programs/src/flips.rs`) and compares the bytes with the file. Needs no root, but
`cargo build --release -p hither-transport --example flips`.
"""

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.links import Loopback
from bench.harness.paths import HITHER_BENCH, MEMORY, RESULTS, temporary_folder

FILE_BYTES = 64_000_000


def document(told: dict) -> list[str]:
    flips = told["flips_to_client"] + told["flips_to_server"]
    rows = [
        ("reads of 1 to 8,192 bytes", f"{told['reads']:,}"),
        ("bytes received", f"{told['bytes']:,}"),
        ("probability of a flip, for each bit", f"{told['chance']:g}"),
        ("bits flipped, of responses and of requests", f"{told['flips_to_client']:,} and {told['flips_to_server']:,}"),
        ("pages that arrived damaged and were requested again", f"{told['damaged_pages']:,}"),
        ("flips that hit something else", f"{flips - told['damaged_pages']:,}"),
        ("connections", f"{told['connections']:,}"),
        ("requests repeated for other reasons", f"{told['retries']:,}"),
        ("reads that ended in an error", f"{told['failed_reads']:,}"),
        ("wrong bytes", f"{told['wrong_bytes']:,}"),
        ("seconds", f"{told['seconds']:.0f}"),
    ]
    errors = [f"- {count} times {text}" for text, count in told["errors"].items()]
    return ["# Bits flipped on the way over root://", "", *tables.markdown(["", ""], rows, "l"), "", *errors]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reads", type=int, default=1_000_000, help="default %(default)s")
    parser.add_argument(
        "--chance", type=float, default=1e-7, help="probability of a flip, for each bit (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="ten thousand reads, a bit in a million")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "bit_flips")
    options = parser.parse_args()
    if options.quick:
        options.reads, options.chance = 10_000, 1e-6
    if not HITHER_BENCH.exists():
        sys.exit(f"{HITHER_BENCH} is missing: make release")
    with temporary_folder(MEMORY) as root:
        file = root / "data"
        file.write_bytes(random.Random(1).randbytes(FILE_BYTES))
        with servers.xrootd(Loopback(), root) as port:
            command = [
                HITHER_BENCH,
                "flips",
                f"root://127.0.0.1:{port}//data",
                file,
                str(options.reads),
                f"{options.chance:g}",
            ]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.stdout:
        tables.save(options.output, document(json.loads(done.stdout)))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
