"""The talk's query from Python, links A to G: hither's trees, uproot over hither, uproot on its own, `hither draw` beside them.

Everybody starts cold, in a process of its own, without a store; imports are not counted. `uproot, local file` has no link
in it, and says what uproot itself takes; `wire` is the bytes of the query over one TCP connection, nothing decoded. nginx
and xrootd with stock settings. With `--protocol root` hither reads over root://. Needs root, for the links.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.generators import talkfile
from bench.harness import access_log, interleaved, servers
from bench.harness.contenders import RAW, Addresses, Contender, Query, Run, disagreement, hither, peer, uproot_read
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import LINKS, Link, Loopback, Wan, is_root
from bench.harness.paths import RESULTS

DRAW, TREE, WIRE, NEAR = "hither draw", "hither.open_tree", RAW.name, "uproot, local file"
SOURCE, FILESYSTEM, APART = "uproot, hither.uproot.Source", "uproot, hither filesystem", "uproot, hither filesystem, gaps left out"
XROOTD, DEFAULT = "uproot, XRootDSource", "uproot, default http"
OVER_HITHER = (SOURCE, FILESYSTEM, APART)
PATIENCE = "ABDEG"
"""Links on which uproot's default over http is waited for: on the others it takes more than 200 s."""


def arrays(protocol: str) -> Callable[[Addresses, Query], list[str]]:
    def command(at: Addresses, query: Query) -> list[str]:
        url = at.http if protocol == "http" else at.root
        return peer("draw.hither_arrays", url, str(query.warm_up))

    return command


def near(_: Addresses, query: Query) -> list[str]:
    return peer("draw.uproot_read", str(query.file), "default", str(query.warm_up))


OVER_HTTP = "hither.open_tree, http"


def contenders(protocol: str) -> list[Contender]:
    """With hither over `protocol`; over root:// also its tree over http, and without what is slow over either."""
    ours = [
        Contender(DRAW, hither(protocol=protocol)),
        Contender(TREE, arrays(protocol)),
        Contender(SOURCE, uproot_read(protocol, "hither")),
        Contender(APART, uproot_read(protocol, "hither filesystem, gaps left out")),
    ]
    if protocol == "http":
        ours += [Contender(FILESYSTEM, uproot_read("http", "hither filesystem")), Contender(DEFAULT, uproot_read("http", "default"))]
    else:
        ours.append(Contender(OVER_HTTP, arrays("http")))
    return [*ours, Contender(XROOTD, uproot_read("root", "XRootDSource")), Contender(NEAR, near), RAW]


class Witness:
    """Counts what the server logged for each run, and compares it with what the program says it asked."""

    def __init__(self, log: Path, query: Query):
        self.log, self.query, self.before = log, query, 0

    def count(self) -> int:
        return len(access_log.read(self.log, f"/{self.query.file.name}"))

    def begin(self) -> None:
        self.before = self.count()

    def check(self, counted: bool, run: Run) -> str | None:
        told = run.requests
        run.requests = self.count() - self.before or told
        if counted and told is not None and told != run.requests:
            return f"it told of {told} requests, and the server of {run.requests}"
        return disagreement(run, self.query.facts)


def entrants(chosen: list[Contender], at: Addresses, query: Query, log: Path) -> list[Entrant]:
    witness = Witness(log, query)
    commands = [(who, who.command(at, query)) for who in chosen]
    # Only nginx keeps count.
    counted = {who.name for who, command in commands if command and at.http in " ".join(command)} & {DRAW, TREE, OVER_HTTP, *OVER_HITHER}
    return [Entrant(who.name, command, partial(witness.check, who.name in counted), witness.begin) for who, command in commands if command]


