"""The talk's query from Python, links A to G: hither, uproot over hither, uproot, `hither draw`.

Each run is a process of its own without a store; imports are not counted. `uproot, local file` uses
no link, and shows uproot's own time; `wire` is the bytes of the query over one TCP connection,
nothing decoded. nginx and xrootd have stock settings. With `--protocol root` hither reads over
root://. Needs root, for the links.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.harness import interleaved
from bench.harness.access_log import Counter
from bench.harness.arguments import Arguments
from bench.harness.contenders import RAW, Addresses, Command, Contender, Query, Run, hither, peer, serving, uproot_read
from bench.harness.interleaved import Entrant, Rounds, target_line
from bench.harness.links import Link, ends_of
from bench.harness.paths import RESULTS, temporary_folder

DRAW, TREE, WIRE, LOCAL = "hither draw", "hither.open_tree", RAW.name, "uproot, local file"
SOURCE, FILESYSTEM, APART = (
    "uproot, hither.uproot.Source",
    "uproot, hither filesystem",
    "uproot, hither filesystem, gaps left out",
)
XROOTD, DEFAULT = "uproot, XRootDSource", "uproot, default http"
OVER_HITHER = (SOURCE, FILESYSTEM, APART)
DEFAULT_LINKS = "ABDEG"
"""Links on which uproot's default over http runs: on the others it takes more than 200 s."""


def arrays(protocol: str) -> Command:
    return lambda at, query: peer("draw.hither_arrays", at.http if protocol == "http" else at.root, query.warm_up)


def local(_: Addresses, query: Query) -> list[str]:
    return peer("draw.uproot_read", query.file, "default", query.warm_up)


OVER_HTTP = "hither.open_tree, http"


def contenders(protocol: str) -> list[Contender]:
    """All contenders; for root:// also hither's tree over http, but not the slow ones."""
    ours = [
        Contender(DRAW, hither(protocol=protocol)),
        Contender(TREE, arrays(protocol)),
        Contender(SOURCE, uproot_read(protocol, "hither")),
        Contender(APART, uproot_read(protocol, "hither filesystem, gaps left out")),
    ]
    if protocol == "http":
        ours += [
            Contender(FILESYSTEM, uproot_read("http", "hither filesystem")),
            Contender(DEFAULT, uproot_read("http", "default")),
        ]
    else:
        ours.append(Contender(OVER_HTTP, arrays("http")))
    return [*ours, Contender(XROOTD, uproot_read("root", "XRootDSource")), Contender(LOCAL, local), RAW]


def check(query: Query, counter: Counter, is_compared: bool, run: Run) -> str | None:
    """Compares the answer with ROOT's, and the reported number of requests with nginx's log."""
    told = run.requests
    run.requests = len(counter.requests()) or told
    if is_compared and told is not None and told != run.requests:
        return f"it reported {told} requests, and the server {run.requests}"
    return query.disagreement(run)


def entrants(chosen: list[Contender], at: Addresses, query: Query, log: Path) -> Iterator[Entrant]:
    counter = Counter(log, f"/{query.file.name}")
    for who in chosen:
        command = who.command(at, query)
        uses_nginx = command is not None and at.http in " ".join(map(str, command))
        is_compared = uses_nginx and who.name in {DRAW, TREE, OVER_HTTP, *OVER_HITHER}
        yield Entrant(who.name, command, partial(check, query, counter, is_compared), counter.start)


