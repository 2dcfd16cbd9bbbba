"""Warnings at the line of the program that led to them."""

from __future__ import annotations

import sys
import warnings
from typing import Any


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that led here."""
    frame: Any = sys._getframe()  # noqa: SLF001
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "hither":
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
