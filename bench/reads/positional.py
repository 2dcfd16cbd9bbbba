"""Programs that read bytes and were written for a local disk, on the talk's file, beside what knows everything at once.

Three of them, each waiting for one read before it makes the next:

- *baskets*: the baskets of the talk's query in the order of the entries, 4,880 single reads, at 240 ms; the first time, the
  second time, and by read-ahead alone, without knowledge of trees. Beside it `hither draw`, cold and warm.
- *steps*: seven branches in twenty steps of entries at 150 ms, each step one vector read and then as long a pause as
  uproot takes to decode it (measured before, on the local file).
- *cursors*: eight readers in eight parts of the file that take turns, 64 KiB at a time, 25 MB a second of them.

Needs root, for the links.
"""

import argparse
import hashlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.generators import talkfile
from bench.harness import interleaved, servers
from bench.harness.contenders import Run
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Wan, is_root
from bench.harness.paths import HITHER, READ_RANGES, RESULTS

FAR = Link("P", 240, 250, "by way of Caltech")
STEPWISE = Link("Q", 150, 1000, "another continent")
NEAR = Link("R", 22, 1000, "Amsterdam")
STEPS = 20
BRANCHES = ("rawtr", "E33")
MORE_BRANCHES = 5
CURSORS, CURSOR_BYTES, CURSOR_TOTAL = 8, 64 << 10, 100 << 20
CACHE_MIB = 64
"""The budget of the cache while readers take turns: less than what they read."""


@dataclass(frozen=True)
class Job:
    """What a program reads: steps, each a list of (offset, length)."""

    name: str
    steps: list[list[tuple[int, int]]]

    @property
    def bytes(self) -> int:
        return sum(length for step in self.steps for _, length in step)

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.name}.ranges"
        path.write_text("\n".join("".join(f"{first} {length}\n" for first, length in step) for step in self.steps))
        return path

    def digest(self, file: Path) -> str:
        digest = hashlib.sha256()
        with file.open("rb") as content:
            for step in self.steps:
                for first, length in step:
                    content.seek(first)
                    digest.update(content.read(length))
        return digest.hexdigest()


def baskets(tree, branch: str) -> list[tuple[int, int, int]]:
    """(first entry, offset, bytes) of each basket."""
    count = tree[branch].member("fWriteBasket")
    tables = (tree[branch].member(name)[:count].tolist() for name in ("fBasketEntry", "fBasketSeek", "fBasketBytes"))
    return list(zip(*tables, strict=True))


def basket_job(tree) -> Job:
    found = sorted(basket for branch in BRANCHES for basket in baskets(tree, branch))
    return Job("baskets", [[(offset, length) for _, offset, length in found]])


