"""The talk's query while its server is killed, with a second one that has the same file.

nginx is killed (SIGKILL) after a third and after two thirds of the time that an undisturbed run takes. The disturbed run
may end at most three round trips later, and as long as the bytes take that had to be fetched twice: those that the link
carried more than in an undisturbed run. Needs root, for the links.
"""

import argparse
import statistics
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.generators import talkfile
from bench.harness import access_log, interleaved, servers, tables
from bench.harness.contenders import Run, contest, disagreement
from bench.harness.interleaved import Rounds, say
from bench.harness.links import LINKS, Link, Wan, is_root
from bench.harness.paths import HITHER, RESULTS

MOMENTS = {"one third": 1 / 3, "two thirds": 2 / 3}
UNDISTURBED = "undisturbed"


@dataclass
class Bench:
    """One link: the query, and what it took when nothing happened."""

    where: Wan
    link: Link
    facts: dict
    file: Path
    log: Path

    def command(self, first: int, second: int) -> list[str]:
        host, facts = self.where.server_host, self.facts
        url = f"http://{host}:{first}/{self.file.name}:{facts['tree']}"
        replica = f"http://{host}:{second}/{self.file.name}"
        query = ["draw", url, facts["expression"], "--where", facts["cut"], "--replica", replica]
        return [str(HITHER), *query, "--no-store", "--json"]

    def run(self, played: Rounds, name: str, number: int, kill_after: float | None) -> tuple[Run, int]:
        """One run with fresh servers; tells what it took, and how many bytes the second server sent."""
        self.log.unlink(missing_ok=True)
        with ExitStack() as stack:
            first = stack.enter_context(servers.nginx(self.where, self.file.parent))
            second = stack.enter_context(servers.nginx(self.where, self.file.parent, self.log))
            run = Run(self.link.label, "cubic", name, number)
            killer = threading.Timer(kill_after, servers.kill, [first]) if kill_after is not None else None
            if killer:
                killer.start()
            contest(self.where, self.command(first, second), run, played.timeout)
            if killer:
                killer.cancel()
            if not (run.failure or run.late) and (wrong := disagreement(run, self.facts)):
                run.failure = wrong
                played.wrong.append(wrong)
            sent = sum(request.bytes_sent for request in access_log.read(self.log, f"/{self.file.name}"))
        say(f"{self.link.label:20} {name:12} {tables.outcome(run)}, {sent / 1e6:.2f} MB from the second server")
        played.runs.append(run)
        return run, sent


def on(link: Link, played: Rounds, facts: dict, folder: Path) -> list[str]:
    """All runs on one link; the verdicts."""
    verdicts = []
    with Wan(link) as where:
        bench = Bench(where, link, facts, talkfile.DEFAULT_OUTPUT, folder / "second.log")
        calm = [bench.run(played, UNDISTURBED, number, None)[0] for number in range(played.count)]
        seconds = statistics.median(run.seconds for run in calm)
        carried = statistics.median(run.received_mb for run in calm)
        # Entering the namespace and starting the process come before the query.
        lead = statistics.median(run.wall - run.seconds for run in calm)
        for name, share in MOMENTS.items():
            killed = [bench.run(played, f"killed at {name}", number, lead + share * seconds) for number in range(played.count)]
            hit = [run for run, sent in killed if run.seconds is not None and sent > 0]
            if not hit:
                verdicts.append(f"{link.label}, killed at {name}: no run was hit")
                continue
            late = statistics.median(run.seconds for run in hit) - seconds
            twice = max(0.0, statistics.median(run.received_mb for run in hit) - carried)
            trips = (late - (twice * 8 / link.mbit if link.mbit else 0)) * 1e3 / link.rtt_ms
            verdicts.append(
                f"{link.label}, killed at {name}: {late * 1e3:+.0f} ms, {twice:.2f} MB fetched twice; without those "
                f"{trips:.1f} round trips, at most 3: {'kept' if trips <= 3 else 'MISSED'}"
            )
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--links", default="DEG", help="letters, default %(default)s")
    parser.add_argument("--quick", action="store_true", help="one run each, link G only")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "failover")
    options = parser.parse_args()
    if not is_root():
        sys.exit("failover: the links need root (network namespaces)")
    facts = talkfile.ensure()
    played = Rounds(1 if options.quick else options.runs)
    with tempfile.TemporaryDirectory(prefix="hither-failover-") as folder:
        verdicts = [
            verdict
            for letter in ("G" if options.quick else options.links)
            for verdict in on(LINKS[letter], played, facts, Path(folder))
        ]
    notes = [
        f"`{facts['expression']}` where `{facts['cut']}`, {facts['query_bytes'] / 1e6:.2f} MB of {facts['bytes'] / 1e6:.0f} MB; two nginx at the same distance, the first",
        "one killed in mid-query. Client, servers and link share two cores, cubic, medians.",
    ]
    interleaved.write(played, options.output, "A server killed in mid-query", notes, verdicts, UNDISTURBED)
    return 1 if played.wrong or any(run.failure for run in played.runs) else 0


if __name__ == "__main__":
    sys.exit(main())
