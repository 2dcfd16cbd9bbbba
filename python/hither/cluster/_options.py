"""The options of a job."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hither.cluster import _node
from hither.cluster._names import absolute
from hither.exceptions import UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class ClusterOptions:
    """The options of all leases of a job."""

    source: str
    destination: str
    max_connections: int = 64
    bandwidth: int | None = None
    third_party: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    large_bytes: int = 64 << 20
    source_addresses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Make paths absolute, for all processes, and refuse jobs that no node supports."""
        object.__setattr__(self, "source", absolute(self.source))
        object.__setattr__(self, "destination", absolute(self.destination))
        if self.destination.startswith("s3://"):
            message = (
                f"{self.destination}: a cluster cannot copy to S3, which renames no files: copy with `hither cp -r`"
                " on one machine"
            )
            raise UnsupportedError(message)

    def job_folder(self) -> Path:
        """Return the folder of the job's manifest: the same for the same copy."""
        names = json.dumps([self.source, self.destination, self.include, self.exclude])
        return _node.state_folder() / "jobs" / hashlib.sha256(names.encode()).hexdigest()[:16]
