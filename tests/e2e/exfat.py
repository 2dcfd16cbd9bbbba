"""A folder on exFAT, which ignores case like vfat and NTFS: its user-space driver works with any kernel."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from needs import require

from bench.harness.links import is_root

BYTES = 64 << 20


def run(*command: object) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def mounted_exfat(folder: Path, image: Path) -> Iterator[Path]:
    """Mounts a file system in the file `image` on `folder`; skips the test if that is not possible."""
    if not is_root():
        pytest.skip("a file system of one's own needs root")
    make, mount = require("mkfs.exfat"), require("mount.exfat-fuse")
    folder.mkdir(parents=True, exist_ok=True)
    with image.open("wb") as file:
        file.truncate(BYTES)
    run(make, image)
    try:
        device = run("losetup", "--find", "--show", image)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"there are no loop devices here: {error.stderr}")
    try:
        try:
            run(mount, device, folder)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"FUSE does not work here: {error.stderr}")
        try:
            yield folder
        finally:
            run("umount", "-l", folder)
    finally:
        run("losetup", "-d", device)
