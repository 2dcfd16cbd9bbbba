"""Programs that read bytes, written for local disks, beside a query that knows all its ranges.

Three programs, each of which waits for a read before it makes the next:

- *baskets*: the baskets of the talk's query in the order of the entries, 4,880 single reads, at 240
  ms; the first time, the second time, and by read-ahead alone, without knowledge of trees. Beside
  them `hither draw`, cold and warm.
- *steps*: seven branches in twenty steps of entries at 150 ms; each step is one vector read,
  followed by a pause as long as uproot's decoding of it (measured before, on the local file). That
  consumes 3.4 MB in a round trip. A new connection brings ten segments in the first one and twice
  as many in the second (RFC 6928), 64 of them 0.9 and 1.9 MB: so where no connection is warm, no
  client with 64 of them has the second step before 118 ms have passed.
- *cursors*: eight readers in eight parts of the file that take turns, 64 KiB at a time, 25 MB/s in
  total.

Needs root, for the links.
"""

import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from functools import partial

from bench.harness import interleaved, servers
from bench.harness.arguments import Arguments
from bench.harness.contenders import Query, Run
from bench.harness.interleaved import Entrant, Rounds, target_line
from bench.harness.links import Link, Wan
from bench.harness.paths import temporary_folder
from bench.harness.ranges import Ranges, RangesJob

FAR = Link("P", 240, 250, "by way of Caltech")
STEPWISE = Link("Q", 150, 1000, "another continent")
NEAR = Link("R", 22, 1000, "Amsterdam")
STEPS = 20
BRANCHES = ("rawtr", "E33")
MORE_BRANCHES = 5
CURSORS, CURSOR_BYTES, CURSOR_TOTAL = 8, 64 << 10, 100 << 20
CACHE_MIB = 64
"""The cache while readers take turns: less than what they read."""


def baskets(tree, branch: str) -> list[tuple[int, int, int]]:
    """(first entry, offset, bytes) of each basket."""
    count = tree[branch].member("fWriteBasket")
    tables = (tree[branch].member(name)[:count].tolist() for name in ("fBasketEntry", "fBasketSeek", "fBasketBytes"))
    return list(zip(*tables, strict=True))


def basket_groups(tree) -> list[Ranges]:
    found = sorted(basket for branch in BRANCHES for basket in baskets(tree, branch))
    return [[(offset, length) for _, offset, length in found]]


