"""Columns to arrays: 30 of 1,000 branches of a local NanoAOD-like file in the page cache, by codec.

hither's `tree.arrays`, uproot with its defaults and with decompression threads, ROOT's
RDataFrame.AsNumpy on a thread for each core, and liblzma alone on the same baskets. Each process
opens the file several times and reads it; the median counts. Values are compared.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.generators import nanofile
from bench.harness import interleaved
from bench.harness.arguments import Arguments
from bench.harness.contenders import Run, peer
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Loopback

QUICK_ENTRIES = 20_000
# Targets: how many times faster than each peer, by codec.
FASTER = {
    "zstd": {"uproot": 3, "RDataFrame.AsNumpy": 1.5},
    "zlib": {"uproot": 3, "RDataFrame.AsNumpy": 1.5},
    "lzma": {},
}
OF_LIBLZMA = 0.9


def entrants(file: Path, codec: str, repeats: int, cpus: int, answers: dict) -> tuple[list[Entrant], list[Entrant]]:
    """Entrants of all rounds, and those that run once: AsNumpy compiles for a minute or more."""

    def check(run: Run) -> str | None:
        return run.disagreement(*answers.setdefault(codec, (run.selected, run.mean)))

    def entrant(name: str, reader: str, cores: int, checked: bool = True) -> Entrant:
        times = repeats if reader != "root" else 1
        command = peer("columns.decode_read", reader, file, times, cores)
        return Entrant(name, command, check) if checked else Entrant(name, command)

    found = [
        entrant("hither", "hither", cpus),
        entrant("hither, one core", "hither", 1),
        entrant("uproot", "uproot", cpus),
        entrant("uproot, threads", "uproot-threads", cpus),
    ]
    if codec == "lzma":
        found.append(entrant("liblzma, one core", "liblzma", 1, checked=False))
    return found, [entrant("RDataFrame.AsNumpy", "root", cpus)]


def check_targets(played: Rounds, codecs: list[str], cpus: int) -> Iterator[str]:
    for codec in codecs:
        for name, times in FASTER[codec].items():
            ratio = played.ratio(codec, "", "hither", name)
            yield interleaved.ratio_line(f"{codec}: hither's time beside {name}'s", ratio, 1 / times)
        if codec == "lzma":
            ours, floor = (played.median(codec, "", name) for name in ("hither", "liblzma, one core"))
            ratio = ours * cpus / floor if ours and floor else None
            what = f"{codec}: hither's time beside that of liblzma on {cpus} cores"
            yield interleaved.ratio_line(what, ratio, 1 / OF_LIBLZMA)
        if alone := played.ratio(codec, "", "hither, one core", "hither"):
            yield f"{codec}: {alone:.2f} x as fast on {cpus} cores as on one, {alone / cpus:.0%} of linear"


def main() -> int:
    parser = Arguments(__doc__, "python_api/decode", quick=f"one run each, {QUICK_ENTRIES:,} entries")
    parser.add_argument(
        "--repeats", type=int, default=3, help="reads in each process, after a first one (default %(default)s)"
    )
    parser.add_argument(
        "--codecs", nargs="+", default=list(nanofile.CODECS), choices=nanofile.CODECS, help="default all"
    )
    parser.add_argument("--entries", type=int, default=nanofile.ENTRIES, help="default %(default)s")
    parser.add_argument("--no-root", action="store_true", help="without RDataFrame, which compiles for minutes")
    options = parser.parse(needs_root=False)
    entries = QUICK_ENTRIES if options.quick else options.entries
    cpus = len(os.sched_getaffinity(0))
    played, answers = Rounds(options.runs, timeout=900), {}
    sizes = []
    with interleaved.until_interrupted():
        for codec in options.codecs:
            file = nanofile.ensure(codec, entries)
            sizes.append(f"{file.stat().st_size / 1e6:.0f} MB {codec}")
            file.read_bytes()
            many, once = entrants(file, codec, options.repeats, cpus, answers)
            played.play(Loopback(), codec, "", many)
            if not options.no_root:
                played.round(Loopback(), codec, "", once, 0)
    notes = [
        f"`arrays` of {len(nanofile.COLUMNS)} of 1,000 branches, {entries:,} entries: flat and jagged, floats, integers, flags.",
        f"Files of {', '.join(sizes)}, written by ROOT, in the page cache. The file is open; the first",
        f"read of a process is not counted; medians of {options.repeats} reads in each of {played.count} processes, which take turns.",
        f"{cpus} cores. `liblzma` decompresses the same baskets, and nothing else. AsNumpy runs once, in one process, and its second",
        "call counts.",
    ]
    targets = check_targets(played, options.codecs, cpus)
    return interleaved.write(played, options.output, "Decoding", notes, targets, "hither")


if __name__ == "__main__":
    sys.exit(main())
