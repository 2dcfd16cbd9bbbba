"""Twelve jobs with a bottleneck that was put there, and what `hither explain` says of each.

The bottleneck of each case, and the change whose gain is measured, are named here, before anything
runs. Links are hither-wan's (packets between namespaces); slow disks are limits of a control group
on the block device. So they need root and nginx.
"""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import servers
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import HITHER, temporary_folder, throttled

TIMEOUT = 120


@dataclass(frozen=True)
class Prepared:
    """A job: its words after `hither explain`, and those of a second one with the change made."""

    words: list
    where: Loopback
    changed: list | None = None
    prefix: tuple = ()
    """A command before that of the first job."""
    changed_where: Loopback | None = None


@dataclass(frozen=True)
class Outcome:
    name: str
    expected: str
    found: dict
    seconds: float
    changed_seconds: float | None

    @property
    def is_right(self) -> bool:
        return self.found["bottleneck"] == self.expected

    @property
    def saved(self) -> float | None:
        return None if self.changed_seconds is None else self.seconds - self.changed_seconds


CASES: dict[str, tuple[str, Callable]] = {}


def case(bottleneck: str):
    """Registers a prepared case, which yields what to run, by the bottleneck that it has."""

    def register(prepare):
        CASES[prepare.__name__] = (bottleneck, contextlib.contextmanager(prepare))
        return prepare

    return register


def content(folder: Path, name: str, size: int) -> Path:
    path = folder / name
    path.write_bytes(os.urandom(1 << 20) * (size >> 20) + os.urandom(size & 0xFFFFF))
    return path


def wan(rtt: float, mbit: float | None = None, *more: str, letter: str = "x") -> Wan:
    return Wan(Link(letter, rtt, mbit, "prepared", more))


def forget(path: Path) -> None:
    """Drops a file from the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextlib.contextmanager
def behind(where: Loopback, size: int = 0, limits: str = "", locations: str = "") -> Iterator[tuple[str, Path]]:
    """A server with a file at the far end of a link: its base, and its folder."""
    with temporary_folder() as folder, where:
        if size:
            content(folder, "file", size)
        with servers.nginx(where, folder, limits=limits, locations=locations) as port:
            yield f"http://{where.server_host}:{port}", folder


@case("decode")
def decoding():
    """A tree of LZMA, on this machine."""
    import numpy as np
    import uproot

    with temporary_folder() as folder, Loopback() as where:
        rows = 1_500_000
        values = np.random.default_rng(1).integers(0, 1000, rows).astype("f8")
        with uproot.recreate(folder / "f.root", compression=uproot.LZMA(1)) as file:
            file.mktree("T", {"x": "f8", "y": "f8"}).extend({"x": values, "y": np.cumsum(values)})
        with servers.nginx(where, folder) as port:
            yield Prepared(["draw", f"http://127.0.0.1:{port}/f.root:T", "x+y"], where)


@case("server_disk")
def server_disk():
    """`hither serve` on a disk of 8 MB/s; changed: the file is in its page cache."""
    with temporary_folder(Path("/var/tmp")) as folder, Loopback() as where:
        path = content(folder, "file", 32 << 20)
        forget(path)
        with throttled("server", "read", folder, 8_000_000) as prefix, limited_server(prefix, folder) as base:
            yield Prepared(copy(base, "--max-connections", 2), where, copy(base, "--max-connections", 2))


@contextlib.contextmanager
def limited_server(prefix: list[str], folder: Path) -> Iterator[str]:
    command = [*prefix, str(HITHER), "serve", "--json", "--listen", "127.0.0.1:0", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())["urls"][0].rstrip("/")
    finally:
        process.terminate()
        process.wait()


@case("path_rate")
def path_rate():
    """A link of 20 ms and 50 Mbit/s; changed: one of 100 Mbit/s."""
    where, twice = wan(20, 50), wan(20, 100, letter="y")
    with behind(where, 32 << 20) as (base, _), behind(twice, 32 << 20) as (faster, _):
        yield Prepared(copy(base), where, copy(faster), changed_where=twice)


def copy(base: str, *options: object) -> list:
    return ["cp", "--quiet", f"{base}/file", "/dev/shm/hither-explain", *map(str, options)]


@case("round_trips")
def round_trips():
    """Forty small files over 50 ms, one after the other."""
    where = wan(50)
    with behind(where) as (base, folder):
        (folder / "files").mkdir()
        urls = []
        for at in range(40):
            content(folder, f"files/{at}", 2000)
            urls.append(f"{base}/files/{at}")
        yield Prepared(["cat", *urls], where)


@case("window")
def window():
    """A server that sends 256 KiB per round trip of 50 ms; changed: sixteen connections."""
    where = wan(50)
    with behind(where) as (base, folder):
        content(folder, "file", 24 << 20)
        set_memory = ["sysctl", "-q", "-w", "net.ipv4.tcp_wmem=4096 16384 262144"]
        subprocess.run(where.server(set_memory), check=True)
        yield Prepared(copy(base, "--max-connections", 1), where, copy(base, "--max-connections", 16))


@case("slow_start")
def slow_start():
    """A file of 3 MB over one new connection of 150 ms."""
    where = wan(150)
    with behind(where, 3 << 20) as (base, _):
        yield Prepared(copy(base, "--max-connections", 1), where)


@case("loss")
def loss():
    """A link of 40 ms that loses one packet of 500; changed: sixteen connections."""
    where = wan(40, None, "--loss", "0.2%")
    with behind(where, 24 << 20) as (base, _):
        yield Prepared(copy(base, "--max-connections", 1), where, copy(base, "--max-connections", 16))


@case("connection_cap")
def connection_cap():
    """A server that sends 2 MB/s on each connection; changed: sixteen connections."""
    with behind(Loopback(), 16 << 20, limits="limit_rate 2000000;") as (base, _):
        yield Prepared(copy(base, "--max-connections", 2), Loopback(), copy(base, "--max-connections", 16))


@case("server_concurrency")
def server_concurrency():
    """A server that takes ten requests per second, and has the others wait."""
    limits = "limit_req_zone $binary_remote_addr zone=all:1m rate=10r/s;"
    locations = "location /files/ { limit_req zone=all burst=1000; }"
    with behind(Loopback(), limits=limits, locations=locations) as (base, folder):
        (folder / "files").mkdir()
        for at in range(40):
            content(folder, f"files/{at}", 2000)
        sources = [f"{base}/files/{at}" for at in range(40)]
        with temporary_folder(Path("/dev/shm")) as target:
            yield Prepared(["cp", "--quiet", *sources, f"{target}/"], Loopback())


@case("set_up")
def redirects():
    """Each file is behind a redirect by a server 150 ms away; changed: its own server is named."""
    where = wan(150)
    with temporary_folder() as folder, where:
        (folder / "files").mkdir()
        for at in range(12):
            content(folder, f"files/{at}", 2000)
        with servers.nginx(OtherSide(where), folder) as near:
            target = f"http://{where.client_host}:{near}/files/"
            locations = f"location /files/ {{ rewrite ^/files/(.*)$ {target}$1 redirect; }}"
            with servers.nginx(where, folder, locations=locations) as port:
                far = f"http://{where.server_host}:{port}/files/"
                yield Prepared(
                    ["cat", *(f"{far}{at}" for at in range(12))], where, ["cat", *(f"{target}{at}" for at in range(12))]
                )


class OtherSide(Loopback):
    """The client's end of a link, for a server that is near it."""

    def __init__(self, where: Loopback):
        self.server_host = where.client_host
        self.server = self.client = where.client


