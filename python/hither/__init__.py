"""hither: remote scientific data, read as if it were here."""

from hither._client import Client, default_client
from hither._core import Entry, FileStat, Hint
from hither._file import RemoteFile, open
from hither._report import Report, SourceReport
from hither.exceptions import HitherError

__all__ = [
    "Client",
    "Entry",
    "FileStat",
    "Hint",
    "HitherError",
    "RemoteFile",
    "Report",
    "SourceReport",
    "default_client",
    "open",
]
