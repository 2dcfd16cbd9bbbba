"""Branches that hither cannot read itself, read by uproot over hither's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hither.exceptions import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hither._tree.request import ArraysRequest
    from hither._tree.tree import Tree


def _open_with_uproot(tree: Tree) -> Any:  # noqa: ANN401
    """Return uproot's tree over hither's file; None if uproot is not installed."""
    try:
        import uproot
    except ImportError:
        return None
    return uproot.open(tree.client.open(tree.url))[tree.name]


def select_readable(tree: Tree, names: Sequence[str]) -> list[str]:
    """Return those of ``names`` that uproot knows as branches."""
    theirs = _open_with_uproot(tree)
    if theirs is None:
        return []
    with theirs.file:
        return [name for name in names if name in theirs]


def read_arrays(tree: Tree, names: Sequence[str], request: ArraysRequest) -> Any:  # noqa: ANN401
    """Return the arrays that uproot reads of ``names``, with the cut of the request."""
    theirs = _open_with_uproot(tree)
    if theirs is None:
        message = f"hither cannot read {', '.join(names)}; install uproot, which may be able to"
        raise UnsupportedError(message)
    stop = min(request.stop, tree.num_entries)
    with theirs.file:
        if request.library != "ak" and request.cut is None and request.library in ("np", "pd"):
            return theirs.arrays(list(names), entry_start=request.start, entry_stop=stop, library=request.library)
        found = theirs.arrays(list(names), entry_start=request.start, entry_stop=stop)
    if request.cut is not None:
        mask = tree.arrays([request.cut], entry_start=request.start, entry_stop=stop, native=True)
        found = found[mask[request.cut]]
    return _as_library(found, request.library)


def _as_library(found: Any, library: str) -> Any:  # noqa: ANN401
    import awkward as ak

    if library == "ak":
        return found
    if library == "np":
        return {name: _objects(found[name]) for name in found.fields}
    if library == "pd":
        import pandas as pd

        return pd.DataFrame({name: _objects(found[name]) for name in found.fields})
    return ak.to_arrow_table(found)


def _objects(array: Any) -> Any:  # noqa: ANN401
    import awkward as ak
    import numpy as np

    try:
        return ak.to_numpy(array)
    except ValueError:
        rows = np.empty(len(array), dtype=object)
        rows[:] = ak.to_list(array)
        return rows
