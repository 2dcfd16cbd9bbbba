"""Remote scientific data, read as if it were local.

:func:`open` reads a file as bytes, :func:`open_tree` a tree of a ROOT file as arrays,
:func:`dataset` the same tree in many files; :func:`copy`, :func:`sync` and :func:`check` copy,
mirror and compare. URLs are ``http://``, ``https://``, ``root://``,
``roots://``, ``s3://`` or local paths.

The examples of this reference assume ``import hither`` and a server that shows the file
``talk.root`` with the tree ``T``: after ``make data``, ``hither serve target/data --write`` is one.
"""

from hither._client import Client, ReplicaServer, default_client
from hither._copy import (
    CheckSummary,
    CopyProgress,
    CopySummary,
    check,
    check_async,
    copy,
    copy_async,
    sync,
    sync_async,
)
from hither._core import Entry, FileStat, Hint, __version__
from hither._file import RemoteFile, open
from hither._lots import Lot, Lots
from hither._options import ClientOptions
from hither._reporting.explain import Explanation, explain
from hither._reporting.report import Report, SourceReport
from hither._staging import Staging
from hither._tree.branches import Branch, BranchInfo
from hither._tree.dataset import Dataset, dataset
from hither._tree.root_file import RootFile, open_root
from hither._tree.tree import Tree, open_tree
from hither.exceptions import HitherError

__all__ = [
    "Branch",
    "BranchInfo",
    "CheckSummary",
    "Client",
    "ClientOptions",
    "CopyProgress",
    "CopySummary",
    "Dataset",
    "Entry",
    "Explanation",
    "FileStat",
    "Hint",
    "HitherError",
    "Lot",
    "Lots",
    "RemoteFile",
    "ReplicaServer",
    "Report",
    "RootFile",
    "SourceReport",
    "Staging",
    "Tree",
    "__version__",
    "check",
    "check_async",
    "copy",
    "copy_async",
    "dataset",
    "default_client",
    "explain",
    "open",
    "open_root",
    "open_tree",
    "sync",
    "sync_async",
]
