"""pytest plugin with which uproot's own tests read through hither, from this machine only.

`test_uproot_suite.py` starts a process with it. uproot's HTTP sources are replaced with hither's.
Files that the tests would download are read from the folder HITHER_SAMPLES, and requests to remote
servers are sent to HITHER_SERVER, which serves the same folder.
"""

import os
import re
import sys
import types
from pathlib import Path

import pytest
import uproot

import hither.uproot

SAMPLES = Path(os.environ["HITHER_SAMPLES"])
SERVER = os.environ["HITHER_SERVER"]
# Prefixes of our names for the files of these folders.
ELSEWHERE = {
    "://scikit-hep.org/uproot3/examples/": "uproot-",
    "://scikit-hep.org:443/uproot3/examples/": "uproot-",
}

# Excluded tests, by file and name, with the reasons.
LEFT_OUT = {
    r"xrootd": "the protocol of XRootD",
    r"s3|ssh|github|memory|_tar|_zip": "other filesystems of fsspec, which uproot reads as ever",
    r"fsspec_chunks|open_fsspec_http|FSSpecSource": "uproot's source over fsspec, asked for by name",
    r"simplecache|cache_http_directory": "a cache of fsspec's in front, asked for by name",
    r"globbing": "needs the network, and asserts that uproot finds no files by pattern over HTTP",
    r"_0066_|_0088_.*issue176|_0220_": "servers that are not there any more",
    r"batching_covers|next_header|closed_source_raises": "the inside of uproot's own HTTPSource",
    r"memmap|::test_file|_local|_1054_|_1035|invalid_handler|default_source": "local files, and uproot's own choices",
}


def pytest_collection_modifyitems(config, items):
    """Deselects tests that do not concern hither."""
    left_out = [item for item in items if any(re.search(pattern, item.nodeid) for pattern in LEFT_OUT)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def located(name, *_, **__):
    if not (SAMPLES / name).exists():
        pytest.skip(f"{name} is not among the sample files")
    return str(SAMPLES / name)


class Source(hither.uproot.Source):
    """hither's source with the options of uproot's sources, in their places."""

    def __init__(self, file_path, **options):
        for there, prefix in ELSEWHERE.items():
            _, found, name = file_path.partition(there)
            if found:
                located(prefix + name)
                file_path = f"{SERVER}/{prefix}{name}"
        # A host without a server.
        file_path = file_path.replace("https://wonky.cern/", "http://127.0.0.1:9/")
        super().__init__(file_path, **options)


samples = types.ModuleType("skhep_testdata")
samples.data_path = located
samples.known_files = {path.name for path in SAMPLES.iterdir()}
samples.data = types.SimpleNamespace(cache_path=lambda: SAMPLES)
sys.modules["skhep_testdata"] = samples

hither.uproot.Source = Source
hither.uproot.install()
uproot.source.http.HTTPSource = Source
uproot.source.http.MultithreadedHTTPSource = Source


def pytest_terminal_summary(terminalreporter):
    """Prints the counts for the test that started this process."""
    counts = {kind: len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error", "skipped")}
    terminalreporter.write_line(f"counts: {counts}")
