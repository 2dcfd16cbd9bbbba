"""``python -m hither`` and the command ``hither``."""

from __future__ import annotations

import os
import sys

from hither._core import run_command


def main() -> int:
    """Run the command with the arguments of this process; return its exit code."""
    # For the commands that continue in Python.
    os.environ.setdefault("HITHER_PYTHON", sys.executable)
    return run_command(["hither", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
