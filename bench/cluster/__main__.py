"""Copies a tree by 1, 2 and 4 nodes, and by two of which one fails at a random moment.

Network namespaces are the machines, each with a line of 100 Mbit/s; server, scheduler and client
are at the hub, where no line limits them. The nodes share the file system of the destination.

    python -m bench.cluster --scale --seconds 60
    python -m bench.cluster --scale --names ab --lines 2
    python -m bench.cluster --kills 10 --seed 1 [--faults node,stop]

Rates are those of payload. A run counts when the copy is complete and equal to its source, byte by
byte. What was sent again is what the server sent beyond the size of the tree; *leased* is the size
of the leases that nodes had when the fault came, and *in hand* what had come of them. The dip is
the longest time in which nothing came. Faults of `nic` and `link` are those of one of the two lines
that the nodes have in such a run: its interface notices, or packets vanish. The server logs a
request when its connection ends, on a dead line maybe after the run: *sent again* is then too low.
"""

import csv
import filecmp
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from distributed import Client

import hither.cluster
from bench.cluster.machines import Machines, busy_seconds
from bench.cluster.nodes import Nodes
from bench.harness import access_log, servers, tables
from bench.harness.arguments import Arguments
from bench.harness.content import numbered_blocks, write_tree
from bench.harness.interleaved import say
from bench.harness.paths import MEMORY, temporary_folder

MBIT = 100
LINE = MBIT * 1e6 / 8
PAYLOAD = 1448 / 1514
"""The share of payload in a full packet on the line, its headers included."""
SMALL_FILES = 2000
LARGE_MB = 32
STOPPED_SECONDS = 12
FAULTS = ("node", "nic", "link", "scheduler", "client", "stop", "cut", "mover")
OF_A_LINE = ("nic", "link")
CAP_SECONDS = 150


def write_source(root: Path, size: int) -> int:
    """Large files, and a tenth of the bytes in small ones; returns the size of all."""
    write_tree(root / "small", SMALL_FILES, max(100, size // 10 // SMALL_FILES))
    for number in range(max(1, round(0.9 * size / (LARGE_MB << 20)))):
        with (root / f"large{number:03}").open("wb") as file:
            file.writelines(numbered_blocks(LARGE_MB, 1 << 20))
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def is_equal(one: Path, other: Path) -> bool:
    names = [sorted(path.relative_to(root) for path in root.rglob("*")) for root in (one, other)]
    files = [str(name) for name in names[0] if (one / name).is_file()]
    return names[0] == names[1] and filecmp.cmpfiles(one, other, files, shallow=False)[0] == files


@contextmanager
def site(folder: Path, names: str, lines: int = 1):
    """A server and nodes on their machines; yields them."""
    with ExitStack() as stack:
        machines = stack.enter_context(Machines(names, MBIT, lines))
        log = folder / "access.log"
        port = stack.enter_context(servers.nginx(machines.hub, folder / "www", log, "autoindex on;", workers=2))
        nodes = Nodes(folder, machines.hub)
        stack.callback(nodes.close)
        nodes.start_scheduler(machines.hub.server_host)
        for name in names:
            nodes.start(name, machines.machines[name])
        yield machines, nodes, f"http://{machines.hub.server_host}:{port}/tree", log


def copy(machines: Machines, nodes: Nodes, url: str, target: Path) -> subprocess.Popen:
    """Starts the client at the hub; it writes what it sees to a file."""
    command = [
        sys.executable,
        "-m",
        "bench.cluster",
        "--copy",
        nodes.scheduler_file,
        url,
        target,
        "--wait",
        len(machines.machines),
        *[f"--source={line}" for line in machines.lines() if len(machines.lines()) > 1],
    ]
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(nodes.folder / "client"),
        "XDG_CACHE_HOME": str(nodes.folder / "client"),
    }
    words = machines.hub.client([str(word) for word in command])
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)


