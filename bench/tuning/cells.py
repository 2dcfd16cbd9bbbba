"""The tuner of `hither cp` beside fixed numbers of connections, over emulated links.

    python -m bench.tuning.cells --cells capped,far --runs 3 --former OTHER/hither

Thirteen cells: links of 0.2 to 200 ms, 0.1 and 1 Gbit/s, with losses, with a limit for each
connection; one large file, many small ones, both, and large ones that are uploaded; a slow disk.
Each round of a cell copies the same files over 4, 8, 16, 32 and 64 connections without a tuner
(`--max-connections N --no-tuning`; the oracle is the best of them by its median), with the default,
and with the default of another build (`--former`), starting with another one each time. A run
without a tuner that made a decision is an error. Each run begins without a store. The files lie in
memory; single ones go to /dev/null, several to memory. Needs root, nginx and hither-wan. Every run
is added to results/tuning.csv, in place of earlier ones of its cell; tuning.md is the table of all.
"""

import json
import math
import shutil
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import timed
from bench.harness.content import numbered_blocks
from bench.harness.interleaved import rotated, say, target_line
from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER, MEMORY, temporary_folder, throttled

CAP_SECONDS = 240
FIXED = {f"{number} connections": number for number in (4, 8, 16, 32, 64)}
MIN_OF_BEST, MIN_OF_FORMER = 0.95, 0.90
BLOCK = 1_000_000


@dataclass(frozen=True)
class Cell:
    """A link, the files to copy by their sizes, and what is special about the way."""

    link: Link
    sizes: tuple[int, ...]
    what: str = "one file"
    each: int = 0
    """Bytes that the server sends each connection in a second."""
    disk: int = 0
    """Bytes that the target's disk takes in a second."""
    is_upload: bool = False

    @property
    def label(self) -> str:
        more = self.link.more
        loss = f", {float(more[more.index('--loss') + 1].rstrip('%')) / 100:g} lost" if more else ""
        granted = f", {self.each / 1e6:g} MB/s for each connection" if self.each else ""
        return f"{self.link.label}{loss}{granted}; {self.what}"


def lossy(letter: str, rtt_ms: float, percent: float) -> Link:
    return Link(letter, rtt_ms, 1000, "with losses", ("--loss", f"{percent:g}%"))


LARGE = 600 * BLOCK
SMALL = 65_536
COUNTRY = Link("T", 20, 1000, "another country")
CONTINENT = Link("V", 100, 1000, "another continent")
CELLS = {
    "room": Cell(Link("R", 0.2, 1000, "the same room"), (LARGE,)),
    "narrow": Cell(Link("S", 20, 100, "another country"), (100 * BLOCK,)),
    "wide": Cell(COUNTRY, (LARGE,)),
    "far-narrow": Cell(Link("U", 100, 100, "another continent"), (100 * BLOCK,)),
    "far": Cell(CONTINENT, (LARGE,)),
    "farthest": Cell(Link("X", 200, 1000, "the other side"), (LARGE,)),
    "lossy": Cell(lossy("L", 20, 0.01), (LARGE,)),
    "far-lossy": Cell(lossy("M", 100, 0.1), (200 * BLOCK,)),
    "capped": Cell(COUNTRY, (100 * BLOCK,), each=1_000_000),
    "small": Cell(COUNTRY, (SMALL,) * 8_000, "8,000 files of 64 KiB"),
    "mixed": Cell(CONTINENT, (200 * BLOCK,) * 2 + (SMALL,) * 3_000, "two files and 3,000 of 64 KiB"),
    "disk": Cell(COUNTRY, (200 * BLOCK,), "one file to a disk of 20 MB/s", disk=20_000_000),
    "upload": Cell(lossy("N", 100, 0.01), (12 * BLOCK,) * 50, "50 files, uploaded", is_upload=True),
}


