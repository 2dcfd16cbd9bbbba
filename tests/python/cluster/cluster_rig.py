"""The tree that clusters copy, and a client of a cluster."""

import hashlib
import random

from needs import python_package

LARGE = 24 << 20
PATIENCE = 120


def write_tree(root, small=300, large=2):
    """Writes small files in directories, and large ones; returns their total size."""
    chance = random.Random(3)
    for n in range(small):
        path = root / f"d{n % 7}" / f"ä {n}%"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(n * 40))
    for n in range(large):
        (root / f"large{n}").write_bytes(chance.randbytes(LARGE + n))
    (root / "empty" / "directory").mkdir(parents=True, exist_ok=True)
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def content(root):
    """The names in a directory, with digests of files, so that differences are printed."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in root.rglob("*")
    }


def connected(cluster):
    distributed = python_package("distributed")
    return distributed.Client(scheduler_file=str(cluster.scheduler_file), set_as_default=False, timeout=PATIENCE)
