"""1,576 small ROOT files, opened one after the other, as in figure 6 of the paper of 2006.

The program opens each file, reads three small pieces of it, and closes it; hither opens files
ahead. nginx serves them at 80 ms; one file in twenty is on "tape": the first request for it gets
503 with `Retry-After: 2`, and two seconds later it is there. Cold, then warm (a second process with
the store of the first), and warm with an accepted staleness. A plot shows when the opening of each
file began and ended, and when its pieces had been read. Needs root, for the link.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.interleaved import say
from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER_BENCH, ROOT, temporary_folder
from bench.harness.plots import subplots

PROGRAM = [HITHER_BENCH, "open-many-files"]
FILES = ROOT / "target" / "many-files"
COUNT = 1576
ON_TAPE = 20
RTT_MS = 80
STAGING_SECONDS = 1.9
"""A little less than the announced two seconds, as with tape systems that announce safe values."""

TAPE = """
        location / { try_files $uri @tape; }
        location @tape { add_header Retry-After 2 always; return 503; }
"""


def ensure(count: int) -> list[str]:
    """Names of the files, written if missing: a tree of eight columns of varying length."""
    names = [f"run{number:04d}.root" for number in range(count)]
    missing = [name for name in names if not (FILES / name).exists()]
    if missing:
        import numpy as np
        import uproot

        FILES.mkdir(parents=True, exist_ok=True)
        for name in missing:
            random = np.random.default_rng(int(name[3:7]))
            entries = int(random.integers(600, 1800))
            part = FILES / (name + ".part")
            with uproot.recreate(part) as file:
                columns = {f"column{n}": random.normal(size=entries).astype("f4") for n in range(8)}
                file.mktree("events", {name: values.dtype for name, values in columns.items()}).extend(columns)
            part.rename(FILES / name)
    return names


class Tape(contextlib.AbstractContextManager):
    """A folder of links to the files; those on tape are linked after the first request."""

    def __init__(self, folder: Path, names: list[str], on_tape: int):
        self.folder, self.log = folder, folder.parent / "access.log"
        folder.mkdir()
        self.tape = set(names[on_tape // 2 :: on_tape]) if on_tape else set()
        for name in set(names) - self.tape:
            os.link(FILES / name, folder / name)
        self.log.touch()
        self.over = threading.Event()
        self.robot = threading.Thread(target=self.fetch)

    def __enter__(self):
        self.robot.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.robot.join()

    def fetch(self) -> None:
        waiting: list[tuple[float, str]] = []
        known: set[str] = set()
        with self.log.open() as log:
            while not self.over.is_set():
                for line in log.read().splitlines():
                    name = next((field[1:] for field in line.split("\t") if field.startswith("/run")), None)
                    if name in self.tape and name not in known and "\t503\t" in line:
                        known.add(name)
                        waiting.append((time.monotonic() + STAGING_SECONDS, name))
                while waiting and waiting[0][0] <= time.monotonic():
                    name = waiting.pop(0)[1]
                    os.link(FILES / name, self.folder / name)
                self.over.wait(0.02)


def play(where: Wan, urls: Path, store: Path, *options: str) -> dict:
    started = time.monotonic()
    command = [*map(str, PROGRAM), str(urls), "--store", str(store), *options]
    done = subprocess.run(where.client(command), stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(done.stdout)
    answer["wall"] = time.monotonic() - started
    return answer


def picture(path: Path, answers: dict[str, dict]) -> None:
    figure, axes = subplots(1, len(answers), figsize=(6 * len(answers), 6), sharey=True)
    for plot, (name, answer) in zip(axes, answers.items(), strict=True):
        opens = [(n, *times) for n, times in enumerate(answer["opens"]) if times]
        plot.vlines(*zip(*opens, strict=True), color="tab:red", linewidth=0.5, label="opening")
        plot.plot(answer["read"], ".", markersize=1.5, color="tab:blue", label="three pieces read")
        plot.set_title(f"{name}: {answer['seconds']:.2f} s, {answer['requests']} requests")
        plot.set_xlabel("file")
        plot.grid(alpha=0.3)
    axes[0].set_ylabel("seconds since the program started")
    axes[0].legend(loc="upper left")
    figure.suptitle(f"{COUNT} files at {RTT_MS} ms, one in {ON_TAPE} on tape (503, Retry-After 2 s)")
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = Arguments(__doc__, "reads/open_ahead")
    parser.add_argument("--files", type=int, default=COUNT, help="default %(default)s")
    parser.add_argument("--piece", type=int, help="offset of the third piece (default: the first key's object)")
    options = parser.parse()
    names = ensure(options.files)
    extra = ["--piece", str(options.piece)] if options.piece is not None else []
    modes = {
        "cold": [],
        "warm": [],
        "warm, an hour's staleness accepted": ["--staleness", "3600"],
    }
    answers: dict[str, list[dict]] = {mode: [] for mode in modes}
    with Wan(Link("M", RTT_MS, None, "many files")) as where:
        for _ in range(options.runs):
            with (
                temporary_folder(FILES) as work,
                Tape(work / "files", names, ON_TAPE) as tape,
                servers.nginx(where, tape.folder, tape.log, TAPE) as port,
            ):
                urls = work / "urls"
                urls.write_text("".join(f"http://{where.server_host}:{port}/{name}\n" for name in names))
                for mode, more in modes.items():
                    answer = play(where, urls, work / "store", *extra, *more)
                    answers[mode].append(answer)
                    say(
                        f"{mode:36} {answer['seconds']:6.2f} s, {answer['requests']} requests on {answer['connections']} connections"
                    )
    digests = {answer["digest"] for runs in answers.values() for answer in runs}
    # The run whose time is the median.
    chosen = {
        mode: sorted(runs, key=lambda run: run["seconds"])[(len(runs) - 1) // 2] for mode, runs in answers.items()
    }
    write(options, answers, chosen, names, len(digests) == 1)
    within = chosen["cold"]["seconds"] < 10 and chosen["warm"]["seconds"] < 3 and len(digests) == 1
    return 0 if within or options.files != COUNT else 1


def write(options: argparse.Namespace, answers: dict, chosen: dict, names: list[str], is_same: bool) -> None:
    connections = max(answer["connections"] for answer in chosen.values())
    target = len(names) * 3 * RTT_MS / 1e3 / connections
    third = f"1,000 bytes at {options.piece}" if options.piece is not None else "the first object"
    size = sum((FILES / name).stat().st_size for name in names) / len(names)
    rows = []
    for mode, answer in chosen.items():
        every = ", ".join(f"{run['seconds']:.2f}" for run in answers[mode])
        counts = [str(answer["requests"]), str(answer["connections"]), f"{answer['bytes_payload'] / 1e6:.1f}"]
        rows.append([mode, f"{answer['seconds']:.2f} ({every})", *counts])
    lines = [
        "# Opening many files",
        "",
        f"{len(names)} ROOT files of {size / 1e3:.0f} KB, nginx at {RTT_MS} ms, one file in {ON_TAPE} on tape. A program opens each in turn, reads",
        f"three small pieces of it (header, keys, {third}), and closes it. Medians of {options.runs} runs, all seconds in brackets.",
        f"Target: {len(names)} x 3 round trips / {connections} connections = {target:.1f} s; the paper of 2006: 110 s.",
        "",
        *tables.markdown(["", "seconds", "requests", "connections", "payload, MB"], rows, "l"),
        "",
        f"All runs read the same bytes: {'yes' if is_same else 'NO'}.",
    ]
    tables.save(options.output, lines)
    picture(options.output.with_suffix(".png"), chosen)


if __name__ == "__main__":
    sys.exit(main())
