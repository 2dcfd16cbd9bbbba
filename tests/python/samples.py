"""Where the sample files are; who has none skips what needs them."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLES = REPOSITORY.parent / "shared" / "testdata" / "root"
