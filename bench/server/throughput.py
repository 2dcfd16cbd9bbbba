"""`hither serve` beside nginx and xrootd's HTTP on loopback: seconds, and processor seconds of the server.

From memory: 10,000 pieces of 2 KB from a file of 1 GB, each server asked in the ways that suit it; whole files of 16 MiB and ranges
of 1 MB over 1, 16 and 256 connections, in clear text and over TLS. From disk: the whole file, and the pieces. One client for all,
which does as little as a client can (peers/ranges/http_pull.cpp). Root gets real-time priority for it, and else nothing more.
"""

import argparse
import contextlib
import csv
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.generators import widefile
from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import BUILT_PEERS, PEERS, RESULTS

SOURCE = PEERS / "ranges" / "http_pull.cpp"
CLIENT = BUILT_PEERS / "http_pull"
PIECES, PIECE_BYTES = 10_000, 2048
WHOLE_BYTES = 16 << 20
RANGE_BYTES = 1_000_000
CONNECTIONS = (1, 16, 256)
LEAST_BYTES = 3_000_000_000
"""What a measurement of throughput moves, at the least."""
NGINX_LINE = 8000
"""Bytes of a Range field that fit nginx's stock buffers."""
XROOTD_RANGES = 1000
TICKS = os.sysconf("SC_CLK_TCK")

Ranges = list[tuple[int, int]]


@dataclass
class Case:
    """One way to ask one server for something, and what came of it."""

    group: str
    server: str
    way: str
    requests: Path
    connections: int
    depth: int = 1
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    bytes: int = 0
    count: int = 0
    failure: str = ""

    @property
    def time(self) -> float:
        return statistics.median(self.seconds)

    @property
    def cpu_per_gb(self) -> float:
        return statistics.median(self.cpu) / (self.bytes / 1e9)


def build() -> None:
    if CLIENT.exists() and CLIENT.stat().st_mtime >= SOURCE.stat().st_mtime:
        return
    CLIENT.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["g++", "-std=c++17", "-O2", SOURCE, "-o", CLIENT, "-lssl", "-lcrypto"], check=True)


def request(method: str, path: str, *fields: str, body: bytes = b"") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", *fields]
    head += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*head, "", ""]).encode() + body


def written(folder: Path, name: str, requests: list[bytes]) -> Path:
    path = folder / name
    path.write_bytes(b"".join(b"%d\n%s" % (len(each), each) for each in requests))
    return path


