"""Where the time and the bytes went."""

from __future__ import annotations

import html
import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class SourceReport:
    """What one place of a file has done."""

    name: str
    """Its URL, without secrets."""
    bytes: int
    """Bytes that it delivered."""
    failures: int
    """Requests that it failed."""


@dataclass(frozen=True)
class Report:
    """An account. Requests and bytes equal what the server logs; times are in seconds."""

    seconds: float = 0.0
    """From the opening to the result; 0 where that has no meaning."""
    requests: int = 0
    """Requests sent."""
    round_trips: int = 0
    """Flights that had to wait for an earlier one, after connecting; requests sent together are one."""
    connections: int = 0
    """Connections opened."""
    bytes_requested: int = 0
    """Bytes of files that were asked for."""
    bytes_received: int = 0
    """Bytes that came in on all connections, headers and framing included."""
    bytes_payload: int = 0
    """Bytes of files that arrived, asked for or not."""
    bytes_used: int = 0
    """Bytes of files that the answers were made from."""
    retries: int = 0
    """Requests that were sent again."""
    whole_file_downloads: int = 0
    """Files that were downloaded whole though only ranges of them were wanted."""
    connect_seconds: float = 0.0
    """Waiting for connections."""
    rtt_seconds: float = 0.0
    """Round-trip time, as measured by the first connection."""
    open_seconds: float = 0.0
    """From the first request to the tree being known."""
    data_seconds: float = 0.0
    """From the tree being known to the last basket having arrived."""
    decode_seconds: float = 0.0
    """Decompressing and unpacking, summed over threads."""
    compute_seconds: float = 0.0
    """Evaluating expressions and putting arrays together, summed over threads."""
    reads: int = 0
    """Ranges that were read as bytes."""
    reads_without_wait: int = 0
    """Of them, those that found all their bytes in memory."""
    waited_seconds: float = 0.0
    """What reads of bytes waited for, summed over calls."""
    metadata_from_store: bool = False
    """Whether the tree was known from an earlier run."""
    sources: tuple[SourceReport, ...] = ()
    """The places that were read from, in the order of preference."""
    notices: tuple[str, ...] = field(default=())
    """What the user should know although the job went well."""

    @property
    def bytes_wasted(self) -> int:
        """Bytes of files that arrived and were not used."""
        return max(0, self.bytes_payload - self.bytes_used)

    def since(self, before: Report) -> Report:
        """Return what came on top of ``before``, an earlier report of the same client or file."""
        later: dict[str, Any] = {}
        for it in fields(self):
            value, earlier = getattr(self, it.name), getattr(before, it.name)
            counts = type(value) in (int, float) and it.name != "rtt_seconds"
            later[it.name] = value - earlier if counts else value
        return Report(**later)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, with :attr:`bytes_wasted`."""
        return {**asdict(self), "bytes_wasted": self.bytes_wasted}

    def __str__(self) -> str:
        """Return what the command `hither explain` prints: a line for each figure that is not zero."""
        told = {name: value for name, value in self.as_dict().items() if value not in (0, 0.0, (), False)}
        return "\n".join(f"  {name.replace('_', ' '):<22} {_shown(name, value)}" for name, value in told.items())

    def _repr_html_(self) -> str:
        """Return a table and bars of the times, for notebooks."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{name.replace('_', ' ')}</th><td>{html.escape(_shown(name, value))}</td></tr>"
            for name, value in self.as_dict().items()
            if value not in (0, 0.0, (), False)
        )
        return f"<table>{rows}</table>{self._bars()}"

    def _bars(self) -> str:
        times = {
            "connect": self.connect_seconds,
            "open": max(0.0, self.open_seconds - self.connect_seconds),
            "data": self.data_seconds,
            "waited for bytes": self.waited_seconds,
        }
        longest = max(times.values())
        if longest <= 0:
            return ""
        bars = "".join(
            f"<text x='0' y='{20 * at + 14}' font-size='12'>{name}</text>"
            f"<rect x='120' y='{20 * at + 3}' width='{300 * seconds / longest:.1f}' height='14' fill='#4477aa'/>"
            f"<text x='{125 + 300 * seconds / longest:.1f}' y='{20 * at + 14}' font-size='12'>{seconds:.3f} s</text>"
            for at, (name, seconds) in enumerate(times.items())
        )
        return f"<svg width='500' height='{20 * len(times) + 4}' fill='currentColor'>{bars}</svg>"


def read_report(text: str) -> Report:
    """Return the report that the core wrote as JSON."""
    told = json.loads(text)
    reads = told.pop("reads", {})
    told["reads"] = reads.get("reads", 0)
    told["reads_without_wait"] = reads.get("hits", 0)
    told["waited_seconds"] = reads.get("waited_seconds", 0.0)
    told["sources"] = tuple(SourceReport(**source) for source in told.get("sources", ()))
    told["notices"] = tuple(told.get("notices", ()))
    known = {it.name for it in fields(Report)}
    return Report(**{name: value for name, value in told.items() if name in known})


def _shown(name: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f} s"
    if isinstance(value, int) and name.startswith("bytes"):
        return f"{value:,} bytes"
    return str(value)
