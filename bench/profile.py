"""`hither profile` on a program whose shares are known, on servers, and what it costs them.

    --known-work    60 s of the program; each share has to be within 2 points
    --servers       a page for each server and direction, files of 275 MB over loopback
    --loss          the rate of a server with and without a profile, in pairs

Needs root. GridFTP, whose server and client are not installed with the other peers, is left out
without them (`apt-get install globus-gridftp-server-progs globus-gass-copy-progs`). Results:
`results/profile/`.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.generators import talkfile
from bench.harness import servers, tables
from bench.harness.interleaved import paired, say
from bench.harness.links import Loopback
from bench.harness.paths import HITHER, HITHER_BENCH, RESULTS

OUTPUT = RESULTS / "profile"
SECONDS = 60
SERVER_SECONDS = 20
PAIRS = 40
PAIR_SECONDS = 2.5
CLIENTS = 2
COPIES = 2000
"""Copies of a session of GridFTP: more than there is time for."""

OF_KIND = {
    "computing": ["application"],
    "calling": ["system_calls", "libc", "rest_of_kernel"],
    "copying": ["copies", "file_io", "memory"],
    "sleeping": ["idle"],
}
"""The categories that each kind of work of `hither-bench known-work` is made of."""
IN_PERCENT = {"computing": 30, "calling": 20, "copying": 20, "sleeping": 30}


def of_kinds(profile: dict) -> dict[str, float]:
    """Returns the shares of a profile by kind of work."""
    return {kind: sum(profile["shares"][key] for key in keys) for kind, keys in OF_KIND.items()}


def profile(*words: object) -> tuple[str, str]:
    command = [str(word) for word in (HITHER, "profile", *words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def idle_ticks() -> int:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[4]) + int(fields[5])


def known_work() -> None:
    """Compares shares with what the program says, and idle time with the kernel's counter."""
    idle, began = idle_ticks(), time.monotonic()
    out, err = profile("--json", "--", HITHER_BENCH, "known-work", SECONDS)
    elapsed = time.monotonic() - began
    found, truth = json.loads(out), json.loads(err.splitlines()[-1])
    shares, whole = of_kinds(found), found["seconds"] * found["cpus"]
    lines = [
        f"# Known work, {SECONDS} s\n",
        "`hither-bench known-work` says itself how long each kind of work took; the shares are those of `hither profile`.\n",
        "| work | planned, % | the program says, % | `hither profile`, % | off by, points |",
        "|---|---|---|---|---|",
    ]
    for kind, share in shares.items():
        says = 100 * truth[kind] / whole
        lines.append(f"| {kind} | {IN_PERCENT[kind]} | {says:.2f} | {share:.2f} | {share - says:+.2f} |")
    ticks = (idle_ticks() - idle) / os.sysconf("SC_CLK_TCK") / elapsed / found["cpus"]
    sampling = found["sampling"]
    lines += [
        f"\nIdle by an own reading of `/proc/stat` around the command: {100 * ticks:.2f} %. Sum of the shares: "
        f"{sum(found['shares'].values()):.2f} %. Unclassified: "
        f"{found['shares']['unknown'] + found['shares']['rest_of_kernel']:.2f} %. Samples: {sampling['samples']} of "
        f"{sampling['expected']} expected, {sampling['lost']} lost; {sampling['microseconds_each']} µs each, "
        f"{sampling['overhead_percent']:.2f} % of the CPUs; skid {sampling['skid_percent']:.1f} %; the profiler itself "
        f"{found['shares']['profiler']:.2f} %, other processes {found['shares']['other_processes']:.2f} %.\n",
        "| category | % |",
        "|---|---|",
        *(f"| {key} | {share:.2f} |" for key, share in sorted(found["shares"].items(), key=lambda it: -it[1])),
    ]
    tables.save(OUTPUT / "ground_truth", lines)


