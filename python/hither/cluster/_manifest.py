"""The manifest of a job: every file of the tree, the leases that distribute the work, their epochs.

The listing streams files in, :meth:`Manifest.next` divides waiting work into leases of about the
requested size: directories, and files in batches; of a large file the beginning of its upload, its
ranges, and its end. A lease is open until its result arrives (:meth:`Manifest.absorb`), or until it
is revoked (:meth:`Manifest.revoke`). Then its fence has to be removed, and only after that
(:meth:`Manifest.fence_removed`) it is granted again, with the next epoch. A result of another epoch
than the last is ignored.

Every run lists the source again (:meth:`Manifest.begin_run`). From earlier runs, only files that
are done or leased are kept; a file stays done only if the source (:meth:`Manifest.add`) and the
destination (:meth:`Manifest.copy_again`) still have it unchanged.

Where two names of a directory may be one at the destination, both wait, with everything below the
second: the listing tests them at its end (:meth:`Manifest.alike`). The directories in which unusual
names were written are looked at when all is copied (:meth:`Manifest.unseen`).

A node that loses a range may continue to write to the upload, so the upload counts as shared from
then on, and the node that finishes the file copies it first.

The manifest is one SQLite file. This module does not depend on time, Dask or servers. All changes
of a call are on the disk when it returns, and a reopened manifest continues from there.
"""

from __future__ import annotations

import enum
import json
import re
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hither._core import coarse_name, is_plain_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

BLOCK_BYTES = 4 << 20
"""Ranges begin at multiples of this: the block of a copy."""
MAX_BEGUN = 8
"""Large files that are copied at the same time: enough for all nodes, few to be half done."""
MAX_ERRORS = 5
"""Failures of a lease, or of a file, after which it is not tried again."""
FATAL = frozenset({"Invalid", "NoSpace", "PermissionDenied", "Unauthenticated", "Unsupported"})
"""Kinds of errors that are not retried."""
UNKNOWN_SIZE = -1
"""Means a size that the server does not state."""
MAX_INTEGER = (1 << 63) - 1
"""The largest integer of SQLite, in nanoseconds the year 2262. Later times are stored as
negative."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, is_directory INTEGER NOT NULL, size INTEGER NOT NULL,
    modified INTEGER, validator TEXT, is_large INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0, lease INTEGER,
    errors INTEGER NOT NULL DEFAULT 0, error TEXT, token TEXT, ranges_left INTEGER, is_shared INTEGER DEFAULT 0,
    checksum TEXT, origin INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS files_by_state ON files (state, is_large, id);
CREATE INDEX IF NOT EXISTS files_by_lease ON files (lease) WHERE lease IS NOT NULL;
CREATE TABLE IF NOT EXISTS ranges (
    file INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0,
    crc32c TEXT, adler32 TEXT, PRIMARY KEY (file, start)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ranges_by_state ON ranges (state, file, start);
CREATE TABLE IF NOT EXISTS leases (
    id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL DEFAULT 1, kind TEXT NOT NULL, file INTEGER, start INTEGER,
    state TEXT NOT NULL DEFAULT 'open', errors INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS leases_by_state ON leases (state);
CREATE TABLE IF NOT EXISTS unlisted (path TEXT PRIMARY KEY, error TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS later (path TEXT PRIMARY KEY, entry TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unseen (
    directory TEXT PRIMARY KEY, is_doubtful INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS workers (address TEXT PRIMARY KEY, node TEXT) WITHOUT ROWID;
"""


class FileState(enum.IntEnum):
    """The state of a file, or a range."""

    ALIKE = -2
    """The destination may take its name for that of another file: not tested yet."""
    BELOW_ALIKE = -1
    """It is in a directory that is not tested yet."""
    WAITING = 0
    LEASED = 1
    BEGUN = 2
    """Its ranges are being copied."""
    DONE = 3
    FAILED = 4
    REFUSED = 5
    """Failed, because the destination takes its name for that of another file."""


class Origin(enum.IntEnum):
    """The run that added a file, or a directory."""

    THIS_RUN = 0
    EARLIER_RUN = 1
    LISTED_AGAIN = 2
    """An earlier run added it, and the source still has it unchanged."""


_IN_HAND = (FileState.LEASED, FileState.BEGUN)
_KEPT = (*_IN_HAND, FileState.DONE, FileState.REFUSED)


