"""10,000 random pieces of 2 KB out of a file of 715 MB, in one call: hither beside davix, ROOT, XrdCl and the wire.

At 22 ms and 150 ms and 1 Gbit/s, from nginx, Apache, Caddy and xrootd's HTTP, and over root:// from the same xrootd
(`--servers xrootd --only root,wire`). Everybody gets the pieces in the order of
the file, without overlaps, and writes them to a file whose hash has to be right. The wire is one TCP connection (and 64
of them) that sends the same number of bytes and nothing else. Needs root, for the links.
"""

import argparse
import hashlib
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.generators import eventfile
from bench.harness import access_log, interleaved, servers
from bench.harness.contenders import Run, peer
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Loopback, Wan, is_root
from bench.harness.paths import BUILT_PEERS, PEERS, READ_RANGES, RESULTS

PIECES = 10_000
PIECE_BYTES = 2048
LINKS = (Link("h", 22, 1000, "across a country"), Link("i", 150, 1000, "across an ocean"))
OVER_HTTP = {"hither": 1.3, "hither, server known": 1.3}
OVER_ROOT = {"hither root://": 1.2, "hither root://, server known": 1.2}
"""How many times as long as the wire these may take."""
SERVERS = {"nginx": servers.nginx, "apache": servers.apache, "caddy": servers.caddy, "xrootd": servers.xrootd}


def build(name: str, library: str) -> Path | None:
    """Compiles peers/NAME.cpp; None where its library is not installed."""
    source, binary = PEERS / "ranges" / f"{name}.cpp", BUILT_PEERS / name
    if binary.exists() and binary.stat().st_mtime >= source.stat().st_mtime:
        return binary
    if not Path(f"/usr/include/{library}").is_dir():
        return None
    BUILT_PEERS.mkdir(parents=True, exist_ok=True)
    command = ["g++", "-std=c++17", "-O2", f"-I/usr/include/{library}", source, f"-l{library}", "-o", binary]
    subprocess.run(command, check=True)
    return binary


