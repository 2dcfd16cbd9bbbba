"""The listing of the source, which is streamed into the manifest."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, cast

from hither._core import redact_url
from hither.cluster._manifest import FileState
from hither.cluster._names import below, contents
from hither.exceptions import HitherError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hither.cluster._destination import Destination
    from hither.cluster._manifest import Manifest
    from hither.cluster._options import ClusterOptions

LIST_BATCH = 5000
"""The most files that are added to the manifest in one step."""
FIRST_SECONDS, MAX_SECONDS = 0.1, 1.0
"""The time to collect the first files that are added in one step, and the limit for later ones."""
MAX_MESSAGE_BYTES = 4096
"""The length of the end of the listing process's messages that an error quotes."""
LOOKS = 8
"""Directories of the destination that are listed at the same time."""
LOOK_BATCH = 500
"""The largest number of directories whose listings are kept in memory."""
HIDDEN = re.compile(r"(.*?/)?\.hither-[^/]*")


class Listing:
    """A thread that adds all files to the manifest, as they are listed."""

    def __init__(
        self, options: ClusterOptions, open_manifest: Callable[[], Manifest], destination: Callable[[], Destination]
    ) -> None:
        """Prepare the thread.

        It waits for the destination where names may coincide there, and after an earlier run.
        """
        self._options = options
        self._open_manifest = open_manifest
        self._destination = destination
        self._alike: set[str] = set()
        self._tells_no_version = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._list, name="hither-listing", daemon=True)
        self._error: Exception | None = None
        self.notices: dict[str, None] = {}
        """Names that were left out, and why."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def check(self) -> None:
        """Raise the error that ended the listing, if one did."""
        if self._error is not None:
            raise self._error

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def stop(self) -> None:
        """Add nothing more."""
        self._ended.set()

    def _list(self) -> None:
        """Add all files to the manifest, as they are listed."""
        try:
            with contextlib.closing(self._open_manifest()) as manifest:
                self._alike = manifest.alike_directories()
                for entries in _batches(self._listed(manifest), LIST_BATCH):
                    if self._ended.is_set():
                        return
                    manifest.add(entries)
                manifest.drop_gone()
                self._refuse_alike(manifest)
                self._look_at_destination(manifest)
                if not self._ended.is_set():
                    manifest.end_listing()
        except Exception as error:  # noqa: BLE001
            self._error = error

    def _listed(self, manifest: Manifest) -> Iterator[dict[str, Any]]:
        filters = [f"--{which}={rule}" for which in ("include", "exclude") for rule in getattr(self._options, which)]
        # All users of a machine see the arguments of processes, and a query may contain a token.
        command = [sys.executable, "-m", "hither", "mover", "--list", *filters, "-"]
        url = os.fsencode(contents(self._options.source))
        # A pipe that is only read at the end would block the process when a log fills it.
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as listing,  # noqa: S603
        ):
            # Its exit code shows that the process did not read.
            with contextlib.suppress(BrokenPipeError), cast("IO[bytes]", listing.stdin) as stdin:
                stdin.write(url)
            ended = False
            for line in listing.stdout or ():
                entry = json.loads(line)
                ended = ended or "end" in entry
                if "message" in entry:
                    self._note_problem(manifest, **entry)
                elif hidden := HIDDEN.match(entry.get("path", "")):
                    self.notices[f"{hidden[0]}: hither has such names for itself, left out"] = None
                elif entry.get("kind") in ("file", "directory") and entry["path"]:
                    is_timeless = entry["modified"] is None and entry["validator"] is None
                    self._tells_no_version |= entry["kind"] == "file" and is_timeless
                    yield {**entry, "state": self._state(entry)}
                elif entry.get("kind") == "other":
                    self.notices[f"{entry['path']}: neither a file nor a directory, left out"] = None
            if listing.wait() != 0 or not ended:
                errors.seek(max(0, errors.seek(0, io.SEEK_END) - MAX_MESSAGE_BYTES))
                reason = errors.read().decode(errors="replace")
                message = f"cannot list {redact_url(self._options.source)}: {reason.strip()}"
                raise HitherError(message)

    def _state(self, entry: dict[str, Any]) -> FileState:
        """Return the initial state of a name."""
        if entry["alike"]:
            if entry["kind"] == "directory":
                self._alike.add(entry["path"])
            return FileState.ALIKE
        is_below = self._alike and any(str(above) in self._alike for above in PurePosixPath(entry["path"]).parents)
        return FileState.BELOW_ALIKE if is_below else FileState.WAITING

    def _refuse_alike(self, manifest: Manifest) -> None:
        """Fail all but the first of the names that coincide at the destination; copy all others."""
        for kept, waiting in manifest.alike():
            for path in waiting:
                is_one = self._destination().is_one
                other = next((other for other in kept if is_one(path, other)), None)
                if other is None:
                    kept.append(path)
                else:
                    manifest.refuse(path, f"{other} and {path} would be one at the destination: rename one")
        manifest.release_alike()

    def _look_at_destination(self, manifest: Manifest) -> None:
        """Copy again files that an earlier run has copied and the destination does not have."""
        directories = manifest.done_directories()
        if not directories:
            return
        if self._tells_no_version:
            what = "not all listings tell times: what changed and kept its size is not copied again"
            self.notices[f"{redact_url(self._options.source)}: {what}"] = None
        destination = self._destination()
        failures: list[str] = []

        def look(directory: str, wanted: dict[str, tuple[bool, int]]) -> tuple[list[str], HitherError | None]:
            return ([], None) if self._ended.is_set() else destination.lost(directory, wanted)

        def made(directory: str) -> bool:
            with contextlib.suppress(HitherError):
                destination.make(below(destination.target, directory))
                return True
            return False

        with ThreadPoolExecutor(LOOKS, "hither-looks") as pool:
            for at in range(0, len(directories), LOOK_BATCH):
                batch = directories[at : at + LOOK_BATCH]
                # Files that are copied later than this are not checked.
                wanted = [manifest.done_in(directory) for directory in batch]
                for directory, known, (lost, failure) in zip(batch, wanted, pool.map(look, batch, wanted), strict=True):
                    if failure is not None:
                        failures.append(f"{directory or '.'} of the destination: {failure}")
                    paths = {f"{directory}/{name}" if directory else name: known[name] for name in lost}
                    # A directory comes before those in it. Movers that made it don't make it again.
                    again = [path for path, (is_directory, _) in paths.items() if not (is_directory and made(path))]
                    if again:
                        manifest.copy_again(again)
        if failures:
            more = f" ({len(failures)} directories in all)" if len(failures) > 1 else ""
            self.notices[f"{failures[0]}{more}: each file of an earlier run was looked at"] = None

    def _note_problem(self, manifest: Manifest, path: str, kind: str, message: str) -> None:
        """Record why a name, or an entry of a directory, is missing from the listing."""
        if kind == "failed":
            manifest.add_unlisted(path or ".", message)
        elif path:
            self.notices[f"{path}: {message}, left out"] = None
        else:
            self.notices[f"{redact_url(contents(self._options.source))}: {message}"] = None


def _batches(entries: Iterator[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield lists of some entries: short ones first, as nodes wait for them, then longer ones."""
    batch: list[dict[str, Any]] = []
    since, kept = time.monotonic(), FIRST_SECONDS
    for entry in entries:
        batch.append(entry)
        if len(batch) >= size or time.monotonic() - since > kept:
            yield batch
            batch, since, kept = [], time.monotonic(), min(2 * kept, MAX_SECONDS)
    yield batch
