"""`hither serve` beside nginx and xrootd's HTTP on loopback: seconds, and the server's CPU seconds.

From memory: 10,000 pieces of 2 KB from a file of 1 GB, by requests that suit each server; whole
files of 16 MiB and ranges of 1 MB over 1, 16 and 256 connections, in clear text and over TLS. From
disk: the whole file, and the pieces. One client for all, with as little work as possible
(peers/ranges/http_pull.cpp). Root is needed only for its real-time priority.
"""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.generators import widefile
from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import compiled_peer
from bench.harness.interleaved import ratio_line, rotated, say, target_line
from bench.harness.links import Loopback
from bench.harness.paths import temporary_folder
from bench.harness.ranges import Ranges, scattered

PIECES, PIECE_BYTES = 10_000, 2048
WHOLE_BYTES = 16 << 20
RANGE_BYTES = 1_000_000
CONNECTIONS = (1, 16, 256)
MIN_BYTES = 3_000_000_000
"""The least that a measurement of throughput moves."""
NGINX_LINE = 8000
"""Bytes of a Range field that fit nginx's stock buffers."""
XROOTD_RANGES = 1000


@dataclass
class Case:
    """One way to request something from one server, and its measurements."""

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
    def rate(self) -> float:
        """Bytes a second."""
        return self.bytes / self.time

    @property
    def cpu_per_gb(self) -> float:
        return statistics.median(self.cpu) / (self.bytes / 1e9)


def request(method: str, path: str, *fields: str, body: bytes = b"") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", *fields]
    head += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*head, "", ""]).encode() + body


def written(folder: Path, name: str, requests: list[bytes]) -> Path:
    path = folder / name
    path.write_bytes(b"".join(b"%d\n%s" % (len(each), each) for each in requests))
    return path


def range_field(ranges: Ranges) -> str:
    return "Range: bytes=" + ",".join(f"{first}-{first + length - 1}" for first, length in ranges)


def batches(ranges: Ranges, max_bytes: int, max_count: int) -> Iterator[Ranges]:
    batch: Ranges = []
    for each in ranges:
        if len(batch) == max_count or len(range_field([*batch, each])) > max_bytes:
            yield batch
            batch = []
        batch.append(each)
    yield batch


def number(value: int) -> bytes:
    """LEB128."""
    low, value = value & 127, value >> 7
    return bytes([low | 128]) + number(value) if value else bytes([low])


def query(path: str, ranges: Ranges) -> bytes:
    """A QUERY of hither: the tail, then a zigzag distance and a length for each range."""
    body, end = [number(0)], 0
    for first, length in ranges:
        distance = first - end
        body += [number(2 * distance if distance >= 0 else -2 * distance - 1), number(length)]
        end = first + length
    kind = "Content-Type: application/vnd.hither.ranges.v1"
    return request("QUERY", path, kind, "Accept: application/vnd.hither.frames.v1", body=b"".join(body))


def piece_cases(folder: Path, file: Path) -> Iterator[Case]:
    ranges, path, group = scattered(file.stat().st_size, PIECES, PIECE_BYTES), f"/{file.name}", "pieces"
    yield Case(group, "hither", "one QUERY", written(folder, "query", [query(path, ranges)]), 1)
    whole = request("GET", path, range_field(ranges))
    yield Case(group, "hither", "one GET", written(folder, "get", [whole]), 1)
    for server, max_bytes, max_count in (("nginx", NGINX_LINE, PIECES), ("xrootd", NGINX_LINE, XROOTD_RANGES)):
        batched = [request("GET", path, range_field(batch)) for batch in batches(ranges, max_bytes, max_count)]
        requests = written(folder, f"{server}-pieces", batched)
        for connections in (1, 2, 4, 8, len(batched)):
            yield Case(group, server, f"{len(batched)} GET, {connections} conn.", requests, connections)
        # xrootd's HTTP loses data that follows a request in the same packet.
        if server == "nginx":
            yield Case(group, server, f"{len(batched)} GET, 1 conn., all at once", requests, 1, len(batched))


