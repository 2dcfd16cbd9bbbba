"""Progress bars of reads."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

from hither import _core
from hither._closing import Closing

if TYPE_CHECKING:
    from collections.abc import Iterator


class ProgressBar(Closing):
    """Sums the progress of reads; its ``tick`` updates the bar."""

    def __init__(self, what: str, *, shown: bool = True) -> None:
        """Show a bar labelled ``what``, if ``shown`` and tqdm is installed."""
        self._bar = _bar(what) if shown else None
        self._reads: list[_core.ScanProgress] = []
        self.tick = None if self._bar is None else self._show

    def add_read(self) -> _core.ScanProgress:
        """Return the progress object for a further read."""
        read = _core.ScanProgress()
        if self._bar is not None:
            self._reads.append(read)
        return read

    def wrap(self, steps: Iterator[Any]) -> Iterator[Any]:
        """Yield the steps; close the bar at the end."""
        try:
            yield from steps
        finally:
            self.close()

    def close(self) -> None:
        """Update the bar a last time, and close it."""
        self._show()
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.close()

    def _show(self) -> None:
        if self._bar is None:
            return
        figures = [read.bytes() for read in self._reads]
        self._bar.total = sum(total for _, total in figures)
        # A bar that cannot be drawn is lost, not the read.
        with contextlib.suppress(OSError):
            self._bar.update(sum(arrived for arrived, _ in figures) - self._bar.n)


HIDDEN = ProgressBar("", shown=False)
"""Progress bar of reads that show none."""


def _bar(what: str) -> Any:  # noqa: ANN401
    try:
        from tqdm.auto import tqdm
    except ImportError:
        warnings.warn("progress=True shows nothing without tqdm: pip install tqdm", stacklevel=5)
        return None
    try:
        return tqdm(desc=what, total=0, unit="B", unit_scale=True)
    except OSError:
        return None