def write_files(folder: Path, sizes: tuple[int, ...]) -> None:
    folder.mkdir(mode=0o755)
    for number, size in enumerate(sizes):
        block = min(BLOCK, size)
        with (folder / f"f{number:05}").open("wb") as file:
            file.writelines(numbered_blocks(size // block, block))


@dataclass(frozen=True)
class Copy:
    """The copy of a cell: what is added to `hither cp`, what stands before it, what it leaves."""

    words: list
    prefix: list[str]
    left: Path | None

    def seconds(self, where: Wan, command: list) -> float:
        """The duration by its own clock; infinite if it did not finish in CAP_SECONDS."""
        words = [*self.prefix, *command, "--no-store", "--json", "--explain-tuning", *self.words]
        answer = timed(where, words, CAP_SECONDS)
        if self.left:
            shutil.rmtree(self.left, ignore_errors=True)
            self.left.mkdir(mode=0o777)
        if answer["timeout"]:
            return math.inf
        if answer["exit"] != 0:
            raise RuntimeError(f"{words}: {answer['stderr'][-300:]}")
        told = json.loads(answer["stdout"])
        if "--no-tuning" in command and told["tuning"]:
            raise RuntimeError(f"{words}: tuned all the same: {told['tuning']}")
        return told["seconds"]


@contextmanager
def copy_of(cell: Cell, where: Wan) -> Iterator[Copy]:
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder(MEMORY))
        write_files(folder / "files", cell.sizes)
        (folder / "copies").mkdir(mode=0o777)
        limits = f"limit_rate {cell.each};" if cell.each else ""
        index = "" if cell.is_upload else "autoindex on;"
        port = stack.enter_context(servers.nginx(where, folder, None, index, limits, webdav=cell.is_upload))
        base = f"http://{where.server_host}:{port}"
        prefix: list[str] = []
        if cell.is_upload:
            words, left = ["-r", folder / "files/.", f"{base}/copies/"], folder / "copies"
        elif len(cell.sizes) > 1:
            words, left = ["-r", f"{base}/files/", folder / "copies"], folder / "copies"
        elif cell.disk:
            left = stack.enter_context(temporary_folder(Path("/var/tmp"))) / "copies"
            left.mkdir()
            prefix = stack.enter_context(throttled("cell", "write", left, cell.disk))
            words = [f"{base}/files/f00000", left / "copy"]
        else:
            words, left = [f"{base}/files/f00000", "/dev/null"], None
        yield Copy(words, prefix, left)


def contenders(former: Path | None) -> dict[str, list]:
    fixed = {name: [HITHER, "cp", "--no-tuning", "--max-connections", number] for name, number in FIXED.items()}
    default = {"tuner": [HITHER, "cp"]}
    return fixed | default | ({"former": [former, "cp"]} if former else {})


def measure_cell(cell: Cell, runs: int, former: Path | None) -> dict[str, list[float]]:
    """Rates in MB/s of each contender."""
    rates: dict[str, list[float]] = {}
    with Wan(cell.link) as where, copy_of(cell, where) as copy:
        for number in range(runs):
            for name, command in rotated(list(contenders(former).items()), number):
                seconds = copy.seconds(where, command)
                rates.setdefault(name, []).append(sum(cell.sizes) / 1e6 / seconds)
                say(f"{cell.label}, {name}: {rates[name][-1]:.1f} MB/s")
    return rates


def row(cell: Cell, rates: dict[str, list[float]]) -> tuple[list[str], list[str]]:
    """The row of a table, and lines with its targets."""
    medians = {name: statistics.median(found) for name, found in rates.items()}
    best = max(medians[name] for name in FIXED)
    share = medians["tuner"] / best
    lines = [
        target_line(
            f"{cell.label}: {share:.2f} of the best fixed number (at least {MIN_OF_BEST})", share >= MIN_OF_BEST
        )
    ]
    if "former" in medians:
        share = medians["tuner"] / medians["former"]
        lines.append(
            target_line(
                f"{cell.label}: {share:.2f} of the former default (at least {MIN_OF_FORMER})", share >= MIN_OF_FORMER
            )
        )
    shown = [f"{medians[name]:.1f}" for name in (*FIXED, "tuner")]
    return [cell.label, *shown, f"{medians['tuner'] / best:.2f}", str(len(rates["tuner"]))], lines


def main() -> None:
    parser = Arguments(__doc__, "tuning/cells", output="tuning", runs=2)
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--former", type=Path)
    options = parser.parse()
    names = options.cells.split(",")
    rows = [it for it in tables.read_csv(options.output) if it["cell"] not in names]
    for name in names:
        for who, rates in measure_cell(CELLS[name], options.runs, options.former).items():
            rows += [{"cell": name, "contender": who, "MB/s": f"{rate:.2f}"} for rate in rates]
    cells: dict[str, dict[str, list[float]]] = {}
    for it in rows:
        cells.setdefault(it["cell"], {}).setdefault(it["contender"], []).append(float(it["MB/s"]))
    # Cells of an earlier version of this program had other contenders.
    cells = {name: rates for name, rates in cells.items() if {*FIXED, "tuner"} <= set(rates)}
    rows = [it for it in rows if it["cell"] in cells]
    tables.write_csv(options.output, rows)
    commits = {it["cell"]: it.get("commit", tables.START.commit) for it in rows}
    parts = {name: row(CELLS[name], rates) for name, rates in cells.items()}
    heads = ["link and files", *FIXED, "tuner", "of the best", "runs", "commit"]
    shown = tables.markdown(heads, ([*found, commits[name]] for name, (found, _) in parts.items()), "lrrrrrrrrl")
    targets = [f"- {line}" for _, lines in parts.values() for line in lines]
    title = "# The tuner beside fixed numbers of connections"
    note = f"MB/s, medians; 0.0 did not finish in {CAP_SECONDS} s."
    tables.save(options.output, [title, "", note, "", *shown, "", "## Targets", "", *targets])


if __name__ == "__main__":
    main()
