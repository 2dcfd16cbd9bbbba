"""Two findings of the profiles of 2004, with `hither serve`: disk beside network, and lots.

GridFTP's reads left a sixth of the time unused, because disk and network took turns; NeST's writes
into lots took a third longer than others. Here:

- A file that is not in the page cache is read through the server, over loopback and over a link of
  1 Gbit/s, beside its disk alone and beside the same read from memory. The server may be slower
  than the slower of the two by 3 %; nginx reads beside it.
- PUTs into a lot take turns with PUTs beside it. They may be slower by 3 %.

    python -m bench.server.overlap [--runs 12] [--folder FOLDER]

FOLDER lies on the disk to be measured. Reads need root (page cache, link). Results:
`results/server/overlap.md`.
"""

import os
import statistics
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.content import numbered_blocks
from bench.harness.interleaved import paired, rotated, say
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import DATA, HITHER, temporary_folder

READ_MB = 1024
NEAR_READ_MB = 256
WRITE_MB = 256
WRITE_PAIRS = 40
NEAR = Link("N", 0.2, 1000, "the same room")
BOUND = 0.97


def timed(command: list) -> float:
    began = time.monotonic()
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def write_file(path: Path, mebibytes: int) -> None:
    with path.open("wb") as file:
        file.writelines(numbered_blocks(mebibytes, 1 << 20))


def forget(file: Path) -> None:
    """Drops a file from the page cache."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def alternating(runs: int, ways: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Seconds of each way, which take turns; each round begins with another one."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(runs):
        for name in rotated(list(ways), number):
            found[name].append(ways[name]())
            say(f"{name}: {found[name][-1]:.2f} s")
    return found


def medians(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def reads(folder: Path, runs: int, where: Loopback, name: str, mebibytes: int) -> list[list[str]]:
    """The rows of one link."""
    file = folder / "file"
    write_file(file, mebibytes)
    with where, ExitStack() as stack:
        ports = {
            "hither": stack.enter_context(servers.hither(where, folder)),
            "nginx": stack.enter_context(servers.nginx(where, folder)),
        }

        def get(server: str, cold: bool) -> float:
            if cold:
                forget(file)
            url = f"http://{where.server_host}:{ports[server]}/file"
            return timed(where.client(["curl", "-sf", url, "-o", "/dev/null"]))

        def disk() -> float:
            forget(file)
            return timed(["dd", f"if={file}", "of=/dev/null", "bs=1M", "status=none"])

        ways: dict[str, Callable[[], float]] = {"disk": disk}
        for server in ports:
            ways[f"{server}, memory"] = lambda server=server: get(server, cold=False)
            ways[f"{server}, disk"] = lambda server=server: get(server, cold=True)
        found = alternating(runs, ways)
    middle = medians(found)
    rows = []
    for server in ports:
        here = (found["disk"], found[f"{server}, memory"], found[f"{server}, disk"])
        share, low, high = paired(max(disk, memory) / cold for disk, memory, cold in zip(*here, strict=True))
        seconds = (middle["disk"], middle[f"{server}, memory"], middle[f"{server}, disk"])
        rates = (f"{mebibytes * 1.048576 / it:.0f}" for it in seconds)
        is_met = "" if server != "hither" else "met" if share >= BOUND else "MISSED"
        rows.append([name, server, *rates, f"{share:.3f} ({low:.3f} to {high:.3f})", is_met])
        say(", ".join(rows[-1]))
    return rows


def writes(folder: Path, output: Path) -> list[str]:
    """PUTs into a lot beside others, on disk before the clock stops, in pairs."""
    source, root = folder / "source", folder / "root"
    write_file(source, WRITE_MB)
    root.mkdir()
    config = folder / "serve.toml"
    config.write_text("[lots]\nbytes = 10000000000\n")
    where = Loopback()
    with servers.hither(where, root, more=("--write", "--config", str(config))) as port:
        url = f"http://127.0.0.1:{port}/"
        reserve = [HITHER, "lots", "reserve", f"{url}lot", "--bytes", "5G", "--lease", "1h"]
        subprocess.run(reserve, check=True, stdout=subprocess.DEVNULL)
        (root / "lot").mkdir(exist_ok=True)
        (root / "beside").mkdir()

        def put(directory: str) -> float:
            # By the server, so that the lot has its bytes back.
            target = f"{url}{directory}/file"
            subprocess.run(["curl", "-s", "-X", "DELETE", target, "-o", "/dev/null"], check=True)
            os.sync()
            return timed(["curl", "-sf", "-T", source, target, "-o", "/dev/null"])

        ways = {name: lambda name=name: put(name) for name in ("lot", "beside")}
        found = alternating(WRITE_PAIRS, ways)
    pairs = zip(found["lot"], found["beside"], strict=True)
    tables.write_csv(output, [{"lot, s": round(lot, 2), "beside, s": round(beside, 2)} for lot, beside in pairs])
    inside, beside = medians(found).values()
    ratio, low, high = paired(beside / lot for lot, beside in zip(found["lot"], found["beside"], strict=True))
    verdict = "met" if ratio >= BOUND else "MISSED"
    return [
        f"{WRITE_PAIRS} pairs of {WRITE_MB} MiB in alternating order: {inside:.3f} s into a lot, {beside:.3f} s beside "
        f"it (medians); rate with lots {ratio:.3f} of that without, 95 % interval {low:.3f} to {high:.3f}; at least "
        f"{BOUND}: {verdict}. Each pair: [overlap.csv](overlap.csv)."
    ]


def main() -> None:
    parser = Arguments(__doc__, "server/overlap", runs=12)
    parser.add_argument("--folder", type=Path, default=DATA, help="on the disk to be measured (default target/data)")
    chosen = parser.parse()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with temporary_folder(chosen.folder.resolve()) as folder:
        rows = reads(folder, chosen.runs, Loopback(), "loopback", READ_MB)
        rows += reads(folder, chosen.runs, Wan(NEAR), NEAR.label, NEAR_READ_MB)
        written = writes(folder, chosen.output)
    heads = ["link", "server", "disk alone, MB/s", "from memory", "from disk", "of the slower", f"at least {BOUND}"]
    parts = [
        "# Disk beside network, and lots: findings of 2004\n",
        "curl as the client.\n",
        "## Reads of a file that is not in the page cache\n",
        f"Medians of {chosen.runs} interleaved rounds; {READ_MB} MiB over loopback, {NEAR_READ_MB} MiB over the link. "
        "*Of the slower* is the rate from disk as a share of the slower of disk and memory, of the same round: the median "
        "of Hodges and Lehmann over the rounds, with the 95 % interval of Wilcoxon's signed ranks.\n",
        *tables.markdown(heads, rows, "llr"),
        "\n## Writes into lots\n",
        *written,
    ]
    tables.save(chosen.output, parts)


if __name__ == "__main__":
    main()
