"""The part of ``hither cp -r SRC DST --cluster ADDRESS`` that uses Dask."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from dataclasses import asdict

from hither.cluster import ClusterProgress, ClusterSummary, copy
from hither.cluster._scheduler import connect
from hither.exceptions import HitherError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NETWORK = 5
EXIT_INTERRUPTED = 130
EXIT_CODES = {
    "invalid": EXIT_USAGE,
    "not_found": 3,
    "unauthenticated": 4,
    "permission_denied": 4,
    "unavailable": EXIT_NETWORK,
    "protocol": EXIT_NETWORK,
    "too_large": EXIT_NETWORK,
    "timeout": 6,
    "corrupt": 7,
    "unsupported": 8,
    "changed": 9,
    "already_exists": 10,
    "no_space": 11,
    "cancelled": EXIT_INTERRUPTED,
}
"""Exit codes by the kind of the error, as of the command; EXIT_FAILED for others."""


def main(text: str) -> int:
    """Run the command with its options, those of :func:`copy` among them, as a JSON object.

    Returns the exit code.
    """
    options = {name: value for name, value in json.loads(text).items() if value is not None}
    as_json, quiet, cluster = options.pop("as_json"), options.pop("quiet"), options.pop("cluster")
    if importlib.util.find_spec("distributed") is None:
        _say(f"--cluster needs Dask, which {sys.executable} does not have: {sys.executable} -m pip install distributed")
        return EXIT_FAILED
    bar = _Bar(shown=sys.stderr.isatty() and not quiet)
    try:
        with connect(cluster) as dask:
            summary = copy(dask, progress=bar.show, **options)
    except KeyboardInterrupt:
        bar.clear()
        _say("interrupted: nodes finish the leases that they have; run the same command to resume")
        return EXIT_INTERRUPTED
    except (HitherError, OSError, ValueError) as error:
        bar.clear()
        _say(str(error) or type(error).__name__)
        if isinstance(error, HitherError):
            return EXIT_CODES.get(error.kind, EXIT_FAILED)
        # The connections of Dask raise system errors.
        return EXIT_NETWORK if isinstance(error, OSError) else EXIT_USAGE
    bar.clear()
    if summary is None:
        _say("the copy runs on the cluster")
        return 0
    is_written = _report(summary, as_json=as_json, quiet=quiet)
    code = EXIT_CODES.get(summary.error_kind or "", EXIT_FAILED) if summary.files_failed else 0
    return code if is_written or code else EXIT_FAILED


def _report(summary: ClusterSummary, *, as_json: bool, quiet: bool) -> bool:
    for path, error in summary.failures.items():
        _say(f"{path}: {error}")
    if summary.files_failed:
        total = summary.files + summary.files_failed
        _say(f"{summary.files_failed} of {total} could not be copied: run the same command to try them again")
    for notice in summary.notices:
        _say(notice)
    if as_json:
        unwritten = _write("stdout", f"{json.dumps(asdict(summary))}\n")
        if unwritten is not None and not isinstance(unwritten, BrokenPipeError):
            _say(f"cannot write the output: {unwritten}")
            return False
    elif not quiet:
        for name, size in summary.nodes.items():
            _say(f"{_size(size)} by {name}")
            for source, moved in summary.sources.get(name, {}).items():
                _say(f"{_size(moved)} over its {source}")
        rate = _size(summary.bytes_arrived / max(summary.seconds, 1e-3))
        _say(f"{_counted(summary.files, 'file')}, {_size(summary.bytes)}, in {summary.seconds:.2f} s, {rate}/s")
    return True


class _Bar:
    """A line for the whole, and one for each node, written over each other."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._lines = 0
        self._at = time.monotonic()
        self._before: dict[str, int] = {}

    def show(self, progress: ClusterProgress) -> None:
        now = time.monotonic()
        if not self._shown or now - self._at < 1:
            return
        seconds, self._at = now - self._at, now
        totals = progress.totals
        found = f"{_size(totals.bytes_found)}{'' if progress.is_listed else '+'}"
        lines = [f"{totals.files_done}/{totals.files_found} files, {_size(totals.bytes_done)} of {found}"]
        for node in progress.nodes:
            arrived = node.bytes + sum(node.open.values())
            rate = max(0, arrived - self._before.get(node.name, 0)) / seconds
            self._before[node.name] = arrived
            state = "silent" if node.is_suspected else _counted(len(node.open), "lease")
            lines.append(f"  {node.name:20} {_size(rate):>10}/s {_size(arrived):>10}  {state}")
        self.clear()
        _write("stderr", "".join(f"{line}\n" for line in lines))
        self._lines = len(lines)

    def clear(self) -> None:
        _write("stderr", "\033[F\033[2K" * self._lines)
        self._lines = 0


def _size(number: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:  # noqa: PLR2004
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.2f} {unit}"
        number /= 1024
    return f"{number:.2f} TiB"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _say(message: str) -> None:
    # A message that cannot be written is dropped; the job continues.
    _write("stderr", f"hither: {message}\n")


def _write(name: str, text: str) -> OSError | None:
    """Write to a standard stream; return the error if that fails, and then write no more."""
    try:
        getattr(sys, name).write(text)
        getattr(sys, name).flush()
    except OSError as error:
        # Python would try to write again at its exit, and fail with an exit code of its own.
        setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
        return error
    return None