def pieces(size: int) -> list[tuple[int, int]]:
    """Each somewhere in a slot of two pieces' length, so that none overlap and hardly any touch."""
    chance = random.Random(2048)
    slot = 2 * PIECE_BYTES
    slots = sorted(chance.sample(range(size // slot), PIECES))
    return [(n * slot + chance.randrange(PIECE_BYTES), PIECE_BYTES) for n in slots]


class Bench:
    """The file, the pieces, and what their hash must be."""

    def __init__(self, folder: Path):
        self.file = eventfile.DEFAULT_OUTPUT
        self.ranges = folder / "ranges"
        self.output = folder / "output"
        self.stores = folder / "store", folder / "root-store"
        wanted = pieces(eventfile.ensure()["bytes"])
        self.ranges.write_text("".join(f"{first} {length}\n" for first, length in wanted))
        self.bytes = sum(length for _, length in wanted)
        digest = hashlib.sha256()
        with self.file.open("rb") as file:
            for first, length in wanted:
                file.seek(first)
                digest.update(file.read(length))
        self.digest = digest.hexdigest()
        self.davix = build("davix_ranges", "davix")
        self.logged_before = 0

    def logged(self, log: Path) -> int:
        return len(access_log.read(log, f"/{self.file.name}"))

    def check(self, log: Path | None, run: Run) -> str | None:
        if log:
            run.requests = self.logged(log) - self.logged_before
        digest = hashlib.sha256(self.output.read_bytes()).hexdigest()
        return None if digest == self.digest else "other bytes than those of the file"

    def before(self, log: Path | None, forgotten: Path | None) -> None:
        """Nothing is left of the run before, except the store for the one that is to use it."""
        self.output.unlink(missing_ok=True)
        self.logged_before = self.logged(log) if log else 0
        if forgotten:
            shutil.rmtree(forgotten, ignore_errors=True)

    def entrants(self, url: str, host: str, raw: int, root_url: str | None, log: Path | None) -> list[Entrant]:
        scene = {"check": partial(self.check, log), "before": partial(self.before, log, None)}
        fresh, fresh_root = ({**scene, "before": partial(self.before, log, store)} for store in self.stores)
        ours, native = (
            [READ_RANGES, at, self.ranges, "--output", self.output, "--store", store]
            for at, store in zip((url, root_url), self.stores, strict=True)
        )
        root = peer("ranges.root_ranges")
        wire = peer("bytes.raw_client", host, raw, self.bytes)
        found = [
            Entrant("hither", ours, **fresh),
            # The same command again: it finds what the first one learned about the server.
            Entrant("hither, server known", ours, **scene),
            Entrant("wire", wire),
            Entrant("wire, 64 connections", [*wire, 64]),
            Entrant("ROOT http", [*root, url, self.ranges, self.output], **scene),
        ]
        if self.davix:
            found.append(Entrant("davix preadVec", [self.davix, url, self.ranges, self.output], **scene))
        if root_url:
            found += [
                Entrant("hither root://", native, **fresh_root),
                Entrant("hither root://, server known", native, **scene),
                Entrant("ROOT root://", [*root, root_url, self.ranges, self.output], **scene),
                Entrant("XrdCl 6 root://", peer("ranges.xrdcl_ranges", root_url, self.ranges, self.output), **scene),
            ]
        return found


@contextmanager
def serving(name: str, start: Callable, where: Loopback, file: Path, folder: Path) -> Iterator[tuple[int, int, Path | None]]:
    """A server and the raw socket: their ports, and the server's log (xrootd's would be a trace, and slow it down)."""
    log = None if name == "xrootd" else folder / f"{name}.log"
    with ExitStack() as stack:
        port = stack.enter_context(start(where, file.parent, log))
        yield port, stack.enter_context(servers.raw(where)), log


def bounds(played: Rounds, chosen: list[Link]) -> Iterator[str]:
    for link in chosen:
        for server in dict.fromkeys(r.server for r in played.runs):
            davix = played.ratio(link.label, server, "hither", "davix preadVec")
            if link.rtt_ms == 150 and played.select(link.label, server, "hither"):
                yield interleaved.bound(f"{server}, {link.label}: hither beside davix", davix, 1 / 3)
            for name, most in (*OVER_HTTP.items(), *OVER_ROOT.items()):
                if played.select(link.label, server, name):
                    wire = played.ratio(link.label, server, name, "wire")
                    yield interleaved.bound(f"{server}, {link.label}: {name} beside the wire", wire, most)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--servers", default=",".join(SERVERS), help="default %(default)s")
    parser.add_argument("--only", default="", help="parts of names of those that take part, comma separated")
    parser.add_argument("--quick", action="store_true", help="one run each, at 150 ms only")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "pieces")
    options = parser.parse_args()
    if not is_root():
        sys.exit("pieces: the links need root (network namespaces)")
    chosen = [LINKS[-1]] if options.quick else list(LINKS)
    played = Rounds(1 if options.quick else options.runs, timeout=60)
    with interleaved.until_interrupted(), tempfile.TemporaryDirectory(prefix="hither-pieces-") as folder:
        bench = Bench(Path(folder))
        for link in chosen:
            for name in options.servers.split(","):
                with Wan(link) as where, serving(name, SERVERS[name], where, bench.file, Path(folder)) as (port, raw, log):
                    place = f"{where.server_host}:{port}"
                    url, host = f"http://{place}/{bench.file.name}", where.server_host
                    root_url = f"root://{place}//{bench.file.name}" if name == "xrootd" else None
                    entrants = bench.entrants(url, host, raw, root_url, log)
                    only = options.only.split(",")
                    played.play(where, link.label, name, [it for it in entrants if any(part in it.name for part in only)])
    notes = [
        f"{PIECES:,} random pieces of {PIECE_BYTES} bytes ({bench.bytes / 1e6:.2f} MB) of a file of "
        f"{bench.file.stat().st_size / 1e6:.0f} MB, asked for in one call, from opening the URL to the last byte.",
        "`wire`: as many bytes over one fresh TCP connection. Turns and bytes by the link's own count, requests by the",
        "server's log. Client, server and link share two cores, cubic, medians.",
    ]
    interleaved.write(played, options.output, "Ten thousand pieces", notes, bounds(played, chosen), "wire")
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
