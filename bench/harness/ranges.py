"""Lists of ranges for a program to read, and a check of the bytes that it got."""

import hashlib
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from bench.harness.access_log import Counter
from bench.harness.contenders import Run
from bench.harness.interleaved import Entrant
from bench.harness.paths import HITHER_BENCH

Ranges = list[tuple[int, int]]


def scattered(size: int, count: int, length: int) -> Ranges:
    """Random ranges of a file, in order; each lies in a slot of twice its length."""
    chance = random.Random(length)
    slots = sorted(chance.sample(range(size // (2 * length)), count))
    return [(slot * 2 * length + chance.randrange(length), length) for slot in slots]


@dataclass
class RangesJob:
    """Ranges of a file, in groups that are read in turn; programs write the bytes to `output`."""

    file: Path
    groups: list[Ranges]
    listed: Path
    output: Path
    digest: str

    @classmethod
    def of(cls, file: Path, groups: list[Ranges], listed: Path) -> "RangesJob":
        """Writes the list: an offset and a length in each line, an empty line between groups."""
        listed.write_text("\n".join("".join(f"{first} {length}\n" for first, length in group) for group in groups))
        digest = hashlib.sha256()
        with file.open("rb") as content:
            for group in groups:
                for first, length in group:
                    content.seek(first)
                    digest.update(content.read(length))
        return cls(file, groups, listed, listed.with_name("output"), digest.hexdigest())

    @property
    def bytes(self) -> int:
        return sum(length for group in self.groups for _, length in group)

    def command(self, url: str, store: Path, *options: object) -> list:
        """The command line of the program that reads ranges."""
        return [HITHER_BENCH, "read-ranges", url, self.listed, "--output", self.output, "--store", store, *options]

    def entrant(self, name: str, command: list, counter: Counter | None = None, fresh: Path | None = None) -> Entrant:
        """Checks bytes and counts requests after each run; removes the store `fresh` before."""

        def before() -> None:
            self.output.unlink(missing_ok=True)
            if counter:
                counter.start()
            if fresh:
                shutil.rmtree(fresh, ignore_errors=True)

        def check(run: Run) -> str | None:
            if counter and counter.log:
                run.requests = len(counter.requests())
            found = hashlib.sha256(self.output.read_bytes()).hexdigest()
            return None if found == self.digest else "other bytes than those of the file"

        return Entrant(name, command, check, before)
