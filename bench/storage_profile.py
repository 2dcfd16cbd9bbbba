"""`hither profile storage` beside fio, on ext4 and XFS on a loop device, and on a FUSE layer above.

    python -m bench.storage_profile [--rounds 3] [--folder DIR]

The file systems lie in a file of DIR. Each round measures the same cases by both, in alternating
order. Needs root, fio, xfsprogs and bindfs (`apt-get install fio xfsprogs bindfs`). Results:
`results/profile/storage.md`.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.harness.paths import HITHER, RESULTS
from bench.harness.tables import markdown, save

OUTPUT = RESULTS / "profile" / "storage"
DISK_BYTES = 4 << 30
FILE_BYTES = 512 << 20
SECONDS = 30
FIO_MILLISECONDS = 400
GOAL = 0.1

KEYS = ("series", "pattern", "direction", "block_bytes", "in_flight")
CASES = [
    ("block_size", "sequential", "read", 64 << 10, 1),
    ("block_size", "sequential", "write", 64 << 10, 1),
    ("large_queue_depth", "sequential", "read", 1 << 20, 8),
    ("large_queue_depth", "sequential", "write", 1 << 20, 8),
    ("queue_depth", "random", "read", 4 << 10, 1),
    ("queue_depth", "random", "write", 4 << 10, 1),
    ("queue_depth", "random", "read", 4 << 10, 32),
    ("queue_depth", "random", "write", 4 << 10, 32),
    ("threads", "random", "read", 4 << 10, 16),
    ("buffered_threads", "sequential", "read", 1 << 20, 1),
    ("buffered_threads", "sequential", "write", 1 << 20, 1),
]


def run(*words: object) -> str:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def ours(folder: Path) -> dict[tuple, float]:
    """Rates of hither in MB/s by case."""
    options = ("--json", "--seconds", SECONDS, "--size", f"{FILE_BYTES >> 20}M")
    found = json.loads(run(HITHER, "profile", "storage", *options, folder))
    return {tuple(it[key] for key in KEYS): it["bytes_per_second"] / 1e6 for it in found["cases"]}


def fio(folder: Path) -> dict[tuple, float]:
    """Rates of fio in MB/s by case, on a file that it lays out first, as hither does."""
    file = folder / "fio"
    common = ("--name=case", f"--filename={file}", f"--size={FILE_BYTES}", "--output-format=json", "--fadvise_hint=0")
    run("fio", *common, "--rw=write", "--bs=1M", "--direct=1", "--end_fsync=1")
    rates = {}
    for case in CASES:
        series, pattern, direction, block, in_flight = case
        by_threads = "threads" in series
        is_buffered = series.startswith("buffered")
        options = [
            f"--rw={'rand' if pattern == 'random' else ''}{direction}",
            f"--bs={block}",
            f"--direct={int(not is_buffered)}",
            f"--runtime={FIO_MILLISECONDS}ms",
            f"--ioengine={'psync' if by_threads else 'io_uring'}",
            f"--{'numjobs' if by_threads else 'iodepth'}={in_flight}",
            "--thread",
            "--group_reporting",
            "--end_fsync=1",
            # Pages are read once only.
            *([] if is_buffered else ["--time_based"]),
        ]
        of_job = json.loads(run("fio", *common, *options))["jobs"][0][direction]
        rates[case] = of_job["bw_bytes"] / 1e6
    file.unlink()
    return rates


@contextmanager
def file_system(kind: str, parent: Path) -> Iterator[Path]:
    """A file system on a loop device, whose requests pass the page cache of the disk by."""
    image, mount = parent / f"{kind}.image", parent / kind
    mount.mkdir()
    run("fallocate", "-l", DISK_BYTES, image)
    run(f"mkfs.{kind}", "-q", image)
    device = run("losetup", "--find", "--show", "--direct-io=on", image).strip()
    try:
        run("mount", device, mount)
        try:
            yield mount
        finally:
            run("umount", mount)
    finally:
        run("losetup", "--detach", device)
        image.unlink()


@contextmanager
def bindfs(below: Path, parent: Path) -> Iterator[Path]:
    mount = parent / "bindfs"
    mount.mkdir()
    run("bindfs", below, mount)
    try:
        yield mount
    finally:
        run("umount", mount)


def table(rates: dict[str, list[dict[tuple, float]]]) -> tuple[list[str], int, int]:
    """The medians of all rounds, the number of cases within the goal, and of all."""
    rows, good = [], 0
    measured = [case for case in CASES if all(case in one for one in rates["hither"])]
    for case in measured:
        mine, theirs = (statistics.median(one[case] for one in rates[who]) for who in ("hither", "fio"))
        spread = max(one[case] for one in rates["fio"]) / min(one[case] for one in rates["fio"])
        is_good = abs(mine / theirs - 1) <= GOAL
        good += is_good
        series, pattern, direction, block, in_flight = case
        name = (
            f"{pattern} {direction}, {block >> 10} KiB, {in_flight} {'threads' if 'threads' in series else 'in flight'}"
        )
        cells = [f"{mine:.1f}", f"{theirs:.1f}", f"{mine / theirs:.3f}", f"{spread:.2f}", "yes" if is_good else "NO"]
        rows.append([name + (", buffered" if series.startswith("buffered") else ""), *cells])
    heads = ["case", "hither, MB/s", "fio, MB/s", "ratio", "fio: best / worst round", "within 10 %"]
    return markdown(heads, rows), good, len(measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    if missing := [program for program in ("fio", "mkfs.xfs", "bindfs") if not shutil.which(program)]:
        sys.exit(f"missing: {missing}; apt-get install fio xfsprogs bindfs")
    version = run("fio", "--version").strip()
    lines = [
        "# `hither profile storage` beside fio\n",
        f"Medians of {arguments.rounds} rounds in alternating order, {version}, files of "
        f"{FILE_BYTES >> 20} MiB. ext4 and XFS lie on a loop device over a file (requests past the page cache of the disk "
        "below), bindfs lies on that XFS. Each case takes 0.3 to 0.4 s; writes end with fdatasync or fsync. The goal is "
        "within 10 %.\n",
    ]
    with (
        tempfile.TemporaryDirectory(prefix="hither-bench-", dir=arguments.folder) as name,
        file_system("ext4", Path(name)) as ext4,
        file_system("xfs", Path(name)) as xfs,
        bindfs(xfs, Path(name)) as above,
    ):
        layers = {"ext4": ext4, "XFS": xfs, "bindfs on XFS": above}
        rates = {layer: {"hither": [], "fio": []} for layer in layers}
        for number in range(arguments.rounds):
            for layer, folder in layers.items():
                for measure in (ours, fio) if number % 2 else (fio, ours):
                    rates[layer]["fio" if measure is fio else "hither"].append(measure(folder))
                print(f"round {number + 1} of {arguments.rounds}, {layer}", file=sys.stderr)
        for layer in layers:
            rows, good, all_cases = table(rates[layer])
            lines += [f"## {layer}\n", f"{good} of {all_cases} cases within 10 %.\n", *rows, ""]
        lines += [
            "## The page for XFS\n",
            "```text",
            run(HITHER, "profile", "storage", "--size", "512M", xfs).rstrip(),
            "```",
        ]
    save(OUTPUT, lines)


if __name__ == "__main__":
    main()
