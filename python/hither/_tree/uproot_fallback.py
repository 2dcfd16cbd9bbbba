"""Branches and RNTuples that hither cannot read itself, read by uproot over hither's source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hither._core import redact_url, validators_differ
from hither._reporting.warn import warn as _warn
from hither._tree.branches import BranchInfo, TreeInfo
from hither._tree.library import objects, record_array, series
from hither.exceptions import ChangedError, ThroughUprootWarning, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hither._client import Client
    from hither._tree.request import Library


class UprootTree:
    """A tree or RNTuple as uproot reads it."""

    def __init__(self, url: str, path: str, client: Client, expected: str | None) -> None:
        """Open the tree or RNTuple at ``path`` in the version ``expected``, or in any for None.

        Raises
        ------
        NotImplementedError
            uproot is not installed.
        OSError
            The file has another version (:class:`hither.exceptions.ChangedError`).

        """
        try:
            import uproot
        except ImportError:
            message = f"hither cannot read all of `{path}` itself; install uproot, which may be able to"
            raise UnsupportedError(message) from None
        from hither.uproot import Source

        directory = uproot.open({url: None}, handler=Source, client=client)
        found = directory.file.source.validator
        if expected is not None and found is not None and validators_differ(expected, found):
            directory.close()
            message = (
                f"{redact_url(url)} has changed since the tree was opened: its version was {expected} and is "
                f"{found} now; open the tree again"
            )
            raise ChangedError(message)
        self._tree = directory[path]
        self._is_ntuple = "RNTuple" in self._tree.classname

    def close(self) -> None:
        """Close the file."""
        self._tree.file.close()

    def __contains__(self, name: str) -> bool:
        """Return whether uproot knows a branch or field of this name."""
        return name in self._tree

    def ntuple_info(self, path: str) -> TreeInfo:
        """Return the description of the RNTuple at ``path``."""
        why = "it is a field of an RNTuple"
        infos = (BranchInfo(name, typename, why, 0, 0, 0) for name, typename in self._tree.typenames().items())
        fields = {info.name: info for info in infos}
        return TreeInfo(path, self._tree.description, self._tree.num_entries, fields, is_ntuple=True)

    def num_entries_for(self, names: Sequence[str], size: int) -> int:
        """Return the number of entries of which ``names`` take ``size`` bytes."""
        if self._is_ntuple:
            return int(self._tree.num_entries_for(size, filter_field=self._selected(names)))
        return max(1, int(self._tree.num_entries_for(size, list(names))))

    def arrays(self, names: Sequence[str], span: tuple[int, int], library: Library, mask: Any) -> Any:  # noqa: ANN401
        """Return the arrays of ``names``; only the entries that ``mask`` selects, if it is
        given.
        """
        limits = dict(zip(("entry_start", "entry_stop"), span, strict=True))
        if self._is_ntuple:
            found = self._ntuple_arrays(names, limits)
        elif mask is None and library in ("np", "pd"):
            return self._tree.arrays(list(names), library=library, **limits)
        else:
            found = self._tree.arrays(list(names), **limits)
        return _as_library(found if mask is None else found[mask], library)

    def _ntuple_arrays(self, names: Sequence[str], limits: dict[str, int]) -> Any:  # noqa: ANN401
        """Return the fields ``names`` as records; those at the top are read together."""
        import awkward as ak

        top = {field.name for field in self._tree.fields}.intersection(names)
        together: Any = self._tree.arrays(filter_field=self._selected(top), **limits) if top else None
        arrays = {name: together[name] if name in top else self._tree[name].array(**limits) for name in names}
        return record_array({name: ak.to_layout(array) for name, array in arrays.items()})

    def _selected(self, names: Sequence[str] | set[str]) -> Any:  # noqa: ANN401
        """Return a filter for the fields of these names."""
        ids = {self._tree[name].field_id for name in names}
        return lambda field: field.field_id in ids


def warn(message: str) -> None:
    """Warn that uproot reads instead of hither."""
    _warn(message, ThroughUprootWarning)


def _as_library(found: Any, library: Library) -> Any:  # noqa: ANN401
    import awkward as ak

    if library == "ak":
        return found
    if library == "arrow":
        return ak.to_arrow_table(found)
    arrays = {name: objects(found[name].layout) for name in found.fields}
    if library == "np":
        return arrays
    import pandas as pd

    return pd.DataFrame({name: series(array) for name, array in arrays.items()})
