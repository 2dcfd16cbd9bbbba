"""Numbers of bytes as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)


def parse_bytes(size: int | str) -> int:
    """Return the number of bytes that ``size`` means: a number, or text as ``"100 MB"`` or ``"64 MiB"``.

    Raises
    ------
    ValueError
        It is negative, or no such text.

    """
    if isinstance(size, int):
        if size < 0:
            message = f"a size is {size}, expected a number of bytes"
            raise ValueError(message)
        return size
    found = _SIZE.fullmatch(size)
    if found is None:
        message = f"{size!r} is no size: expected bytes, as 1000, '100 MB' or '64 MiB'"
        raise ValueError(message)
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])
