"""Random pieces out of a large file, over TLS, from a server that sends one range for each request: HTTP/1.1 and HTTP/2.

nginx with `max_ranges 1` twice, once with `http2`. At 22 ms and 150 ms and 1 Gbit/s. Pieces of 2 KB, 2,000 of them, and
of 64 KB, 500. Everybody but the last row knows the server from a run before. Needs root, for the links.
"""

import argparse
import hashlib
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.generators import eventfile
from bench.harness import access_log, interleaved, servers
from bench.harness.contenders import Run
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Wan, is_root
from bench.harness.paths import READ_RANGES, RESULTS

JOBS = ((2000, 2048), (500, 65536))
LINKS = (Link("h", 22, 1000, "across a country"), Link("i", 150, 1000, "across an ocean"))
OLD, NEW, STRANGER = "HTTP/1.1", "HTTP/2", "HTTP/2, server not known"


class Job:
    """The pieces, what their hash must be, and what is known of the servers."""

    def __init__(self, folder: Path, count: int, length: int):
        self.name = f"{count} x {length // 1024} KB"
        self.file = eventfile.DEFAULT_OUTPUT
        self.ranges = folder / f"ranges-{length}"
        self.output = folder / "output"
        chance = random.Random(length)
        slots = sorted(chance.sample(range(eventfile.ensure()["bytes"] // (2 * length)), count))
        pieces = [n * 2 * length + chance.randrange(length) for n in slots]
        self.ranges.write_text("".join(f"{first} {length}\n" for first in pieces))
        digest = hashlib.sha256()
        with self.file.open("rb") as file:
            for first in pieces:
                file.seek(first)
                digest.update(file.read(length))
        self.digest = digest.hexdigest()
        self.logged_before = 0

    def before(self, log: Path, store: Path, forget: bool) -> None:
        self.output.unlink(missing_ok=True)
        self.logged_before = len(access_log.read(log, f"/{self.file.name}"))
        if forget:
            shutil.rmtree(store, ignore_errors=True)

    def check(self, log: Path, run: Run) -> str | None:
        run.requests = len(access_log.read(log, f"/{self.file.name}")) - self.logged_before
        digest = hashlib.sha256(self.output.read_bytes()).hexdigest()
        return None if digest == self.digest else "other bytes than those of the file"

    def entrant(self, name: str, url: str, authority: Path, store: Path, log: Path) -> Entrant:
        trusting = ["env", f"SSL_CERT_FILE={authority}", READ_RANGES]
        command = [*trusting, url, self.ranges, "--output", self.output, "--store", store]
        forget = name == STRANGER
        return Entrant(name, command, partial(self.check, log), partial(self.before, log, store, forget))


def bounds(played: Rounds, chosen: list[Link]) -> Iterator[str]:
    for link in chosen:
        for job in dict.fromkeys(run.server for run in played.runs):
            yield interleaved.bound(f"{job}, {link.label}: {NEW} beside {OLD}", played.ratio(link.label, job, NEW, OLD), 1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one run each, at 150 ms only")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "single_range")
    options = parser.parse_args()
    if not is_root():
        sys.exit("single: the links need root (network namespaces)")
    chosen = [LINKS[-1]] if options.quick else list(LINKS)
    played = Rounds(1 if options.quick else options.runs, timeout=120)
    with interleaved.until_interrupted(), tempfile.TemporaryDirectory(prefix="hither-single-") as name:
        folder = Path(name)
        jobs = [Job(folder, *job) for job in JOBS]
        for link in chosen:
            with Wan(link) as where:
                tls = servers.certificate(folder, where.server_host)
                start = partial(servers.nginx, where, eventfile.DEFAULT_OUTPUT.parent, limits=servers.ONE_RANGE, tls=tls)
                logs = {http2: folder / f"{link.letter}-{http2}.log" for http2 in (False, True)}
                with start(logs[False]) as old, start(logs[True], http2=True) as new:
                    for job in jobs:
                        entrants = []
                        for label, port, http2 in ((OLD, old, False), (NEW, new, True), (STRANGER, new, True)):
                            url = f"https://{where.server_host}:{port}/{job.file.name}"
                            store = folder / f"store-{link.letter}-{label == STRANGER}"
                            entrants.append(job.entrant(label, url, tls.authority, store, logs[http2]))
                        # So that the servers are known.
                        Rounds(1, timeout=120).play(where, link.label, "learning", entrants[:2])
                        played.play(where, link.label, job.name, entrants)
    notes = [
        "From opening the URL to the last byte; nginx with `max_ranges 1` and TLS 1.3, handshakes included.",
        "Connections and bytes by the link's own count, requests by the server's log. Client, server and link share two",
        "cores, cubic, medians.",
    ]
    interleaved.write(played, options.output, "Pieces from a server that sends one range at a time", notes, bounds(played, chosen), OLD)
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
