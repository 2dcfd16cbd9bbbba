"""The scenarios of davix-tester, in C++ with libhither, for each kind of storage."""

import os
import subprocess
from pathlib import Path

import pytest
from served import run
from storage.test_hostile_names import storage

from bench.harness.paths import BINARIES, ROOT

CAPI = ROOT / "crates/capi"


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory):
    if built := os.environ.get("HITHER_SCENARIOS"):
        return Path(built).resolve()
    program = tmp_path_factory.mktemp("program") / "scenarios"
    source, archive = CAPI / "tests/programs/scenarios.cpp", BINARIES / "libhither_capi.a"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{CAPI / 'include'}", "-pthread"]
    run("g++", *flags, source, archive, "-lutil", "-lrt", "-lm", "-ldl", "-o", program)
    return program


@pytest.mark.parametrize("kind", ["hither", "apache", "root", "s3"])
def test_the_scenarios_of_davix_pass(scenarios, tmp_path, monkeypatch, kind):
    local = tmp_path / "local"
    local.mkdir()
    with storage(kind, tmp_path, monkeypatch) as (_, url):
        done = subprocess.run([scenarios, f"{url}/davix-tests", local], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all scenarios passed\n"
