"""The talk's query by HTTP and by HTTPS: the round trips and the CPU that encryption costs.

nginx twice, once with a certificate made for the run. A handshake of TLS 1.3 is one round trip, so
over HTTPS the query may take one more than over HTTP, on the first connection; the others shake
hands meanwhile. The last row is a second process, which finds the session ticket of the first.
Needs root, for all links but A.
"""

import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.harness import interleaved, servers
from bench.harness.arguments import Arguments
from bench.harness.contenders import Query
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, ends_of
from bench.harness.paths import temporary_folder


def entrants(query: Query, http: str, https: str, authority: Path, store: Path) -> list[Entrant]:
    secure = ["env", f"SSL_CERT_FILE={authority}", *query.draw(https, "--store", store)]
    forget = partial(shutil.rmtree, store, ignore_errors=True)
    return [
        Entrant("http", query.draw(http, "--no-store"), query.disagreement),
        Entrant("https", secure, query.disagreement, forget),
        Entrant("https, second process", secure, query.disagreement),
    ]


def check_targets(played: Rounds, chosen: list[Link]) -> Iterator[str]:
    for link in chosen:
        plain, secure = (played.median(link.label, "", name) for name in ("http", "https"))
        if plain is None or secure is None:
            continue
        more = secure - plain
        if link.rtt_ms < 10:
            yield f"{link.label}: {more * 1e3:+.0f} ms over https ({secure / plain:.2f} x; mostly CPU on a link this short)"
            continue
        plain_mb, secure_mb = (played.median(link.label, "", name, "received_mb") for name in ("http", "https"))
        more_mb = max(0.0, secure_mb - plain_mb)
        trips = (more - (more_mb * 8 / link.mbit if link.mbit else 0)) * 1e3 / link.rtt_ms
        yield interleaved.target_line(
            f"{link.label}: {more * 1e3:+.0f} ms and {more_mb:.2f} MB over https; without those bytes {trips:.2f} round trips, "
            "at most 1.2 (one, and 20 % for CPU)",
            trips <= 1.2,
        )


def main() -> int:
    parser = Arguments(
        __doc__, "reads/tls", quick="one run each, links D and G only", links="ABCDEFG", quick_links="DG"
    )
    options = parser.parse()
    query = Query.of_the_talk()
    played = Rounds(options.runs)
    with interleaved.until_interrupted(), temporary_folder() as folder:
        for link in options.links:
            with ends_of(link) as where:
                host = where.server_host
                tls = servers.certificate(folder, host)
                start = partial(servers.nginx, where, query.file.parent)
                with start() as plain, start(tls=tls) as secure:
                    urls = f"http://{host}:{plain}/{query.file.name}", f"https://{host}:{secure}/{query.file.name}"
                    store = folder / "store"
                    played.play(where, link.label, "", entrants(query, *urls, tls.authority, store))
    notes = [f"{query}, from opening the URL to the result;", "nginx with TLS 1.3, stock limits."]
    targets = check_targets(played, options.links)
    return interleaved.write(played, options.output, "The talk's query over HTTPS", notes, targets, "http")


if __name__ == "__main__":
    sys.exit(main())
