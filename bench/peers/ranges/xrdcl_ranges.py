"""Many ranges of one file by XrdCl's vector reads, 1,024 ranges in each, all sent at once.

    python -m bench.peers.ranges.xrdcl_ranges URL RANGES OUTPUT    RANGES: lines of OFFSET LENGTH

Servers refuse more ranges in one vector read. Imports are not timed, opening the file is.
"""

import json
import sys
import threading
import time
from pathlib import Path

from XRootD import client

MAX_RANGES = 1024


def read(url: str, ranges: list[tuple[int, int]]) -> list[bytes]:
    file = client.File()
    status, _ = file.open(url)
    if not status.ok:
        sys.exit(f"xrdcl_ranges: {status.message}")
    groups = [ranges[at : at + MAX_RANGES] for at in range(0, len(ranges), MAX_RANGES)]
    found: list[list[bytes] | None] = [None] * len(groups)
    failures: list[str] = []
    left = threading.Semaphore(0)

    def take(number: int, status, response) -> None:
        if status.ok:
            found[number] = [chunk.buffer for chunk in response.chunks]
        else:
            failures.append(status.message)
        left.release()

    for number, group in enumerate(groups):
        status = file.vector_read(
            group, callback=lambda status, response, _, number=number: take(number, status, response)
        )
        if not status.ok:
            sys.exit(f"xrdcl_ranges: {status.message}")
    for _ in groups:
        left.acquire()
    if failures:
        sys.exit(f"xrdcl_ranges: {failures[0]}")
    return [content for group in found for content in group or []]


def main() -> None:
    url, list_of_ranges, output = sys.argv[1:]
    ranges = [tuple(map(int, line.split())) for line in Path(list_of_ranges).read_text().splitlines()]
    started = time.monotonic()
    found = read(url, ranges)
    seconds = time.monotonic() - started
    Path(output).write_bytes(b"".join(found))
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
