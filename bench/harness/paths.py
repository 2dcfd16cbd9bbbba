"""Folders of the repository, and the programs that `make build` leaves there."""

import os
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
