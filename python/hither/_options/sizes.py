"""Numbers of bytes as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)


def parse_bytes(size: int | str) -> int:
    """Return the bytes of ``size``: a number, or text such as ``"100 MB"`` or ``"64 MiB"``.

    Raises
    ------
    ValueError
        The size is negative or not of this form.

    """
    if isinstance(size, int):
        if size < 0:
            message = f"size {size} is negative, expected a number of bytes"
            raise ValueError(message)
        return size
    found = _SIZE.fullmatch(size)
    if found is None:
        message = f"{size!r} is not a size, expected bytes such as 1000, '100 MB' or '64 MiB'"
        raise ValueError(message)
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])
