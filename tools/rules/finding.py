"""A finding of a rule."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A place in a file, and what is wrong there."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"