def reported(runs: list[Run], figure: str) -> float | None:
    values = sorted(run.report[figure] for run in runs if run.report.get(figure) is not None)
    return values[len(values) // 2] if values else None


def kept(sentence: str, is_kept: bool) -> str:
    return f"{sentence}: {'kept' if is_kept else 'MISSED'}"


def verdicts(played: Rounds, chosen: list[Link], facts: dict) -> Iterator[str]:
    """What the package must do, and what came out."""
    needed = facts["query_bytes"] + facts["tree_bytes"]
    for link in chosen:
        at = link.label

        def seconds(name: str, label: str = at) -> float | None:
            return played.median(label, "", name)

        draw, tree, wire, local = (seconds(name) for name in (DRAW, TREE, WIRE, NEAR))
        if draw and tree:
            most = 1.1 * draw + 0.03
            yield kept(f"{at}: {TREE} {tree:.3f} s, at most {most:.3f} s (1.1 x draw + 30 ms)", tree <= most)
        peers = {name: taken for name in (XROOTD, DEFAULT) if (taken := seconds(name))}
        if tree and (other := seconds(OVER_HTTP)):
            yield kept(f"{at}: {TREE} {tree:.3f} s, over http {other:.3f} s", tree <= 1.05 * other)
        if tree and peers:
            best = min(peers, key=peers.__getitem__)
            yield kept(f"{at}: {TREE} {tree:.3f} s, the best peer ({best}) {peers[best]:.3f} s", tree < peers[best])
        for name in OVER_HITHER:
            taken = seconds(name)
            runs = played.select(at, "", name)
            payload, trips = reported(runs, "bytes_payload"), reported(runs, "round_trips")
            if not taken or payload is None or trips is None:
                continue
            if wire and local:
                most = wire + 1.1 * local
                yield kept(f"{at}: {name} {taken:.3f} s, at most {most:.3f} s (wire + 1.1 x local)", taken <= most)
            yield kept(f"{at}: {name} {payload / needed:.3f} x the bytes needed, at most 1.1", payload <= 1.1 * needed)
            if link.mbit is None and not link.is_loopback:
                yield kept(f"{at}: {name} {trips:.0f} round trips, at most 4", trips <= 4)
            if link.letter == "G" and (other := seconds(XROOTD)):
                yield kept(f"{at}: {name} {other / taken:.2f} x faster than {XROOTD}, at least 1.5", other >= 1.5 * taken)


def play(link: Link, played: Rounds, query: Query, folder: Path, chosen: list[Contender]) -> None:
    where: Loopback = Loopback() if link.is_loopback else Wan(link)
    log = folder / f"{link.letter}.log"
    with where, servers.nginx(where, query.file.parent, log) as http, servers.xrootd(where, query.file.parent) as xrootd, servers.raw(where) as raw:
        host = where.server_host
        url = f"http://{host}:{http}/{query.file.name}"
        at = Addresses(url, url, f"root://{host}:{xrootd}//{query.file.name}", host, raw)
        played.play(where, link.label, "", entrants(chosen, at, query, log))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--links", default="ABCDEFG" if is_root() else "A", help="letters, default %(default)s")
    parser.add_argument("--quick", action="store_true", help="one run each, links E and G only")
    parser.add_argument("--only", default="", help="parts of names of those that take part, comma separated")
    parser.add_argument("--protocol", choices=("http", "root"), default="http", help="of hither, default %(default)s")
    parser.add_argument("--output", type=Path, help="default bench/results/python, or python-root")
    options = parser.parse_args()
    output = options.output or RESULTS / "python_api" / ("arrays" if options.protocol == "http" else "arrays-root")
    letters = "EG" if options.quick else options.links
    facts = talkfile.ensure()
    warm_up = talkfile.DEFAULT_OUTPUT.with_name("warm.root")
    talkfile.ensure(warm_up, events=500)
    query = Query(talkfile.DEFAULT_OUTPUT.resolve(), warm_up, facts)
    chosen = [LINKS[letter] for letter in letters]
    played = Rounds(1 if options.quick else options.runs)
    with interleaved.until_interrupted(), tempfile.TemporaryDirectory(prefix="hither-python-") as folder:
        Path(folder).chmod(0o755)
        for link in chosen:

            def out(who: Contender, letter: str = link.letter) -> bool:
                unasked = options.only and not any(part in who.name for part in options.only.split(","))
                return bool(unasked) or (who.name == DEFAULT and letter not in PATIENCE)

            play(link, played, query, Path(folder), [who for who in contenders(options.protocol) if not out(who)])
    notes = [
        f"`{facts['expression']}` where `{facts['cut']}`: {(facts['query_bytes'] + facts['tree_bytes']) / 1e6:.2f} MB needed of {facts['bytes'] / 1e6:.0f} MB. From opening the",
        "URL to the result, cold, imports not counted (they are in CPU). Requests by the server's log, flights (requests that",
        "wait for an answer) and bytes by the link's own count. `uproot, default http` is left out on C and F, where it was",
        "killed after 200 s in an earlier session. Where the rate decides, one request follows the other without a wait: round",
        "trips are judged at 240 ms, unlimited. Client, server and link share two cores, cubic, medians.",
    ]
    title = "The talk's query from Python" + (" over root://" if options.protocol == "root" else "")
    interleaved.write(played, output, title, notes, verdicts(played, chosen, facts), WIRE)
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
