"""A column read by libraries over filesystems: hither's, fsspec's own http, and obstore's.

Over a link of 20 ms; nginx serves a table of ten columns and a million rows in the libraries'
formats. Needs root, for the link; obstore is left out where it is not installed.
"""

import json
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from bench.harness import interleaved, servers
from bench.harness.arguments import Arguments
from bench.harness.contenders import Run, peer
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Wan
from bench.harness.paths import ROOT, temporary_folder
from bench.peers.columns.consumer_read import COLUMN, LIBRARIES

LINK = Link("x", 20, 1000, "across a country")
ROWS, COLUMNS, CHUNK = 1_000_000, 10, 10_000
DATA = ROOT / "target" / "data" / "consumers"
FILESYSTEMS = ("hither", "fsspec", "obstore")


def ensure() -> dict:
    """Write the files if they are missing; the number and the mean of the values that are read."""
    answer = DATA / "answer.json"
    if answer.exists():
        return json.loads(answer.read_text())
    import h5py
    import numpy as np
    import pandas as pd
    import xarray as xr
    import zarr

    DATA.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    table = pd.DataFrame({f"c{number}": random.normal(size=ROWS) for number in range(COLUMNS)})
    table.to_parquet(DATA / "table.parquet", row_group_size=ROWS // 10)
    with h5py.File(DATA / "table.h5", "w") as file:
        for name in table:
            file.create_dataset(name, data=table[name].to_numpy(), chunks=(CHUNK,), compression="gzip")
    zarr.create_array(store=DATA / f"{COLUMN}.zarr", data=table[COLUMN].to_numpy(), chunks=(CHUNK,), overwrite=True)
    whole = xr.Dataset({name: ("entry", table[name].to_numpy()) for name in table})
    whole.chunk({"entry": CHUNK}).to_zarr(DATA / "set.zarr", mode="w", consolidated=True)
    right = {"values": ROWS, "mean": float(table[COLUMN].mean())}
    answer.write_text(json.dumps(right))
    return right


def entrants(library: str, base: str, right: dict, log: Path) -> list[Entrant]:
    """A library over each filesystem; requests are lines of the server's log."""

    def lines() -> int:
        return log.read_bytes().count(b"\n")

    def checked(before: list[int]) -> Callable[[Run], str | None]:
        def check(run: Run) -> str | None:
            run.requests = lines() - before[0]
            return run.disagreement(right["values"], right["mean"])

        return check

    all_of_them = []
    for filesystem in FILESYSTEMS:
        before = [0]
        is_here = filesystem != "obstore" or find_spec("obstore") is not None
        command = peer("columns.consumer_read", library, filesystem, base) if is_here else None
        note = lambda before=before: before.__setitem__(0, lines())  # noqa: E731
        all_of_them.append(Entrant(f"{library}, {filesystem}", command, checked(before), note))
    return all_of_them


def check_targets(played: Rounds) -> Iterator[str]:
    at = LINK.label
    for library in LIBRARIES:
        for figure in ("seconds", "requests"):
            ours, theirs = (played.median(at, "", f"{library}, {name}", figure) for name in ("hither", "fsspec"))
            if ours and theirs:
                what = f"{library}: {ours:.3g} {figure}, at most 1.1 x fsspec's {theirs:.3g}"
                yield interleaved.target_line(what, ours <= 1.1 * theirs)


def main() -> int:
    parser = Arguments(__doc__, "python_api/consumers")
    options = parser.parse()
    right = ensure()
    played = Rounds(options.runs)
    with interleaved.until_interrupted(), temporary_folder() as folder, Wan(LINK) as where:
        log = folder / "access.log"
        with servers.nginx(where, DATA, log) as port:
            base = f"http://{where.server_host}:{port}"
            for library in LIBRARIES:
                played.play(where, LINK.label, "", entrants(library, base, right, log))
    size = (DATA / "table.parquet").stat().st_size
    notes = [
        f"One of {COLUMNS} columns of {ROWS:,} numbers: Parquet ({size / 1e6:.0f} MB, 10 row groups), HDF5 and zarr (chunks of",
        f"{CHUNK:,} numbers). New process for each run, imports not counted; requests by nginx's log.",
    ]
    return interleaved.write(played, options.output, "Libraries over filesystems", notes, check_targets(played))


if __name__ == "__main__":
    sys.exit(main())
