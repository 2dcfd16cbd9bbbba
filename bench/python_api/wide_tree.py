"""From Python at 150 ms: seven of 1,500 branches of a file of 1 GB, and all of a file of 4 MB.

The seven branches are read at once, in ten steps, and by uproot over hither and over root://. All
bytes of the small file are read, beside wget, and all branches of its tree. Each run starts with an
empty cache. Needs root, for the link.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.generators import talkfile, widefile
from bench.harness import interleaved
from bench.harness.access_log import Counter, Logged
from bench.harness.arguments import Arguments
from bench.harness.contenders import Addresses, Query, Run, peer, serving
from bench.harness.interleaved import Entrant, Rounds, target_line
from bench.harness.links import Link, Wan
from bench.harness.paths import temporary_folder

LINK = Link("w", 150, 1000, "across an ocean")
WIDE, SMALL = "7 of 1,500", "4 MB"
TREE, STEPS, SOURCE, XROOTD, WIRE = (
    "hither.open_tree",
    "the same, in 10 steps",
    "uproot, hither.uproot.Source",
    "uproot, XRootDSource",
    "wire",
)
BYTES, WGET = "hither.open", "wget"
SMALL_EVENTS = 4_300


def small_file() -> tuple[Path, dict]:
    """A short version of the talk's file, and its facts."""
    path = talkfile.DEFAULT_OUTPUT.with_name("four.root")
    facts = talkfile.ensure(path, events=SMALL_EVENTS)
    sidecar = path.with_name("four-sums.json")
    if sidecar.exists() and (known := json.loads(sidecar.read_text()))["recipe"] == facts["recipe"]:
        return path, known
    import uproot

    with uproot.open(path) as file:
        arrays = file[facts["tree"]].arrays(library="np")
    values = sum(array.size for array in arrays.values())
    mean = sum(float(array.sum(dtype="f8")) for array in arrays.values()) / values
    known = {
        "recipe": facts["recipe"],
        "bytes": facts["bytes"],
        "tree": facts["tree"],
        "values": int(values),
        "mean": mean,
    }
    known["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    sidecar.write_text(json.dumps(known, indent=1) + "\n")
    return path, known


def is_single(request: Logged, tree_offset: int) -> bool:
    """True for one range of the data, not of the file's ends or the tree's description."""
    if request.range_count != 1:
        return False
    first, _, last = request.ranges.removeprefix("bytes=").partition("-")
    return first != "" and int(first) > 0 and int(last or first) < tree_offset


@dataclass(frozen=True)
class Site:
    """A file on the servers, and what its reads must find."""

    http: str
    counter: Counter
    facts: dict
    warm_up: Path

    def note(self, run: Run) -> None:
        requests = self.counter.requests()
        run.requests = len(requests) or None
        run.report["single"] = sum(is_single(request, self.facts.get("tree_offset", 0)) for request in requests)

    def check_sums(self, run: Run) -> str | None:
        self.note(run)
        return run.disagreement(self.facts["values"], self.facts["mean"])

    def check_bytes(self, run: Run) -> str | None:
        self.note(run)
        return None if run.report["digest"] == self.facts["sha256"] else "other bytes than those of the file"

    def branches(self, name: str, way: str, branches: str, url: str | None = None) -> Entrant:
        command = peer("columns.branches_read", url or self.http, way, self.facts["tree"], branches, self.warm_up)
        return Entrant(name, command, self.check_sums, self.counter.start)

    def whole(self, name: str, way: str) -> Entrant:
        return Entrant(name, peer("bytes.whole_read", self.http, way), self.check_bytes, self.counter.start)


def wide_entrants(site: Site, at: Addresses) -> list[Entrant]:
    wanted = ",".join(widefile.WANTED)
    return [
        site.branches(TREE, "tree", wanted),
        site.branches(STEPS, "steps", wanted),
        site.branches(SOURCE, "hither", wanted),
        site.branches(XROOTD, "XRootDSource", wanted, at.root),
        Entrant(WIRE, peer("bytes.raw_client", *at.raw, site.facts["job_bytes"] + site.facts["tree_bytes"])),
    ]


def small_entrants(site: Site) -> list[Entrant]:
    return [
        site.whole(WGET, "wget"),
        site.whole(BYTES, "hither"),
        site.branches(TREE, "tree", "*"),
        site.branches(SOURCE, "hither", "*"),
    ]


def check_targets(played: Rounds, facts: dict) -> Iterator[str]:
    at = LINK.label
    maximum = (facts["job_bytes"] + facts["tree_bytes"]) * 8 / (LINK.mbit * 1e6) + 8 * LINK.rtt_ms / 1e3
    for name in (TREE, STEPS, SOURCE):
        taken = played.median(at, WIDE, name)
        if taken:
            what = f"{WIDE}, {name}: {taken:.3f} s, at most {maximum:.3f} s (bytes / bandwidth + 8 round trips)"
            yield target_line(what, taken <= maximum)
        singles = [run.report["single"] for run in played.select(at, WIDE, name) if "single" in run.report]
        if singles:
            yield target_line(
                f"{WIDE}, {name}: {max(singles)} requests for a single range of the data, at most 0", max(singles) == 0
            )
    for name in (BYTES, TREE, SOURCE):
        yield interleaved.ratio_line(f"{SMALL}, {name} beside {WGET}", played.ratio(at, SMALL, name, WGET), 1.3)


def main() -> int:
    options = Arguments(__doc__, "python_api/wide_tree", runs=5).parse()
    facts, file = widefile.ensure(), widefile.DEFAULT_OUTPUT
    small, small_facts = small_file()
    warm_up = Query.of_the_talk().warm_up
    played = Rounds(options.runs)
    with interleaved.until_interrupted(), temporary_folder() as folder:
        log = folder / "access.log"
        with Wan(LINK) as where, serving(where, file, log) as at:
            wide = Site(at.http, Counter(log, f"/{file.name}"), facts, warm_up)
            played.play(where, LINK.label, WIDE, wide_entrants(wide, at))
            url = at.http.replace(file.name, small.name)
            played.play(
                where,
                LINK.label,
                SMALL,
                small_entrants(Site(url, Counter(log, f"/{small.name}"), small_facts, warm_up)),
            )
    notes = [
        f"`{WIDE}`: {facts['job_bytes'] / 1e6:.2f} MB of branches and {facts['tree_bytes'] / 1e6:.2f} MB of the tree's description, of {facts['bytes'] / 1e6:.0f} MB.",
        f"`{SMALL}`: {small_facts['bytes'] / 1e6:.2f} MB. Cold, imports not counted; requests as the server's log counts them, the rest as the",
        "link counts it. nginx and xrootd.",
    ]
    title = "A wide file and a small one from Python"
    return interleaved.write(played, options.output, title, notes, check_targets(played, facts))


if __name__ == "__main__":
    sys.exit(main())