@case("slow_replica")
def slow_replica():
    """Two replicas, 5 and 0.3 MB/s on each connection; changed: without the slow one."""
    with (
        behind(Loopback(), 40 << 20, limits="limit_rate 300000;") as (slow, folder),
        servers.nginx(Loopback(), folder, limits="limit_rate 5000000;") as port,
    ):
        fast = f"http://127.0.0.1:{port}"
        options = ["--max-connections", 4]
        yield Prepared(copy(slow, *options, "--replica", f"{fast}/file"), Loopback(), copy(fast, *options))


@case("local_disk")
def local_disk():
    """This machine writes 8 MB/s; changed: to memory."""
    with (
        behind(Loopback(), 32 << 20) as (base, _),
        temporary_folder(Path("/var/tmp")) as target,
        throttled("client", "write", target, 8_000_000) as prefix,
    ):
        words = ["cp", "--quiet", f"{base}/file", f"{target}/copy"]
        yield Prepared(words, Loopback(), copy(base), prefix=tuple(prefix))


def explain(words: list, where: Loopback, prefix: tuple = ()) -> tuple[dict, float]:
    """Runs a job: its explanation, and its seconds without the measurement afterwards."""
    Path("/dev/shm/hither-explain").unlink(missing_ok=True)
    command = [*prefix, str(HITHER), "explain", *map(str, words), "--no-store", "--json"]
    began = time.monotonic()
    done = subprocess.run(where.client(command), capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}, after {time.monotonic() - began:.1f} s"
    found = json.loads(done.stdout)["explanation"]
    return found, found["job_seconds"]


def outcome(name: str, with_change: bool) -> Outcome:
    """Runs one case, and the job with the change made."""
    expected, prepare = CASES[name]
    with prepare() as prepared:
        found, seconds = explain(prepared.words, prepared.where, prepared.prefix)
        changed = None
        if with_change and prepared.changed:
            where = prepared.changed_where or prepared.where
            _, changed = explain(prepared.changed, where)
    return Outcome(name, expected, found, seconds, changed)
