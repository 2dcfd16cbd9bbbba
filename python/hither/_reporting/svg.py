"""Pictures of reports for notebooks: SVG bars of time and bytes, in the colours of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hither._reporting.report import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hither._reporting.report import Report

_WIDTH = 640
_LEFT = 110
_RIGHT = 20
_ROW = 44
_TIME_COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44")
_THREADS_COLOURS = ("#ee6677", "#aa3377")
_BYTES_COLOURS = ("#228833", "#bbbbbb")
"""Paul Tol's bright scheme, which colour-blind people can distinguish."""


def timing_svg(report: Report) -> str:
    """Return an SVG element with the bars of a report; empty if there is nothing to draw."""
    rows = []
    names = {"connect": "connect", "open": "find the tree", "data": "data arriving", "rest": "finish"}
    phases = [(names[name], seconds) for name, seconds in report.phases.items()]
    if phases:
        rows.append(
            _row("time", phases, max(report.seconds, sum(it for _, it in phases)), _format_seconds, _TIME_COLOURS)
        )
        work = [("decode", report.decode_seconds), ("compute", report.compute_seconds)]
        # Summed over threads, so it may exceed the total time.
        longest = max(report.seconds, sum(it for _, it in work))
        rows.append(_row("threads", work, longest, _format_seconds, _THREADS_COLOURS))
    elif report.waited_seconds > 0 or report.connect_seconds > 0:
        waits = [("connect", report.connect_seconds), ("waited for bytes", report.waited_seconds)]
        rows.append(_row("time", waits, sum(it for _, it in waits), _format_seconds, _TIME_COLOURS))
    if report.bytes_payload:
        used = min(report.bytes_used, report.bytes_payload)
        parts: list[tuple[str, float]] = [("used", used), ("not used", report.bytes_payload - used)]
        rows.append(_row("bytes", parts, report.bytes_payload, lambda it: format_bytes(int(it)), _BYTES_COLOURS))
    if not rows:
        return ""
    counts = f"requests: {report.requests}, round trips: {report.round_trips}, connections: {report.connections}"
    height = _ROW * len(rows) + 24
    bars = "".join(f"<g transform='translate(0 {_ROW * at})'>{row}</g>" for at, row in enumerate(rows))
    text = f"<text x='{_LEFT}' y='{height - 8}'>{counts}</text>"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height}' viewBox='0 0 {_WIDTH} {height}' "
        f"font-family='sans-serif' font-size='12' fill='currentColor'>{bars}{text}</svg>"
    )


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def _row(
    label: str,
    parts: Sequence[tuple[str, float]],
    whole: float,
    format_amount: Callable[[float], str],
    colours: Sequence[str],
) -> str:
    """Return a bar of ``parts``, where ``whole`` fills the width, with a legend below."""
    scale = (_WIDTH - _LEFT - _RIGHT) / whole if whole > 0 else 0.0
    pieces = [f"<text x='0' y='15'>{label}</text>"]
    at, text_at = float(_LEFT), _LEFT
    for (name, amount), colour in zip(parts, colours, strict=False):
        pieces.append(f"<rect x='{at:.1f}' y='3' width='{amount * scale:.1f}' height='16' fill='{colour}'/>")
        at += amount * scale
        text = f"{name} {format_amount(amount)}"
        pieces.append(f"<rect x='{text_at}' y='25' width='9' height='9' fill='{colour}'/>")
        pieces.append(f"<text x='{text_at + 13}' y='34' font-size='11'>{text}</text>")
        text_at += 28 + round(6 * len(text))
    return "".join(pieces)
