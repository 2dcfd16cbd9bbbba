"""The talk's query from `hither serve` and from nginx, links A to G, first and second process.

On the longest link also with a larger initial congestion window of the server, set by route. Round
trips, requests and bytes are counted in the link and in the client's report. Needs root, for the
links.
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
from bench.harness.links import LINKS, Link, Loopback, Wan, ends_of
from bench.harness.paths import temporary_folder

STOCK_WINDOW, RAISED_WINDOW = 10, 100
"""Segments: Linux's default, and 145 kB."""


def prepare(where: Loopback, window: int, fresh: Path | None) -> None:
    if isinstance(where, Wan):
        where.initial_window(window)
    if fresh:
        shutil.rmtree(fresh, ignore_errors=True)


def entrants(where: Loopback, link: Link, query: Query, url: str, stores: Path, window: int) -> Iterator[Entrant]:
    for connections in (None, 16, 64) if link.letter == "G" else (None,):
        store = stores / f"{window}-{connections}"
        command = query.draw(url, "--store", store, *(["--max-connections", connections] if connections else []))
        name = f"{connections} connections" if connections else "defaults"
        for which, fresh in (("first", store), ("second", None)):
            before = partial(prepare, where, window, fresh)
            yield Entrant(f"{name}, {which} process", command, query.disagreement, before)


def check_targets(played: Rounds) -> Iterator[str]:
    for link in dict.fromkeys(run.link for run in played.runs):
        for name in dict.fromkeys(run.contender for run in played.runs if run.link == link):
            ours, theirs = (played.median(link, server, name) for server in ("hither", "nginx"))
            if ours and theirs:
                # Two runs of the same command differ in the last hundredth.
                yield interleaved.ratio_line(f"{link}, {name}: from hither beside nginx, seconds", ours / theirs, 1.03)
            ours, theirs = (played.median(link, server, name, "received_mb") for server in ("hither", "nginx"))
            if ours and theirs:
                yield f"{link}, {name}: {100 * (1 - ours / theirs):.1f} % fewer bytes"
            plain, raised = (played.median(link, server, name) for server in ("hither", "hither, raised window"))
            if plain and raised:
                rtt = next(it.rtt_ms for it in LINKS.values() if it.label == link) / 1e3
                yield f"{link}, {name}: {(plain - raised) / rtt:.1f} round trips fewer with a raised window"


def play(played: Rounds, link: Link, query: Query, stores: Path) -> None:
    """Servers take turns within a round, so that all see the same state of the machine."""
    root = query.file.parent
    with ends_of(link) as where, servers.nginx(where, root) as nginx, servers.hither(where, root) as ours:
        chosen = [("nginx", nginx, STOCK_WINDOW), ("hither", ours, STOCK_WINDOW)]
        chosen += [("hither, raised window", ours, RAISED_WINDOW)] if link.letter == "G" else []
        for number in range(played.count):
            for name, port, window in chosen:
                url = f"http://{where.server_host}:{port}/{query.file.name}"
                some = entrants(where, link, query, url, stores / name.replace(" ", ""), window)
                played.round(where, link.label, name, list(some), number)


def main() -> int:
    options = Arguments(
        __doc__, "server/talk_query", links="ABCDEFG", quick="one run each, link G only", quick_links="G"
    ).parse()
    query = Query.of_the_talk()
    played = Rounds(options.runs, timeout=60)
    with interleaved.until_interrupted(), temporary_folder() as stores:
        for link in options.links:
            play(played, link, query, stores)
    notes = [
        f"{query}, as in `tables.md`, by `hither draw`: from a stock nginx, which takes 8 kB of ranges in a request, and from",
        "`hither serve`, which takes them all in one `QUERY` and responds in frames. The second process has the store of the first.",
        f"With a raised window the server first sends {RAISED_WINDOW} segments instead of {STOCK_WINDOW} (`ip route change ... initcwnd`).",
    ]
    return interleaved.write(played, options.output, "The talk's query from our server", notes, check_targets(played))


if __name__ == "__main__":
    sys.exit(main())
