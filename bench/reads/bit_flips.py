"""A million random reads over root:// while bits are flipped on the way, one in ten million: no byte may be wrong.

The server is xrootd; between it and the reader is a proxy that flips bits in both directions, of data, heads and requests
alike. The reader asks for checksums of pages (`crates/transport/examples/flips.rs`) and compares what it gets with the file.
No root needed.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import BINARIES, RESULTS

FILE_BYTES = 64_000_000


def table(told: dict) -> str:
    flips = told["flips_to_client"] + told["flips_to_server"]
    rows = [
        ("reads of 1 to 8,192 bytes", f"{told['reads']:,}"),
        ("bytes that came", f"{told['bytes']:,}"),
        ("chance of each bit", f"{told['chance']:g}"),
        ("bits flipped, of answers and of requests", f"{told['flips_to_client']:,} and {told['flips_to_server']:,}"),
        ("pages that arrived damaged and were asked for again", f"{told['damaged_pages']:,}"),
        ("flips that hit something else", f"{flips - told['damaged_pages']:,}"),
        ("connections", f"{told['connections']:,}"),
        ("requests that were repeated for other reasons", f"{told['retries']:,}"),
        ("reads that ended in an error", f"{told['failed_reads']:,}"),
        ("wrong bytes", f"{told['wrong_bytes']:,}"),
        ("seconds", f"{told['seconds']:.0f}"),
    ]
    lines = ["# Bits flipped on the way over root://", "", "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    errors = [f"- {count} times {text}" for text, count in told["errors"].items()]
    return "\n".join([*lines, "", *errors, ""] if errors else [*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, default=1_000_000)
    parser.add_argument("--chance", type=float, default=1e-7)
    parser.add_argument("--quick", action="store_true", help="ten thousand reads, a bit in a million")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "bit_flips")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.reads, arguments.chance = 10_000, 1e-6
    program = BINARIES / "examples" / "flips"
    if not program.exists():
        sys.exit(f"{program} is missing: cargo build --release -p hither-transport --example flips")
    with tempfile.TemporaryDirectory(prefix="hither-flips-", dir="/dev/shm") as folder:
        root = Path(folder)
        root.chmod(0o755)
        file = root / "data"
        file.write_bytes(random.Random(1).randbytes(FILE_BYTES))
        with servers.xrootd(Loopback(), root) as port:
            command = [program, f"root://127.0.0.1:{port}//data", file, str(arguments.reads), f"{arguments.chance:g}"]
            done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if not done.stdout:
        return 1
    told = json.loads(done.stdout)
    text = table(told)
    print(text)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.with_suffix(".md").write_text(text)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
