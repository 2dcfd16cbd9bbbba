"""Folders of the repository, the programs that `make build` leaves there, temporary folders."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
RESULTS = BENCH / "results"
PEERS = BENCH / "peers"
DATA = ROOT / "target" / "data"
BUILT_PEERS = ROOT / "target" / "peers"

BINARIES = Path(os.environ.get("HITHER_BIN_DIR", ROOT / "target" / "release"))
HITHER = BINARIES / "hither"
READ_RANGES = BINARIES / "examples" / "read_ranges"
HITHER_WAN = BINARIES / "hither-wan"
HITHER_PROXY = BINARIES / "hither-proxy"

MEMORY = Path("/dev/shm")


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder for the length of a block; servers that run as other users may read it."""
    with tempfile.TemporaryDirectory(prefix="hither-bench-", dir=parent) as name:
        Path(name).chmod(0o755)
        yield Path(name)
