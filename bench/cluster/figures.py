"""Rates over time of two nodes with two network interfaces each, which write to a disk.

At a quarter of the run a link of b falls silent, and is back at a half; at three quarters node b is
killed. The disk is a file system on a loop device; it is *busy* while a request of it is under way.
"""

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.cluster.machines import Machines
from bench.cluster.site import MBIT, PAYLOAD, Watched, copy, is_equal, nginx, site, write_source
from bench.harness.interleaved import say
from bench.harness.paths import MEMORY, temporary_folder
from bench.harness.plots import subplots
from bench.storage_profile import file_system

NAMES, LINES = "ab", 2
STEP_SECONDS = 0.5
MEGABIT = 1e6 / 8


@dataclass
class Seen:
    """Counters of lines and disk, every STEP_SECONDS."""

    times: list[float] = field(default_factory=list)
    lines: list[list[int]] = field(default_factory=list)
    """Bytes that have come over each line."""
    disk: list[tuple[float, float]] = field(default_factory=list)
    """Seconds in which the disk was busy, and bytes that were written to it."""

    def look(self, machines: Machines, device: Path) -> None:
        fields = (device / "stat").read_text().split()
        self.times.append(time.monotonic())
        self.lines.append([machines.received(name, line) for name in NAMES for line in range(LINES)])
        self.disk.append((int(fields[9]) / 1e3, int(fields[6]) * 512))


def draw(output: Path, seconds: float) -> None:
    """Runs twice, with nothing that fails and with all of it, and draws both."""
    for failing in (False, True):
        with temporary_folder(MEMORY) as folder, temporary_folder() as parent, file_system("ext4", parent) as disk:
            (folder / "www").mkdir()
            size = write_source(
                folder / "www" / "tree", int(len(NAMES) * LINES * MBIT * MEGABIT * PAYLOAD * seconds * 0.8)
            )
            client, seen, marks = run(folder, disk, size, failing=failing)
            done, failed, shares = client.done
            equal = is_equal(folder / "www" / "tree", disk / "to")
            say(f"{done} s, {size / done / 1e6:.2f} MB/s, {shares}, equal: {equal and not failed}")
            plot(Path(f"{output}-{'failing' if failing else 'even'}.png"), client, seen, marks)


def run(folder: Path, disk: Path, size: int, *, failing: bool) -> tuple[Watched, Seen, list[tuple[float, str]]]:
    major, minor = os.major(disk.stat().st_dev), os.minor(disk.stat().st_dev)
    seen, over, marks = Seen(), threading.Event(), []
    with site(folder, NAMES, nginx, LINES) as (machines, nodes, url):

        def watch() -> None:
            while not over.wait(STEP_SECONDS):
                seen.look(machines, Path(f"/sys/dev/block/{major}:{minor}"))

        watching = threading.Thread(target=watch)
        watching.start()
        client = Watched(copy(nodes, url, disk / "to", machines.lines()))
        events = [
            (0.25, "a link of b falls silent", lambda: machines.silence("b", off=True, line=1)),
            (0.5, "it is back", lambda: machines.silence("b", off=False, line=1)),
            (0.75, "node b is killed", lambda: nodes.kill("b")),
        ]
        for share, what, do in events if failing else ():
            if client.until(share * size):
                marks.append((time.monotonic() - client.began, what))
                do()
        client.end()
        over.set()
        watching.join()
    return client, seen, marks


def plot(path: Path, client: Watched, seen: Seen, marks: list[tuple[float, str]]) -> None:
    figure, axes = subplots(4, sharex=True, figsize=(9, 10))
    grid = np.arange(0, client.done[0], 1.0)
    times = [row[0] for row in client.rows]
    whole = [row[1] for row in client.rows]
    step(axes[0], grid, times, whole, "all", MEGABIT)
    for name in NAMES:
        step(axes[1], grid, times, [share.get(name, 0) for share in client.shares], f"node {name}", MEGABIT)
    looked = np.array(seen.times) - client.began
    for number, line in enumerate(zip(*seen.lines, strict=True)):
        step(axes[2], grid, looked, line, f"{NAMES[number // LINES]}, interface {number % LINES}", MEGABIT)
    busy, written = zip(*seen.disk, strict=True)
    step(axes[3], grid, looked, busy, "busy", 0.01)
    axes[3].set_ylabel("disk busy, %")
    rate = axes[3].twinx()
    step(rate, grid, looked, written, "written", MEGABIT, color="tab:orange")
    rate.set_ylabel("written, Mbit/s")
    rate.set_ylim(bottom=0)
    axes[3].legend(handles=[*axes[3].lines, *rate.lines], loc="lower left")
    for axis, what in zip(axes, ("arrived, Mbit/s", "arrived by node", "on the wire by interface"), strict=False):
        axis.set_ylabel(what)
        axis.legend(loc="lower left", ncols=2)
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        for at, _ in marks:
            axis.axvline(at, color="tab:red", linestyle="--", linewidth=1)
    for at, what in marks:
        axes[0].text(at, axes[0].get_ylim()[1], f" {what}", color="tab:red", va="top", fontsize="small")
    axes[0].set_title("two nodes, each with two interfaces of 100 Mbit/s, from nginx to one disk")
    axes[-1].set_xlabel("seconds")
    figure.savefig(path, dpi=100)


def step(axis, grid, times, values, label: str, unit: float, **options) -> None:
    """Draws the change in each second of what was counted at some times."""
    rates = np.diff(np.interp(grid, times, values)) / np.diff(grid) / unit
    axis.plot(grid[1:], rates, label=label, **options)
