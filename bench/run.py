"""hither side by side with its peers: the talk's query, over the talk's links, in one session.

Runs are interleaved (every contender once, then every contender again), so a machine that grows slow grows slow for
all; medians are printed. A run that takes longer than --timeout is killed, noted as such, and not repeated. Needs root
(hither-wan) for every link but A. Tables and plots go to bench/results/.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.generators import talkfile
from bench.harness import plots, servers, tables
from bench.harness.contenders import (
    PEERS_OF_HITHER,
    RAW,
    Addresses,
    Contender,
    Query,
    Run,
    contest,
    disagreement,
    hither,
    raw,
)
from bench.harness.links import LINKS, Link, Loopback, Wan, is_root
from bench.harness.paths import HITHER, RESULTS

CURVE = (1, 2, 4, 8, 16, 32, 64)


def progress(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


class Session:
    """One bench: what was run so far, and how to run more."""

    def __init__(self, query: Query, runs: int, timeout: float):
        self.query = query
        self.runs = runs
        self.timeout = timeout
        self.results: list[Run] = []
        self.wrong: list[str] = []

    def once(self, where: Loopback, at: Addresses, link: str, congestion: str, who: Contender, number: int) -> Run:
        run = Run(link, congestion, who.name, number)
        command = who.command(at, self.query)
        if command is None:
            run.failure = "cannot take part: its server is not installed"
            return run
        contest(where, command, run, self.timeout)
        if wrong := disagreement(run, self.query.facts):
            self.wrong.append(wrong)
            progress(f"WRONG ANSWER: {wrong}")
        return run

    def link(self, link: Link, congestion: str, contenders: Sequence[Contender]) -> None:
        """All contenders on one link, interleaved."""
        where: Loopback = Loopback() if link.is_loopback else Wan(link, congestion)
        with where, serving(where, self.query) as at:
            out: set[str] = set()
            for number in range(self.runs):
                # Another first one each time: whoever follows a heavy run does not always follow the same.
                turn = number % len(contenders)
                for who in [*contenders[turn:], *contenders[:turn]]:
                    if who.name in out:
                        continue
                    run = self.once(where, at, link.letter, congestion, who, number)
                    self.results.append(run)
                    if run.late or run.failure:
                        out.add(who.name)
                    progress(f"{link.letter} {congestion:5} {who.name:38} {tables.outcome(run)}")

    def second_process(self, link: Link, congestion: str, connections: int | None) -> None:
        """hither once with an empty store, then again with the store that the first one left."""
        where: Loopback = Loopback() if link.is_loopback else Wan(link, congestion)
        with where, serving(where, self.query) as at:
            for number in range(self.runs):
                with tempfile.TemporaryDirectory(prefix="hither-store-") as store:
                    for which in ("first", "second"):
                        name = f"hither {which} process" + (f" {connections}" if connections else "")
                        who = Contender(name, hither(connections, Path(store)))
                        run = self.once(where, at, link.letter, congestion, who, number)
                        self.results.append(run)
                        progress(f"{link.letter} {congestion:5} {name:38} {tables.outcome(run)}")


class serving:
    """nginx, xrootd (where it is installed) and the raw socket at one place, for the length of a block."""

    def __init__(self, where: Loopback, query: Query):
        self.where = where
        self.query = query
        self.open: list = []

    def __enter__(self) -> Addresses:
        where, file = self.where, self.query.file
        http = self.start(servers.nginx(where, file.parent))
        raised = self.start(servers.nginx(where, file.parent, limits="large_client_header_buffers 8 512k;"))
        xrd = self.start(servers.xrootd(where, file.parent)) if servers.program("xrootd") else None
        raw_port = self.start(servers.raw(where))
        host = where.server_host
        return Addresses(
            http=f"http://{host}:{http}/{file.name}",
            http_raised=f"http://{host}:{raised}/{file.name}",
            root=f"root://{host}:{xrd}//{file.name}" if xrd else None,
            raw_host=host,
            raw_port=raw_port,
        )

    def start(self, server) -> int:
        port = server.__enter__()
        self.open.append(server)
        return port

    def __exit__(self, *error) -> None:
        while self.open:
            self.open.pop().__exit__(*error)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="runs of each contender on each link (default 3)")
    parser.add_argument("--links", default="ABCDEFG", help="letters of the talk's links (default all)")
    parser.add_argument("--peers", default="all", help="parts of peers' names, comma separated; `none` for hither and raw only")
    parser.add_argument("--quick", action="store_true", help="one run each, no curve, no bbr")
    parser.add_argument("--no-curve", action="store_true", help="leave out time against connections")
    parser.add_argument("--native", action="store_true", help="hither over root:// and http beside who reads over root://, and no more; writes native.*")
    parser.add_argument("--timeout", type=float, default=120, help="seconds after which a run is killed (default 120)")
    parser.add_argument("--output", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.runs, chosen.no_curve = 1, True
    unknown = set(chosen.links) - set(LINKS)
    if unknown:
        parser.error(f"no link called {', '.join(sorted(unknown))}: they are A to G")
    return chosen


def main() -> int:
    # Asked to end, end as with Ctrl-C: what was started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = arguments()
    if not is_root() and chosen.links != "A":
        sys.exit("bench: links B to G need root (network namespaces); without it: --links A, or make demo")
    data = talkfile.DEFAULT_OUTPUT
    facts = talkfile.ensure(data)
    warm_up = data.with_name("warm.root")
    talkfile.ensure(warm_up, events=500)
    session = Session(Query(data, warm_up, facts), chosen.runs, chosen.timeout)

    if chosen.peers == "none":
        peers = []
    else:
        wanted = chosen.peers.split(",")
        peers = [p for p in PEERS_OF_HITHER if chosen.peers == "all" or any(part in p.name for part in wanted)]
    ours = [Contender("hither", hither()), Contender("hither root://", hither(protocol="root"))] if HITHER.exists() else []
    if not ours:
        progress(f"{HITHER} is not built: peers only")
    started = time.monotonic()
    try:
        for letter in chosen.links:
            link = LINKS[letter]
            if chosen.native:
                session.link(link, "cubic", [*ours, RAW, *(p for p in peers if p.name in tables.NATIVE_PEERS)])
                continue
            extra = [Contender(f"hither {n}", hither(n)) for n in (16, 64) if letter == "G" and ours]
            session.link(link, "cubic", [*ours, *extra, RAW, *peers])
            if letter == "G" and not chosen.quick:
                session.link(link, "bbr", [*ours, *extra, RAW, *peers])
            if ours:
                session.second_process(link, "cubic", 64 if letter == "G" else None)
        if "G" in chosen.links and not chosen.no_curve and not chosen.native:
            floor = [Contender(f"raw @{n}", raw(n), answers=False) for n in CURVE]
            curve = [Contender(f"hither @{n}", hither(n)) for n in CURVE] if ours else []
            for congestion in ("cubic", "bbr"):
                session.link(LINKS["G"], congestion, [*curve, *floor])
    except KeyboardInterrupt:
        progress("interrupted: writing what there is")
    seconds = time.monotonic() - started

    chosen.output.mkdir(parents=True, exist_ok=True)
    name = "native" if chosen.native else "tables"
    tables.write(chosen.output, session.results, session.query, seconds, name)
    if not chosen.native:
        plots.write(chosen.output, session.results)
    print((chosen.output / f"{name}.md").read_text())
    progress(f"{len(session.results)} runs in {seconds / 60:.1f} minutes; tables and plots are in {chosen.output}")
    for wrong in session.wrong:
        progress(f"WRONG ANSWER: {wrong}")
    return 1 if session.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
