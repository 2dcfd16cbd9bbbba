"""The talk's query without prefetching, one request at a time; replaces ROOT if that is missing.

    python -m bench.peers.draw.piecewise URL RANGES.json GROUP_BYTES SHARE

GROUP_BYTES 0 requests one basket at a time; otherwise as many as fit, in one multi-range request.
SHARE below 1 stops after that part of the baskets. RANGES.json holds their offsets. A real reader
makes four requests for the file's header and the tree's description, so they are made here, too.
"""

import http.client
import json
import re
import sys
import time
import zlib
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

ELEMENTS = 17


def plan(pieces: list, group_bytes: int, share: float) -> list[list]:
    """The baskets of each request."""
    wanted = pieces[: max(1, round(len(pieces) * share))]
    groups: list[list] = []
    size = 0
    for piece in wanted:
        # nginx takes some 8 KB of header; 300 ranges fit.
        if not groups or size + piece[3] > group_bytes or len(groups[-1]) >= 300:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += piece[3]
    return groups


class Server:
    """One keep-alive connection."""

    def __init__(self, url: str):
        parts = urlsplit(url)
        self.path = parts.path
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port)
        self.requests = 0

    def read(self, ranges: list[tuple[int, int]]) -> dict[int, bytes]:
        """Bytes by offset, for (start, size)."""
        text = ",".join(f"{start}-{start + size - 1}" for start, size in ranges)
        self.requests += 1
        self.connection.request("GET", self.path, headers={"Range": f"bytes={text}"})
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 206:
            raise ConnectionError(f"status {answer.status} for {len(ranges)} ranges")
        if len(ranges) == 1:
            return {ranges[0][0]: body}
        parts = {}
        at = 0
        for _ in ranges:
            end = body.index(b"\r\n\r\n", at) + 4
            start, stop = map(int, re.search(rb"bytes (\d+)-(\d+)/", body[at:end]).groups())
            parts[start] = body[end : end + stop - start + 1]
            at = end + stop - start + 1
        return parts


def decode(basket: bytes) -> np.ndarray:
    """The floats of a basket: a key, then zlib blocks with nine bytes of header (ROOT's "ZL")."""
    key_bytes = int.from_bytes(basket[14:16], "big")
    body = basket[key_bytes:]
    plain = b""
    while body:
        size = int.from_bytes(body[3:6], "little")
        plain += zlib.decompress(body[9 : 9 + size])
        body = body[9 + size :]
    return np.frombuffer(plain[: len(plain) // 68 * 68], ">f4").reshape(-1, ELEMENTS)


def main() -> None:
    url, ranges, group_bytes, share = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    layout = json.loads(Path(ranges).read_text())
    tree_start, tree_size = layout["tree"]

    started = time.monotonic()
    server = Server(url)
    server.read([(0, 4)])
    server.read([(0, 300)])
    server.read([(tree_start + tree_size, 100)])
    opened = time.monotonic()
    server.read([(tree_start, tree_size)])
    described = time.monotonic()
    opening = server.requests
    columns: dict[str, dict[int, np.ndarray]] = {"rawtr": {}, "E33": {}}
    for group in plan(layout["pieces"], group_bytes, share):
        parts = server.read([(piece[2], piece[3]) for piece in group])
        for name, number, start, _, _ in group:
            columns[name][number] = decode(parts[start])
    both = sorted(columns["rawtr"].keys() & columns["E33"].keys())
    rawtr = np.concatenate([columns["rawtr"][i] for i in both])
    energy = np.concatenate([columns["E33"][i] for i in both])
    values = rawtr[energy > 5].astype("f8")
    done = time.monotonic()
    print(
        json.dumps(
            {
                "seconds": done - started,
                "open": opened - started,
                "tree": described - opened,
                "draw": done - described,
                "selected": len(values),
                "mean": float(values.mean()),
                "reads": server.requests,
                "reads_opening": opening,
            }
        )
    )


if __name__ == "__main__":
    main()
