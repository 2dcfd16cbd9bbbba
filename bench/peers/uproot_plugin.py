"""pytest plugin that gives uproot's own tests their sample files from a server, through hither.

`bench.python_api.uproot_suite` starts a process with it, and one without HITHER_SERVER, in which
the same files are local. The outcomes of all tests go to the file HITHER_OUTCOMES.
"""

import json
import os
import re
import sys
import types
from pathlib import Path

import pytest

SAMPLES = Path(os.environ["HITHER_SAMPLES"])
SERVER = os.environ.get("HITHER_SERVER")
ELSEWHERE = re.compile("http|s3|github|ssh|xrootd|url|network|distributed")
"""Names of tests, and of their marks, that ask servers of the world."""
outcomes = {}


def located(name, *_, **__):
    if not (SAMPLES / name).exists():
        pytest.skip(f"{name} is not among the sample files", allow_module_level=True)
    return f"{SERVER}/{name}" if SERVER else str(SAMPLES / name)


samples = types.ModuleType("skhep_testdata")
samples.data_path = located
samples.known_files = {path.name for path in SAMPLES.iterdir()}
samples.data = types.SimpleNamespace(cache_path=lambda: SAMPLES)
sys.modules["skhep_testdata"] = samples

if SERVER:
    import hither.uproot

    hither.uproot.install()


def named(nodeid):
    """The name of a test, the same with local files and with others."""
    for place in (SERVER, str(SAMPLES)):
        nodeid = nodeid.replace(place, "") if place else nodeid
    return nodeid.rpartition("tests/")[2].replace("[/", "[").replace("-/", "-")


def pytest_collection_modifyitems(config, items):
    """Leave out tests of other servers."""
    elsewhere = [
        item
        for item in items
        if ELSEWHERE.search(" ".join([item.originalname, *(mark.name for mark in item.iter_markers())]))
    ]
    config.hook.pytest_deselected(items=elsewhere)
    items[:] = [item for item in items if item not in elsewhere]


def pytest_runtest_logreport(report):
    """Keep the outcome of a test, and the reason of a failure."""
    if report.outcome != "passed" or report.when == "call":
        crash = getattr(report.longrepr, "reprcrash", None) if report.failed else None
        outcomes[named(report.nodeid)] = [report.outcome, crash.message.splitlines()[0] if crash else ""]


def pytest_sessionfinish():
    Path(os.environ["HITHER_OUTCOMES"]).write_text(json.dumps(outcomes))
