"""Where the time and the bytes went."""

from __future__ import annotations

import html
import json
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


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

    @property
    def phases(self) -> dict[str, float]:
        """Where :attr:`seconds` went, in the order of time: ``connect``, ``open`` (finding the tree), ``data`` (baskets
        arriving, which are unpacked meanwhile), ``rest`` (after the last byte). Empty for a report that is of no single read.
        """
        if self.seconds <= 0:
            return {}
        # What the store knows is opened before anything is connected.
        with_data = self.connect_seconds if self.metadata_from_store else 0.0
        return {
            "connect": self.connect_seconds,
            "open": max(0.0, self.open_seconds - self.connect_seconds),
            "data": max(0.0, self.data_seconds - with_data),
            "rest": max(0.0, self.seconds - self.open_seconds - self.data_seconds),
        }

    def __str__(self) -> str:
        """Return what the command ``hither explain`` prints; of reads as bytes, how many there were and what they waited for."""
        lines = [*self._timing_lines(), *self._counter_lines()]
        return "\n".join(f"  {label:<26} {value}" for label, value in lines)

    def _timing_lines(self) -> Iterator[tuple[str, str]]:
        phases = self.phases
        if phases:
            source = "from the store" if self.metadata_from_store else "from the server"
            waiting = (self.round_trips + 1) * self.rtt_seconds
            yield "total", _format_seconds(self.seconds)
            yield "connect", f"{_format_seconds(phases['connect'])}   (round trip {self.rtt_seconds * 1e3:.2f} ms)"
            yield "open: find the tree", f"{_format_seconds(phases['open'])}   {source}"
            yield "data: baskets arriving", _format_seconds(phases["data"])
            yield "after the last byte", _format_seconds(phases["rest"])
            yield (
                "waiting for round trips",
                f"{_format_seconds(waiting)}   {self.round_trips} dependent flights and the handshake",
            )
            yield "decode", f"{_format_seconds(self.decode_seconds)}   summed over threads, while data arrived"
            yield "compute", f"{_format_seconds(self.compute_seconds)}   likewise"
        else:
            yield "connect", f"{_format_seconds(self.connect_seconds)}   (round trip {self.rtt_seconds * 1e3:.2f} ms)"
            yield "round trips", f"{self.round_trips:8}"
            yield "reads", f"{self.reads:8}     {self.reads_without_wait} found all their bytes in memory"
            yield "waited for bytes", f"{_format_seconds(self.waited_seconds)}   summed over calls"

    def _counter_lines(self) -> Iterator[tuple[str, str]]:
        yield "requests", f"{self.requests:8}     on {self.connections} connections, {self.retries} sent again"
        if self.whole_file_downloads:
            yield "whole files", f"{self.whole_file_downloads:8}     downloaded: the server sent no ranges of them"
        yield "bytes asked for", f"{self.bytes_requested:8}     {format_bytes(self.bytes_requested)}"
        headers = f"with headers and framing {format_bytes(self.bytes_received)}"
        yield "bytes fetched", f"{self.bytes_payload:8}     {format_bytes(self.bytes_payload)} {headers}"
        yield "bytes used", f"{self.bytes_used:8}     {format_bytes(self.bytes_used)}"
        yield "bytes wasted", f"{self.bytes_wasted:8}     {format_bytes(self.bytes_wasted)}"
        for place in self.sources if len(self.sources) > 1 else ():
            yield "from", f"{place.bytes:8}     {place.failures} failed, {place.name}"

    def _repr_html_(self) -> str:
        """Return a picture of where the time and the bytes went, and the lines, for notebooks."""
        from hither._reporting.svg import timing_svg

        notices = "".join(f"<div>{html.escape(notice)}</div>" for notice in self.notices)
        return f"{timing_svg(self)}<pre>{html.escape(str(self))}</pre>{notices}"


def report_from_core(text: str) -> Report:
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


def _format_seconds(seconds: float) -> str:
    return f"{seconds:8.3f} s"


def format_bytes(count: int) -> str:
    """Return a number of bytes as the command writes it: ``"1.50 MiB"``."""
    if count < 1 << 10:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 6)
    return f"{count / (1 << 10 * power):.2f} {'KMGTPE'[power - 1]}iB"
