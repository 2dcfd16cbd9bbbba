"""Very many small files and some large ones in one job: what the coordinator and Dask need for it.

The *client* is the process of the coordinator and its manifest, the *listing* the one that lists
the source for it. CPU is that of one core over the run; *busiest* is that of the ten seconds in
which it was highest. Memory is the most that was resident, looked at each second.
"""

import contextlib
import itertools
import threading
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.cluster.machines import busy_seconds
from bench.cluster.site import Watched, copy, is_equal, site
from bench.harness import servers
from bench.harness.content import numbered_blocks, write_tree
from bench.harness.interleaved import say

SMALL_BYTES = 1000
ELEPHANTS = 20
ELEPHANT_MB = 64
CAP_SECONDS = 3000
BUSY_SECONDS = 10


@dataclass
class Load:
    """Memory and CPU time of a process, second by second."""

    process: psutil.Process
    memory: int = 0
    cpu: list[float] = field(default_factory=list)
    """Seconds of CPU time so far."""

    def look(self) -> None:
        try:
            self.memory = max(self.memory, self.process.memory_info().rss)
            times = self.process.cpu_times()
        except psutil.NoSuchProcess:
            return
        self.cpu.append(times.user + times.system)

    def busy(self) -> float:
        """Percent of a core."""
        return 100 * (self.cpu[-1] - self.cpu[0]) / max(1, len(self.cpu) - 1)

    def busiest(self) -> float:
        pairs = zip(self.cpu, itertools.islice(self.cpu, BUSY_SECONDS, None), strict=False)
        return max((100 * (after - before) / BUSY_SECONDS for before, after in pairs), default=self.busy())


class Loads:
    """Processes by their roles, looked at each second as long as the block lasts."""

    def __init__(self, client: int, scheduler: int, manifest: Path):
        self.of = {"client": Load(psutil.Process(client)), "scheduler": Load(psutil.Process(scheduler))}
        self.manifest = 0
        """The largest size of its files."""
        self._manifest = manifest
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(1):
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in self.of["client"].process.children():
                    if "--list" in child.cmdline():
                        self.of.setdefault("listing", Load(child))
            for load in self.of.values():
                load.look()
            with contextlib.suppress(FileNotFoundError):
                files = self._manifest.glob("*/manifest.sqlite*")
                self.manifest = max(self.manifest, sum(path.stat().st_size for path in files))


def million(files: int, folder: Path) -> dict:
    tree = folder / "www" / "tree"
    write_tree(tree / "small", files, SMALL_BYTES)
    for number in range(ELEPHANTS):
        with (tree / f"large{number:03}").open("wb") as file:
            file.writelines(numbered_blocks(ELEPHANT_MB, 1 << 20))
    size = files * SMALL_BYTES + ELEPHANTS * (ELEPHANT_MB << 20)
    with site(folder, "ab", lambda where, root, _: servers.hither(where, root)) as (_, nodes, url):
        work = busy_seconds()
        client = Watched(copy(nodes, url, folder / "to"))
        jobs = folder / "client" / "hither" / "cluster" / "jobs"
        with Loads(client.process.pid, nodes.processes("scheduler")[0], jobs) as loads:
            client.end(CAP_SECONDS)
        seconds, failed, _ = client.done
        busy, had = (after - before for before, after in zip(work, busy_seconds(), strict=True))
    row = {
        "small files": files,
        "elephants": ELEPHANTS,
        "GB": round(size / 1e9, 2),
        "seconds": seconds,
        "files/s": round(files / seconds),
        "MB/s": round(size / seconds / 1e6, 2),
        "manifest MB": round(loads.manifest / 1e6, 1),
    }
    for role in ("client", "listing", "scheduler"):
        if role in loads.of and loads.of[role].cpu:
            load = loads.of[role]
            row |= {f"{role} MB": round(load.memory / 1e6, 1), f"{role} CPU %": round(load.busy(), 1)}
            row[f"{role} busiest %"] = round(load.busiest(), 1)
    row |= {"CPU %": round(100 * busy / had, 1), "equal": is_equal(tree, folder / "to") and not failed}
    say(str(row))
    return row
