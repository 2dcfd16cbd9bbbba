"""Random pieces over TLS from a server that sends one range for each request: HTTP/1.1 and HTTP/2.

nginx with `max_ranges 1` twice, once with `http2`. At 22 ms and 150 ms and 1 Gbit/s. Pieces of 2
KB, 2,000 of them, and of 64 KB, 500. All but the last contender know the server from an earlier
run. Needs root, for the links.
"""

import sys
from collections.abc import Iterator
from functools import partial

from bench.generators import eventfile
from bench.harness import interleaved, servers
from bench.harness.access_log import Counter
from bench.harness.arguments import Arguments
from bench.harness.interleaved import Rounds
from bench.harness.links import Link, Wan
from bench.harness.paths import temporary_folder
from bench.harness.ranges import RangesJob, scattered

JOBS = ((2000, 2048), (500, 65536))
LINKS = (Link("h", 22, 1000, "across a country"), Link("i", 150, 1000, "across an ocean"))
OLD, NEW, UNKNOWN = "HTTP/1.1", "HTTP/2", "HTTP/2, server not known"


def check_targets(played: Rounds, chosen: list[Link]) -> Iterator[str]:
    for link in chosen:
        for job in dict.fromkeys(run.server for run in played.runs):
            ratio = played.ratio(link.label, job, NEW, OLD)
            yield interleaved.ratio_line(f"{job}, {link.label}: {NEW} beside {OLD}", ratio, 1.0)


def main() -> int:
    options = Arguments(__doc__, "reads/single_range", quick="one run each, at 150 ms only").parse()
    chosen = LINKS[-1:] if options.quick else LINKS
    played = Rounds(options.runs)
    size, file = eventfile.ensure()["bytes"], eventfile.DEFAULT_OUTPUT
    with interleaved.until_interrupted(), temporary_folder() as folder:
        jobs = {
            f"{count} x {length // 1024} KB": RangesJob.of(
                file, [scattered(size, count, length)], folder / f"ranges-{length}"
            )
            for count, length in JOBS
        }
        for link in chosen:
            with Wan(link) as where:
                tls = servers.certificate(folder, where.server_host)
                start = partial(servers.nginx, where, file.parent, limits=servers.ONE_RANGE, tls=tls)
                logs = [folder / f"{link.letter}-{version}.log" for version in ("http1", "http2")]
                with start(logs[0]) as old, start(logs[1], http2=True) as new:
                    for label, job in jobs.items():
                        entrants = []
                        for version, port, log in ((OLD, old, logs[0]), (NEW, new, logs[1]), (UNKNOWN, new, logs[1])):
                            store = folder / f"store-{link.letter}-{version == UNKNOWN}"
                            command = job.command(f"https://{where.server_host}:{port}/{file.name}", store)
                            trusting = ["env", f"SSL_CERT_FILE={tls.authority}", *command]
                            fresh = store if version == UNKNOWN else None
                            entrants.append(job.entrant(version, trusting, Counter(log, f"/{file.name}"), fresh))
                        # So that the servers are known.
                        Rounds(1).play(where, link.label, "learning", entrants[:2])
                        played.play(where, link.label, label, entrants)
    notes = [
        "From opening the URL to the last byte; nginx with `max_ranges 1` and TLS 1.3, handshakes included.",
        "Connections and bytes are counted in the link, requests in the server's log.",
    ]
    title = "Pieces from a server that sends one range at a time"
    return interleaved.write(played, options.output, title, notes, check_targets(played, chosen), OLD)


if __name__ == "__main__":
    sys.exit(main())
