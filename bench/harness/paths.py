"""Folders of the repository, its built programs; temporary folders, slow disks."""

import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
RESULTS = BENCH / "results"
PEERS = BENCH / "peers"
DATA = ROOT / "target" / "data"
BUILT_PEERS = ROOT / "target" / "peers"

BINARIES = Path(os.environ.get("HITHER_BIN_DIR", ROOT / "target" / "release"))
HITHER = BINARIES / "hither"
HITHER_BENCH = BINARIES / "hither-bench"
HITHER_WAN = BINARIES / "hither-wan"
HITHER_PROXY = BINARIES / "hither-proxy"

MEMORY = Path("/dev/shm")
BLKIO = Path("/sys/fs/cgroup/blkio")


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder for the length of a block; servers that run as other users may read it."""
    with tempfile.TemporaryDirectory(prefix="hither-bench-", dir=parent) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def throttled(name: str, kind: str, folder: Path, rate: int) -> Iterator[list[str]]:
    """A command prefix that limits reads or writes of a folder's device, in bytes per second.

    Needs root, and the blkio controller of control groups.
    """
    group = BLKIO / f"hither-{os.getpid()}-{name}"
    group.mkdir()
    device = folder.stat().st_dev
    whole = f"{os.major(device)}:{os.minor(device)}"
    (group / f"blkio.throttle.{kind}_bps_device").write_text(f"{whole} {rate}")
    try:
        yield ["sh", "-c", f'echo $$ > {shlex.quote(str(group))}/cgroup.procs; exec "$@"', "sh"]
    finally:
        (group / f"blkio.throttle.{kind}_bps_device").write_text(f"{whole} 0")
        # The group is empty once its processes are gone.
        with suppress(OSError):
            group.rmdir()