def step_job(tree, branches: list[str]) -> Job:
    """Each basket in the step in which its first entry lies."""
    length = -(-tree.num_entries // STEPS)
    steps: list[list[tuple[int, int]]] = [[] for _ in range(STEPS)]
    for branch in branches:
        for entry, offset, size in baskets(tree, branch):
            steps[entry // length].append((offset, size))
    return Job("steps", [sorted(step) for step in steps])


def cursor_job(size: int) -> Job:
    """Eight readers, each in its part of the file."""
    part = size // CURSORS
    turns = CURSOR_TOTAL // CURSORS // CURSOR_BYTES
    reads = [(cursor * part + turn * CURSOR_BYTES, CURSOR_BYTES) for turn in range(turns) for cursor in range(CURSORS)]
    return Job("cursors", [reads[turn * CURSORS : (turn + 1) * CURSORS] for turn in range(turns)])


def decode_seconds(tree, branches: list[str]) -> float:
    """What uproot takes for a step of a local file, the median of all of them."""
    length = -(-tree.num_entries // STEPS)
    seconds = []
    for first in range(0, tree.num_entries, length):
        started = time.monotonic()
        tree.arrays(branches, entry_start=first, entry_stop=first + length, library="np")
        seconds.append(time.monotonic() - started)
    return statistics.median(seconds)


class Scene:
    """Prepares a run and checks what it read."""

    def __init__(self, folder: Path, file: Path):
        self.folder, self.file, self.output = folder, file, folder / "output"

    def entrant(self, name: str, job: Job, url: str, *options: str, store: str, fresh: bool = True) -> Entrant:
        place = self.folder / store
        command = [READ_RANGES, url, job.write(self.folder), "--output", self.output, "--store", place, *options]
        digest = job.digest(self.file)

        def check(_: Run) -> str | None:
            found = hashlib.sha256(self.output.read_bytes()).hexdigest()
            return None if found == digest else "other bytes than those of the file"

        return Entrant(name, command, check=check, before=partial(self.before, place if fresh else None))

    def before(self, store: Path | None) -> None:
        self.output.unlink(missing_ok=True)
        if store:
            shutil.rmtree(store, ignore_errors=True)

    def draw(self, name: str, url: str, facts: dict, store: str, fresh: bool) -> Entrant:
        place = self.folder / store
        query = [facts["expression"], "--where", facts["cut"], "--json", "--store", place]
        command = [HITHER, "draw", f"{url}:{facts['tree']}", *query]

        def check(run: Run) -> str | None:
            right = run.selected == facts["selected"]
            return None if right else f"selected {run.selected} values instead of {facts['selected']}"

        return Entrant(name, command, check=check, before=partial(self.before, place if fresh else None))


def waits_after_the_first(runs: list[Run]) -> float:
    """Seconds of the longest wait of any step but the first, the median over the runs."""
    waits = [[seconds for step, seconds in run.report["waits"] if step > 0] for run in runs]
    return statistics.median([max(found, default=0.0) for found in waits])


def verdicts(played: Rounds, job: Job, decode: float, facts: dict) -> Iterator[str]:
    """What issue and paper ask for, and what came out."""
    far, stepwise, near = FAR.label, STEPWISE.label, NEAR.label
    for name, beside, most in (("baskets", "draw", 6), ("baskets, second time", "draw, second time", 3)):
        yield interleaved.bound(f"{far}: {name} beside {beside}", played.ratio(far, "", name, beside), 1.3)
        flights = played.median(far, "", name, "flights")
        if flights is not None:
            kept = "kept" if flights <= most else "MISSED"
            yield f"{far}: {name}: {flights:.0f} flights seen by the link, at most {most}: {kept}"
    for name in ("steps", "steps, second time"):
        runs = [run for run in played.select(stepwise, "", name) if run.report]
        if not runs:
            continue
        longest = waits_after_the_first(runs)
        kept = "kept" if longest <= decode else "MISSED"
        yield (
            f"{stepwise}: {name}: the longest wait after the first step is {longest * 1e3:.0f} ms, "
            f"at most the {decode * 1e3:.0f} ms of decoding a step: {kept}"
        )
        extra = facts["tree_bytes"] if name == "steps" else 0
        fetched = statistics.median([run.report["bytes_payload"] for run in runs]) - extra
        yield interleaved.bound(f"{stepwise}: {name}: bytes fetched, but for the tree, of those needed", fetched / job.bytes, 1.1)
    peak = played.median(near, "", "cursors", "peak_mb")
    if peak is not None:
        kept = "kept" if peak <= CACHE_MIB + 50 else "MISSED"
        yield f"{near}: cursors: {peak:.0f} MiB resident at the most, at most the cache's {CACHE_MIB} and 50: {kept}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one run each")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "positional")
    options = parser.parse_args()
    if not is_root():
        sys.exit("programs: the links need root (network namespaces)")
    import uproot

    facts = talkfile.ensure()
    file = talkfile.DEFAULT_OUTPUT
    with uproot.open(file) as opened:
        tree = opened[facts["tree"]]
        others = [name for name in tree.keys() if name not in BRANCHES][:: facts["branches"] // MORE_BRANCHES]
        seven = [*BRANCHES, *others[:MORE_BRANCHES]]
        by_basket, by_step = basket_job(tree), step_job(tree, seven)
        decode = decode_seconds(tree, seven)
    cursors = cursor_job(facts["bytes"])
    played = Rounds(1 if options.quick else options.runs, timeout=180)
    with interleaved.until_interrupted(), tempfile.TemporaryDirectory(prefix="hither-programs-") as name:
        scene = Scene(Path(name), file)
        for link in (FAR, STEPWISE, NEAR):
            with Wan(link) as where, servers.nginx(where, file.parent) as port:
                url = f"http://{where.server_host}:{port}/{file.name}"
                think = ("--think", f"{decode:.6f}")
                entrants = {
                    FAR: lambda: [
                        scene.entrant("baskets", by_basket, url, "--singly", store="one"),
                        scene.entrant("baskets, second time", by_basket, url, "--singly", store="one", fresh=False),
                        scene.entrant("baskets, read-ahead only", by_basket, url, "--singly", "--no-trees", store="two"),
                        scene.draw("draw", url, facts, "three", fresh=True),
                        scene.draw("draw, second time", url, facts, "three", fresh=False),
                    ],
                    STEPWISE: lambda: [
                        scene.entrant("steps", by_step, url, *think, store="four"),
                        scene.entrant("steps, second time", by_step, url, *think, store="four", fresh=False),
                    ],
                    NEAR: lambda: [
                        scene.entrant("cursors", cursors, url, "--singly", "--think", "0.02", "--cache", str(CACHE_MIB), store="five"),
                    ],
                }[link]
                played.play(where, link.label, "", entrants())
    notes = [
        f"`baskets`: {len(by_basket.steps[0])} single reads, {by_basket.bytes / 1e6:.2f} MB. `steps`: {len(seven)} of "
        f"{facts['branches']} branches in {STEPS} steps, {by_step.bytes / 1e6:.2f} MB, {decode * 1e3:.0f} ms of decoding after each.",
        f"`cursors`: {CURSORS} readers by turns, {cursors.bytes / 1e6:.0f} MB in all. nginx; client, server and link share two",
        "cores, cubic, medians.",
    ]
    interleaved.write(played, options.output, "Programs that read bytes", notes, verdicts(played, by_step, decode, facts), None)
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