def step_groups(tree, branches: list[str]) -> list[Ranges]:
    """The baskets of each step: those whose first entry lies in it."""
    length = -(-tree.num_entries // STEPS)
    steps: list[Ranges] = [[] for _ in range(STEPS)]
    for branch in branches:
        for entry, offset, size in baskets(tree, branch):
            steps[entry // length].append((offset, size))
    return [sorted(step) for step in steps]


def cursor_groups(size: int) -> list[Ranges]:
    """Eight readers, each in its own part of the file."""
    part = size // CURSORS
    turns = CURSOR_TOTAL // CURSORS // CURSOR_BYTES
    reads = [(cursor * part + turn * CURSOR_BYTES, CURSOR_BYTES) for turn in range(turns) for cursor in range(CURSORS)]
    return [reads[turn * CURSORS : (turn + 1) * CURSORS] for turn in range(turns)]


def decode_seconds(tree, branches: list[str]) -> float:
    """Uproot's time for a step of a local file, the median of all steps."""
    length = -(-tree.num_entries // STEPS)
    seconds = []
    for first in range(0, tree.num_entries, length):
        started = time.monotonic()
        tree.arrays(branches, entry_start=first, entry_stop=first + length, library="np")
        seconds.append(time.monotonic() - started)
    return statistics.median(seconds)


def longest_wait(runs: list[Run]) -> float:
    """Seconds of the longest wait of any step but the first, the median over the runs."""
    waits = [[seconds for step, seconds in run.report["waits"] if step > 0] for run in runs]
    return statistics.median([max(found, default=0.0) for found in waits])


def check_targets(played: Rounds, job: RangesJob, decode: float, facts: dict) -> Iterator[str]:
    far, stepwise, near = FAR.label, STEPWISE.label, NEAR.label
    for name, beside, maximum in (("baskets", "draw", 6), ("baskets, second time", "draw, second time", 3)):
        yield interleaved.ratio_line(f"{far}: {name} beside {beside}", played.ratio(far, "", name, beside), 1.3)
        trips = played.median(far, "", name, "round_trips")
        if trips is not None:
            yield target_line(
                f"{far}: {name}: {trips:.0f} round trips counted in the link, at most {maximum}", trips <= maximum
            )
    for name in ("steps", "steps, second time"):
        runs = [run for run in played.select(stepwise, "", name) if run.report]
        if not runs:
            continue
        longest = longest_wait(runs)
        what = f"{stepwise}: {name}: the longest wait after the first step is {longest * 1e3:.0f} ms"
        yield target_line(f"{what}, at most the {decode * 1e3:.0f} ms of decoding a step", longest <= decode)
        extra = facts["tree_bytes"] if name == "steps" else 0
        fetched = statistics.median([run.report["bytes_payload"] for run in runs]) - extra
        what = f"{stepwise}: {name}: bytes fetched, without the tree's, of those needed"
        yield interleaved.ratio_line(what, fetched / job.bytes, 1.1)
    peak = played.median(near, "", "cursors", "peak_mb")
    if peak is not None:
        what = f"{near}: cursors: peak memory {peak:.0f} MiB, at most the cache's {CACHE_MIB} and 50"
        yield target_line(what, peak <= CACHE_MIB + 50)


def main() -> int:
    options = Arguments(__doc__, "reads/positional").parse()
    import uproot

    query = Query.of_the_talk()
    facts, file = query.facts, query.file
    with uproot.open(file) as opened:
        tree = opened[facts["tree"]]
        names = tree.keys()
        others = [name for name in names if name not in BRANCHES][:: facts["branches"] // MORE_BRANCHES]
        seven = [*BRANCHES, *others[:MORE_BRANCHES]]
        groups = {
            "baskets": basket_groups(tree),
            "steps": step_groups(tree, seven),
            "cursors": cursor_groups(facts["bytes"]),
        }
        decode = decode_seconds(tree, seven)
    played = Rounds(options.runs, timeout=180)
    with interleaved.until_interrupted(), temporary_folder() as folder:
        jobs = {name: RangesJob.of(file, reads, folder / f"{name}.ranges") for name, reads in groups.items()}

        def reads(job: RangesJob, name: str, url: str, *options: object) -> list[Entrant]:
            """A program with a new store, then again with the one that it left."""
            store = folder / f"store-{name}"
            command = job.command(url, store, *options)
            return [job.entrant(name, command, fresh=store), job.entrant(f"{name}, second time", command)]

        def entrants(link: Link, url: str) -> list[Entrant]:
            if link is STEPWISE:
                return reads(jobs["steps"], "steps", url, "--think", f"{decode:.6f}")
            if link is NEAR:
                return reads(jobs["cursors"], "cursors", url, "--singly", "--think", "0.02", "--cache", CACHE_MIB)[:1]
            store = folder / "store-draw"
            forget = partial(shutil.rmtree, store, ignore_errors=True)
            draw = query.draw(url, "--store", store)
            return [
                *reads(jobs["baskets"], "baskets", url, "--singly"),
                *reads(jobs["baskets"], "baskets, read-ahead only", url, "--singly", "--no-trees")[:1],
                Entrant("draw", draw, query.disagreement, forget),
                Entrant("draw, second time", draw, query.disagreement),
            ]

        for link in (FAR, STEPWISE, NEAR):
            with Wan(link) as where, servers.nginx(where, file.parent) as port:
                played.play(where, link.label, "", entrants(link, f"http://{where.server_host}:{port}/{file.name}"))
    count = len(groups["baskets"][0])
    notes = [
        f"`baskets`: {count} single reads, {jobs['baskets'].bytes / 1e6:.2f} MB. `steps`: {len(seven)} of "
        f"{facts['branches']} branches in {STEPS} steps, {jobs['steps'].bytes / 1e6:.2f} MB, {decode * 1e3:.0f} ms of decoding after each.",
        f"`cursors`: {CURSORS} readers by turns, {jobs['cursors'].bytes / 1e6:.0f} MB in all. The server is nginx.",
    ]
    targets = check_targets(played, jobs["steps"], decode, facts)
    return interleaved.write(played, options.output, "Programs that read bytes", notes, targets)


if __name__ == "__main__":
    sys.exit(main())
