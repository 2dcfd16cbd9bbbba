"""Libraries that open hither's URLs directly: the rows of the table in docs/guides."""

import pytest
from needs import missing, python_package

fsspec = python_package("fsspec")

from serving import Loopback, servers, serving  # noqa: E402

from hither.fsspec import HitherFileSystem  # noqa: E402

OPTIONS = {"store": False, "anonymous": True}
ROWS = 2000


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The URL, without its scheme, of a server with a table in the formats of all libraries."""
    np = python_package("numpy")
    folder = tmp_path_factory.mktemp("www")
    folder.chmod(0o777)
    values = np.arange(ROWS, dtype="f8")
    pandas = python_package("pandas")
    frame = pandas.DataFrame({"pt": values, "eta": -values})
    frame.to_parquet(folder / "table.parquet")
    frame.to_csv(folder / "table.csv", index=False)
    h5py = python_package("h5py")
    with h5py.File(folder / "table.h5", "w") as file:
        file.create_dataset("pt", data=values, chunks=(100,))
    zarr = python_package("zarr")
    zarr.create_array(store=str(folder / "pt.zarr"), data=values, chunks=(100,))
    uproot = python_package("uproot")
    with uproot.recreate(folder / "table.root") as file:
        file.mktree("T", {"pt": "f8"}).extend({"pt": values})
    if _is_installed("xarray"):
        import xarray

        table = xarray.Dataset({"pt": ("entry", values)})
        table.to_zarr(folder / "set.zarr")
        if _is_installed("h5netcdf"):
            table.to_netcdf(folder / "set.nc", engine="h5netcdf")
    with serving("apache", folder) as url:
        yield url.removeprefix("http")


def _is_installed(module):
    try:
        __import__(module)
    except ImportError:
        return False
    return True


def total(values):
    return float(sum(values))


def pandas_parquet(url):
    import pandas as pd

    return total(pd.read_parquet(f"{url}/table.parquet", columns=["pt"], storage_options=OPTIONS)["pt"])


def pandas_csv(url):
    import pandas as pd

    return total(pd.read_csv(f"{url}/table.csv", storage_options=OPTIONS)["pt"])


def pyarrow_table(url):
    import pyarrow.parquet

    return total(pyarrow.parquet.read_table(f"fsspec+{url}/table.parquet", columns=["pt"])["pt"].to_numpy())


def pyarrow_filesystem(url):
    import pyarrow.dataset

    found = pyarrow.dataset.dataset(f"{url}/table.parquet", filesystem=HitherFileSystem(**OPTIONS))
    return total(found.to_table(columns=["pt"])["pt"].to_numpy())


def polars_csv(url):
    import polars as pl

    with HitherFileSystem(**OPTIONS).open(f"{url}/table.csv") as file:
        return total(pl.read_csv(file)["pt"])


def polars_parquet(url):
    import polars as pl

    return total(pl.read_parquet(f"{url}/table.parquet", use_pyarrow=True, storage_options=OPTIONS)["pt"])


def polars_scan(url):
    import polars as pl

    with HitherFileSystem(**OPTIONS).open(f"{url}/table.parquet") as file:
        return total(pl.scan_parquet(file).select("pt").collect()["pt"])


def polars_dataset(url):
    import polars as pl
    import pyarrow.dataset

    found = pyarrow.dataset.dataset(f"{url}/table.parquet", filesystem=HitherFileSystem(**OPTIONS))
    return total(pl.scan_pyarrow_dataset(found).select("pt").collect()["pt"])


def duckdb_parquet(url):
    import duckdb

    with duckdb.connect() as connection:
        connection.register_filesystem(HitherFileSystem(**OPTIONS))
        return connection.sql(f"select sum(pt) from read_parquet('{url}/*.parquet')").fetchall()[0][0]


def duckdb_csv(url):
    import duckdb

    with duckdb.connect() as connection:
        connection.register_filesystem(HitherFileSystem(**OPTIONS))
        return connection.sql(f"select sum(pt) from '{url}/table.csv'").fetchall()[0][0]


def xarray_zarr(url):
    import xarray

    return total(xarray.open_zarr(f"{url}/set.zarr", storage_options=OPTIONS)["pt"].values)


def xarray_netcdf(url):
    import xarray

    with xarray.open_dataset(f"{url}/set.nc", engine="h5netcdf", storage_options=OPTIONS) as found:
        return total(found["pt"].values)


def zarr_array(url):
    import zarr

    return total(zarr.open_array(f"{url}/pt.zarr", mode="r", storage_options=OPTIONS)[:])


def dask_bytes(url):
    import dask.bytes

    _, [blocks] = dask.bytes.read_bytes(f"{url}/table.csv", **OPTIONS)
    lines = b"".join(block.compute() for block in blocks).splitlines()
    return total(float(line.split(b",")[0]) for line in lines[1:])


def h5py_file(url):
    import h5py

    with fsspec.open(f"{url}/table.h5", **OPTIONS) as remote, h5py.File(remote, "r") as file:
        return total(file["pt"][:])


def uproot_file(url):
    import uproot

    with uproot.open(f"{url}/table.root:T", **OPTIONS) as tree:
        return total(tree["pt"].array(library="np"))


def fsspec_file(url):
    with fsspec.open(f"{url}/table.csv", "rt", **OPTIONS) as file:
        return total(float(line.split(",")[0]) for line in list(file)[1:])


READERS = [
    pandas_parquet,
    pandas_csv,
    pyarrow_table,
    pyarrow_filesystem,
    polars_csv,
    polars_parquet,
    polars_scan,
    polars_dataset,
    duckdb_parquet,
    duckdb_csv,
    xarray_zarr,
    xarray_netcdf,
    zarr_array,
    dask_bytes,
    h5py_file,
    uproot_file,
    fsspec_file,
]
NEEDS = {"xarray_netcdf": ["xarray", "h5netcdf"], "polars_parquet": ["polars", "pyarrow"]}


def require(reader):
    for module in NEEDS.get(reader.__name__, [reader.__name__.split("_")[0]]):
        python_package(module)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_libraries_read_urls_of_hither(reader, base):
    require(reader)
    assert reader(f"hitherhttp{base}") == ROWS * (ROWS - 1) / 2


def test_objects_of_s3_are_files(tmp_path, monkeypatch):
    """fsspec and pandas with `hithers3`: listing, reading and writing."""
    pandas = python_package("pandas")
    if not (servers.BUILT_PEERS / "bin" / "s3s-fs").exists():
        missing("s3s-fs")
    key, secret = servers.S3_KEY
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    with servers.s3s(Loopback(), tmp_path) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        fs = HitherFileSystem(store=False, skip_instance_cache=True)
        frame = pandas.DataFrame({"pt": range(ROWS)})
        frame.to_parquet(tmp_path / "table.parquet")
        fs.put_file(str(tmp_path / "table.parquet"), "hithers3://bucket/d/a table.parquet")
        assert fs.ls("s3://bucket/d", detail=False) == ["s3://bucket/d/a table.parquet"]
        assert fs.glob("hithers3://bucket/*/*.parquet") == ["s3://bucket/d/a table.parquet"]
        # Other tests have cached a file system with these options, but without the keys.
        options = {"store": False, "skip_instance_cache": True}
        found = pandas.read_parquet("hithers3://bucket/d/a table.parquet", storage_options=options)
        assert found.equals(frame)
        assert fs.modified("s3://bucket/d/a table.parquet").year > 2000
        fs.rm("s3://bucket/d/a table.parquet")
        assert not fs.exists("s3://bucket/d/a table.parquet")
