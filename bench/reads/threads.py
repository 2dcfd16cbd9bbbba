"""32 threads that share a file of 4 GB over root://, where a connection gets an eighth of the link.

Many paths are like that: servers and networks limit each connection, however wide the link is. Here
the link does it. The rates of one connection and of eight are measured with bare sockets. In XrdCl
all threads share one connection; with eight streams for each channel (a setting) it has more. Each
thread reads its own part from front to back, 1 MiB at a time. Needs root, for the link.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import interleaved, servers
from bench.harness.arguments import Arguments
from bench.harness.contenders import peer
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Wan
from bench.harness.paths import MEMORY, temporary_folder


@dataclass(frozen=True)
class SharedLink(Link):
    """A link that also limits the rate of each connection."""

    each_mbit: float = 50

    def options(self) -> list[str]:
        return [*super().options(), "--rate-each", f"{self.each_mbit:g}Mbit"]


LINK = SharedLink("t", 40, 400, "a continent")
THREADS = 32
FILE_BYTES = 4 << 30
READ_BYTES = 1 << 20
HITHER, XRDCL, STREAMS, ONE, EIGHT = "hither", "XrdCl 6", "XrdCl 6, 8 streams", "wire", "wire, 8 connections"
PART = {HITHER: 1, XRDCL: 4, STREAMS: 1, ONE: 8, EIGHT: 1}
"""Slow contenders move only this fraction of the bytes."""
# Of 1,500 bytes on the wire, 1,448 are payload.
PAYLOAD = 1448 / 1500


def numbered(path: Path) -> None:
    """Writes a sparse file whose blocks of 1 MiB begin with their numbers."""
    with path.open("wb") as file:
        for number in range(FILE_BYTES >> 20):
            file.seek(number << 20)
            file.write(number.to_bytes(8, "little"))
        file.truncate(FILE_BYTES)


def entrants(url: str, host: str, raw: int, each: int, streams: bool) -> list[Entrant]:
    def read(name: str, way: str) -> list:
        sizes = [THREADS, FILE_BYTES, each // PART[name], READ_BYTES]
        return peer("bytes.threads_read", way, url, *sizes)

    def wire(name: str, connections: int) -> list:
        return peer("bytes.raw_client", host, raw, each * THREADS // PART[name], connections)

    found = [
        Entrant(HITHER, read(HITHER, "hither")),
        Entrant(EIGHT, wire(EIGHT, 8)),
        Entrant(XRDCL, read(XRDCL, "xrdcl")),
        Entrant(ONE, wire(ONE, 1)),
    ]
    if streams:
        found.append(Entrant(STREAMS, ["env", "XRD_SUBSTREAMSPERCHANNEL=8", *read(STREAMS, "xrdcl")]))
    return found


def check_targets(played: Rounds, each: int) -> Iterator[str]:
    def rate(name: str) -> float | None:
        seconds = played.median(LINK.label, "xrootd", name)
        return each * THREADS // PART[name] * 8e-6 / seconds if seconds else None

    link = LINK.mbit * PAYLOAD
    for name in PART:
        if found := rate(name):
            yield f"{name}: {found:.0f} Mbit/s, {found / link:.2f} of the {link:.0f} Mbit/s that the link has for payload"
    if ours := rate(HITHER):
        yield interleaved.target_line("hither fills at least 0.9 of the link", ours >= 0.9 * link)


def main() -> int:
    parser = Arguments(__doc__, "reads/threads")
    parser.add_argument(
        "--each", type=int, default=32, help="MiB that each thread reads of its 128, default %(default)s"
    )
    parser.add_argument("--streams", action="store_true", help="XrdCl also with eight streams for each channel")
    options = parser.parse()
    each = options.each << 20
    played = Rounds(options.runs, timeout=600)
    with interleaved.until_interrupted(), temporary_folder(MEMORY) as folder:
        numbered(folder / "data")
        with Wan(LINK) as where, servers.xrootd(where, folder) as port, servers.raw(where) as raw:
            url = f"root://{where.server_host}:{port}//data"
            played.play(where, LINK.label, "xrootd", entrants(url, where.server_host, raw, each, options.streams))
    notes = [
        f"{THREADS} threads share one open file of {FILE_BYTES / 1e9:.1f} GB; each reads {options.each} MiB of its own part, 1 MiB at a time, by",
        f"Python. A connection gets {LINK.each_mbit:g} Mbit/s of the link's {LINK.mbit:g}. `{XRDCL}` moves a quarter of the bytes, `{ONE}` an",
        "eighth. Each run starts with an empty cache.",
    ]
    return interleaved.write(played, options.output, "Threads that share a file", notes, check_targets(played, each))


if __name__ == "__main__":
    sys.exit(main())
