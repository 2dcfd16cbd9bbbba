"""Half of the branches of 12,000 events, 715 MB: hither over HTTP, ROOT over root:// and HTTP.

The job of the talk on davix, at 1 Gbit/s and 0.3 ms and 25 ms. All read the same file, decompress
the same baskets and sum the same values; the sum has to be ROOT's. Needs root, for the links.
"""

import sys
from collections.abc import Iterator

from bench.generators import eventfile
from bench.harness import interleaved
from bench.harness.arguments import Arguments
from bench.harness.contenders import Addresses, Run, peer, serving
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER

LINKS = (Link("j", 0.3, 1000, "the same site"), Link("k", 25, 1000, "across a continent"))
CACHE = 100_000_000
ROOT_NAMES = ("ROOT root://", "ROOT root://, threads", "ROOT root://, 100 MB cache")


def entrants(at: Addresses, facts: dict) -> list[Entrant]:
    def check(run: Run) -> str | None:
        return run.disagreement(facts["values"], facts["sum"] / facts["values"])

    def root_sum(name: str, url: str, *options: object) -> Entrant:
        return Entrant(name, peer("columns.root_sum", url, *options), check)

    draw = [HITHER, "draw", f"{at.http}:{facts['tree']}", eventfile.expression(), "--no-store", "--json"]
    return [
        Entrant("hither http", draw, check),
        root_sum(ROOT_NAMES[0], at.root),
        root_sum(ROOT_NAMES[1], at.root, "--threads"),
        root_sum(ROOT_NAMES[2], at.root, "--cache", CACHE),
        root_sum("ROOT http", at.http),
        Entrant("wire", peer("bytes.raw_client", *at.raw, facts["job_bytes"])),
    ]


def check_targets(played: Rounds, chosen: list[Link]) -> Iterator[str]:
    for link in chosen:
        for name in ROOT_NAMES:
            ratio = played.ratio(link.label, "", "hither http", name)
            yield interleaved.ratio_line(f"{link.label}: hither over http beside {name}", ratio, 1)


def main() -> int:
    options = Arguments(__doc__, "reads/columns", quick="one run each, at 25 ms only").parse()
    facts = eventfile.ensure()
    chosen = LINKS[-1:] if options.quick else LINKS
    played = Rounds(options.runs)
    with interleaved.until_interrupted():
        for link in chosen:
            with Wan(link) as where, serving(where, eventfile.DEFAULT_OUTPUT) as at:
                played.play(where, link.label, "", entrants(at, facts))
    notes = [
        f"The sum of {len(eventfile.job_branches())} of {facts['branches']} branches over {facts['entries']:,} events: "
        f"{facts['job_bytes'] / 1e6:.0f} MB of a file of {facts['bytes'] / 1e6:.0f} MB, zlib level 1, baskets and",
        "clusters as ROOT chooses. nginx and xrootd serve the same file; `wire` is as many bytes over one TCP connection,",
        "nothing decoded. Start-up of Python and ROOT is not counted in seconds, but in CPU.",
    ]
    return interleaved.write(
        played, options.output, "Half of the branches", notes, check_targets(played, chosen), "wire"
    )


if __name__ == "__main__":
    sys.exit(main())
