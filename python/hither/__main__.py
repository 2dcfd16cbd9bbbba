"""``python -m hither`` and the command ``hither``."""

from __future__ import annotations

import sys

from hither._core import run_command


def main() -> int:
    """Run the command with the arguments of this process; return its exit code."""
    return run_command(["hither", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