@contextmanager
def clients(command: str) -> Iterator[None]:
    """Runs a shell command again and again, some at a time; `$n` is the number of the client."""
    loop = f"while :; do {command}; done"
    running = [
        subprocess.Popen(
            ["bash", "-c", loop],
            env={**os.environ, "n": str(number)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for number in range(CLIENTS)
    ]
    try:
        yield
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def serving(name: str, folder: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Runs a server over the talk's file; yields its port and commands that read and write."""
    talk = talkfile.DEFAULT_OUTPUT
    subprocess.run(["cp", "--reflink=auto", talk, folder / "talk.root"], check=True)
    folder.chmod(0o777)
    where = Loopback()
    start = {
        "nginx": lambda: servers.nginx(where, folder, webdav=True),
        "xrootd": lambda: servers.xrootd(where, folder),
        "hither": lambda: servers.hither(where, folder, more=("--write",)),
        "gridftp": lambda: servers.gridftp(where),
    }
    with start[name]() as port:
        url = f"{'root' if name == 'xrootd' else 'http'}://localhost:{port}/"
        commands = {
            "read": f"curl -s {url}talk.root -o /dev/null",
            "write": f"curl -s -T {talk} {url}up$n",
        }
        if name == "xrootd":
            commands = {
                "read": f"xrdcp -f -s {url}/talk.root /dev/null",
                "write": f"xrdcp -f -s {talk} {url}/up$n",
            }
        if name == "gridftp":
            commands = gridftp_commands(folder, f"ftp://localhost:{port}{folder}")
        yield port, commands


def gridftp_commands(folder: Path, url: str) -> dict[str, str]:
    """Commands that copy many times in one session, whose process then lasts for the profile."""
    sides = {
        "read": f"{url}/talk.root file:///dev/null\n",
        "write": f"file://{talkfile.DEFAULT_OUTPUT} {url}/upN\n",
    }
    for direction, line in sides.items():
        for number in range(CLIENTS):
            (folder / f"{direction}{number}.list").write_text(line.replace("upN", f"up{number}") * COPIES)
    return {direction: f"globus-url-copy -fast -f {folder}/{direction}$n.list" for direction in sides}


def of_servers(names: tuple[str, ...] = ("nginx", "xrootd", "hither", "gridftp")) -> None:
    for name in names:
        if name == "gridftp" and not servers.program("globus-url-copy"):
            continue
        with tempfile.TemporaryDirectory(dir=talkfile.DEFAULT_OUTPUT.parent) as folder:
            for direction in ("read", "write"):
                with serving(name, Path(folder)) as (port, commands), clients(commands[direction]):
                    time.sleep(2)
                    process = servers.PROCESSES[port].pid
                    page, _ = profile("--pid", process, "--seconds", SERVER_SECONDS)
                title = f"# {name}, {direction}\n\n{CLIENTS} clients over loopback on the same machine: `{commands[direction]}`\n"
                tables.save(OUTPUT / f"{name}-{direction}", [title, "```text", page.rstrip(), "```"])


def moved() -> int:
    """Bytes that the loopback interface received."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[0])


def rate() -> tuple[float, float]:
    """Bytes that loopback carried in a second, over some seconds, and the seconds."""
    before, began = moved(), time.monotonic()
    time.sleep(PAIR_SECONDS)
    seconds = time.monotonic() - began
    return (moved() - before) / seconds, seconds


def cpu_nanoseconds(process: int) -> int:
    """CPU time of all threads of a process."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{process}/task").glob("*/schedstat"))


def profiled_rate(process: int) -> tuple[float, float]:
    """The rate while a process is profiled, and the share of all CPUs that the profiler takes."""
    command = [HITHER, "profile", "--json", "--pid", process]
    profiler = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    # Its start, which measures the cost of a sample, is not part of the profile.
    time.sleep(1.5)
    before = cpu_nanoseconds(profiler.pid)
    measured, seconds = rate()
    share = (cpu_nanoseconds(profiler.pid) - before) / 1e9 / seconds / os.cpu_count()
    profiler.send_signal(signal.SIGINT)
    profiler.wait()
    return measured, share


def loss() -> None:
    """The rate with a profile relative to the rate without, in pairs of alternating order.

    One server and one process for each client last through all pairs, each on one connection.
    """
    talk = talkfile.DEFAULT_OUTPUT
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "serve.toml"
        # BBR sends by timers, which are more uneven than a profile is costly.
        config.write_text('[network]\ncongestion = "cubic"\n')
        with servers.hither(Loopback(), talk.parent, more=("--config", str(config))) as port:
            url = f"http://127.0.0.1:{port}/{talk.name}?[1-1000000000]"
            with clients(f"curl -s '{url}' -o /dev/null"):
                time.sleep(2)
                process = servers.PROCESSES[port].pid
                for pair in range(PAIRS):
                    if pair % 2:
                        (without, _), (profiled, share) = rate(), profiled_rate(process)
                    else:
                        (profiled, share), (without, _) = profiled_rate(process), rate()
                    rows.append([pair + 1, round(without / 1e6, 1), round(profiled / 1e6, 1), round(100 * share, 3)])
                    say(", ".join(map(str, rows[-1])))
    write_loss(rows)


def write_loss(rows: list[list[float]]) -> None:
    """Writes the rates of all pairs, and what they show."""
    lost, most, least = (100 * (1 - ratio) for ratio in paired(row[2] / row[1] for row in rows))
    heads = ["pair", "MB/s without", "MB/s profiled", "profiler, % of all CPUs"]
    tables.write_csv(OUTPUT / "loss", [dict(zip(heads, row, strict=True)) for row in rows])
    rates = [statistics.median(row[column] for row in rows) for column in (1, 2)]
    shares = [row[3] for row in rows]
    lines = [
        "# Loss of throughput by a profile\n",
        f"`hither serve` sends a file of 275 MB again and again to {CLIENTS} clients over loopback (curl, one connection "
        f"each, cubic); {len(rows)} pairs of {PAIR_SECONDS} s with and without `hither profile` at its default rate, in "
        "alternating order. Server and clients last through all pairs. Each pair: [loss.csv](loss.csv).\n",
        f"Loss: {lost:.2f} %, 95 % interval {least:.2f} to {most:.2f} % (median of paired log ratios by Hodges and "
        f"Lehmann, interval by Wilcoxon's signed ranks): {'below' if most < 1 else 'not shown to be below'} 1 %. "
        f"Medians of the rates: {rates[0]:.0f} MB/s without, {rates[1]:.0f} MB/s with a profile.\n",
        f"The profiler itself took {statistics.mean(shares):.2f} % of both CPUs ({min(shares):.2f} to "
        f"{max(shares):.2f} %), by the kernel's clock of its threads; the interrupts of its samples are not in that.",
    ]
    tables.save(OUTPUT / "loss", lines)


if __name__ == "__main__":
    for option, measure in (("--known-work", known_work), ("--servers", of_servers), ("--loss", loss)):
        if len(sys.argv) == 1 or option in sys.argv:
            measure()
