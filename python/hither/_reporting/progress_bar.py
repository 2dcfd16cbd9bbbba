"""Bars that show how far reads have come."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from hither import _core
from hither._closing import Closing

if TYPE_CHECKING:
    from collections.abc import Iterator


class ProgressBar(Closing):
    """Counts the bytes of reads that are given its parts; its ``tick`` shows them."""

    def __init__(self, what: str, *, shown: bool = True) -> None:
        """Show them on a bar that is called ``what``, if that is asked for and tqdm is there."""
        self._bar = _bar(what) if shown else None
        self._parts: list[_core.Progress] = []
        self.tick = None if self._bar is None else self._show

    def add_read(self) -> _core.Progress:
        """Return the progress of a further read."""
        part = _core.Progress()
        if self._bar is not None:
            self._parts.append(part)
        return part

    def wrap(self, steps: Iterator[Any]) -> Iterator[Any]:
        """Yield the steps; close the bar after the last."""
        try:
            yield from steps
        finally:
            self.close()

    def close(self) -> None:
        """Leave the bar as it is."""
        self._show()
        if self._bar is not None:
            self._bar.close()

    def _show(self) -> None:
        if self._bar is None:
            return
        figures = [part.bytes() for part in self._parts]
        self._bar.total = sum(total for _, total in figures)
        self._bar.update(sum(arrived for arrived, _ in figures) - self._bar.n)


HIDDEN = ProgressBar("", shown=False)
"""For reads that show nothing."""


def _bar(what: str) -> Any:  # noqa: ANN401
    try:
        from tqdm.auto import tqdm
    except ImportError:
        warnings.warn("progress=True shows nothing without tqdm: pip install tqdm", stacklevel=5)
        return None
    return tqdm(desc=what, total=0, unit="B", unit_scale=True)
