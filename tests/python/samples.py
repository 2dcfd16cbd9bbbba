"""Folders of sample files; tests that need missing ones are skipped."""

from pathlib import Path

from needs import missing

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLES = REPOSITORY.parent / "shared" / "testdata" / "root"
SOURCES = REPOSITORY / "target" / "peers" / "sources"


def source_of(project: str) -> Path:
    """Returns the folder of a project's source package, which tools/setup-peers fetches."""
    found = sorted(SOURCES.glob(f"{project}-*/.complete"))
    if found:
        return found[-1].parent
    return missing(f"the source package of {project}")


def coffea_samples() -> Path:
    """Returns coffea's sample files: NanoAOD, PHYSLITE, EDM4hep, Delphes and others."""
    return source_of("coffea") / "tests" / "samples"