def bulk_cases(folder: Path, big: Path, whole: Path, names: list[str]) -> Iterator[Case]:
    size = big.stat().st_size
    for connections in CONNECTIONS:
        count = max(connections, MIN_BYTES // WHOLE_BYTES)
        requests = written(folder, f"whole-{count}", [request("GET", f"/{whole.name}")] * count)
        for name in names:
            yield Case("whole files", name, f"{connections} conn.", requests, connections)
    firsts = range(0, size - RANGE_BYTES, RANGE_BYTES)
    ranges = [[(firsts[n % len(firsts)], RANGE_BYTES)] for n in range(MIN_BYTES // RANGE_BYTES)]
    requests = written(folder, "ranges", [request("GET", f"/{big.name}", range_field(each)) for each in ranges])
    for connections in CONNECTIONS:
        for name in names:
            yield Case("ranges of 1 MB", name, f"{connections} conn.", requests, connections)


def forget(file: Path) -> None:
    """Drops a file from the page cache."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_alone(file: Path) -> float:
    """Seconds to read a file and discard it."""
    began, block = time.monotonic(), bytearray(256 << 10)
    with file.open("rb", buffering=0) as opened:
        while opened.readinto(block):
            pass
    return time.monotonic() - began


def cold(folder: Path, file: Path, ports: dict[str, int], rounds: int) -> tuple[list[float], list[Case]]:
    """From disk: the seconds of reading alone, and each server; each server also from memory."""
    whole = written(folder, "cold", [request("GET", f"/{file.name}")])
    few = {
        c.server: c for c in piece_cases(folder, file) if c.server in ports and (c.connections == 8 or "QUERY" in c.way)
    }
    cases = []
    for server, few_pieces in few.items():
        for where in ("memory", "disk"):
            cases.append(Case(f"whole, {where}", server, "", whole, 1))
            cases.append(Case(f"pieces, {where}", server, "", few_pieces.requests, few_pieces.connections))
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


def measure(case: Case, port: int, tls: bool) -> None:
    if case.failure:
        return
    session = servers.PROCESSES[port].pid
    client = compiled_peer("ranges/http_pull", "-lssl", "-lcrypto")
    command = [client, "127.0.0.1", port, case.requests, case.connections, case.depth, *(["tls"] if tls else [])]
    before = servers.cpu_seconds(session)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False)
    used = servers.cpu_seconds(session) - before
    told = json.loads(done.stdout) if done.returncode == 0 else {}
    if not told or told["refused"]:
        case.failure = done.stderr.strip()[:200] or f"{told['refused']} requests were refused"
    else:
        case.seconds.append(told["seconds"])
        case.cpu.append(used)
        case.bytes, case.count = told["bytes"], told["answers"]
    outcome = case.failure or f"{told['seconds']:.3f} s, {used:.2f} s CPU"
    say(f"{case.group:16} {'TLS' if tls else 'clear':6} {case.server:10} {case.way:24} {outcome}")


def play(cases: list[Case], ports: dict[str, int], rounds: int, tls: bool) -> list[Case]:
    """All rounds of each group of cases."""
    for group in dict.fromkeys((case.group, case.connections if case.group != "pieces" else 0) for case in cases):
        these = [c for c in cases if (c.group, c.connections if c.group != "pieces" else 0) == group]
        for number in range(rounds):
            for case in rotated(these, number):
                measure(case, ports[case.server], tls)
    return cases


def piece_table(cases: list[Case]) -> list[str]:
    rows = []
    for c in cases:
        figures = [f"failed: {c.failure}", "", "", "", ""]
        if not c.failure:
            mean = statistics.mean(c.cpu) / (c.bytes / 1e9)
            figures = [
                str(c.count),
                f"{c.time * 1e3:.1f}",
                f"{min(c.seconds) * 1e3:.1f}",
                f"{mean:.2f}",
                f"{c.bytes / 1e6:.2f}",
            ]
        rows.append([f"{c.server}, {c.way}", *figures])
    return tables.markdown(["", "requests", "ms", "fastest", "CPU of the server, s/GB", "MB"], rows)


def same_work(case: Case, cases: list[Case], server: str) -> list[Case]:
    return [
        c for c in cases if (c.group, c.way) == (case.group, case.way) and c.server.startswith(server) and not c.failure
    ]


def bulk_table(cases: list[Case]) -> list[str]:
    rows = []
    for c in cases:
        figures = [f"failed: {c.failure}", "", "", ""]
        if not c.failure:
            nginx = same_work(c, cases, "nginx")
            fast, cheap = max((n.rate for n in nginx), default=0), min((n.cpu_per_gb for n in nginx), default=0)
            ratios = [
                f"{ours / theirs:.2f}" if theirs else "" for ours, theirs in ((c.rate, fast), (c.cpu_per_gb, cheap))
            ]
            figures = [f"{c.rate / 1e9:.2f}", ratios[0], f"{c.cpu_per_gb:.3f}", ratios[1]]
        rows.append([f"{c.group}, {c.way}", c.server, *figures])
    return tables.markdown(["", "", "GB/s", "x nginx", "CPU s/GB", "x nginx"], rows, "llr")


def cold_table(disk: list[float], cases: list[Case]) -> list[str]:
    alone = statistics.median(disk)
    rows = []
    for server in dict.fromkeys(c.server for c in cases):
        took = {c.group: c.time for c in cases if c.server == server and c.seconds}
        if len(took) < 4:
            continue
        warm, both = took["whole, memory"], took["whole, disk"]
        overlap = (alone + warm - both) / min(alone, warm)
        few = [f"{took[f'pieces, {where}'] * 1e3:.0f}" for where in ("memory", "disk")]
        rows.append([server, f"{warm:.2f}", f"{both:.2f}", f"{overlap:.0%}", *few])
    heads = ["", "whole, from memory, s", "from disk, s", "overlap", "pieces, from memory, ms", "from disk, ms"]
    return [
        f"Reading the file from disk alone takes {alone:.2f} s. Overlap: the part of the shorter of disk and network time that is hidden.",
        "",
        *tables.markdown(heads, rows),
    ]


def check_targets(clear: list[Case], tls: list[Case], few: list[Case]) -> Iterator[str]:
    def best(server: str, way: str = "") -> float | None:
        return min((c.time for c in few if c.server == server and way in c.way and not c.failure), default=None)

    ours = best("hither", "QUERY")
    for server in ("nginx", "xrootd"):
        if ours and (theirs := best(server)):
            yield "- " + ratio_line(f"pieces, one QUERY beside the best way of {server}", ours / theirs, 0.5)
    for name, cases, slow, dear in (("clear text", clear, 0.9, 1.3), ("TLS", tls, 1.0, None)):
        for c in (c for c in cases if c.server == "hither" and not c.failure):
            nginx, xrootd = same_work(c, cases, "nginx"), same_work(c, cases, "xrootd")
            if not nginx:
                continue
            fast = c.rate / max(n.rate for n in nginx)
            cost = c.cpu_per_gb / min(n.cpu_per_gb for n in nginx)
            is_met = fast >= slow and cost <= (dear or 1.0) and all(c.rate > n.rate for n in xrootd if not dear)
            beside = "".join(f", {c.rate / n.rate:.2f} x xrootd" for n in xrootd)
            what = f"{name}, {c.group}, {c.way}: {fast:.2f} x nginx in speed, {cost:.2f} x in CPU{beside}"
            yield "- " + target_line(what, is_met)


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
    parser = Arguments(__doc__, "server/throughput", quick="one run each, 16 connections only")
    parser.add_argument("--servers", default="hither,nginx,nginx x2,xrootd", help="default %(default)s")
    parser.add_argument("--only", default="pieces,clear,tls,cold", help="default %(default)s")
    parser.add_argument("--connections", default="", help="only these numbers of connections, comma separated")
    options = parser.parse(needs_root=False)
    widefile.ensure()
    names, only = options.servers.split(","), options.only.split(",")
    wanted = [16] if options.quick else [int(n) for n in options.connections.split(",") if n]
    found: dict[str, list[Case]] = {"pieces": [], "clear": [], "tls": [], "cold": []}
    disk: list[float] = []
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    with temporary_folder(widefile.DEFAULT_OUTPUT.parent) as folder:
        root = folder / "root"
        root.mkdir()
        folder.chmod(0o755)
        big, whole = root / "big", root / "whole"
        # A copy, because a server that confines names to its tree does not follow links.
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
    parts = [
        "# A data server beside others",
        "",
        "`hither serve`, nginx (one worker and one for each core) and xrootd's HTTP, files in memory unless said, loopback. Medians of",
        "interleaved rounds; CPU is that of all of a server's processes. The client is one thread that reads and discards.",
        "",
        "## Targets",
        "",
        *check_targets(found["clear"], found["tls"], found["pieces"]),
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
    tables.save(output, parts)
    rows = [
        {
            "what": c.group,
            "security": kind,
            "server": c.server,
            "way": c.way,
            "connections": c.connections,
            "round": number,
        }
        | {"seconds": seconds, "server_cpu": f"{cpu:.2f}", "bytes": c.bytes}
        for kind, cases in found.items()
        for c in cases
        for number, (seconds, cpu) in enumerate(zip(c.seconds, c.cpu, strict=True))
    ]
    tables.write_csv(output, rows)


if __name__ == "__main__":
    sys.exit(main())
