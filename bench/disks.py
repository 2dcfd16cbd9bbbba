"""`hither cp` between memories and between disks, beside what each part of the way can do.

A file over a link of 1 Gbit/s, and 0.2 ms, from `hither serve` to a file: from memory to memory
beside iperf3, and from a disk to a disk beside the slowest of iperf3, fio's read and fio's write
with an fsync at its end, as the copy ends with one. The source is not in the page cache. Then a
tree of files of 10 KiB over loopback to the disk, synced, beside a tar of the same tree from the
same server, unpacked and synced. Contenders take turns; medians are printed and written.

    python -m bench.disks --runs 3 --size 1024 --files 50000

The disk is that of the repository. Needs root (page cache, link) and fio.
"""

import json
import shutil
import subprocess
import time
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.content import FILE_BYTES, numbered_blocks, write_tree
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import DATA, HITHER, MEMORY, temporary_folder
from bench.server.overlap import alternating, forget, medians

NEAR = Link("N", 0.2, 1000, "the same room")
BOUND = 0.95


def timed(where: Loopback, *command: object) -> float:
    began = time.monotonic()
    subprocess.run(where.client([str(word) for word in command]), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def fio(direction: str, file: Path, size: int) -> float:
    """Seconds of fio for a file that is not in the page cache, or is on the disk at the end."""
    options = (f"--rw={direction}", f"--filename={file}", f"--size={size}", "--bs=1M", "--end_fsync=1", "--name=job")
    told = json.loads(subprocess.check_output(["fio", *options, "--invalidate=1", "--output-format=json"]))
    return size / told["jobs"][0][direction]["bw_bytes"]


def one_file(source: Path, target: Path, size: int, runs: int, on_disk: bool) -> dict[str, list[float]]:
    """Seconds by contender; the folders lie in memory or on a disk."""
    file, copy = source / "file", target / "copy"
    with file.open("wb") as opened:
        opened.writelines(numbered_blocks(size >> 20, 1 << 20))
    port_of_iperf = servers.free_port()
    with (
        Wan(NEAR) as where,
        servers.hither(where, source) as port,
        servers.running(where, ["iperf3", "-s", "-p", str(port_of_iperf)], port_of_iperf, source / "iperf.log"),
    ):
        url = f"http://{where.server_host}:{port}/file"

        def ours() -> float:
            copy.unlink(missing_ok=True)
            if on_disk:
                forget(file)
            return timed(where, HITHER, "cp", "--no-store", "--quiet", url, copy)

        def iperf() -> float:
            return timed(where, "iperf3", "-R", "-c", where.server_host, "-p", port_of_iperf, "-P8", "-n", size)

        ways = {"hither cp": ours, "iperf3 -P8": iperf}
        if on_disk:
            ways["fio read"] = lambda: fio("read", file, size)
            ways["fio write"] = lambda: fio("write", target / "fio", size)
        return alternating(runs, ways)


def many_files(source: Path, target: Path, files: int, runs: int) -> dict[str, list[float]]:
    """Seconds of a tree to the disk."""
    where, tree, out = Loopback(), source / "tree", target / "out"
    write_tree(tree, files)
    subprocess.run(["tar", "-C", source, "-cf", source / "tree.tar", "tree"], check=True)
    with servers.hither(where, source) as port:
        url = f"http://{where.server_host}:{port}"

        def emptied(*command: object) -> float:
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            subprocess.run(["sync", "-f", out], check=True)
            return timed(where, *command)

        script = 'set -o pipefail; curl -sf "$0/tree.tar" | tar -C "$1" -x && sync -f "$1"'
        ways = {
            "hither cp -r": lambda: emptied(HITHER, "cp", "-r", "--no-store", "--quiet", f"{url}/tree", out / "tree"),
            "tar, unpacked, sync": lambda: emptied("bash", "-c", script, url, out),
        }
        return alternating(runs, ways)


def rows(case: str, found: dict[str, list[float]], amount: float, unit: str) -> list[list[str]]:
    """With the rate of each as a share of the slowest other contender's."""
    middle = medians(found)
    ours, *others = middle.values()
    verdict = f"{max(others) / ours:.2f} of the slowest other"
    return [
        [
            case,
            who,
            f"{amount / seconds:.0f} {unit}",
            f"{min(found[who]):.2f}-{max(found[who]):.2f}",
            verdict * (not at),
        ]
        for at, (who, seconds) in enumerate(middle.items())
    ]


def main() -> None:
    parser = Arguments(__doc__, "disks", runs=3)
    parser.add_argument("--size", type=int, default=1024, help="of the file, in MiB (default %(default)s)")
    parser.add_argument("--files", type=int, default=50_000, help=f"of {FILE_BYTES} bytes (default %(default)s)")
    options = parser.parse()
    DATA.mkdir(parents=True, exist_ok=True)
    size = options.size << 20
    with temporary_folder(MEMORY) as memory, temporary_folder(DATA.resolve()) as disk:
        for folder in (memory, disk):
            (folder / "source").mkdir()
        found = one_file(memory / "source", memory, size, options.runs, on_disk=False)
        lines = rows("memory to memory", found, size / 1e6, "MB/s")
        (memory / "source/file").unlink()
        (memory / "copy").unlink()
        found = one_file(disk / "source", disk, size, options.runs, on_disk=True)
        lines += rows("disk to disk", found, size / 1e6, "MB/s")
        found = many_files(memory / "source", disk, options.files, options.runs)
        lines += rows(f"{options.files} files to the disk", found, options.files, "files/s")
    heads = ["", "", "median", "s", f"target {BOUND}"]
    parts = ["# Copies between memories and disks", "", *tables.markdown(heads, lines, "llrrl")]
    tables.save(options.output, parts)


if __name__ == "__main__":
    main()
