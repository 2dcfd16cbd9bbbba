"""Reports: counters and timings of reads."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class SourceReport:
    """Transfer counters of one replica of a file.

    Examples
    --------
    >>> with hither.open("http://127.0.0.1:8080/talk.root") as file:
    ...     head = file.read(4)
    ...     [source] = file.report.sources
    ...     source.name, source.failures
    ('http://127.0.0.1:8080/talk.root', 0)

    """

    name: str
    """URL of the replica, without secrets."""
    bytes: int
    """Bytes that it delivered."""
    failures: int
    """Failed requests."""


@dataclass(frozen=True)
class Report:
    """Counters and timings of reads.

    Requests and bytes agree with the server's log. Times are in seconds.

    Examples
    --------
    >>> tree = hither.open_tree("http://127.0.0.1:8080/talk.root", "T")
    >>> found = tree.arrays(["rawtr"])
    >>> tree.report.requests > 0, tree.report.bytes_wasted < tree.report.bytes_payload
    (True, True)

    """

    seconds: float = 0.0
    """Time from opening to the result; 0 for reports of more than one read."""
    requests: int = 0
    """Number of requests sent."""
    round_trips: int = 0
    """Round trips that waited for an earlier one, after connecting.

    Requests that were sent together count once.
    """
    connections: int = 0
    """Number of connections opened."""
    bytes_requested: int = 0
    """Bytes of files that were requested."""
    bytes_received: int = 0
    """Bytes received on all connections, including headers and framing."""
    bytes_payload: int = 0
    """Bytes of files that were received, requested or not."""
    bytes_used: int = 0
    """Bytes of files from which the results were made."""
    retries: int = 0
    """Number of requests that were retried."""
    whole_file_downloads: int = 0
    """Number of files that were downloaded whole because the server sent no ranges."""
    connect_seconds: float = 0.0
    """Time spent waiting for connections."""
    rtt_seconds: float = 0.0
    """Round-trip time of the first connection."""
    open_seconds: float = 0.0
    """Time from the first request until the tree was open."""
    data_seconds: float = 0.0
    """Time from then until the last basket had arrived."""
    decode_seconds: float = 0.0
    """Time spent decompressing and decoding, summed over threads."""
    compute_seconds: float = 0.0
    """Time spent evaluating expressions and building arrays, summed over threads."""
    reads: int = 0
    """Number of ranges read as bytes."""
    reads_without_wait: int = 0
    """Number of these reads that found all their bytes in memory."""
    waited_seconds: float = 0.0
    """Time that reads of bytes waited, summed over calls."""
    metadata_from_store: bool = False
    """True if the store had the tree from an earlier run."""
    through_uproot: int = 0
    """Number of columns that uproot read, because hither cannot; they are in no other counter."""
    sources: tuple[SourceReport, ...] = ()
    """Replicas that were read from, in the order of preference."""
    notices: tuple[str, ...] = field(default=())
    """Remarks for the user on a read that succeeded."""

    @property
    def bytes_wasted(self) -> int:
        """Bytes of files that were received and not used."""
        return max(0, self.bytes_payload - self.bytes_used)

    def since(self, before: Report) -> Report:
        """Return the difference to ``before``, an earlier report of the same client or file."""
        later: dict[str, Any] = {}
        for it in fields(self):
            value, earlier = getattr(self, it.name), getattr(before, it.name)
            counts = type(value) in (int, float) and it.name != "rtt_seconds"
            later[it.name] = value - earlier if counts else value
        return Report(**later)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data, with :attr:`bytes_wasted`."""
        return {**asdict(self), "bytes_wasted": self.bytes_wasted}

    @property
    def phases(self) -> dict[str, float]:
        """Shares of :attr:`seconds`, in the order of time; empty for reports of more than one read.

        ``connect``; ``open``, finding the tree; ``data``, baskets arriving, which are decoded
        meanwhile; ``rest``, after the last byte.
        """
        if self.seconds <= 0:
            return {}
        # A tree from the store is open before any connection. The connection may take longer than
        # the phase that needs it first, which a connection of an earlier read serves then.
        with_open = 0.0 if self.metadata_from_store else min(self.connect_seconds, self.open_seconds)
        with_data = min(self.connect_seconds, self.data_seconds) if self.metadata_from_store else 0.0
        return {
            "connect": with_open + with_data,
            "open": self.open_seconds - with_open,
            "data": self.data_seconds - with_data,
            "rest": max(0.0, self.seconds - self.open_seconds - self.data_seconds),
        }

    def __str__(self) -> str:
        """Return the text that ``hither explain`` prints, or the counters of reads as bytes."""
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
                f"{_format_seconds(waiting)}   {_count(self.round_trips, 'dependent round trip')} and the handshake",
            )
            yield "decode", f"{_format_seconds(self.decode_seconds)}   summed over threads, while data arrived"
            yield "compute", f"{_format_seconds(self.compute_seconds)}   likewise"
        else:
            yield "connect", f"{_format_seconds(self.connect_seconds)}   (round trip {self.rtt_seconds * 1e3:.2f} ms)"
            yield "round trips", f"{self.round_trips:8}"
            yield "reads", f"{self.reads:8}     {self.reads_without_wait} found all their bytes in memory"
            yield "waited for bytes", f"{_format_seconds(self.waited_seconds)}   summed over calls"

    def _counter_lines(self) -> Iterator[tuple[str, str]]:
        connections = _count(self.connections, "connection")
        yield "requests", f"{self.requests:8}     on {connections}, {self.retries} retried"
        if self.whole_file_downloads:
            yield "whole files", f"{self.whole_file_downloads:8}     downloaded, because the server sent no ranges"
        yield "bytes requested", f"{self.bytes_requested:8}     {format_bytes(self.bytes_requested)}"
        headers = f"with headers and framing {format_bytes(self.bytes_received)}"
        yield "bytes fetched", f"{self.bytes_payload:8}     {format_bytes(self.bytes_payload)} {headers}"
        yield "bytes used", f"{self.bytes_used:8}     {format_bytes(self.bytes_used)}"
        yield "bytes wasted", f"{self.bytes_wasted:8}     {format_bytes(self.bytes_wasted)}"
        for source in self.sources if len(self.sources) > 1 else ():
            yield "from", f"{source.bytes:8}     {source.failures} failed, {source.name}"

    def _repr_html_(self) -> str:
        """Return a picture of time and bytes, and the text, for notebooks."""
        from hither._reporting.svg import timing_svg

        notices = "".join(f"<div>{html.escape(notice)}</div>" for notice in self.notices)
        return f"{timing_svg(self)}<pre>{html.escape(str(self))}</pre>{notices}"


def report_from_core(values: dict[str, Any]) -> Report:
    """Return the report of the core's dict."""
    values = dict(values)
    reads = values.get("reads", {})
    values["reads"] = reads.get("reads", 0)
    values["reads_without_wait"] = reads.get("hits", 0)
    values["waited_seconds"] = reads.get("waited_seconds", 0.0)
    values["sources"] = tuple(SourceReport(**source) for source in values.get("sources", ()))
    values["notices"] = tuple(values.get("notices", ()))
    known = {it.name for it in fields(Report)}
    return Report(**{name: value for name, value in values.items() if name in known})


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _format_seconds(seconds: float) -> str:
    return f"{seconds:8.3f} s"


def format_bytes(count: int) -> str:
    """Return a number of bytes as the command prints it, such as ``"1.50 MiB"``."""
    if count < 1 << 10:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 6)
    return f"{count / (1 << 10 * power):.2f} {'KMGTPE'[power - 1]}iB"
