"""10,000 random pieces of 2 KB, in one call: hither, its C library, davix, ROOT, XrdCl, the wire.

At 22 ms and 150 ms (`--rtt 0.3,22`: within a site, too) and 1 Gbit/s, from nginx, Apache, Caddy and
xrootd's HTTP, and over root:// from the same xrootd (`--servers xrootd --only root,wire`). All read
the pieces in the order of the file, without overlaps, and write them to a file whose hash is
checked. The wire is one TCP connection (or 64) that carries the same number of bytes and nothing
else. Needs root, for the links.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.generators import eventfile
from bench.harness import interleaved, servers
from bench.harness.access_log import Counter
from bench.harness.arguments import Arguments
from bench.harness.contenders import compiled_peer, peer
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import BINARIES, ROOT, temporary_folder
from bench.harness.ranges import RangesJob, scattered

PIECES = 10_000
PIECE_BYTES = 2048
LINKS = (
    Link("l", 0.3, 1000, "within a site"),
    Link("h", 22, 1000, "across a country"),
    Link("i", 150, 1000, "across an ocean"),
)
MAX_OF_WIRE = {
    "hither": 1.3,
    "hither, server known": 1.3,
    "hither root://": 1.2,
    "hither root://, server known": 1.2,
}
"""Targets, as multiples of the wire's time."""
MAX_OF_RUST = 1.05
"""Target of the C library, as a multiple of the time of the Rust program."""
C = "hither's C library"
SERVERS = {"nginx": servers.nginx, "apache": servers.apache, "caddy": servers.caddy, "xrootd": servers.xrootd}


def davix_ranges() -> Path | None:
    """None if davix's headers are not installed."""
    headers = Path("/usr/include/davix")
    return compiled_peer("ranges/davix_ranges", f"-I{headers}", "-ldavix") if headers.is_dir() else None


def c_ranges() -> Path | None:
    """None if libhither is not built (make release)."""
    archive = BINARIES / "libhither_capi.a"
    flags = [f"-I{ROOT / 'crates/capi/include'}", str(archive), "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"]
    return compiled_peer("ranges/hither_ranges", *flags) if archive.exists() else None


def entrants(job: RangesJob, where: Loopback, server: str, port: int, raw: int, log: Path | None) -> list[Entrant]:
    place = f"{where.server_host}:{port}"
    url, root_url = f"http://{place}/{job.file.name}", f"root://{place}//{job.file.name}"
    counter = Counter(log, f"/{job.file.name}")

    def hither(name: str, url: str, store: str) -> list[Entrant]:
        # The second command finds what the first one has stored about the server.
        folder = job.listed.with_name(store)
        command = job.command(url, folder)
        return [job.entrant(name, command, counter, folder), job.entrant(f"{name}, server known", command, counter)]

    def other(name: str, command: list) -> Entrant:
        return job.entrant(name, command, counter)

    wire = peer("bytes.raw_client", where.server_host, raw, job.bytes)
    found = [
        *hither("hither", url, "store"),
        Entrant("wire", wire),
        Entrant("wire, 64 connections", [*wire, 64]),
        other("ROOT http", peer("ranges.root_ranges", url, job.listed, job.output)),
    ]
    if library := c_ranges():
        folder = job.listed.with_name("c-store")
        command = [library, url, job.listed, job.output, folder]
        found += [
            job.entrant(name, command, counter, fresh) for name, fresh in ((C, folder), (f"{C}, server known", None))
        ]
    if davix := davix_ranges():
        found.append(other("davix preadVec", [davix, url, job.listed, job.output]))
    if server == "xrootd":
        found += [
            *hither("hither root://", root_url, "root-store"),
            other("ROOT root://", peer("ranges.root_ranges", root_url, job.listed, job.output)),
            other("XrdCl 6 root://", peer("ranges.xrdcl_ranges", root_url, job.listed, job.output)),
        ]
    return found


def check_targets(played: Rounds, chosen: list[Link]) -> Iterator[str]:
    for link in chosen:
        for server in dict.fromkeys(r.server for r in played.runs):
            at = f"{server}, {link.label}"
            if link.rtt_ms == 150 and played.select(link.label, server, "hither"):
                davix = played.ratio(link.label, server, "hither", "davix preadVec")
                yield interleaved.ratio_line(f"{at}: hither beside davix", davix, 1 / 3)
            for suffix in ("", ", server known"):
                if played.select(link.label, server, f"{C}{suffix}"):
                    rust = played.ratio(link.label, server, f"{C}{suffix}", f"hither{suffix}")
                    yield interleaved.ratio_line(f"{at}: {C}{suffix} beside Rust", rust, MAX_OF_RUST)
            for name, maximum in MAX_OF_WIRE.items():
                if played.select(link.label, server, name):
                    wire = played.ratio(link.label, server, name, "wire")
                    yield interleaved.ratio_line(f"{at}: {name} beside the wire", wire, maximum)


def main() -> int:
    parser = Arguments(__doc__, "reads/pieces", quick="one run each, at the longest only")
    parser.add_argument("--servers", default=",".join(SERVERS), help="default %(default)s")
    parser.add_argument("--only", default="", help="parts of contenders' names, comma separated")
    parser.add_argument("--rtt", default="22,150", help="round trip times in ms, comma separated (default %(default)s)")
    options = parser.parse()
    chosen = [link for link in LINKS if f"{link.rtt_ms:g}" in options.rtt.split(",")]
    chosen = chosen[-1:] if options.quick else chosen
    played = Rounds(options.runs, timeout=60)
    size = eventfile.ensure()["bytes"]
    with interleaved.until_interrupted(), temporary_folder() as folder:
        job = RangesJob.of(eventfile.DEFAULT_OUTPUT, [scattered(size, PIECES, PIECE_BYTES)], folder / "ranges")
        for link in chosen:
            for server in options.servers.split(","):
                # xrootd's log would be a trace, which slows it down.
                log = None if server == "xrootd" else folder / f"{server}.log"
                with (
                    Wan(link) as where,
                    SERVERS[server](where, job.file.parent, log) as port,
                    servers.raw(where) as raw,
                ):
                    all_of_them = entrants(job, where, server, port, raw, log)
                    only = [it for it in all_of_them if any(part in it.name for part in options.only.split(","))]
                    played.play(where, link.label, server, only)
    notes = [
        f"{PIECES:,} random pieces of {PIECE_BYTES} bytes ({PIECES * PIECE_BYTES / 1e6:.2f} MB) of a file of {size / 1e6:.0f} MB, requested in one",
        "call, from opening the URL to the last byte. `wire`: as many bytes over one fresh TCP connection. Turns, round trips",
        "and bytes are counted in the link, requests in the server's log.",
    ]
    return interleaved.write(
        played, options.output, "Ten thousand pieces", notes, check_targets(played, chosen), "wire"
    )


if __name__ == "__main__":
    sys.exit(main())
