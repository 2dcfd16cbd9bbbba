"""32 threads that share one file of 4 GB behind root://, over a path on which a connection gets an eighth of the link.

That is how paths often are: servers and networks give a connection so much, however wide the link is. Here the link does
it. What one connection and eight of them carry is measured beside, with nothing but sockets. XrdCl has all threads share one connection; with eight streams for each channel (a setting) it has more.
Each thread reads a part of its own from front to back, 1 MiB at a time. Needs root, for the link.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import interleaved, servers
from bench.harness.contenders import peer
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Wan, is_root
from bench.harness.paths import RESULTS

MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class SharedLink(Link):
    """A link of which each connection gets a share."""

    each_mbit: float = 50

    def options(self) -> list[str]:
        return [*super().options(), "--rate-each", f"{self.each_mbit:g}Mbit"]


LINK = SharedLink("t", 40, 400, "a continent")
THREADS = 32
FILE_BYTES = 4 << 30
READ_BYTES = 1 << 20
HITHER, XRDCL, STREAMS, ONE, EIGHT = "hither", "XrdCl 6", "XrdCl 6, 8 streams", "wire", "wire, 8 connections"
PART = {HITHER: 1, XRDCL: 4, STREAMS: 1, ONE: 8, EIGHT: 1}
"""Who is slow moves so small a part of the bytes."""
# Of 1,500 bytes on the wire 1,448 are payload.
PAYLOAD = 1448 / 1500


def numbered(path: Path) -> None:
    """A file whose blocks of 1 MiB begin with their numbers; the rest of it takes no room."""
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


def verdicts(played: Rounds, each: int) -> Iterator[str]:
    def rate(name: str) -> float | None:
        seconds = played.median(LINK.label, "xrootd", name)
        return each * THREADS // PART[name] * 8e-6 / seconds if seconds else None

    link = LINK.mbit * PAYLOAD
    for name in PART:
        if found := rate(name):
            yield f"{name}: {found:.0f} Mbit/s, {found / link:.2f} of the {link:.0f} Mbit/s that the link has for payload"
    if ours := rate(HITHER):
        yield f"hither fills at least 0.9 of the link: {'kept' if ours >= 0.9 * link else 'MISSED'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--each", type=int, default=32, help="MiB that each thread reads of its 128, default %(default)s")
    parser.add_argument("--streams", action="store_true", help="XrdCl also with eight streams for each channel")
    parser.add_argument("--quick", action="store_true", help="one run each")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "threads")
    options = parser.parse_args()
    if not is_root():
        sys.exit("threads: the link needs root (network namespaces)")
    each = options.each << 20
    played = Rounds(1 if options.quick else options.runs, timeout=600)
    with interleaved.until_interrupted(), tempfile.TemporaryDirectory(prefix="hither-threads-", dir=MEMORY) as name:
        folder = Path(name)
        folder.chmod(0o755)
        numbered(folder / "data")
        with Wan(LINK) as where:
            with servers.xrootd(where, folder) as port, servers.raw(where) as raw:
                url = f"root://{where.server_host}:{port}//data"
                played.play(where, LINK.label, "xrootd", entrants(url, where.server_host, raw, each, options.streams))
    notes = [
        f"{THREADS} threads share one open file of {FILE_BYTES / 1e9:.1f} GB; each reads {options.each} MiB of its own part, 1 MiB at a time, by",
        f"Python. A connection gets {LINK.each_mbit:g} Mbit/s of the link's {LINK.mbit:g}. `{XRDCL}` moves a quarter of the bytes, `{ONE}` an",
        "eighth. Everybody starts cold. Client, server and link share two cores, cubic, medians.",
    ]
    interleaved.write(played, options.output, "Threads that share a file", notes, verdicts(played, each), None)
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
