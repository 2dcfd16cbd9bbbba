"""Two nodes that share a line of twice the usual rate to a far server, over TLS."""

import os
import shutil
from pathlib import Path

from bench.cluster.machines import busy_seconds
from bench.cluster.nodes import nodes
from bench.cluster.site import MBIT, PAYLOAD, Watched, copy, is_equal, nginx, write_source
from bench.harness import servers
from bench.harness.interleaved import say
from bench.harness.links import Link, Wan

NAMES = "ab"


def delays(options, folder: Path) -> list[dict]:
    mbit = MBIT * len(NAMES)
    tree = folder / "www" / "tree"
    size = write_source(tree, int(mbit * 1e6 / 8 * PAYLOAD * options.seconds))
    rows: list[dict] = []
    for delay in map(float, options.delays.split(",")):
        place = folder / str(delay)
        place.mkdir()
        seconds, failed, busy = run(Link("T", delay, mbit, ""), folder / "www", place)
        rate = size / seconds / 1e6
        rows.append(
            {
                "RTT ms": delay,
                "GB": round(size / 1e9, 3),
                "seconds": seconds,
                "MB/s": round(rate, 2),
                "of the first": round(rate / rows[0]["MB/s"], 3) if rows else "",
                "of the line %": round(100 * rate / (mbit / 8 * PAYLOAD), 1),
                "CPU %": round(100 * busy, 1),
                "equal": is_equal(tree, place / "to") and not failed,
            }
        )
        say(str(rows[-1]))
        shutil.rmtree(place)
    return rows


def run(link: Link, www: Path, place: Path) -> tuple[float, int, float]:
    """Returns the seconds of the copy, the files that failed, and the share of all CPU time."""
    with Wan(link) as where:
        tls = servers.certificate(place, where.server_host)
        os.environ["SSL_CERT_FILE"] = str(tls.authority)
        with nginx(where, www, place / "log", tls=tls) as port, nodes(place, NAMES, where) as those:
            work = busy_seconds()
            client = Watched(copy(those, f"https://{where.server_host}:{port}/tree", place / "to"))
            client.end()
            busy, had = (after - before for before, after in zip(work, busy_seconds(), strict=True))
    seconds, failed, _ = client.done
    return seconds, failed, busy / had
