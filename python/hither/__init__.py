"""hither: remote scientific data, read as if it were here."""

from hither._branches import Branch, BranchInfo
from hither._client import Client, default_client
from hither._core import Entry, FileStat, Hint
from hither._dataset import Dataset, dataset
from hither._explain import Explanation, explain
from hither._file import RemoteFile, open
from hither._report import Report, SourceReport
from hither._root import RootFile, open_root
from hither._tree import Tree, open_tree
from hither.exceptions import HitherError

__all__ = [
    "Branch",
    "BranchInfo",
    "Client",
    "Dataset",
    "Entry",
    "Explanation",
    "FileStat",
    "Hint",
    "HitherError",
    "RemoteFile",
    "Report",
    "RootFile",
    "SourceReport",
    "Tree",
    "dataset",
    "default_client",
    "explain",
    "open",
    "open_root",
    "open_tree",
]
