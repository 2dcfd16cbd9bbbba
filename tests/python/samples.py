"""Folders of sample files; tests that need missing ones are skipped."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLES = REPOSITORY.parent / "shared" / "testdata" / "root"
SOURCES = REPOSITORY / "target" / "peers" / "sources"


def source_of(project: str) -> Path:
    """Return the folder of a project's source package, which tools/setup-peers fetches."""
    found = sorted(SOURCES.glob(f"{project}-*/.complete"))
    if found:
        return found[-1].parent
    if os.environ.get("CI"):
        pytest.fail(f"CI must have the source package of {project} (tools/setup-peers)")
    pytest.skip(f"the source package of {project} is not here (tools/setup-peers fetches it)")


def coffea_samples() -> Path:
    """Return coffea's sample files: NanoAOD, PHYSLITE, EDM4hep, Delphes and others."""
    return source_of("coffea") / "tests" / "samples"
