"""`hither cp` of many small files from and to `hither serve`, beside other tools and raw TCP.

Down it copies also over TLS, from nginx over HTTP/2 and from xrootd.

Trees of 10 KiB files in memory (/dev/shm) at both ends, over loopback and two links of 1 Gbit/s.
The floor is `raw TCP`: the same bytes over as many connections as hither uses, sent without a
pause, and dropped where they arrive. Round trips are those that the link counts. Each round runs
all contenders once, starting with another one; medians are printed and written to OUTPUT.*. The
links need root (hither-wan).

    python -m bench.mice --runs 3 --links loopback,near,far --files 50000 [--ways up]
                         [--only hither,raw]

Tools that are not installed are left out.
"""

import argparse
import contextlib
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import timed
from bench.harness.content import FILE_BYTES, write_tree
from bench.harness.interleaved import rotated, say
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import HITHER, MEMORY, temporary_folder

# A run that takes longer is ended, and not repeated; its rate is that of the files it copied.
CAP_SECONDS = 40

NEAR = Link("N", 0.2, 1000, "the same room")
FAR = Link("M", 100, 1000, "another continent")
LINKS: dict[str, tuple[str, int, Callable[[], Loopback]]] = {
    "loopback": ("loopback", 4, Loopback),
    "near": ("0.2 ms, 1 Gbit/s", 4, lambda: Wan(NEAR)),
    "far": ("100 ms, 1 Gbit/s", 50, lambda: Wan(FAR)),
}

