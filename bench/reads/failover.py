"""The talk's query while its server is killed, with a second server that has the same file.

nginx is killed (SIGKILL) after a third and after two thirds of the time of an undisturbed run. The
disturbed run may end at most three round trips later, plus the time for the bytes that had to be
fetched twice: those that the link carried more than in an undisturbed run. Needs root, for the
links.
"""

import statistics
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.harness import access_log, interleaved, servers, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import Query, Run, measure
from bench.harness.interleaved import Rounds, say, target_line
from bench.harness.links import Link, Wan
from bench.harness.paths import temporary_folder

MOMENTS = {"one third": 1 / 3, "two thirds": 2 / 3}
UNDISTURBED = "undisturbed"


@dataclass
class Bench:
    """The query on one link."""

    where: Wan
    link: Link
    query: Query
    log: Path

    def run(self, played: Rounds, name: str, number: int, kill_after: float | None) -> tuple[Run, int]:
        """One run with new servers, and the bytes that the second server sent."""
        self.log.unlink(missing_ok=True)
        file = self.query.file
        with ExitStack() as stack:
            first = stack.enter_context(servers.nginx(self.where, file.parent))
            second = stack.enter_context(servers.nginx(self.where, file.parent, self.log))
            url, replica = (f"http://{self.where.server_host}:{port}/{file.name}" for port in (first, second))
            run = Run(self.link.label, "cubic", name, number)
            killer = threading.Timer(kill_after, servers.kill, [first]) if kill_after is not None else None
            if killer:
                killer.start()
            measure(self.where, self.query.draw(url, "--replica", replica, "--no-store"), run, played.timeout)
            if killer:
                killer.cancel()
            if run.is_good and (wrong := self.query.disagreement(run)):
                run.failure = wrong
                played.wrong.append(wrong)
            sent = sum(request.bytes_sent for request in access_log.read(self.log, f"/{file.name}"))
        say(f"{self.link.label:20} {name:12} {tables.outcome(run)}, {sent / 1e6:.2f} MB from the second server")
        played.runs.append(run)
        return run, sent

    def check_targets(self, played: Rounds) -> list[str]:
        """All runs on the link, and the targets."""
        targets = []
        calm = [self.run(played, UNDISTURBED, number, None)[0] for number in range(played.count)]
        seconds = statistics.median(run.seconds for run in calm)
        carried = statistics.median(run.received_mb for run in calm)
        # Entering the namespace and starting the process come before the query.
        lead = statistics.median(run.wall - run.seconds for run in calm)
        for moment, share in MOMENTS.items():
            name = f"killed at {moment}"
            killed = [self.run(played, name, number, lead + share * seconds) for number in range(played.count)]
            hit = [run for run, sent in killed if run.seconds is not None and sent > 0]
            if not hit:
                targets.append(f"{self.link.label}, {name}: no run was disturbed")
                continue
            late = statistics.median(run.seconds for run in hit) - seconds
            twice = max(0.0, statistics.median(run.received_mb for run in hit) - carried)
            trips = (late - (twice * 8 / self.link.mbit if self.link.mbit else 0)) * 1e3 / self.link.rtt_ms
            what = (
                f"{late * 1e3:+.0f} ms, {twice:.2f} MB fetched twice; without those {trips:.1f} round trips, at most 3"
            )
            targets.append(target_line(f"{self.link.label}, {name}: {what}", trips <= 3))
        return targets


def main() -> int:
    parser = Arguments(__doc__, "reads/failover", quick="one run each, link G only", links="DEG", quick_links="G")
    options = parser.parse()
    query = Query.of_the_talk()
    played = Rounds(options.runs)
    targets = []
    with temporary_folder() as folder:
        for link in options.links:
            with Wan(link) as where:
                targets += Bench(where, link, query, folder / "second.log").check_targets(played)
    notes = [f"{query}; two nginx at the same distance, of which the first", "is killed during the query."]
    code = interleaved.write(played, options.output, "A server killed during a query", notes, targets, UNDISTURBED)
    return code or int(any(run.failure for run in played.runs))


if __name__ == "__main__":
    sys.exit(main())
