"""Files and trees to be copied, whose contents all differ."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

FILE_BYTES = 10 << 10
"""Size of a file in a tree, unless another one is asked for."""
FOLDER_FILES = 100
"""Files in a directory of a tree."""


def numbered_blocks(count: int, length: int) -> Iterator[bytes]:
    """Blocks of the same random bytes, each beginning with its number."""
    block = os.urandom(length)
    for number in range(count):
        yield number.to_bytes(8, "little") + block[8:]


def write_tree(root: Path, files: int, file_bytes: int = FILE_BYTES) -> None:
    for number, content in enumerate(numbered_blocks(files, file_bytes)):
        folder = root / f"d{number // FOLDER_FILES:05}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number:07}").write_bytes(content)


def write_mixed_tree(root: Path, largest: int) -> None:
    """Files whose sizes follow Zipf's law with exponent 1.5, from `largest` bytes to a kilobyte.

    They are 2.6 times the largest in all, in a random order over the directories: 16,000 files with
    2 GiB.
    """
    sizes = [int(largest / rank**1.5) for rank in range(1, int((largest / 1000) ** (2 / 3)) + 1)]
    random.Random(largest).shuffle(sizes)
    block = os.urandom(1 << 20)
    for number, size in enumerate(sizes):
        folder = root / f"d{number // FOLDER_FILES:05}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"f{number:07}").open("wb") as file:
            for at in range(0, size, len(block)):
                head = number.to_bytes(8, "little") + at.to_bytes(8, "little")
                file.write((head + block[16:])[: size - at])
