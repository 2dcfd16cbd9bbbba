"""Requirements of tests on the machine. A test whose requirement is missing is skipped, or fails if it is mandatory."""

import importlib
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from bench.harness import servers
from bench.harness.links import is_root
from bench.harness.paths import HITHER_WAN


def missing(what: str) -> NoReturn:
    """Ends a test, or the file that is being imported, that needs a missing program: skipped, or failed in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must have {what} (tools/setup-peers)")
    pytest.skip(f"{what} is not installed (tools/setup-peers installs it, as root)", allow_module_level=True)


def python_package(name: str) -> Any:
    """Returns a Python package or module."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        missing(f"the Python package {name}")


def sample(path: Path) -> Path:
    """Returns a sample file that is not part of the repository, or the folder of samples.

    Ends the test if it is missing: skipped, or failed if HITHER_REQUIRE_SAMPLES is 1, as in CI, which must have the
    folder.
    """
    if not path.exists():
        if os.environ.get("HITHER_REQUIRE_SAMPLES") == "1":
            pytest.fail(f"sample files are required here, but {path} is missing")
        pytest.skip(f"no sample files: {path} is missing")
    return path


def require(name: str) -> str:
    """Returns the path of a program."""
    return servers.program(name) or missing(name)


def require_network_namespaces() -> None:
    """Ends a test that needs namespaces if they cannot be created.

    Round trips are counted on links with latency: on loopback a response arrives before the next request is written.
    """
    if not (is_root() and HITHER_WAN.exists()):
        if os.environ.get("HITHER_REQUIRE_NETNS") == "1":
            pytest.fail("network namespaces are required here, which needs root and hither-wan")
        pytest.skip("network namespaces need root and hither-wan")
