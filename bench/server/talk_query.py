"""The talk's query, our client to our server, beside the same client to nginx: links A to G, first and second process.

On the longest link also with a larger initial window of the server, set by route. Round trips, requests and bytes are those of
the link and of the client's report. Needs root, for the links.
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
from bench.harness.contenders import Query, Run, disagreement
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import LINKS, Link, Loopback, Wan, is_root
from bench.harness.paths import HITHER, RESULTS

STOCK_WINDOW, RAISED_WINDOW = 10, 100
"""Segments: what Linux has, and 145 kB."""


def check(query: Query, run: Run) -> str | None:
    return disagreement(run, query.facts)


def scene(where: Loopback, window: int, forgotten: Path | None) -> None:
    if isinstance(where, Wan):
        where.initial_window(window)
    if forgotten:
        shutil.rmtree(forgotten, ignore_errors=True)


def entrants(where: Loopback, link: Link, query: Query, url: str, stores: Path, window: int) -> list[Entrant]:
    facts, found = query.facts, []
    for connections in (None, 16, 64) if link.letter == "G" else (None,):
        store = stores / f"{window}-{connections}"
        command = [HITHER, "draw", f"{url}:{facts['tree']}", facts["expression"], "--where", facts["cut"], "--json", "--store", store]
        command += ["--connections", connections] if connections else []
        name = f"{connections} connections" if connections else "as it is"
        for which, forgotten in (("first", store), ("second", None)):
            before = partial(scene, where, window, forgotten)
            found.append(Entrant(f"{name}, {which} process", command, partial(check, query), before))
    return found


def bounds(played: Rounds) -> Iterator[str]:
    for link in dict.fromkeys(run.link for run in played.runs):
        for name in dict.fromkeys(run.contender for run in played.runs if run.link == link):
            ours, theirs = (played.median(link, server, name) for server in ("hither", "nginx"))
            if ours and theirs:
                # Two runs of the same are not alike to the last hundredth.
                yield interleaved.bound(f"{link}, {name}: from hither beside nginx, seconds", ours / theirs, 1.03)
            ours, theirs = (played.median(link, server, name, "received_mb") for server in ("hither", "nginx"))
            if ours and theirs:
                yield f"{link}, {name}: {100 * (1 - ours / theirs):.1f} % fewer bytes"
            plain, raised = (played.median(link, server, name, "seconds") for server in ("hither", "hither, raised window"))
            if plain and raised:
                rtt = next(it.rtt_ms for it in LINKS.values() if it.label == link) / 1e3
                yield f"{link}, {name}: {(plain - raised) / rtt:.1f} round trips less with a raised window"


def play(played: Rounds, link: Link, query: Query, stores: Path) -> None:
    """Servers take turns within a round, so that all see the same machine."""
    where: Loopback = Loopback() if link.is_loopback else Wan(link)
    root = query.file.parent
    with where, servers.nginx(where, root) as nginx, servers.hither(where, root) as ours:
        chosen = [("nginx", nginx, STOCK_WINDOW), ("hither", ours, STOCK_WINDOW)]
        chosen += [("hither, raised window", ours, RAISED_WINDOW)] if link.letter == "G" else []
        total, played.count = played.count, 1
        for _ in range(total):
            for name, port, window in chosen:
                url = f"http://{where.server_host}:{port}/{query.file.name}"
                played.play(where, link.label, name, entrants(where, link, query, url, stores / name.replace(" ", ""), window))
        played.count = total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--links", default="ABCDEFG", help="default %(default)s")
    parser.add_argument("--output", type=Path, default=RESULTS / "server" / "talk_query")
    options = parser.parse_args()
    if not is_root():
        sys.exit("query: the links need root (network namespaces)")
    query = Query(talkfile.DEFAULT_OUTPUT, Path(), talkfile.ensure(talkfile.DEFAULT_OUTPUT))
    played = Rounds(options.runs, timeout=60)
    with interleaved.until_interrupted(), tempfile.TemporaryDirectory(prefix="hither-query-") as stores:
        for letter in options.links:
            play(played, LINKS[letter], query, Path(stores))
    notes = [
        f"`{query.facts['expression']}` where `{query.facts['cut']}`, as in `tables.md`, by `hither draw`: from a stock nginx, which takes 8 kB of",
        "ranges in a request, and from `hither serve`, which takes them all in one `QUERY` and answers in frames. The second process has",
        f"the store of the first. With a raised window the server sends {RAISED_WINDOW} segments at first instead of {STOCK_WINDOW} (`ip route change ... initcwnd`).",
    ]
    interleaved.write(played, options.output, "The talk's query from our server", notes, bounds(played), None)
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
