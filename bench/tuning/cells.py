"""The tuner of `hither cp` beside fixed numbers of connections, over emulated links.

    python -m bench.tuning.cells --cells near,far --runs 3 --former OTHER/hither

Each round of a cell copies one file with at most 4, 16 and 64 connections (`--max-connections`, the
oracle is the best of them by its median), with the default, and with the default of another build
(`--former`), starting with another one each time. Each run begins without a store. The file lies in
memory, the copies go to /dev/null. Needs root, nginx and hither-wan. Results are printed, and added
to results/tuning.csv.
"""

import argparse
import csv
import json
import statistics
from dataclasses import dataclass
from pathlib import Path

from bench.harness import servers
from bench.harness.contenders import timed
from bench.harness.content import numbered_blocks
from bench.harness.interleaved import rotated, say
from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER, MEMORY, RESULTS, temporary_folder

CAP_SECONDS = 60
FIXED = (4, 16, 64)


@dataclass(frozen=True)
class Cell:
    """A link, the bytes to copy, and what the server sends each connection in a second."""

    link: Link
    size: int
    each: int = 0

    @property
    def label(self) -> str:
        granted = f", {self.each / 1e6:g} MB/s for each connection" if self.each else ""
        return self.link.label + granted


CELLS = {
    "room": Cell(Link("R", 0.2, 1000, "the same room"), 600_000_000),
    "narrow": Cell(Link("S", 20, 100, "another country"), 100_000_000),
    "wide": Cell(Link("T", 20, 1000, "another country"), 600_000_000),
    "far-narrow": Cell(Link("U", 100, 100, "another continent"), 100_000_000),
    "far": Cell(Link("V", 100, 1000, "another continent"), 600_000_000),
    "capped": Cell(Link("W", 20, 1000, "another country"), 100_000_000, each=1_000_000),
}


def contenders(former: Path | None) -> dict[str, list]:
    fixed = {f"at most {n}": [HITHER, "cp", "--max-connections", n] for n in FIXED}
    default = {"tuner": [HITHER, "cp"]}
    return fixed | default | ({"former": [former, "cp"]} if former else {})


def write_file(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.writelines(numbered_blocks(size // 1_000_000, 1_000_000))


def measure_cell(cell: Cell, runs: int, former: Path | None) -> dict[str, list[float]]:
    """Rates in MB/s of each contender."""
    rates: dict[str, list[float]] = {}
    limits = f"limit_rate {cell.each};" if cell.each else ""
    with temporary_folder(MEMORY) as folder, Wan(cell.link) as where:
        write_file(folder / "data", cell.size)
        with servers.nginx(where, folder, limits=limits) as port:
            url = f"http://{where.server_host}:{port}/data"
            for number in range(runs):
                for name, command in rotated(list(contenders(former).items()), number):
                    answer = timed(where, [*command, "--no-store", "--json", url, "/dev/null"], CAP_SECONDS)
                    if answer["exit"] != 0:
                        say(f"{cell.label}: {name}: {answer['stderr'][-300:]}")
                        continue
                    seconds = json.loads(answer["stdout"])["seconds"]
                    rates.setdefault(name, []).append(cell.size / 1e6 / seconds)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--former", type=Path)
    arguments = parser.parse_args()
    output = RESULTS / "tuning.csv"
    is_new = not output.exists()
    with output.open("a", newline="") as file:
        table = csv.writer(file)
        if is_new:
            table.writerow(["cell", "contender", "MB/s"])
        for name in arguments.cells.split(","):
            cell = CELLS[name]
            rates = measure_cell(cell, arguments.runs, arguments.former)
            table.writerows([name, who, f"{rate:.2f}"] for who, found in rates.items() for rate in found)
            medians = {who: statistics.median(found) for who, found in rates.items()}
            best = max(rate for who, rate in medians.items() if who.startswith("at most"))
            shown = ", ".join(f"{who} {rate:.1f}" for who, rate in medians.items())
            say(f"{cell.label}: {shown} MB/s; tuner / best fixed {medians['tuner'] / best:.2f}")


if __name__ == "__main__":
    main()