@dataclass(frozen=True)
class LeaseSize:
    """The intended work of a lease, in bytes and in files."""

    bytes: int
    files: int


@dataclass(frozen=True)
class Lease:
    """A right to do some work."""

    id: int
    epoch: int
    kind: str
    """``files``, ``begin``, ``range`` or ``finish``."""
    file: int | None = None
    """The large file that it is part of."""
    start: int | None = None

    @property
    def name(self) -> str:
        """Its unique name."""
        return f"{self.id}.{self.epoch}"


@dataclass
class Totals:
    """Figures of the job."""

    files_found: int = 0
    bytes_found: int = 0
    files_done: int = 0
    bytes_done: int = 0
    files_failed: int = 0


class Manifest:
    """The manifest of a job; see the module."""

    def __init__(self, path: Path | str, *, large_bytes: int = 64 << 20) -> None:
        """Open or begin the manifest at ``path``. It divides files from ``large_bytes`` on.

        Each thread opens one of its own: a connection has a single transaction at a time.
        """
        self._large_bytes = large_bytes
        self._db = sqlite3.connect(str(path), timeout=60, isolation_level=None)
        # Every change is synced: a lease whose record is lost in a crash would be granted twice.
        self._db.create_function("is_plain", 1, lambda path: is_plain_name(_name(path)), deterministic=True)
        self._db.create_function("directory_of", 1, lambda path: path.rpartition("/")[0], deterministic=True)
        self._db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + _SCHEMA)
        if not self._db.execute("SELECT 1 FROM pragma_table_info('files') WHERE name = 'origin'").fetchone():
            # The file was written by an older version.
            self._db.execute("ALTER TABLE files ADD COLUMN origin INTEGER NOT NULL DEFAULT 0")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def fact(self, name: str, value: str | None = None) -> str | None:
        """Return the value stored under ``name``; store ``value`` if there is none."""
        if value is not None:
            self._db.execute("INSERT OR IGNORE INTO facts VALUES (?, ?)", (name, value))
        found = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def add_workers(self, workers: Mapping[str, str | None]) -> None:
        """Record workers that may have leases, by address, each with its node, if that is known."""
        insert = (
            "INSERT INTO workers VALUES (?, ?) ON CONFLICT (address) DO UPDATE SET node = COALESCE(excluded.node, node)"
        )
        with self._change():
            self._db.executemany(insert, workers.items())

    def workers(self) -> dict[str, str | None]:
        """Return the workers that may have had leases, in this run or an earlier one."""
        return dict(self._db.execute("SELECT address, node FROM workers"))

    def begin_run(self) -> None:
        """Prepare for a new listing, and keep from earlier runs only files that are done or leased.

        So failed files are tried again, and waiting ones get their current size and time.
        """
        with self._change():
            self._db.execute("DELETE FROM facts WHERE name IN ('error_kind', 'listed')")
            self._db.execute("DELETE FROM unlisted")
            self._db.execute("DELETE FROM later")
            # Files that were done and then waited for a name in a run that was interrupted.
            was_done = "UPDATE files SET state = ? WHERE state < 0 AND origin = ?"
            self._db.execute(was_done, (FileState.DONE, Origin.LISTED_AGAIN))
            self._db.execute("DELETE FROM files WHERE state NOT IN (?, ?, ?, ?)", _KEPT)
            self._forget_doubtful()
            self._db.execute("DELETE FROM ranges WHERE file NOT IN (SELECT id FROM files)")
            self._db.execute("UPDATE files SET origin = ?", (Origin.EARLIER_RUN,))

    def _forget_doubtful(self) -> None:
        """Let files be copied again that others, stored under their names, may have replaced."""
        doubtful = "SELECT directory FROM unseen WHERE is_doubtful"
        if self._db.execute(doubtful).fetchone():
            files = f"state = ? AND NOT is_directory AND directory_of(path) IN ({doubtful})"
            self._db.execute(f"DELETE FROM files WHERE {files}", (FileState.DONE,))  # noqa: S608
            self._db.execute("DELETE FROM unseen WHERE is_doubtful")

    def add(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Add files and directories out of a listing.

        A file that an earlier run has copied stays done if it is unchanged. A leased file that has
        changed is copied again when its lease has ended.
        """
        with self._change():
            for entry in entries:
                self._add(entry)

    def _add(self, entry: Mapping[str, Any]) -> None:
        path, state = entry["path"], entry.get("state", FileState.WAITING)
        cursor = self._db.cursor()
        cursor.row_factory = sqlite3.Row
        found = cursor.execute("SELECT * FROM files WHERE path = ?", (path,)).fetchone()
        if found is None:
            self._insert(entry, state)
            return
        if found["origin"] == Origin.THIS_RUN:
            return
        is_same = _is_same(found, _columns(entry, self._large_bytes))
        if found["state"] in _IN_HAND and not is_same:
            self._db.execute("INSERT OR REPLACE INTO later VALUES (?, ?)", (path, json.dumps(entry)))
        elif found["state"] == FileState.REFUSED or not is_same:
            self._forget(path)
            self._insert(entry, FileState.ALIKE if found["state"] == FileState.REFUSED else state)
            return
        if found["state"] == FileState.DONE and state < 0:
            self._db.execute("UPDATE files SET state = ? WHERE path = ?", (state, path))
        self._db.execute("UPDATE files SET origin = ? WHERE path = ?", (Origin.LISTED_AGAIN, path))

    def _insert(self, entry: Mapping[str, Any], state: FileState) -> None:
        insert = (
            "INSERT INTO files (path, is_directory, size, modified, validator, is_large, state)"
            " VALUES (:path, :is_directory, :size, :modified, :validator, :is_large, :state)"
        )
        self._db.execute(insert, {**_columns(entry, self._large_bytes), "path": entry["path"], "state": state})

    def _forget(self, path: str) -> None:
        self._db.execute("DELETE FROM ranges WHERE file = (SELECT id FROM files WHERE path = ?)", (path,))
        self._db.execute("DELETE FROM files WHERE path = ?", (path,))

    def drop_gone(self) -> None:
        """Remove files that the source does not have any more, once its listing has been added.

        Names that could not be listed are kept: they may exist.
        """
        gone = (
            "origin = ? AND NOT EXISTS (SELECT 1 FROM unlisted WHERE unlisted.path IN ('.', files.path)"
            " OR (files.path > unlisted.path || '/' AND files.path < unlisted.path || '0'))"
        )
        in_hand = f"INSERT OR REPLACE INTO later SELECT path, 'null' FROM files WHERE {gone} AND state IN (?, ?)"  # noqa: S608
        others = f"DELETE FROM files WHERE {gone} AND state NOT IN (?, ?)"  # noqa: S608
        with self._change():
            for statement in (in_hand, others):
                self._db.execute(statement, (Origin.EARLIER_RUN, *_IN_HAND))

    def _add_later(self) -> None:
        """Add files that changed at the source while they were leased, once they no longer are."""
        query = (
            "SELECT path, entry FROM later WHERE NOT EXISTS"
            " (SELECT 1 FROM files WHERE files.path = later.path AND state IN (?, ?))"
        )
        for path, entry in self._db.execute(query, _IN_HAND).fetchall():
            self._db.execute("DELETE FROM later WHERE path = ?", (path,))
            self._forget(path)
            if (listed := json.loads(entry)) is not None:
                self._insert(listed, FileState.WAITING)
            no_failure = "NOT EXISTS (SELECT 1 FROM files WHERE state IN (?, ?))"
            failed = (FileState.FAILED, FileState.REFUSED)
            self._db.execute(f"DELETE FROM facts WHERE name = 'error_kind' AND {no_failure}", failed)  # noqa: S608

    def done_directories(self) -> list[str]:
        """Return the directories of files that an earlier run has copied."""
        query = "SELECT path FROM files WHERE state = ? AND origin != ?"
        paths = self._db.execute(query, (FileState.DONE, Origin.THIS_RUN))
        return sorted({path.rpartition("/")[0] for (path,) in paths})

    def done_in(self, directory: str) -> dict[str, tuple[bool, int]]:
        """Return the entries of a directory that an earlier run has copied.

        Each has, by its name, whether it is a directory, and the size of a file.
        """
        first, end = _below(directory)
        query = (
            # The plus selects the index of paths, not that of states, which nearly all rows share.
            "SELECT substr(path, ?), is_directory, size FROM files WHERE path >= ? AND path < ?"
            " AND +state = ? AND origin != ? AND instr(substr(path, ?), '/') = 0"
        )
        start = len(first) + 1
        rows = self._db.execute(query, (start, first, end, FileState.DONE, Origin.THIS_RUN, start))
        return {name: (bool(is_directory), size) for name, is_directory, size in rows}

    def copy_again(self, paths: Iterable[str]) -> None:
        """Let completed files wait again: the destination does not have them any more."""
        with self._change():
            self._db.executemany(
                "UPDATE files SET state = 0, errors = 0, token = NULL, ranges_left = NULL WHERE path = ? AND state = ?",
                [(path, FileState.DONE) for path in paths],
            )

    def alike_directories(self) -> set[str]:
        """Return the directories whose names the destination may take for that of another one."""
        query = "SELECT path FROM files WHERE state IN (?, ?) AND is_directory"
        return {path for (path,) in self._db.execute(query, (FileState.ALIKE, FileState.REFUSED))}

    def alike(self) -> Iterator[tuple[list[str], list[str]]]:
        """Yield paths that may be one at the destination: those that are copied, those that wait.

        A directory comes before those in it, which are left out if it is refused meanwhile. Paths
        that this run has not listed are left out.
        """
        waiting: dict[str, set[str]] = {}
        for (path,) in self._db.execute("SELECT path FROM files WHERE state = ?", (FileState.ALIKE,)):
            waiting.setdefault(path.rpartition("/")[0], set()).add(_coarse(path))
        for directory, wanted in sorted(waiting.items()):
            first, end = _below(directory)
            query = "SELECT path, state FROM files WHERE path >= ? AND path < ? AND state != ? AND origin != ?"
            groups: dict[str, tuple[list[str], list[str]]] = {}
            for path, state in self._db.execute(query, (first, end, FileState.REFUSED, Origin.EARLIER_RUN)):
                if "/" not in path[len(first) :] and _coarse(path) in wanted:
                    group = groups.setdefault(_coarse(path), ([], []))
                    group[state == FileState.ALIKE].append(path)
            yield from groups.values()

    def unseen(self, most: int) -> dict[str, list[str]]:
        """Return the unusual names of ``most`` directories that are still to be looked at."""
        found = {}
        directories = "SELECT directory FROM unseen WHERE NOT is_doubtful LIMIT ?"
        for (directory,) in self._db.execute(directories, (most,)).fetchall():
            first, end = _below(directory)
            query = (
                "SELECT substr(path, ?) FROM files WHERE path >= ? AND path < ? AND +state IN (?, ?)"
                " AND instr(substr(path, ?), '/') = 0 AND NOT is_plain(path)"
            )
            start = len(first) + 1
            rows = self._db.execute(query, (start, first, end, FileState.DONE, FileState.FAILED, start))
            found[directory] = [name for (name,) in rows]
        return found

    def looked_at(self, directory: str, unlisted: Iterable[tuple[str, str, bool]]) -> None:
        """Fail names that the listing of a directory lacks.

        Each has the reason, and whether the server has it nevertheless: then it is stored under
        another name, whose file it may have replaced, so the next run copies all files of the
        directory again.
        """
        first, _ = _below(directory)
        with self._change():
            self._db.execute("DELETE FROM unseen WHERE directory = ?", (directory,))
            for name, error, is_there in unlisted:
                if is_there:
                    self._db.execute("INSERT OR REPLACE INTO unseen VALUES (?, 1)", (directory,))
                fail = "UPDATE files SET state = ?, error = ? WHERE path = ? AND state = ?"
                self._db.execute(fail, (FileState.FAILED, error, first + name, FileState.DONE))
                self._note_kind("Invalid" if is_there else "NotFound", "path", first + name)

    def refuse(self, path: str, error: str) -> None:
        """Fail a path that waits, and everything below it."""
        with self._change():
            self._db.execute(
                "UPDATE files SET state = ?, error = ? WHERE state < 0 AND (path = ? OR (path > ? AND path < ?))",
                (FileState.REFUSED, error, path, f"{path}/", f"{path}0"),
            )
            self.fact("error_kind", "Invalid")

    def release_alike(self) -> None:
        """Let all paths be copied, except refused ones and those that an earlier run has copied."""
        self._db.execute(
            "UPDATE files SET state = CASE origin WHEN ? THEN ? ELSE 0 END WHERE state < 0",
            (Origin.LISTED_AGAIN, FileState.DONE),
        )

    def add_unlisted(self, path: str, error: str) -> None:
        """Record a name that could not be listed, and why: it and everything below have failed."""
        with self._change():
            self._db.execute("INSERT OR REPLACE INTO unlisted VALUES (?, ?)", (path, error))

    def end_listing(self) -> None:
        """Record that all files have been added."""
        self.fact("listed", "yes")

    @property
    def is_listed(self) -> bool:
        """True if all files have been added."""
        return self.fact("listed") is not None

    def totals(self) -> Totals:
        """Return the figures of the job; directories don't count."""
        # The sum may exceed an integer of SQLite.
        query = "SELECT state, COUNT(*), TOTAL(MAX(size, 0)) FROM files WHERE NOT is_directory GROUP BY state"
        totals = Totals()
        for state, files, total in self._db.execute(query):
            size = int(total)
            totals.files_found += files
            totals.bytes_found += size
            if state == FileState.DONE:
                totals.files_done, totals.bytes_done = files, size
            elif state in (FileState.FAILED, FileState.REFUSED):
                totals.files_failed += files
        begun = (
            "SELECT TOTAL(stop - start) FROM ranges JOIN files ON file = id WHERE ranges.state = ? AND files.state = ?"
        )
        totals.files_failed += self._db.execute("SELECT COUNT(*) FROM unlisted").fetchone()[0]
        totals.bytes_done += int(self._db.execute(begun, (FileState.DONE, FileState.BEGUN)).fetchone()[0])
        return totals

    def failures(self, limit: int = 1000) -> list[tuple[str, str]]:
        """Return paths that failed, and why."""
        query = (
            "SELECT path, error FROM unlisted UNION ALL"
            " SELECT * FROM (SELECT path, error FROM files WHERE state IN (?, ?) ORDER BY id) LIMIT ?"
        )
        return list(self._db.execute(query, (FileState.FAILED, FileState.REFUSED, limit)))

    def error_kind(self) -> str | None:
        """Return the kind of the error by which the first of these files failed, if it is known."""
        kind = self.fact("error_kind")
        return None if kind is None else re.sub(r"(?<=.)(?=[A-Z])", "_", kind).lower()

    def open_leases(self, state: str = "open") -> list[Lease]:
        """Return the leases that are open, or in another state."""
        query = "SELECT id, epoch, kind, file, start FROM leases WHERE state = ? ORDER BY id"
        return [Lease(*row) for row in self._db.execute(query, (state,))]

    def is_over(self) -> bool:
        """Return whether the job is over."""
        if not self.is_listed:
            return False
        waits = "SELECT EXISTS (SELECT 1 FROM files WHERE state < ?) OR EXISTS (SELECT 1 FROM leases WHERE state IN ('open', 'revoking', 'waiting'))"
        return not self._db.execute(waits, (FileState.DONE,)).fetchone()[0]

    def next(self, size: LeaseSize, *, large_first: bool = True) -> Lease | None:
        """Grant the next lease; none if nothing waits."""
        with self._change():
            again = "SELECT id, epoch + 1, kind, file, start FROM leases WHERE state = 'waiting' ORDER BY id"
            for row in self._db.execute(again).fetchall():
                lease = Lease(*row)
                if self._is_needed(lease):
                    self._db.execute(
                        "UPDATE leases SET state = 'open', epoch = ? WHERE id = ?", (lease.epoch, lease.id)
                    )
                    return lease
                self._end(lease)
            order = (self._next_large, self._next_batch)
            for cut in order if large_first else order[::-1]:
                lease_or_none = cut(size)
                if lease_or_none is not None:
                    return lease_or_none
        return None

    def _next_large(self, size: LeaseSize) -> Lease | None:
        # Ranges of a file that failed are not needed.
        waiting = (
            "SELECT file, start FROM ranges JOIN files ON file = id WHERE ranges.state = 0 AND files.state = ?"
            " ORDER BY file, start LIMIT 1"
        )
        found = self._db.execute(waiting, (FileState.BEGUN,)).fetchone()
        if found is not None:
            self._db.execute("UPDATE ranges SET state = ? WHERE file = ? AND start = ?", (FileState.LEASED, *found))
            return self._new("range", *found)
        found = self._db.execute(
            "SELECT id FROM files WHERE state = ? AND ranges_left = 0 LIMIT 1", (FileState.BEGUN,)
        ).fetchone()
        if found is not None:
            # No range is left; NULL ensures that only one lease finishes the file.
            self._db.execute("UPDATE files SET ranges_left = NULL WHERE id = ?", found)
            return self._new("finish", found[0])
        begun = "SELECT COUNT(*) FROM files WHERE is_large = 1 AND state IN (?, ?)"
        if self._db.execute(begun, (FileState.LEASED, FileState.BEGUN)).fetchone()[0] >= MAX_BEGUN:
            return None
        found = self._db.execute("SELECT id FROM files WHERE state = 0 AND is_large = 1 ORDER BY id LIMIT 1").fetchone()
        if found is None:
            return None
        self._db.execute("UPDATE files SET state = ? WHERE id = ?", (FileState.LEASED, *found))
        # Until the upload has begun, the column has the size of the ranges.
        self._db.execute("UPDATE files SET ranges_left = ? WHERE id = ?", (_range_bytes(size.bytes), *found))
        return self._new("begin", *found)

    def _next_batch(self, size: LeaseSize) -> Lease | None:
        query = "SELECT id, size FROM files WHERE state = 0 AND is_large = 0 ORDER BY id LIMIT ?"
        taken: list[int] = []
        total = 0
        for file, its_bytes in self._db.execute(query, (size.files,)):
            if taken and total + its_bytes > size.bytes:
                break
            taken.append(file)
            total += max(its_bytes, 0)
        if not taken:
            return None
        lease = self._new("files")
        self._db.executemany(
            "UPDATE files SET state = ?, lease = ? WHERE id = ?", [(FileState.LEASED, lease.id, file) for file in taken]
        )
        return lease

    def work(self, lease: Lease, aside: str) -> dict[str, Any]:
        """Return the description for a mover; uploads of large files begin next to ``aside``."""
        fields = "path, size, modified, validator"
        if lease.kind == "files":
            query = f"SELECT is_directory, {fields} FROM files WHERE lease = ? ORDER BY id"  # noqa: S608
            rows = self._db.execute(query, (lease.id,)).fetchall()
            return {
                "kind": "files",
                "files": [_listed(row[1:]) for row in rows if not row[0]],
                "directories": [row[1] for row in rows if row[0]],
            }
        query = f"SELECT token, is_shared, {fields} FROM files WHERE id = ?"  # noqa: S608
        token, is_shared, *row = self._db.execute(query, (lease.file,)).fetchone()
        part = {"file": _listed(row), "aside": f"{aside}{lease.file}", "token": token or ""}
        if lease.kind == "begin":
            return {"kind": "begin", "part": part}
        if lease.kind == "range":
            query = "SELECT stop FROM ranges WHERE file = ? AND start = ?"
            stop = self._db.execute(query, (lease.file, lease.start)).fetchone()[0]
            return {"kind": "range", "part": part, "start": lease.start, "end": stop}
        query = "SELECT stop - start, crc32c, adler32 FROM ranges WHERE file = ? ORDER BY start"
        ranges = [
            {"bytes": size, "crc32c": crc32c, "adler32": adler32}
            for size, crc32c, adler32 in self._db.execute(query, (lease.file,))
        ]
        return {
            "kind": "finish",
            "part": part,
            "epoch": lease.epoch,
            "ranges": ranges,
            "is_shared": bool(is_shared),
        }

    def absorb(self, name: str, result: Mapping[str, Any]) -> bool:
        """Record the result of the lease ``name``; return whether it was open."""
        with self._change():
            lease = self._open(name)
            if lease is None:
                return False
            error = result.get("error")
            self._note_unusual(lease)
            if error is not None:
                self._failed(lease, *error)
            elif lease.kind == "files":
                self._absorb_files(lease, result["failures"])
            elif self._is_needed(lease):
                self._absorb_large(lease, result)
            else:
                self._end(lease)
            self._add_later()
            return True

    def revoke(self, name: str) -> bool:
        """Revoke the lease ``name``: its fence has to be removed. Return whether it was open."""
        with self._change():
            lease = self._open(name)
            if lease is None:
                return False
            self._revoke(lease)
            return True

    def fence_removed(self, name: str) -> None:
        """Let a revoked lease wait to be granted again."""
        lease, _, epoch = name.partition(".")
        with self._change():
            self._db.execute(
                "UPDATE leases SET state = 'waiting' WHERE id = ? AND epoch = ? AND state = 'revoking'",
                (int(lease), int(epoch)),
            )

    def _note_unusual(self, lease: Lease) -> None:
        """Record the directories in which a lease has written unusual names."""
        if lease.kind in {"files", "finish"}:
            whose, which = ("lease", lease.id) if lease.kind == "files" else ("id", lease.file)
            query = f"SELECT DISTINCT directory_of(path), 0 FROM files WHERE {whose} = ? AND NOT is_plain(path)"  # noqa: S608
            self._db.execute(f"INSERT OR IGNORE INTO unseen {query}", (which,))

    def _absorb_files(self, lease: Lease, failures: Iterable[tuple[str, str, str]]) -> None:
        for path, kind, message in failures:
            self._db.execute(
                "UPDATE files SET errors = errors + 1, error = ?, lease = NULL,"
                " state = CASE WHEN ? OR errors + 1 >= ? THEN ? ELSE 0 END WHERE lease = ? AND path = ?",
                (message, kind in FATAL or kind == "NotFound", MAX_ERRORS, FileState.FAILED, lease.id, path),
            )
            self._note_kind(kind, "path", path)
        self._db.execute("UPDATE files SET state = ?, lease = NULL WHERE lease = ?", (FileState.DONE, lease.id))
        self._end(lease)

    def _absorb_large(self, lease: Lease, result: Mapping[str, Any]) -> None:
        if lease.kind == "begin":
            size, step = self._db.execute("SELECT size, ranges_left FROM files WHERE id = ?", (lease.file,)).fetchone()
            if not result["token"]:
                self._db.execute("UPDATE files SET state = 0, is_large = 0 WHERE id = ?", (lease.file,))
            else:
                starts = range(0, size, step)
                rows = [(lease.file, start, min(start + step, size)) for start in starts]
                self._db.execute("DELETE FROM ranges WHERE file = ?", (lease.file,))
                self._db.executemany("INSERT INTO ranges (file, start, stop) VALUES (?, ?, ?)", rows)
                self._db.execute(
                    "UPDATE files SET state = ?, token = ?, ranges_left = ?, is_shared = 0 WHERE id = ?",
                    (FileState.BEGUN, result["token"], len(rows), lease.file),
                )
        elif lease.kind == "range":
            self._db.execute(
                "UPDATE ranges SET state = ?, crc32c = ?, adler32 = ? WHERE file = ? AND start = ?",
                (FileState.DONE, result["crc32c"], result["adler32"], lease.file, lease.start),
            )
            self._db.execute("UPDATE files SET ranges_left = ranges_left - 1 WHERE id = ?", (lease.file,))
        else:
            self._db.execute(
                "UPDATE files SET state = ?, checksum = ? WHERE id = ?",
                (FileState.DONE, f"crc32c:{result['crc32c']}", lease.file),
            )
            self._db.execute("DELETE FROM ranges WHERE file = ?", (lease.file,))
        self._end(lease)

    def _failed(self, lease: Lease, kind: str, message: str) -> None:
        self._db.execute("UPDATE leases SET errors = errors + 1 WHERE id = ?", (lease.id,))
        errors = self._db.execute("SELECT errors FROM leases WHERE id = ?", (lease.id,)).fetchone()[0]
        if lease.kind == "finish" and kind in {"Corrupt", "NotFound"}:
            # The copied bytes are damaged, or gone: the whole file is copied again.
            self._db.execute("DELETE FROM ranges WHERE file = ?", (lease.file,))
            self._db.execute(
                "UPDATE files SET errors = errors + 1, error = ?, token = NULL,"
                " state = CASE WHEN errors + 1 >= ? THEN ? ELSE 0 END WHERE id = ?",
                (message, MAX_ERRORS, FileState.FAILED, lease.file),
            )
            self._note_kind(kind, "id", lease.file)
            self._end_all(lease.file)
        elif kind in FATAL or errors >= MAX_ERRORS or (kind == "Changed" and lease.kind != "files"):
            whose, which = ("lease", lease.id) if lease.kind == "files" else ("id", lease.file)
            self._db.execute(
                f"UPDATE files SET state = ?, error = ?, lease = NULL WHERE {whose} = ?",  # noqa: S608
                (FileState.FAILED, message, which),
            )
            self.fact("error_kind", kind)
            self._end(lease)
            if lease.file is not None:
                self._end_all(lease.file)
        else:
            self._revoke(lease)

    def _note_kind(self, kind: str, column: str, value: str | int | None) -> None:
        """Record the kind of an error if it is the first by which a file has failed."""
        is_failed = f"SELECT EXISTS (SELECT 1 FROM files WHERE {column} = ? AND state = ?)"  # noqa: S608
        if self._db.execute(is_failed, (value, FileState.FAILED)).fetchone()[0]:
            self.fact("error_kind", kind)

    def _revoke(self, lease: Lease) -> None:
        self._db.execute("UPDATE leases SET state = 'revoking' WHERE id = ?", (lease.id,))
        if lease.kind == "range":
            self._db.execute("UPDATE files SET is_shared = 1 WHERE id = ?", (lease.file,))

    def _is_needed(self, lease: Lease) -> bool:
        """Return whether a lease of a large file is still needed: the file may have failed."""
        if lease.kind == "files":
            return True
        state = self._db.execute("SELECT state FROM files WHERE id = ?", (lease.file,)).fetchone()[0]
        if lease.kind == "begin":
            return bool(state == FileState.LEASED)
        if state != FileState.BEGUN:
            return False
        if lease.kind == "finish":
            return True
        ranges = "SELECT state FROM ranges WHERE file = ? AND start = ?"
        return bool(self._db.execute(ranges, (lease.file, lease.start)).fetchone() == (FileState.LEASED,))

    def _new(self, kind: str, file: int | None = None, start: int | None = None) -> Lease:
        query = "INSERT INTO leases (kind, file, start) VALUES (?, ?, ?)"
        new = self._db.execute(query, (kind, file, start)).lastrowid
        return Lease(new or 0, 1, kind, file, start)

    def _open(self, name: str) -> Lease | None:
        lease, _, epoch = name.partition(".")
        query = "SELECT id, epoch, kind, file, start FROM leases WHERE id = ? AND epoch = ? AND state = 'open'"
        found = self._db.execute(query, (int(lease), int(epoch))).fetchone()
        return None if found is None else Lease(*found)

    def _end(self, lease: Lease) -> None:
        self._db.execute("UPDATE leases SET state = 'done' WHERE id = ?", (lease.id,))

    def _end_all(self, file: int | None) -> None:
        """End all leases of a large file: their results are not needed any more."""
        self._db.execute("UPDATE leases SET state = 'done' WHERE file = ? AND state != 'done'", (file,))

    def _change(self) -> _Change:
        return _Change(self._db)


class _Change:
    """A transaction that takes the write lock immediately."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _coarse(path: str) -> str:
    """Return a form that is equal for paths of a directory that may be one at a destination."""
    return coarse_name(_name(path))


def _columns(entry: Mapping[str, Any], large_bytes: int) -> dict[str, Any]:
    """Return the columns of the manifest for a listed name."""
    size = UNKNOWN_SIZE if entry["size"] is None or entry["size"] > MAX_INTEGER else entry["size"]
    modified = entry["modified"]
    return {
        "is_directory": entry["kind"] == "directory",
        "size": size,
        "modified": modified - (1 << 64) if modified is not None and modified > MAX_INTEGER else modified,
        "validator": entry["validator"],
        "is_large": entry["kind"] == "file" and size >= large_bytes,
    }


def _is_same(known: sqlite3.Row, listed: Mapping[str, Any]) -> bool:
    """Return whether an earlier entry is, as far as is known, equal to the one listed now."""
    if known["is_directory"] or listed["is_directory"]:
        return bool(known["is_directory"] == listed["is_directory"])
    compared = [name for name in ("modified", "validator") if known[name] is not None and listed[name] is not None]
    # A weak tag and a strong one differ here: the file may have changed while the tag was weak.
    return listed["size"] != UNKNOWN_SIZE and all(known[name] == listed[name] for name in ("size", *compared))


def _below(directory: str) -> tuple[str, str | bytes]:
    """Return the bounds of all paths below a directory; any text is less than a blob."""
    return (f"{directory}/", f"{directory}0") if directory else ("", b"")


def _range_bytes(wanted: int) -> int:
    return max(1, round(wanted / BLOCK_BYTES)) * BLOCK_BYTES


def _listed(row: Any) -> dict[str, Any]:  # noqa: ANN401
    path, size, modified, validator = row
    return {
        "path": path,
        "size": None if size == UNKNOWN_SIZE else size,
        "modified": None if modified is None else modified % (1 << 64),
        "validator": validator,
    }