def run_copy(scheduler_file: str, url: str, target: str, workers: int, sources: list[str]) -> None:
    """The client's end: prints a row each tenth of a second, and the summary."""
    with Client(scheduler_file=scheduler_file, timeout=30) as dask:
        dask.wait_for_workers(workers, timeout=60)
        began = time.monotonic()
        print("begun", flush=True)

        def show(progress: hither.cluster.ClusterProgress) -> None:
            in_hand = sum(sum(node.open.values()) for node in progress.nodes)
            shares = (node.bytes + sum(node.open.values()) for node in progress.nodes)
            row = [f"{time.monotonic() - began:.2f}", progress.bytes_arrived, in_hand, progress.bytes_leased, *shares]
            print(*row, flush=True)

        done = hither.cluster.copy(dask, url, target, large="16 MiB", source_addresses=sources, progress=show)
        shares = ",".join(f"{name}={size}" for name, size in done.nodes.items())
        print(f"done {time.monotonic() - began:.2f} {done.files_failed} {shares}", flush=True)


class Watched:
    """A client, and what it prints."""

    def __init__(self, process: subprocess.Popen):
        self.process = process
        self.rows: list[tuple[float, ...]] = []
        """Time, and bytes: that came, of those in open leases, of the leases, and of each node."""
        self.done = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "done":
                self.done = float(words[1]), int(words[2]), words[3] if len(words) > 3 else ""
            elif words[0] != "begun":
                self.rows.append((float(words[0]), *map(int, words[1:])))

    def until(self, size: float) -> bool:
        """Waits for some bytes; tells whether the copy is still under way."""
        while self.process.poll() is None:
            if self.rows and self.rows[-1][1] >= size:
                return True
            time.sleep(0.02)
        return False

    def end(self) -> int:
        code = self.process.wait(CAP_SECONDS)
        self._thread.join()
        return code

    def dip(self) -> float:
        """The longest time in which nothing arrived."""
        changes = [
            rows[0][0] for _, group in itertools.groupby(self.rows, key=lambda row: row[1]) for rows in [list(group)]
        ]
        return max((after - before for before, after in itertools.pairwise(changes)), default=0.0)


def scale(options, folder: Path) -> list[dict]:
    rows = []
    for names in options.names.split(","):
        place = folder / names
        (place / "www").mkdir(parents=True)
        size = write_source(place / "www" / "tree", int(len(names) * options.lines * LINE * PAYLOAD * options.seconds))
        with site(place, names, options.lines) as (machines, nodes, url, _):
            work = busy_seconds()
            client = Watched(copy(machines, nodes, url, place / "to"))
            client.end()
            seconds, failed, shares = client.done
            busy, had = (after - before for before, after in zip(work, busy_seconds(), strict=True))
            received = [machines.received(name, line) for name in names for line in range(options.lines)]
        equal = is_equal(place / "www" / "tree", place / "to")
        uneven = max(received) / (sum(received) / len(received)) - 1
        rows.append(
            {
                "nodes": len(names),
                "NICs": len(received),
                "GB": round(size / 1e9, 3),
                "seconds": seconds,
                "MB/s": round(size / seconds / 1e6, 2),
                "of one node": "",
                "of the lines %": round(100 * size / seconds / (len(received) * LINE * PAYLOAD), 1),
                "uneven %": round(100 * uneven, 1),
                "CPU %": round(100 * busy / had, 1),
                "equal": equal and not failed,
            }
        )
        if rows[0]["nodes"] == 1:
            rows[-1]["of one node"] = round(rows[-1]["MB/s"] / rows[0]["MB/s"], 2)
        say(f"{rows[-1]} {shares}")
        shutil.rmtree(place)
    return rows


def fail(fault: str, machines: Machines, nodes: Nodes, client: Watched) -> None:
    """Lets something fail; what is stopped or cut off comes back."""
    if fault == "node":
        nodes.kill("b")
    elif fault == "mover":
        nodes.signal("b", signal.SIGKILL, only="hither\0mover")
    elif fault == "scheduler":
        nodes.kill("scheduler")
    elif fault == "client":
        client.process.kill()
    elif fault == "nic":
        machines.cut("b", off=True, line=1)
    elif fault == "link":
        machines.silence("b", off=True, line=1)
    elif fault == "stop":
        nodes.signal("b", signal.SIGSTOP)
        threading.Timer(STOPPED_SECONDS, nodes.signal, ("b", signal.SIGCONT)).start()
    else:
        machines.cut("b", off=True)
        threading.Timer(STOPPED_SECONDS, machines.cut, ("b",), {"off": False}).start()


