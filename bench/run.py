"""hither side by side with its peers: the talk's query, over the talk's links, in one session.

Runs are interleaved (each contender once, then each contender again), so a machine that becomes
slower does so for all; medians are printed. A run that takes longer than --timeout is killed,
noted, and not repeated. Needs root (hither-wan) for every link but A. Tables and plots go to
bench/results/.
"""

import argparse
import sys
import time

from bench.harness import plots, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import PEERS_OF_HITHER, RAW, Contender, Query, hither, raw, serving
from bench.harness.interleaved import Rounds, entrants, say, until_interrupted
from bench.harness.links import LINKS, Link, ends_of
from bench.harness.paths import HITHER, temporary_folder

CURVE = (1, 2, 4, 8, 16, 32, 64)


def play(played: Rounds, query: Query, link: Link, contenders: list[Contender], congestion: str = "cubic") -> None:
    """All contenders on one link."""
    where = ends_of(link, congestion)
    with where, serving(where, query.file) as at:
        played.play(where, link.letter, "", entrants(contenders, at, query))


def play_second_process(played: Rounds, query: Query, link: Link) -> None:
    """Two processes of hither: with an empty store, then with the store of the first."""
    where = ends_of(link)
    connections = 64 if link.letter == "G" else None
    limit = ("--max-connections", connections) if connections else ()
    with where, serving(where, query.file) as at:
        for number in range(played.count):
            with temporary_folder() as store:
                command = hither(*limit, "--store", store)
                names = [
                    f"hither {which} process" + (f" {connections}" if connections else "")
                    for which in ("first", "second")
                ]
                both = entrants([Contender(name, command) for name in names], at, query)
                played.round(where, link.letter, "", both, number)


def arguments() -> argparse.Namespace:
    parser = Arguments(__doc__, "run", output="", quick="one run each, no curve, no bbr", links="ABCDEFG")
    parser.add_argument(
        "--peers", default="all", help="parts of peers' names, comma separated; `none`: only hither and raw"
    )
    parser.add_argument("--no-curve", action="store_true", help="leave out time against connections")
    parser.add_argument(
        "--native", action="store_true", help="only hither, over root:// and http, and root:// peers; writes native.*"
    )
    parser.add_argument("--timeout", type=float, default=120, help="seconds after which a run is killed (default 120)")
    return parser.parse()


def main() -> int:
    chosen = arguments()
    query = Query.of_the_talk()
    played = Rounds(chosen.runs, chosen.timeout)
    if not HITHER.exists():
        say(f"{HITHER} is not built: peers only")
    ours = (
        [Contender("hither", hither()), Contender("hither root://", hither(protocol="root"))] if HITHER.exists() else []
    )
    wanted = {"all": [""], "none": []}.get(chosen.peers, chosen.peers.split(","))
    peers = [peer for peer in PEERS_OF_HITHER if any(part in peer.name for part in wanted)]
    started = time.monotonic()
    with until_interrupted():
        for link in chosen.links:
            if chosen.native:
                play(played, query, link, [*ours, RAW, *(peer for peer in peers if peer.name in tables.NATIVE_PEERS)])
                continue
            extra = [
                Contender(f"hither {n}", hither("--max-connections", n))
                for n in (16, 64)
                if link.letter == "G" and ours
            ]
            play(played, query, link, [*ours, *extra, RAW, *peers])
            if link.letter == "G" and not chosen.quick:
                play(played, query, link, [*ours, *extra, RAW, *peers], "bbr")
            if ours:
                play_second_process(played, query, link)
        if LINKS["G"] in chosen.links and not (chosen.no_curve or chosen.quick or chosen.native):
            floor = [Contender(f"raw @{n}", raw(n)) for n in CURVE]
            curve = [Contender(f"hither @{n}", hither("--max-connections", n)) for n in CURVE] if ours else []
            for congestion in ("cubic", "bbr"):
                play(played, query, LINKS["G"], [*curve, *floor], congestion)
    seconds = time.monotonic() - started

    tables.write(chosen.output, played.runs, query, seconds, "native" if chosen.native else "tables")
    if not chosen.native:
        plots.write(chosen.output, played.runs)
    say(f"{len(played.runs)} runs in {seconds / 60:.1f} minutes; tables and plots are in {chosen.output}")
    for wrong in played.wrong:
        say(f"WRONG ANSWER: {wrong}")
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