RAW_SERVER = """
import socket, sys, threading
host, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
block = bytes(1 << 20)
def send(peer):
    if peer.recv(1) == b"u":
        while peer.recv(1 << 18):
            pass
    else:
        left = size
        while left > 0:
            left -= peer.send(block[:left])
    peer.close()
listener = socket.create_server((host, port), backlog=256)
while True:
    peer, _ = listener.accept()
    threading.Thread(target=send, args=(peer,), daemon=True).start()
"""
RAW_CLIENT = """
import socket, sys, threading
host, port, count, way, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
def move():
    with socket.create_connection((host, port)) as peer:
        peer.sendall(way[:1].encode())
        if way == "up":
            peer.sendall(bytes(size))
            peer.shutdown(socket.SHUT_WR)
        while peer.recv(1 << 18):
            pass
threads = [threading.Thread(target=move) for _ in range(count)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@dataclass
class Run:
    link: str
    way: str
    who: str
    files_per_second: float
    seconds: float
    cpu: float
    round_trips: int | None
    note: str = ""


@dataclass(frozen=True)
class Site:
    host: str
    port: int
    web: int
    raw: int
    tls: int
    """`hither serve` over TLS."""
    http2: int
    """nginx over TLS, with HTTP/2."""
    xrootd: int
    authority: Path
    connections: int
    share: int
    """Bytes of the tree for each of the connections."""


@dataclass(frozen=True)
class Contender:
    name: str
    needs: str
    command: Callable[[Site, Path], list[str]]
    has_files: bool = True
    """Its target has all files of the tree."""


def url(at: Site, name: str) -> str:
    return f"http://{at.host}:{at.port}/{name}"


def hither(at: Site, to: Path, base: str = "http", port: str = "port") -> list[str]:
    source = f"{base}://{at.host}:{getattr(at, port)}/tree/."
    # The store remembers the server between runs, as it does for users.
    options = ["-r", "--quiet", "--store", str(to.parent / "store")]
    return ["env", f"SSL_CERT_FILE={at.authority}", str(HITHER), "cp", *options, source, str(to)]


RCLONE = ("rclone", "--config", "/dev/null", "copy", "--transfers", "64", "--checkers", "64")


def rclone(at: Site, to: Path) -> list[str]:
    # Over WebDAV it sends at most a hundred requests per second, to whatever server.
    return [*RCLONE, "--http-no-head", "--http-url", url(at, "tree/"), ":http:", str(to)]


def hither_up(at: Site, to: Path, *options: str) -> list[str]:
    command = [str(HITHER), "cp", "-r", "--quiet", "--store", str(to.parent / "store"), *options]
    return [*command, f"{to.parent.parent / 'tree'}/.", url(at, "out/copy/")]


def rclone_up(at: Site, to: Path) -> list[str]:
    return [*RCLONE, "--webdav-url", url(at, "out/copy"), str(to.parent.parent / "tree"), ":webdav:"]


def raw(way: str) -> Contender:
    def command(at: Site, _: Path) -> list[str]:
        numbers = (at.raw, at.connections, way, at.share)
        return [sys.executable, "-c", RAW_CLIENT, at.host, *map(str, numbers)]

    return Contender("raw TCP", sys.executable, command, has_files=False)


def curl(at: Site, to: Path) -> list[str]:
    return ["curl", "-sS", "-Z", "--parallel-max", "50", "--create-dirs", "-K", str(to.parent / f"list-{at.port}")]


DOWN = [
    Contender("hither", str(HITHER), hither),
    Contender("hither, TLS", str(HITHER), lambda at, to: hither(at, to, "https", "tls")),
    Contender("hither from nginx, HTTP/2", str(HITHER), lambda at, to: hither(at, to, "https", "http2")),
    Contender("hither from xrootd", str(HITHER), lambda at, to: hither(at, to, "root", "xrootd")),
    raw("down"),
    Contender(
        "one tar, unpacked",
        "curl",
        lambda at, to: ["sh", "-c", f"mkdir -p {to} && curl -sS http://{at.host}:{at.web}/tree.tar | tar -x -C {to}"],
    ),
    Contender("curl -Z", "curl", curl),
    Contender("rclone, 64 transfers", "rclone", rclone),
]
UP = [
    Contender("hither", str(HITHER), hither_up),
    # Attempts are for single files.
    Contender("hither, file by file", str(HITHER), lambda at, to: hither_up(at, to, "--retry", "2")),
    raw("up"),
    Contender(
        "tar, one PUT",
        "curl",
        lambda at, to: ["sh", "-c", f"tar -c -C {to.parent.parent} tree | curl -sS -T - {url(at, 'out/tree.tar')}"],
        has_files=False,
    ),
    Contender("rclone, 64 transfers", "rclone", rclone_up),
]
WAYS = {"down": DOWN, "up": UP}


@contextlib.contextmanager
def site(where: Loopback, folder: Path, files: int, connections: int) -> Iterator[Site]:
    with contextlib.ExitStack() as stack:
        config = folder / "hither.toml"
        config.write_text("anonymous_write = true\n")
        host = where.server_host
        tls = servers.certificate(folder, host, named=True)
        port = stack.enter_context(servers.hither(where, folder, more=("--write", "--config", str(config))))
        secure = stack.enter_context(servers.hither(where, folder, tls=tls))
        web = stack.enter_context(servers.nginx(where, folder))
        http2 = stack.enter_context(servers.nginx(where, folder, locations="autoindex on;", tls=tls, http2=True))
        grid = stack.enter_context(servers.xrootd(where, folder))
        share = files * FILE_BYTES // connections
        raw = stack.enter_context(
            servers.started(where, lambda _, port: [sys.executable, "-c", RAW_SERVER, host, str(port), str(share)])
        )
        yield Site(host, port, web, raw, secure, http2, grid, tls.authority, connections, share)


def rounds(name: str, options: argparse.Namespace, folder: Path) -> list[Run]:
    label, connections, make = LINKS[name]
    only = tuple(filter(None, options.only.split(",")))
    ways = options.ways.split(",")
    who = [(way, it) for way in ways for it in WAYS[way] if not only or it.name.startswith(only)]
    results: list[Run] = []
    out: set[tuple[str, str]] = set()
    target = folder / "out" / "copy"
    with make() as where, site(where, folder, options.files, connections) as at:
        with (folder / "out" / f"list-{at.port}").open("w") as listed:
            for path in sorted((folder / "tree").rglob("f*")):
                relative = path.relative_to(folder / "tree")
                listed.write(f'url = "{url(at, f"tree/{relative}")}"\noutput = "{target / relative}"\n')
        for number in range(options.runs):
            for way, contender in rotated(who, number):
                if (way, contender.name) in out or shutil.which(contender.needs) is None:
                    continue
                if way == "up":
                    target.mkdir()
                where.reset()
                answer = timed(where, contender.command(at, target), CAP_SECONDS)
                stats = where.stats()
                count = sum(len(names) for _, _, names in os.walk(target))
                note = "" if answer["exit"] == 0 else f"exit {answer['exit']}: {answer['stderr'][-200:]}"
                if answer["timeout"]:
                    note = f"cut off after {count} files"
                elif not note and contender.has_files and count != options.files:
                    note = f"{count} files"
                if note:
                    out.add((way, contender.name))
                shutil.rmtree(target, ignore_errors=True)
                (folder / "out" / "tree.tar").unlink(missing_ok=True)
                rate = (count if answer["timeout"] else options.files) / answer["wall"]
                trips = stats["round_trips"] if stats else None
                results.append(Run(label, way, contender.name, rate, answer["wall"], answer["cpu"], trips, note))
                say(f"{label}, {way}: {contender.name} {rate:.0f} files/s, {answer['wall']:.2f} s {note}")
    return results


def table(results: list[Run]) -> list[str]:
    lines = []
    for (link, way), by_name in tables.grouped(results, lambda run: (run.link, run.way)):
        floor = statistics.median([run.seconds for run in by_name.get("raw TCP", [])] or [0])
        rows = []
        for who, runs in by_name.items():
            rates = [run.files_per_second for run in runs]
            seconds = statistics.median(run.seconds for run in runs)
            cpu = statistics.median(run.cpu for run in runs)
            of_raw = f"{floor / seconds:.2f}" if floor else "-"
            rate = f"{statistics.median(rates):.0f} ({min(rates):.0f}-{max(rates):.0f})"
            trips = "-" if runs[-1].round_trips is None else str(runs[-1].round_trips)
            rows.append([who, rate, f"{seconds:.2f}", f"{cpu:.2f}", trips, of_raw, runs[-1].note])
        heads = ["", "files/s (median, range)", "s", "client CPU s", "round trips", "of raw TCP", ""]
        lines += ["", f"## {link}, {way}", "", *tables.markdown(heads, rows, "lrrrrrl")]
    return lines


def main() -> None:
    parser = Arguments(__doc__, "mice", quick="one run each, loopback only")
    parser.add_argument("--links", default="loopback,near,far", help="default %(default)s")
    parser.add_argument("--files", type=int, default=50_000, help="of 10 KiB each (default %(default)s)")
    parser.add_argument("--ways", default="down,up", help="default %(default)s")
    parser.add_argument("--only", default="", help="contenders, by the beginning of their names")
    options = parser.parse(needs_root=False)
    links = ["loopback"] if options.quick else options.links.split(",")
    results: list[Run] = []
    with temporary_folder(MEMORY) as folder:
        write_tree(folder / "tree", options.files)
        (folder / "out").mkdir()
        shutil.make_archive(str(folder / "tree"), "tar", folder, "tree")
        for link in links:
            results += rounds(link, options, folder)
    tables.save(options.output, [f"# {options.files} files of 10 KiB", *table(results)])
    tables.write_csv(options.output, [vars(run) for run in results])


if __name__ == "__main__":
    main()
