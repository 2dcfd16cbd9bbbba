"""Two findings of the profiles of 2004, with `hither serve`: disk beside network, and lots.

GridFTP's reads left a sixth of the time unused, because disk and network took turns; NeST's writes
into lots took a third longer than others. Here:

- A file that is not in the page cache is read through the server, over loopback and over a link of
  1 Gbit/s, beside its disk alone and beside the same read from memory. The server may be slower
  than the slower of the two by 3 %; nginx reads beside it.
- PUTs into a lot take turns with PUTs beside it. They may be slower by 3 %.

    python -m bench.server.overlap [--runs 5] [--folder FOLDER]

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
from bench.harness.interleaved import rotated, say
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import DATA, HITHER, temporary_folder

READ_MB = 1024
WRITE_MB = 256
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


def reads(folder: Path, runs: int, where: Loopback, name: str) -> list[str]:
    """The rows of one link."""
    file = folder / "file"
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
        found = medians(alternating(runs, ways))
    rows = []
    for server in ports:
        slower = max(found["disk"], found[f"{server}, memory"])
        cold = found[f"{server}, disk"]
        rates = (READ_MB * 1.048576 / seconds for seconds in (found["disk"], found[f"{server}, memory"], cold))
        is_met = "" if server != "hither" else "met" if slower / cold >= BOUND else "MISSED"
        rows.append([name, server, *(f"{rate:.0f}" for rate in rates), f"{slower / cold:.3f}", is_met])
        say(", ".join(rows[-1]))
    return rows


def writes(folder: Path, runs: int) -> list[str]:
    """PUTs into a lot beside others, on disk before the clock stops."""
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
            (root / directory / "file").unlink(missing_ok=True)
            os.sync()
            return timed(["curl", "-sf", "-T", source, f"{url}{directory}/file", "-o", "/dev/null"])

        ways = {name: lambda name=name: put(name) for name in ("lot", "beside")}
        found = alternating(2 * runs, ways)
    inside, beside = medians(found).values()
    ratios = [beside / lot for lot, beside in zip(found["lot"], found["beside"], strict=True)]
    say(f"lots: {inside:.3f} s, beside {beside:.3f} s")
    ratio = statistics.median(ratios)
    verdict = "met" if ratio >= BOUND else "MISSED"
    return [
        f"{WRITE_MB} MiB: {inside:.3f} s into a lot, {beside:.3f} s beside it; rate with lots {ratio:.3f} of that "
        f"without (pairs: {', '.join(f'{it:.2f}' for it in sorted(ratios))}), at least {BOUND}: {verdict}."
    ]


def main() -> None:
    parser = Arguments(__doc__, "server/overlap", runs=5)
    parser.add_argument("--folder", type=Path, default=DATA, help="on the disk to be measured (default target/data)")
    chosen = parser.parse()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with temporary_folder(chosen.folder.resolve()) as folder:
        write_file(folder / "file", READ_MB)
        rows = reads(folder, chosen.runs, Loopback(), "loopback")
        rows += reads(folder, chosen.runs, Wan(NEAR), NEAR.label)
        written = writes(folder, chosen.runs)
    heads = ["link", "server", "disk alone, MB/s", "from memory", "from disk", "of the slower", f"at least {BOUND}"]
    parts = [
        "# Disk beside network, and lots: findings of 2004\n",
        f"Medians of {chosen.runs} interleaved rounds; {READ_MB} MiB, curl as the client. {tables.machine()}\n",
        "## Reads of a file that is not in the page cache\n",
        *tables.markdown(heads, rows, "llr"),
        "\n## Writes into lots\n",
        *written,
    ]
    tables.save(chosen.output, parts)


if __name__ == "__main__":
    main()