def pieces(size: int) -> Ranges:
    """As in reads/pieces.py: none overlap and hardly any touch."""
    chance = random.Random(2048)
    slot = 2 * PIECE_BYTES
    slots = sorted(chance.sample(range(size // slot), PIECES))
    return [(n * slot + chance.randrange(PIECE_BYTES), PIECE_BYTES) for n in slots]


def range_field(ranges: Ranges) -> str:
    return "Range: bytes=" + ",".join(f"{first}-{first + length - 1}" for first, length in ranges)


def batches(ranges: Ranges, most_bytes: int, most: int) -> Iterator[Ranges]:
    batch: Ranges = []
    for each in ranges:
        if len(batch) == most or len(range_field([*batch, each])) > most_bytes:
            yield batch
            batch = []
        batch.append(each)
    yield batch


def number(value: int) -> bytes:
    """LEB128."""
    low, value = value & 127, value >> 7
    return bytes([low | 128]) + number(value) if value else bytes([low])


def query(path: str, ranges: Ranges) -> bytes:
    """The list that hither's QUERY takes: the tail, then distances in zigzag, and lengths."""
    body, end = [number(0)], 0
    for first, length in ranges:
        distance = first - end
        body += [number(2 * distance if distance >= 0 else -2 * distance - 1), number(length)]
        end = first + length
    kind = "Content-Type: application/vnd.hither.ranges.v1"
    return request("QUERY", path, kind, "Accept: application/vnd.hither.frames.v1", body=b"".join(body))


def piece_cases(folder: Path, file: Path) -> Iterator[Case]:
    ranges, path, group = pieces(file.stat().st_size), f"/{file.name}", "pieces"
    yield Case(group, "hither", "one QUERY", written(folder, "query", [query(path, ranges)]), 1)
    whole = request("GET", path, range_field(ranges))
    yield Case(group, "hither", "one GET", written(folder, "get", [whole]), 1)
    for server, most_bytes, most in (("nginx", NGINX_LINE, PIECES), ("xrootd", NGINX_LINE, XROOTD_RANGES)):
        asked = [request("GET", path, range_field(batch)) for batch in batches(ranges, most_bytes, most)]
        requests = written(folder, f"{server}-pieces", asked)
        for connections in (1, 2, 4, 8, len(asked)):
            yield Case(group, server, f"{len(asked)} GET, {connections} conn.", requests, connections)
        # xrootd's HTTP loses what follows a request in the same packet.
        if server == "nginx":
            yield Case(group, server, f"{len(asked)} GET, 1 conn., all at once", requests, 1, len(asked))


def bulk_cases(folder: Path, big: Path, whole: Path, names: list[str]) -> Iterator[Case]:
    size = big.stat().st_size
    for connections in CONNECTIONS:
        count = max(connections, LEAST_BYTES // WHOLE_BYTES)
        requests = written(folder, f"whole-{count}", [request("GET", f"/{whole.name}")] * count)
        for name in names:
            yield Case("whole files", name, f"{connections} conn.", requests, connections)
    firsts = [first for first in range(0, size - RANGE_BYTES, RANGE_BYTES)]
    ranges = [[(firsts[n % len(firsts)], RANGE_BYTES)] for n in range(LEAST_BYTES // RANGE_BYTES)]
    requests = written(folder, "ranges", [request("GET", f"/{big.name}", range_field(each)) for each in ranges])
    for connections in CONNECTIONS:
        for name in names:
            yield Case("ranges of 1 MB", name, f"{connections} conn.", requests, connections)


def forget(file: Path) -> None:
    """What the kernel has of a file in memory."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_alone(file: Path) -> float:
    """Seconds to read a file in blocks that go nowhere."""
    began, block = time.monotonic(), bytearray(256 << 10)
    with file.open("rb", buffering=0) as opened:
        while opened.readinto(block):
            pass
    return time.monotonic() - began


def cold(folder: Path, file: Path, ports: dict[str, int], rounds: int) -> tuple[list[float], list[Case]]:
    """From disk: how long it takes alone, then each server; each of them also from memory."""
    whole = written(folder, "cold", [request("GET", f"/{file.name}")])
    few = {c.server: c for c in piece_cases(folder, file) if c.server in ports and (c.connections == 8 or "QUERY" in c.way)}
    cases = []
    for server, asked in few.items():
        for where in ("memory", "disk"):
            cases.append(Case(f"whole, {where}", server, "", whole, 1))
            cases.append(Case(f"pieces, {where}", server, "", asked.requests, asked.connections))
    disk = []
    for _ in range(rounds):
        forget(file)
        disk.append(read_alone(file))
        for case in cases:
            if case.group.endswith("disk"):
                forget(file)
            measure(case, ports[case.server], tls=False)
            if case.group == "pieces, disk":
                read_alone(file)
    return disk, cases


def cpu_seconds(session: int) -> float:
    """Of all processes of a session."""
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def measure(case: Case, port: int, tls: bool) -> None:
    if case.failure:
        return
    session = servers.PROCESSES[port].pid
    command = [CLIENT, "127.0.0.1", port, case.requests, case.connections, case.depth, *(["tls"] if tls else [])]
    before = cpu_seconds(session)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    used = cpu_seconds(session) - before
    told = json.loads(done.stdout) if done.returncode == 0 else {}
    if not told or told["refused"]:
        case.failure = done.stderr.strip()[:200] or f"{told['refused']} requests were refused"
    else:
        case.seconds.append(told["seconds"])
        case.cpu.append(used)
        case.bytes, case.count = told["bytes"], told["answers"]
    outcome = case.failure or f"{told['seconds']:.3f} s, {used:.2f} s CPU"
    say(f"{case.group:16} {'TLS' if tls else 'clear':6} {case.server:10} {case.way:24} {outcome}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def play(cases: list[Case], ports: dict[str, int], rounds: int, tls: bool) -> list[Case]:
    """Every case of a group once, then again: whoever comes first is another each time."""
    for group in dict.fromkeys((case.group, case.connections if case.group != "pieces" else 0) for case in cases):
        these = [c for c in cases if (c.group, c.connections if c.group != "pieces" else 0) == group]
        for turn in range(rounds):
            first = turn % len(these)
            for case in [*these[first:], *these[:first]]:
                measure(case, ports[case.server], tls)
    return cases


def piece_table(cases: list[Case]) -> Iterator[str]:
    yield "| | requests | ms | fastest | CPU of the server, s/GB | MB |"
    yield "|---|---:|---:|---:|---:|---:|"
    for c in cases:
        if c.failure:
            yield f"| {c.server}, {c.way} | failed: {c.failure} | | | | |"
            continue
        mean = statistics.mean(c.cpu) / (c.bytes / 1e9)
        yield f"| {c.server}, {c.way} | {c.count} | {c.time * 1e3:.1f} | {min(c.seconds) * 1e3:.1f} | {mean:.2f} | {c.bytes / 1e6:.2f} |"


def bulk_table(cases: list[Case]) -> Iterator[str]:
    yield "| | | " + " | ".join(["GB/s", "x nginx", "CPU s/GB", "x nginx"]) + " |"
    yield "|---|---|---:|---:|---:|---:|"
    for c in cases:
        if c.failure:
            yield f"| {c.group}, {c.way} | {c.server} | failed: {c.failure} | | | |"
            continue
        best = [n for n in cases if (n.group, n.way) == (c.group, c.way) and n.server.startswith("nginx") and not n.failure]
        fast = max((n.bytes / n.time for n in best), default=0)
        cheap = min((n.cpu_per_gb for n in best), default=0)
        ratios = [f"{c.bytes / c.time / fast:.2f}" if fast else "", f"{c.cpu_per_gb / cheap:.2f}" if cheap else ""]
        yield f"| {c.group}, {c.way} | {c.server} | {c.bytes / c.time / 1e9:.2f} | {ratios[0]} | {c.cpu_per_gb:.3f} | {ratios[1]} |"


def cold_table(disk: list[float], cases: list[Case]) -> Iterator[str]:
    alone = statistics.median(disk)
    yield f"Reading the file from disk alone takes {alone:.2f} s. Overlap: how much of the shorter one of disk and network is hidden."
    yield ""
    yield "| | whole, from memory, s | from disk, s | overlap | pieces, from memory, ms | from disk, ms |"
    yield "|---|---:|---:|---:|---:|---:|"
    for server in dict.fromkeys(c.server for c in cases):
        took = {c.group: c.time for c in cases if c.server == server and c.seconds}
        if len(took) < 4:
            continue
        warm, both = took["whole, memory"], took["whole, disk"]
        overlap = (alone + warm - both) / min(alone, warm)
        few = [f"{took[f'pieces, {where}'] * 1e3:.0f}" for where in ("memory", "disk")]
        yield f"| {server} | {warm:.2f} | {both:.2f} | {overlap:.0%} | {few[0]} | {few[1]} |"


def bounds(clear: list[Case], tls: list[Case], few: list[Case]) -> Iterator[str]:
    good = [c for c in few if not c.failure]
    ours = min((c.time for c in good if c.server == "hither" and "QUERY" in c.way), default=None)
    for server in ("nginx", "xrootd"):
        theirs = min((c.time for c in good if c.server == server), default=None)
        if ours and theirs:
            yield f"- pieces, one QUERY beside the best way of {server}: {ours / theirs:.2f} x, at most 0.5: {'kept' if ours <= theirs / 2 else 'MISSED'}"
    for name, cases, slow, dear in (("clear text", clear, 0.9, 1.3), ("TLS", tls, 1.0, None)):
        for c in (c for c in cases if c.server == "hither" and not c.failure):
            peers = [n for n in cases if (n.group, n.way) == (c.group, c.way) and n is not c and not n.failure]
            nginx = [n for n in peers if n.server.startswith("nginx")]
            rest = [n for n in peers if n.server == "xrootd"]
            if not nginx:
                continue
            fast = c.bytes / c.time / max(n.bytes / n.time for n in nginx)
            cost = c.cpu_per_gb / min(n.cpu_per_gb for n in nginx)
            kept = fast >= slow and cost <= (dear or 1.0) and all(c.bytes / c.time > n.bytes / n.time for n in rest if not dear)
            beside = "".join(f", {c.bytes / c.time / (n.bytes / n.time):.2f} x xrootd" for n in rest)
            yield f"- {name}, {c.group}, {c.way}: {fast:.2f} x nginx in speed, {cost:.2f} x in CPU{beside}: {'kept' if kept else 'MISSED'}"


def starters(tls: servers.Tls | None, root: Path, names: list[str]) -> dict[str, Callable]:
    where = Loopback()
    return {
        name: start
        for name, start in {
            "hither": lambda: servers.hither(where, root, tls=tls),
            "nginx": lambda: servers.nginx(where, root, tls=tls),
            "nginx x2": lambda: servers.nginx(where, root, tls=tls, workers="auto"),
            "xrootd": lambda: servers.xrootd(where, root, tls=tls, https=True),
        }.items()
        if name in names
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--servers", default="hither,nginx,nginx x2,xrootd", help="default %(default)s")
    parser.add_argument("--only", default="pieces,clear,tls,cold", help="default %(default)s")
    parser.add_argument("--connections", default="", help="only these numbers of connections, comma separated")
    parser.add_argument("--output", type=Path, default=RESULTS / "server" / "throughput")
    options = parser.parse_args()
    build()
    widefile.ensure()
    names, only = options.servers.split(","), options.only.split(",")
    wanted = [int(n) for n in options.connections.split(",") if n]
    found: dict[str, list[Case]] = {"pieces": [], "clear": [], "tls": [], "cold": []}
    disk: list[float] = []
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    with tempfile.TemporaryDirectory(prefix="hither-dataserver-", dir=widefile.DEFAULT_OUTPUT.parent) as made:
        folder = Path(made)
        root = folder / "root"
        root.mkdir()
        os.chmod(folder, 0o755)
        big, whole = root / "big", root / "whole"
        # Not a link: a server that confines names to its tree does not follow it.
        shutil.copy(widefile.DEFAULT_OUTPUT, big)
        with big.open("rb") as file:
            whole.write_bytes(file.read(WHOLE_BYTES))
        certificate = servers.certificate(folder)
        for kind in ("clear", "tls"):
            tls = certificate if kind == "tls" else None
            if kind not in only and not (kind == "clear" and {"pieces", "cold"} & set(only)):
                continue
            with ExitStack() as inner:
                ports = {name: inner.enter_context(start()) for name, start in starters(tls, root, names).items()}
                if kind == "clear" and "pieces" in only:
                    cases = [c for c in piece_cases(folder, big) if c.server in ports]
                    found["pieces"] = play(cases, ports, 3 * options.runs, False)
                if kind == "clear" and "cold" in only:
                    disk, found["cold"] = cold(folder, big, ports, options.runs)
                if kind in only:
                    cases = list(bulk_cases(folder, big, whole, list(ports)))
                    cases = [c for c in cases if not wanted or c.connections in wanted]
                    found[kind] = play(cases, ports, options.runs, kind == "tls")
    write(options.output, found, disk, widefile.DEFAULT_OUTPUT.stat().st_size)
    return 0


def write(output: Path, found: dict[str, list[Case]], disk: list[float], size: int) -> None:
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    parts = [
        "# A data server beside others",
        "",
        f"`hither serve`, nginx (one worker and one for each core) and xrootd's HTTP, files in memory unless said, loopback; {os.cpu_count()} cores shared",
        "with a client of one thread that reads and forgets. Medians of interleaved rounds; CPU is that of all of a server's processes.",
        f"Load of the machine at the end (1, 5, 15 minutes): {load}.",
        "",
        "## Bounds",
        "",
        *bounds(found["clear"], found["tls"], found["pieces"]),
        "",
    ]
    if found["pieces"]:
        what = f"{PIECES:,} pieces of {PIECE_BYTES} bytes from a file of {size / 1e9:.2f} GB"
        parts += [f"## {what}", "", *piece_table(found["pieces"]), ""]
    for kind, title in (("clear", "Clear text"), ("tls", "TLS")):
        if found[kind]:
            parts += [f"## {title}", "", *bulk_table(found[kind]), ""]
    if found["cold"]:
        parts += ["## From disk", "", *cold_table(disk, found["cold"]), ""]
    output.with_suffix(".md").write_text("\n".join(parts))
    with output.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["what", "security", "server", "way", "connections", "round", "seconds", "server_cpu", "bytes"])
        for kind, cases in found.items():
            for c in cases:
                for number, (seconds, cpu) in enumerate(zip(c.seconds, c.cpu, strict=True)):
                    writer.writerow([c.group, kind, c.server, c.way, c.connections, number, seconds, f"{cpu:.2f}", c.bytes])
    print("\n".join(parts))


if __name__ == "__main__":
    sys.exit(main())
