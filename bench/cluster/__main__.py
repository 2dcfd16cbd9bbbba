"""Copies a tree by 1, 2 and 4 nodes, and by two of which one fails at a random moment.

Network namespaces are the machines, each with a line of 100 Mbit/s; server, scheduler and client
are at the hub, where no line limits them. The nodes share the file system of the destination.

    python -m bench.cluster --scale --seconds 60
    python -m bench.cluster --scale --names ab --lines 2
    python -m bench.cluster --kills 10 --seed 1 [--faults node,stop]
    python -m bench.cluster --scale --server-mbit 250
    python -m bench.cluster --million 1000000
    python -m bench.cluster --delays 0.2,120
    python -m bench.cluster --figures

Rates are those of payload. A run counts when the copy is complete and equal to its source, byte by
byte. What was sent again is what the server sent beyond the size of the tree; *leased* is the size
of the leases that nodes had when the fault came, and *in hand* what had come of them. The dip is
the longest time in which nothing came. Faults of `nic` and `link` are those of one of the two lines
that the nodes have in such a run: its interface notices, or packets vanish. The server logs a
request when its connection ends, for which it waits DEAD_SECONDS on a dead line. It counts what it
has handed to its kernel, so *sent again* is an upper limit, and has the heads of the responses.
"""

import itertools
import math
import random
import shutil
import signal
import threading
import time
from functools import partial
from pathlib import Path

from bench.cluster.delays import delays
from bench.cluster.figures import draw
from bench.cluster.machines import Machines, busy_seconds
from bench.cluster.million import million
from bench.cluster.nodes import Nodes
from bench.cluster.site import MBIT, PAYLOAD, Watched, copy, is_equal, nginx, run_copy, site, write_source
from bench.harness import access_log, tables
from bench.harness.arguments import Arguments
from bench.harness.interleaved import say
from bench.harness.paths import MEMORY, temporary_folder

STOPPED_SECONDS = 12
FAULTS = ("node", "nic", "link", "scheduler", "client", "stop", "cut", "mover")
OF_A_LINE = ("nic", "link")
DEAD_SECONDS = 6
"""The server gives up a connection on which nothing has moved for this long."""


def scale(options, folder: Path) -> list[dict]:
    """The model of scale: the first run's rate for each line, until the server's line is full."""
    rows = []
    for names in options.names.split(","):
        place = folder / names
        (place / "www").mkdir(parents=True)
        most = min(len(names) * options.lines * MBIT, options.server_mbit or math.inf) * 1e6 / 8 * PAYLOAD
        size = write_source(place / "www" / "tree", int(most * options.seconds))
        lines = len(names) * options.lines
        model = rows and min(lines * rows[0]["MB/s"] / rows[0]["NICs"], most / 1e6)
        with site(place, names, nginx, options.lines, options.server_mbit) as (machines, nodes, url):
            work = busy_seconds()
            client = Watched(copy(nodes, url, place / "to", machines.lines()))
            client.end()
            seconds, failed, shares = client.done
            busy, had = (after - before for before, after in zip(work, busy_seconds(), strict=True))
            received = [machines.received(name, line) for name in names for line in range(options.lines)]
        equal = is_equal(place / "www" / "tree", place / "to")
        uneven = max(received) / (sum(received) / len(received)) - 1
        rate = size / seconds / 1e6
        rows.append(
            {
                "nodes": len(names),
                "NICs": lines,
                "server Mbit/s": options.server_mbit or "",
                "GB": round(size / 1e9, 3),
                "seconds": seconds,
                "MB/s": round(rate, 2),
                "model MB/s": round(model, 2) if model else "",
                "off %": round(100 * (rate / model - 1), 1) if model else "",
                "of one node": round(rate / rows[0]["MB/s"], 2) if rows and rows[0]["nodes"] == 1 else "",
                "of the lines %": round(1e8 * rate / most, 1),
                "uneven %": round(100 * uneven, 1),
                "CPU %": round(100 * busy / had, 1),
                "equal": equal and not failed,
            }
        )
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
        serve = partial(nginx, dead=DEAD_SECONDS if fault in ("cut", *OF_A_LINE) else 60)
        with site(place, "ab", serve, 2 if fault in OF_A_LINE else 1) as (machines, nodes, url):
            client = Watched(copy(nodes, url, place / "to", machines.lines()))
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
                again = Watched(copy(nodes, url, place / "to", machines.lines()))
                code = again.end()
                dip = max(dip, again.dip())
            else:
                again = client
            # Until the server has logged everything.
            time.sleep(STOPPED_SECONDS if fault in ("stop", "cut") else DEAD_SECONDS + 1 if fault in OF_A_LINE else 1)
            equal = is_equal(place / "www" / "tree", place / "to")
            sent = sum(
                row.bytes_sent
                for row in access_log.table_rows((place / "access.log").read_text())
                if row.method == "GET"
            )
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


def main() -> None:
    parser = Arguments(__doc__, "cluster", quick="one short run of each kind")
    parser.add_argument("--scale", action="store_true", help="1, 2 and 4 nodes")
    parser.add_argument(
        "--seconds", type=float, default=60, help="length of a run at the rate of the lines (default %(default)s)"
    )
    parser.add_argument("--names", default="a,ab,abcd", help="the nodes of each run (default %(default)s)")
    parser.add_argument("--lines", type=int, default=1, help="network interfaces of a node (default %(default)s)")
    parser.add_argument("--server-mbit", type=float, help="rate of the server's line (default no limit)")
    parser.add_argument("--delays", default="", help="round trips in ms of runs over TLS, such as 0.2,120")
    parser.add_argument("--figures", action="store_true", help="draw a run on a disk, in which things fail")
    parser.add_argument("--kills", type=int, default=0, help="runs with a fault")
    parser.add_argument("--faults", default=",".join(FAULTS), help="their kinds, in turn (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default %(default)s)")
    parser.add_argument("--megabytes", type=int, default=150, help="size of a tree with a fault (default %(default)s)")
    parser.add_argument("--million", type=int, default=0, help="small files of a run with elephants")
    parser.add_argument("--copy", nargs=3, help="run as the client of a run")
    parser.add_argument("--source", action="append", default=[], help="interfaces that nodes use")
    parser.add_argument("--wait", type=int, default=1, help="workers that the client waits for")
    options = parser.parse()
    if options.copy:
        run_copy(*options.copy, options.wait, options.source)
        return
    if options.quick:
        options.seconds, options.kills, options.megabytes = 3, 6, 60
    if options.figures:
        draw(options.output, options.seconds)
    with temporary_folder(MEMORY) as folder:
        if options.scale or options.quick:
            tables.add_rows(Path(f"{options.output}-scale"), "# One, two and four nodes", scale(options, folder))
        if options.delays:
            tables.add_rows(
                Path(f"{options.output}-delay"), "# Two nodes far from a server, over TLS", delays(options, folder)
            )
        if options.million:
            tables.add_rows(Path(f"{options.output}-million"), "# A million files", [million(options.million, folder)])
        if options.kills:
            tables.add_rows(Path(f"{options.output}-faults"), "# Nodes that fail", kills(options, folder))


if __name__ == "__main__":
    main()
