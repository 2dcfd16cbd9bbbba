"""Reads columns of a local tree as arrays, by one of several readers, several times in one process.

    python -m bench.peers.columns.decode_read READER FILE REPEATS CPUS

READER is `hither`, `uproot`, `uproot-threads` (decompression on a pool of as many threads as there
are CPUs), `root` (RDataFrame's AsNumpy on as many threads), or `liblzma`: every basket of the
columns through Python's liblzma, one after the other. The file is opened each time, outside the
measured time. The first read is not counted: compiling, page cache.
"""

import json
import os
import statistics
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.generators.nanofile import COLUMNS, TREE
from bench.harness.pyroot import import_root

# Columns whose sums are compared: one of each kind.
CHECKED = ("event_f1", "event_i0", "HLT_1", "Muon_pt", "GenPart_v8")
BLOCK = 9


def checked_lists(arrays) -> tuple[int, float]:
    import awkward as ak
    import numpy as np

    flat = [np.asarray(ak.flatten(arrays[name], axis=None), dtype="f8") for name in CHECKED]
    return sum(map(len, flat)), float(sum(values.sum() for values in flat))


def hither_reader(path: str, cpus: int) -> Callable:
    import hither

    client = hither.Client(store=False, decode_threads=cpus)

    def read():
        tree = hither.open_tree(path, TREE, client=client)
        _ = tree.num_entries
        return lambda: tree.arrays(COLUMNS, native=True), checked_lists

    return read


def uproot_reader(path: str, workers: int) -> Callable:
    from concurrent.futures import ThreadPoolExecutor

    import uproot

    class Pool(ThreadPoolExecutor):
        """An executor with the property that uproot needs beside `submit`."""

        @property
        def num_workers(self) -> int:
            return workers

    options = {"decompression_executor": Pool(workers)} if workers > 1 else {}

    def read():
        tree = uproot.open(path, array_cache=None)[TREE]
        return lambda: tree.arrays(COLUMNS, **options), checked_lists

    return read


def root_reader(path: str, cpus: int) -> Callable:
    import numpy as np

    ROOT = import_root()
    ROOT.EnableImplicitMT(cpus)

    def checked(arrays) -> tuple[int, float]:
        flat = []
        for name in CHECKED:
            array = arrays[name]
            lists = array.dtype == object
            flat.append(np.concatenate([np.asarray(it) for it in array]) if lists else np.asarray(array))
        return sum(map(len, flat)), float(sum(values.astype("f8").sum() for values in flat))

    def read():
        frame = ROOT.RDataFrame(TREE, path)
        return lambda: frame.AsNumpy(COLUMNS), checked

    return read


def liblzma_reader(path: str, _: int) -> Callable:
    import lzma

    import uproot

    def read():
        tree = uproot.open(path)[TREE]
        file = Path(path).read_bytes()
        blocks = []
        for name in COLUMNS:
            seeks, sizes = tree[name].member("fBasketSeek"), tree[name].member("fBasketBytes")
            for seek, size in zip(seeks[: tree[name].num_baskets], sizes, strict=False):
                (keylen,) = struct.unpack(">H", file[seek + 14 : seek + 16])
                at, end = int(seek) + keylen, int(seek) + int(size)
                while file[at : at + 2] == b"XZ":
                    (packed,) = struct.unpack("<I", file[at + 3 : at + 6] + b"\0")
                    blocks.append(file[at + BLOCK : at + BLOCK + packed])
                    at += BLOCK + packed
                    if at >= end:
                        break

        def work():
            return sum(len(lzma.decompress(block, lzma.FORMAT_XZ)) for block in blocks)

        return work, lambda total: (None, total)

    return read


def main() -> None:
    reader, path, repeats, cpus = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])
    make = {
        "hither": lambda: hither_reader(path, cpus),
        "uproot": lambda: uproot_reader(path, 1),
        "uproot-threads": lambda: uproot_reader(path, cpus),
        "root": lambda: root_reader(path, cpus),
        "liblzma": lambda: liblzma_reader(path, cpus),
    }[reader]()
    times = []
    for _ in range(repeats + 1):
        read, check = make()
        started = time.monotonic()
        arrays = read()
        times.append(time.monotonic() - started)
    selected, total = check(arrays)
    report = {"seconds": statistics.median(times[1:]), "first": times[0], "all": times}
    # Flushed here, because ROOT's implicit threads may keep the process from ending normally.
    print(json.dumps({"selected": selected, "mean": total, "report": report}), flush=True)


if __name__ == "__main__":
    main()
