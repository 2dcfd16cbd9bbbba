"""Context managers that close their resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class Closing:
    """Base of objects that the end of a ``with`` block closes."""

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the object."""
        self.close()

    def close(self) -> None:
        """Do nothing: the object holds nothing open."""
