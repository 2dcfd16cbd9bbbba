"""Requirements of tests on the machine. A test whose requirement is not met is skipped, or fails if it must be met."""

import os
from pathlib import Path
from typing import NoReturn

import pytest

from bench.harness import servers
from bench.harness.links import is_root
from bench.harness.paths import HITHER_WAN


def missing(what: str) -> NoReturn:
    """End a test that needs what is not installed: skipped, or failed in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must have {what} (tools/setup-peers)")
    pytest.skip(f"{what} is not installed (tools/setup-peers installs it, as root)")


def sample(path: Path) -> Path:
    """Return a sample file that is not part of the repository, or their folder.

    A test ends without it: skipped, or failed if HITHER_REQUIRE_SAMPLES is 1, as in CI where the folder has to be.
    """
    if not path.exists():
        if os.environ.get("HITHER_REQUIRE_SAMPLES") == "1":
            pytest.fail(f"sample files are required here, but {path} is missing")
        pytest.skip(f"no sample files: {path} is missing")
    return path


def require(name: str) -> str:
    """Return the path of a program."""
    return servers.program(name) or missing(name)


def require_network_namespaces() -> None:
    """End a test that needs namespaces where they cannot be made.

    Round trips are counted where they take time: on loopback an answer arrives before the next
    request is written.
    """
    if not (is_root() and HITHER_WAN.exists()):
        if os.environ.get("HITHER_REQUIRE_NETNS") == "1":
            pytest.fail("network namespaces are required here, which needs root and hither-wan")
        pytest.skip("network namespaces need root and hither-wan")
