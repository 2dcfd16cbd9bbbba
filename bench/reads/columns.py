"""Half of the branches of 12,000 events, 715 MB: hither over HTTP beside ROOT's TTreeCache over root:// and HTTP.

The job of the talk on davix, at 1 Gbit/s and 0.3 ms and 25 ms. Everybody reads the same file, decompresses the same
baskets and sums the same values; the sum has to be ROOT's. Needs root, for the links.
"""

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.generators import eventfile
from bench.harness import interleaved, servers
from bench.harness.contenders import Run, peer
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Wan, is_root
from bench.harness.paths import HITHER, RESULTS

LINKS = (Link("j", 0.3, 1000, "the same site"), Link("k", 25, 1000, "across a continent"))
CACHE = 100_000_000
ROOT_NAMES = ("ROOT root://", "ROOT root://, threads", "ROOT root://, 100 MB cache")


def entrants(http: str, root: str, host: str, raw: int, facts: dict) -> list[Entrant]:
    def check(run: Run) -> str | None:
        total = run.selected * run.mean
        right = run.selected == facts["values"] and math.isclose(total, facts["sum"], rel_tol=1e-9)
        return None if right else f"{run.selected} values and a sum of {total} instead of {facts['values']} and {facts['sum']}"

    draw = [HITHER, "draw", f"{http}:{facts['tree']}", eventfile.expression(), "--no-store", "--json"]
    root_sum = peer("columns.root_sum")
    wire = peer("bytes.raw_client", host, raw, facts["job_bytes"])
    return [
        Entrant("hither http", draw, check),
        Entrant(ROOT_NAMES[0], [*root_sum, root], check),
        Entrant(ROOT_NAMES[1], [*root_sum, root, "--threads"], check),
        Entrant(ROOT_NAMES[2], [*root_sum, root, "--cache", CACHE], check),
        Entrant("ROOT http", [*root_sum, http], check),
        Entrant("wire", wire),
    ]


def bounds(played: Rounds, chosen: list[Link]) -> Iterator[str]:
    for link in chosen:
        for name in ROOT_NAMES:
            yield interleaved.bound(f"{link.label}: hither over http beside {name}", played.ratio(link.label, "", "hither http", name), 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one run each, at 25 ms only")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "columns")
    options = parser.parse_args()
    if not is_root():
        sys.exit("columns: the links need root (network namespaces)")
    facts = eventfile.ensure()
    file = eventfile.DEFAULT_OUTPUT
    chosen = [LINKS[-1]] if options.quick else list(LINKS)
    played = Rounds(1 if options.quick else options.runs)
    with interleaved.until_interrupted():
        for link in chosen:
            with (
                Wan(link) as where,
                servers.nginx(where, file.parent) as http,
                servers.xrootd(where, file.parent) as xrootd,
                servers.raw(where) as raw,
            ):
                host = where.server_host
                urls = f"http://{host}:{http}/{file.name}", f"root://{host}:{xrootd}//{file.name}"
                played.play(where, link.label, "", entrants(*urls, host, raw, facts))
    notes = [
        f"The sum of {len(eventfile.job_branches())} of {facts['branches']} branches over {facts['entries']:,} events: "
        f"{facts['job_bytes'] / 1e6:.0f} MB of a file of {facts['bytes'] / 1e6:.0f} MB, zlib level 1, baskets and",
        "clusters as ROOT chooses. nginx and xrootd serve the same file; `wire` is as many bytes over one TCP connection,",
        "nothing decoded. Client, server and link share two cores, cubic, medians; start-up of Python and ROOT not counted",
        "in seconds, but in CPU.",
    ]
    interleaved.write(played, options.output, "Half of the branches", notes, bounds(played, chosen), "wire")
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
