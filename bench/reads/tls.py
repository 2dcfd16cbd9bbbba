"""The talk's query over the talk's links, by HTTP and by HTTPS: what encryption costs in round trips and in CPU.

nginx twice, once with a certificate made for the occasion. A handshake of TLS 1.3 is one round trip, so over HTTPS the
query may take one more than over HTTP, on the first connection; the others shake hands meanwhile. The last row is a
second process, which finds the session ticket of the first. Needs root, for all links but A.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.generators import talkfile
from bench.harness import interleaved, servers
from bench.harness.contenders import Run, disagreement
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import LINKS, Link, Loopback, Wan, is_root
from bench.harness.paths import HITHER, RESULTS


def entrants(http: str, https: str, authority: Path, store: Path, facts: dict) -> list[Entrant]:
    query = ["draw", "--where", facts["cut"], "--json"]
    trusting = ["env", f"SSL_CERT_FILE={authority}", HITHER]

    def target(url: str) -> list[str]:
        return [f"{url}:{facts['tree']}", facts["expression"]]

    def check(run: Run) -> str | None:
        return disagreement(run, facts)

    def forget() -> None:
        shutil.rmtree(store, ignore_errors=True)

    return [
        Entrant("http", [HITHER, *query, *target(http), "--no-store"], check),
        Entrant("https", [*trusting, *query, *target(https), "--store", store], check, forget),
        Entrant("https, second process", [*trusting, *query, *target(https), "--store", store], check),
    ]


def verdicts(played: Rounds, chosen: list[Link]) -> Iterator[str]:
    for link in chosen:
        plain, secure = (played.median(link.label, "", name) for name in ("http", "https"))
        if plain is None or secure is None:
            continue
        more = secure - plain
        if link.rtt_ms < 10:
            yield f"{link.label}: {more * 1e3:+.0f} ms over https ({secure / plain:.2f} x; mostly CPU on a link this short)"
            continue
        bytes_more = max(0.0, played.median(link.label, "", "https", "received_mb") - played.median(link.label, "", "http", "received_mb"))
        trips = (more - (bytes_more * 8 / link.mbit if link.mbit else 0)) * 1e3 / link.rtt_ms
        yield (
            f"{link.label}: {more * 1e3:+.0f} ms and {bytes_more:.2f} MB over https; without those bytes {trips:.2f} round trips, "
            f"at most 1.2 (one, and 20 % for CPU): {'kept' if trips <= 1.2 else 'MISSED'}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--links", default="ABCDEFG" if is_root() else "A", help="letters, default %(default)s")
    parser.add_argument("--quick", action="store_true", help="one run each, links D and G only")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "tls")
    options = parser.parse_args()
    letters = "DG" if options.quick else options.links
    facts = talkfile.ensure()
    file = talkfile.DEFAULT_OUTPUT
    chosen = [LINKS[letter] for letter in letters]
    played = Rounds(1 if options.quick else options.runs)
    with interleaved.until_interrupted(), tempfile.TemporaryDirectory(prefix="hither-secure-") as folder:
        store = Path(folder) / "store"
        for link in chosen:
            where: Loopback = Loopback() if link.is_loopback else Wan(link)
            with where:
                host = where.server_host
                tls = servers.certificate(Path(folder), host)
                start = partial(servers.nginx, where, file.parent)
                with start() as plain, start(tls=tls) as secure:
                    urls = f"http://{host}:{plain}/{file.name}", f"https://{host}:{secure}/{file.name}"
                    played.play(where, link.label, "", entrants(*urls, tls.authority, store, facts))
    notes = [
        f"`{facts['expression']}` where `{facts['cut']}`, {facts['query_bytes'] / 1e6:.2f} MB of {facts['bytes'] / 1e6:.0f} MB, from opening the URL to the result;",
        "nginx 1.22 with TLS 1.3, stock limits. Client, server and link share two cores, cubic, medians.",
    ]
    interleaved.write(played, options.output, "The talk's query over HTTPS", notes, verdicts(played, chosen), "http")
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
