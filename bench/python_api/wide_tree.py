"""From Python at 150 ms: seven of 1,500 branches of a file of 1 GB, and a file of 4 MB, all of it.

The seven branches are read at once, in ten steps, and by uproot over hither and over root://. Of the small file, a tree as
well, all bytes are read, beside wget, and all branches. Everybody starts cold. Needs root, for the link.
"""

import argparse
import hashlib
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.generators import talkfile, widefile
from bench.harness import access_log, interleaved, servers
from bench.harness.access_log import Logged
from bench.harness.contenders import Run, peer
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Wan, is_root
from bench.harness.paths import RESULTS

LINK = Link("w", 150, 1000, "across an ocean")
WIDE, SMALL = "7 of 1,500", "4 MB"
TREE, STEPS, SOURCE, XROOTD, WIRE = "hither.open_tree", "the same, in 10 steps", "uproot, hither.uproot.Source", "uproot, XRootDSource", "wire"
BYTES, WGET = "hither.open", "wget"
SMALL_EVENTS = 4_300


def small_file() -> tuple[Path, dict]:
    """The talk's file, cut short, and what is in it."""
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
    known = {"recipe": facts["recipe"], "bytes": facts["bytes"], "tree": facts["tree"], "values": int(values), "mean": mean}
    known["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    sidecar.write_text(json.dumps(known, indent=1) + "\n")
    return path, known


class Witness:
    """What the server was asked in each run."""

    def __init__(self, log: Path, file: Path, tree_offset: int = 0):
        self.log, self.uri, self.tree_offset, self.before = log, f"/{file.name}", tree_offset, 0

    def begin(self) -> None:
        self.before = len(access_log.read(self.log, self.uri))

    def note(self, run: Run) -> None:
        asked = access_log.read(self.log, self.uri)[self.before :]
        run.requests = len(asked) or None
        run.report["single"] = sum(self.is_single(it) for it in asked)

    def is_single(self, asked: Logged) -> bool:
        """Whether it is for one range of the data: not for the ends of the file or the tree's description."""
        if asked.range_count != 1:
            return False
        first, _, last = asked.ranges.removeprefix("bytes=").partition("-")
        return first != "" and int(first) > 0 and int(last or first) < self.tree_offset


def check_sums(witness: Witness, facts: dict, run: Run) -> str | None:
    witness.note(run)
    if run.selected is None:
        return None
    right = run.selected == facts["values"] and math.isclose(run.mean, facts["mean"], rel_tol=1e-9)
    return None if right else f"{run.selected} values of mean {run.mean} instead of {facts['values']} and {facts['mean']}"


def check_bytes(witness: Witness, facts: dict, run: Run) -> str | None:
    witness.note(run)
    return None if run.report["digest"] == facts["sha256"] else "other bytes than those of the file"


def wide_entrants(witness: Witness, http: str, root: str, raw: tuple[str, int], facts: dict, warm_up: Path) -> list[Entrant]:
    def read(name: str, url: str, way: str) -> Entrant:
        command = peer("columns.branches_read", url, way, facts["tree"], ",".join(widefile.WANTED), warm_up)
        return Entrant(name, command, partial(check_sums, witness, facts), witness.begin)

    wire = peer("bytes.raw_client", *raw, facts["job_bytes"] + facts["tree_bytes"])
    return [
        read(TREE, http, "tree"),
        read(STEPS, http, "steps"),
        read(SOURCE, http, "hither"),
        read(XROOTD, root, "XRootDSource"),
        Entrant(WIRE, wire),
    ]


def small_entrants(witness: Witness, http: str, facts: dict, warm_up: Path) -> list[Entrant]:
    def whole(name: str, way: str) -> Entrant:
        return Entrant(name, peer("bytes.whole_read", http, way), partial(check_bytes, witness, facts), witness.begin)

    def read(name: str, way: str) -> Entrant:
        command = peer("columns.branches_read", http, way, facts["tree"], "*", warm_up)
        return Entrant(name, command, partial(check_sums, witness, facts), witness.begin)

    return [whole(WGET, "wget"), whole(BYTES, "hither"), read(TREE, "tree"), read(SOURCE, "hither")]


def verdicts(played: Rounds, facts: dict) -> Iterator[str]:
    at = LINK.label
    most = (facts["job_bytes"] + facts["tree_bytes"]) * 8 / (LINK.mbit * 1e6) + 8 * LINK.rtt_ms / 1e3
    for name in (TREE, STEPS, SOURCE):
        taken = played.median(at, WIDE, name)
        if taken:
            yield f"{WIDE}, {name}: {taken:.3f} s, at most {most:.3f} s (bytes / bandwidth + 8 round trips): {'kept' if taken <= most else 'MISSED'}"
        singles = [run.report["single"] for run in played.select(at, WIDE, name) if "single" in run.report]
        if singles:
            yield f"{WIDE}, {name}: {max(singles)} requests for a single range of the data, at most 0: {'kept' if max(singles) == 0 else 'MISSED'}"
    for name in (BYTES, TREE, SOURCE):
        yield interleaved.bound(f"{SMALL}, {name} beside {WGET}", played.ratio(at, SMALL, name, WGET), 1.3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one run each")
    parser.add_argument("--output", type=Path, default=RESULTS / "python_api" / "wide_tree")
    options = parser.parse_args()
    if not is_root():
        sys.exit("wide: the link needs root (network namespaces)")
    facts, file = widefile.ensure(), widefile.DEFAULT_OUTPUT.resolve()
    small, small_facts = small_file()
    warm_up = talkfile.DEFAULT_OUTPUT.with_name("warm.root").resolve()
    talkfile.ensure(warm_up, events=500)
    played = Rounds(1 if options.quick else options.runs)
    with interleaved.until_interrupted(), tempfile.TemporaryDirectory(prefix="hither-wide-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        log = folder / "access.log"
        with Wan(LINK) as where, servers.nginx(where, file.parent, log) as http, servers.xrootd(where, file.parent) as xrootd, servers.raw(where) as raw:
            host = where.server_host
            wide = Witness(log, file, facts["tree_offset"])
            urls = f"http://{host}:{http}/{file.name}", f"root://{host}:{xrootd}//{file.name}"
            played.play(where, LINK.label, WIDE, wide_entrants(wide, *urls, (host, raw), facts, warm_up))
            url = f"http://{host}:{http}/{small.name}"
            played.play(where, LINK.label, SMALL, small_entrants(Witness(log, small), url, small_facts, warm_up))
    notes = [
        f"`{WIDE}`: {facts['job_bytes'] / 1e6:.2f} MB of branches and {facts['tree_bytes'] / 1e6:.2f} MB of the tree's description, of {facts['bytes'] / 1e6:.0f} MB.",
        f"`{SMALL}`: {small_facts['bytes'] / 1e6:.2f} MB. Cold, imports not counted; requests by the server's log, the rest by the link's own",
        "count. nginx and xrootd; client, server and link share two cores, cubic, medians.",
    ]
    interleaved.write(played, options.output, "A wide file and a small one from Python", notes, verdicts(played, facts), None)
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
