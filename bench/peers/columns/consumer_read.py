"""Reads a column of a file with a library that takes fsspec's filesystems or URLs.

    python -m bench.peers.columns.consumer_read LIBRARY FILESYSTEM BASE_URL

FILESYSTEM is `hither`, `fsspec` (its own http) or `obstore`. Imports are not timed.
"""

import json
import sys
import time

import fsspec
import numpy as np

COLUMN = "c3"


def address(fs, base):
    """The URL that names the filesystem, too."""
    return f"hither{base}" if type(fs).__module__.startswith("hither") else base


def pandas(fs, base):
    import pandas as pd

    return pd.read_parquet(f"{base}/table.parquet", columns=[COLUMN], filesystem=fs)[COLUMN].to_numpy()


def pyarrow(fs, base):
    import pyarrow.dataset as ds

    return ds.dataset(f"{base}/table.parquet", filesystem=fs).to_table(columns=[COLUMN])[COLUMN].to_numpy()


def polars(fs, base):
    import polars as pl

    with fs.open(f"{base}/table.parquet") as file:
        return pl.scan_parquet(file).select(COLUMN).collect()[COLUMN].to_numpy()


def duckdb(fs, base):
    import duckdb

    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        url = f"{address(fs, base)}/table.parquet"
        return connection.sql(f"select {COLUMN} from read_parquet('{url}')").fetchnumpy()[COLUMN]


def h5py(fs, base):
    import h5py as h5

    with fs.open(f"{base}/table.h5") as remote, h5.File(remote, "r") as file:
        return file[COLUMN][:]


def zarr(fs, base):
    import zarr as z

    return z.open_array(f"{address(fs, base)}/{COLUMN}.zarr", mode="r", storage_options=fs.storage_options)[:]


def xarray(fs, base):
    import xarray as xr

    with xr.open_zarr(f"{address(fs, base)}/set.zarr", storage_options=fs.storage_options) as found:
        return found[COLUMN].values


def awkward(fs, base):
    import awkward as ak

    with fs.open(f"{base}/table.parquet") as file:
        import pyarrow.parquet as pq

        return ak.to_numpy(ak.from_arrow(pq.read_table(file, columns=[COLUMN]))[COLUMN])


LIBRARIES = {it.__name__: it for it in (pandas, pyarrow, polars, duckdb, h5py, zarr, xarray, awkward)}


def filesystem(name):
    if name == "hither":
        from hither.fsspec import HitherFileSystem

        # As the package's entry points do, if it is installed.
        fsspec.register_implementation("hitherhttp", HitherFileSystem, clobber=True)
        return HitherFileSystem(store=False, anonymous=True)
    if name == "obstore":
        from obstore.fsspec import register

        register("http", asynchronous=False)
        return fsspec.filesystem("http", client_options={"allow_http": True})
    return fsspec.filesystem("http")


def main() -> None:
    library, name, base = sys.argv[1:4]
    fs = filesystem(name)
    __import__(library)
    started = time.monotonic()
    values = np.asarray(LIBRARIES[library](fs, base))
    seconds = time.monotonic() - started
    print(json.dumps({"selected": len(values), "mean": float(values.mean()), "report": {"seconds": seconds}}))


if __name__ == "__main__":
    main()