def reported(runs: list[Run], figure: str) -> float | None:
    values = sorted(run.report[figure] for run in runs if run.report.get(figure) is not None)
    return values[len(values) // 2] if values else None


def check_targets(played: Rounds, chosen: list[Link], needed: int) -> Iterator[str]:
    for link in chosen:
        for line in (*check_tree(played, link), *check_uproot(played, link, needed)):
            yield f"{link.label}: {line}"


def check_tree(played: Rounds, link: Link) -> Iterator[str]:
    """Targets of `open_tree`."""
    names = (DRAW, TREE, OVER_HTTP, XROOTD, DEFAULT)
    draw, tree, over_http, *peers = (played.median(link.label, "", name) for name in names)
    if not tree:
        return
    what = f"{TREE} {tree:.3f} s"
    if draw:
        maximum = 1.1 * draw + 0.03
        yield target_line(f"{what}, at most {maximum:.3f} s (1.1 x draw + 30 ms)", tree <= maximum)
    if over_http:
        yield target_line(f"{what}, over http {over_http:.3f} s", tree <= 1.05 * over_http)
    if taken := [(seconds, name) for seconds, name in zip(peers, names[3:], strict=True) if seconds]:
        seconds, best = min(taken)
        yield target_line(f"{what}, the best peer ({best}) {seconds:.3f} s", tree < seconds)


def check_uproot(played: Rounds, link: Link, needed: int) -> Iterator[str]:
    """Targets of uproot over hither."""
    at = link.label
    wire, local, alone = (played.median(at, "", name) for name in (WIRE, LOCAL, XROOTD))
    for name in OVER_HITHER:
        taken, runs = played.median(at, "", name), played.select(at, "", name)
        payload, trips = reported(runs, "bytes_payload"), reported(runs, "round_trips")
        if not taken or payload is None or trips is None:
            continue
        if wire and local:
            maximum = wire + 1.1 * local
            what = f"{name} {taken:.3f} s, at most {maximum:.3f} s (wire + 1.1 x local)"
            yield target_line(what, taken <= maximum)
        what = f"{name} {payload / needed:.3f} x the bytes needed, at most 1.1"
        yield target_line(what, payload <= 1.1 * needed)
        if link.mbit is None and not link.is_loopback:
            yield target_line(f"{name} {trips:.0f} round trips, at most 4", trips <= 4)
        if link.letter == "G" and alone:
            what = f"{name} {alone / taken:.2f} x faster than {XROOTD}, at least 1.5"
            yield target_line(what, alone >= 1.5 * taken)


def main() -> int:
    parser = Arguments(
        __doc__, "python_api/arrays", quick="one run each, links E and G only", links="ABCDEFG", quick_links="EG"
    )
    parser.add_argument("--only", default="", help="parts of contenders' names, comma separated")
    parser.add_argument("--protocol", choices=("http", "root"), default="http", help="of hither (default %(default)s)")
    parser.set_defaults(output=None)
    options = parser.parse()
    name = "arrays" if options.protocol == "http" else f"arrays-{options.protocol}"
    query = Query.of_the_talk()
    played = Rounds(options.runs)
    with interleaved.until_interrupted(), temporary_folder() as folder:
        folder.chmod(0o755)
        for link in options.links:
            wanted = [
                who for who in contenders(options.protocol) if any(part in who.name for part in options.only.split(","))
            ]
            chosen = [who for who in wanted if who.name != DEFAULT or link.letter in DEFAULT_LINKS]
            log = folder / f"{link.letter}.log"
            with ends_of(link) as where, serving(where, query.file, log) as at:
                played.play(where, link.label, "", list(entrants(chosen, at, query, log)))
    notes = [
        f"{query}; {query.needed_bytes / 1e6:.2f} MB with the tree's description. From opening the URL to the result, cold,",
        "imports not counted (they are in CPU). Requests as the server's log counts them, round trips (requests that wait for",
        "a response) and bytes as the link counts them. `uproot, default http` is left out on C and F, where it was killed",
        "after 200 s in an earlier session. If the rate is the limit, requests follow each other without a wait, so the target",
        "for round trips holds at 240 ms, unlimited.",
    ]
    title = "The talk's query from Python" + (" over root://" if options.protocol == "root" else "")
    targets = check_targets(played, options.links, query.needed_bytes)
    return interleaved.write(played, options.output or RESULTS / "python_api" / name, title, notes, targets, WIRE)


if __name__ == "__main__":
    sys.exit(main())