def kills(options, folder: Path) -> list[dict]:
    chance = random.Random(options.seed)
    rows = []
    for number, fault in zip(range(options.kills), itertools.cycle(options.faults.split(",")), strict=False):
        place = folder / str(number)
        (place / "www").mkdir(parents=True)
        size = write_source(place / "www" / "tree", options.megabytes << 20)
        with site(place, "ab", 2 if fault in OF_A_LINE else 1) as (machines, nodes, url, log):
            client = Watched(copy(machines, nodes, url, place / "to"))
            moment = chance.uniform(0.02, 0.9)
            hit = client.until(moment * size)
            in_hand, leased = client.rows[-1][2:4] if client.rows else (0, 0)
            fail(fault, machines, nodes, client)
            code = client.end()
            dip = client.dip()
            if client.done is None:
                if fault == "scheduler":
                    # Workers end by themselves, movers go on.
                    for name in "ab":
                        nodes.wait(name)
                    nodes.start_scheduler(machines.hub.server_host)
                    for name in "ab":
                        nodes.start(name)
                again = Watched(copy(machines, nodes, url, place / "to"))
                code = again.end()
                dip = max(dip, again.dip())
            else:
                again = client
            time.sleep(STOPPED_SECONDS if fault in ("stop", "cut") else 0)
            equal = is_equal(place / "www" / "tree", place / "to")
            sent = sum(row.bytes_sent for row in access_log.table_rows(log.read_text()) if row.method == "GET")
        rows.append(
            {
                "seed": f"{options.seed}.{number}",
                "fault": fault,
                "at %": round(100 * moment),
                "hit": hit,
                "exit": code,
                "equal": equal and again.done is not None and not again.done[1],
                "dip s": round(dip, 1),
                "in hand MB": round(in_hand / 1e6, 1),
                "leased MB": round(leased / 1e6, 1),
                "sent again MB": round((sent - size) / 1e6, 1),
            }
        )
        say(str(rows[-1]))
        shutil.rmtree(place)
    return rows


def write_tables(output: Path, title: str, rows: list[dict]) -> None:
    """Adds the rows to those of the CSV file, which may lack columns, and writes all as a table."""
    path = output.with_suffix(".csv")
    if path.exists():
        with path.open(newline="") as file:
            rows = [{**dict.fromkeys(rows[0], ""), **row} for row in csv.DictReader(file)] + rows
    tables.write_csv(output, rows)
    tables.save(output, [title, "", *tables.markdown(rows[0], (map(str, row.values()) for row in rows))])


def main() -> None:
    parser = Arguments(__doc__, "cluster", quick="one short run of each kind")
    parser.add_argument("--scale", action="store_true", help="1, 2 and 4 nodes")
    parser.add_argument(
        "--seconds", type=float, default=60, help="length of a run at the rate of the lines (default %(default)s)"
    )
    parser.add_argument("--names", default="a,ab,abcd", help="the nodes of each run (default %(default)s)")
    parser.add_argument("--lines", type=int, default=1, help="network interfaces of a node (default %(default)s)")
    parser.add_argument("--kills", type=int, default=0, help="runs with a fault")
    parser.add_argument("--faults", default=",".join(FAULTS), help="their kinds, in turn (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default %(default)s)")
    parser.add_argument("--megabytes", type=int, default=150, help="size of a tree with a fault (default %(default)s)")
    parser.add_argument("--copy", nargs=3, help="run as the client of a run")
    parser.add_argument("--source", action="append", default=[], help="interfaces that nodes use")
    parser.add_argument("--wait", type=int, default=1, help="workers that the client waits for")
    options = parser.parse()
    if options.copy:
        run_copy(*options.copy, options.wait, options.source)
        return
    if options.quick:
        options.seconds, options.kills, options.megabytes = 3, 6, 60
    with temporary_folder(MEMORY) as folder:
        if options.scale or options.quick:
            write_tables(Path(f"{options.output}-scale"), "# One, two and four nodes", scale(options, folder))
        if options.kills:
            write_tables(Path(f"{options.output}-faults"), "# Nodes that fail", kills(options, folder))


if __name__ == "__main__":
    main()
