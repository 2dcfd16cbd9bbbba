"""`hither cp` of many small files from and to `hither serve`, beside other tools and raw TCP.

Down it copies also over TLS, from nginx over HTTP/2 and from xrootd.

Trees of 10 KiB files in memory (/dev/shm) at both ends, over loopback and two links of 1 Gbit/s.
The floor is `raw TCP` (peers/bytes/raw_floor.cpp): the same bytes over 1 to 64 connections, of
which the fastest number counts, sent without a pause, and dropped where they arrive. If a contender
is faster all the same, the page says so, and has no shares of the floor. Round trips are those that
the link counts. Each round runs all contenders once, starting with another one; medians are printed
and written to OUTPUT.*. The links need root (hither-wan).

Peers have the settings with which they are fastest here; a contender that needs more than
CAP_SECONDS has not finished, and its rate is that of the files that it copied.

    python -m bench.mice --runs 3 --links loopback,near,far --files 50000 [--ways up]
                         [--only hither,raw]

Tools that are not installed are left out.
"""

import argparse
import contextlib
import os
import shutil
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import compiled_peer, timed, without_pause
from bench.harness.content import FILE_BYTES, write_tree
from bench.harness.interleaved import rotated, say
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import HITHER, MEMORY, temporary_folder

# A run that takes longer is ended, and not repeated.
CAP_SECONDS = 180
RAW_CONNECTIONS = (1, 4, 16, 64)
RAW = "raw TCP"

NEAR = Link("N", 0.2, 1000, "the same room")
FAR = Link("M", 100, 1000, "another continent")
LINKS: dict[str, tuple[str, Callable[[], Loopback]]] = {
    "loopback": ("loopback", Loopback),
    "near": ("0.2 ms, 1 Gbit/s", lambda: Wan(NEAR)),
    "far": ("100 ms, 1 Gbit/s", lambda: Wan(FAR)),
}


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
    size: int
    """Bytes of the tree."""


@dataclass(frozen=True)
class Contender:
    name: str
    needs: str
    command: Callable[[Site, Path], list[str]]
    has_files: bool = True
    """Its target has all files of the tree."""
    success: int = 0
    """Its exit code when it has copied all; davix-put 0.8 ends a directory with 255."""


def url(at: Site, name: str, scheme: str = "http") -> str:
    """Of a name at `hither serve`."""
    return f"{scheme}://{at.host}:{at.port}/{name}"


def hither(at: Site, to: Path, base: str = "http", port: str = "port") -> list[str]:
    source = f"{base}://{at.host}:{getattr(at, port)}/tree/."
    # The store remembers the server between runs, as it does for users.
    options = ["-r", "--quiet", "--store", str(to.parent / "store")]
    return ["env", f"SSL_CERT_FILE={at.authority}", str(HITHER), "cp", *options, source, str(to)]


def rclone(transfers: int, *words: object) -> list:
    """The command with this many files, and directories to be listed, at a time."""
    at_a_time = ("--transfers", transfers, "--checkers", transfers)
    return ["rclone", "--config", "/dev/null", "copy", *at_a_time, *words]


def rclone_down(transfers: int) -> "Contender":
    def command(at: Site, to: Path) -> list:
        return rclone(transfers, "--http-no-head", "--http-url", url(at, "tree/"), ":http:", to)

    return Contender(f"rclone, {transfers} transfers", "rclone", command)


def hither_up(at: Site, to: Path, *options: str) -> list[str]:
    command = [str(HITHER), "cp", "-r", "--quiet", "--store", str(to.parent / "store"), *options]
    return [*command, f"{to.parent.parent / 'tree'}/.", url(at, "out/copy/")]


def rclone_up(at: Site, to: Path) -> list:
    # Nothing is there yet. Each file takes three requests all the same.
    there = ("--no-check-dest", "--webdav-url", url(at, "out/copy"))
    return rclone(64, *without_pause(), *there, to.parent.parent / "tree", ":webdav:")


def raw(way: str) -> list[Contender]:
    """Contenders for the floor."""

    def contender(connections: int) -> Contender:
        def command(at: Site, _: Path) -> list:
            return [compiled_peer("bytes/raw_floor", "-pthread"), way, at.host, at.raw, connections, at.size]

        return Contender(f"{RAW} x {connections}", "g++", command, has_files=False)

    return [contender(connections) for connections in RAW_CONNECTIONS]


CURL = ("curl", "-sS", "-Z", "--parallel-max", "300", "--parallel-immediate")


def curl(_: Site, to: Path) -> list:
    return [*CURL, "--create-dirs", "-K", to.parent / "list"]


def curl_http2(at: Site, to: Path) -> list:
    return [*CURL[:-1], "--create-dirs", "--http2", "--cacert", at.authority, "-K", to.parent / "list-http2"]


def curl_up(_: Site, to: Path) -> list:
    """Into directories that are there: curl makes none."""
    folders = '(cd "$0" && find . -type d -print0) | (cd "$1" && xargs -0 mkdir -p) && shift && exec "$@"'
    return ["sh", "-c", folders, to.parent.parent / "tree", to, *CURL, "-K", to.parent / "list-up"]


DOWN = [
    Contender("hither", str(HITHER), hither),
    Contender("hither, TLS", str(HITHER), lambda at, to: hither(at, to, "https", "tls")),
    Contender("hither from nginx, HTTP/2", str(HITHER), lambda at, to: hither(at, to, "https", "http2")),
    Contender("hither from xrootd", str(HITHER), lambda at, to: hither(at, to, "root", "xrootd")),
    *raw("down"),
    Contender(
        "one tar, unpacked",
        "curl",
        lambda at, to: ["sh", "-c", f"mkdir -p {to} && curl -sS http://{at.host}:{at.web}/tree.tar | tar -x -C {to}"],
    ),
    Contender("curl -Z, 300 connections", "curl", curl),
    Contender("curl -Z from nginx, HTTP/2", "curl", curl_http2),
    rclone_down(64),
    rclone_down(256),
    Contender("davix-get -r 64", "davix-get", lambda at, to: ["davix-get", "-r", 64, url(at, "tree/", "dav"), to]),
]
UP = [
    Contender("hither", str(HITHER), hither_up),
    # Attempts are for single files.
    Contender("hither, file by file", str(HITHER), lambda at, to: hither_up(at, to, "--retry", "2")),
    *raw("up"),
    Contender(
        "tar, one PUT",
        "curl",
        lambda at, to: ["sh", "-c", f"tar -c -C {to.parent.parent} tree | curl -sS -T - {url(at, 'out/tree.tar')}"],
        has_files=False,
    ),
    Contender("curl -Z -T, 300 connections", "curl", curl_up),
    Contender("rclone, 64 transfers, WebDAV", "rclone", rclone_up),
    Contender(
        "davix-put -r 64",
        "davix-put",
        lambda at, to: ["davix-put", "-r", 64, to.parent.parent / "tree", url(at, "out/copy/tree", "dav")],
        success=255,
    ),
]
WAYS = {"down": DOWN, "up": UP}


@contextlib.contextmanager
def site(where: Loopback, folder: Path, files: int) -> Iterator[Site]:
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
        floor = compiled_peer("bytes/raw_floor", "-pthread")
        raw = stack.enter_context(servers.started(where, lambda _, port: [str(floor), "serve", host, str(port)]))
        yield Site(host, port, web, raw, secure, http2, grid, tls.authority, files * FILE_BYTES)


def write_lists(at: Site, tree: Path, target: Path) -> None:
    """Writes the lists of what curl fetches and sends, for `-K`."""
    bases = {"list": url(at, "tree"), "list-http2": f"https://{at.host}:{at.http2}/tree"}
    with contextlib.ExitStack() as stack:
        lists = {name: stack.enter_context((target.parent / name).open("w")) for name in (*bases, "list-up")}
        for path in sorted(tree.rglob("f*")):
            relative = path.relative_to(tree)
            for name, base in bases.items():
                lists[name].write(f'url = "{base}/{relative}"\noutput = "{target / relative}"\n')
            lists["list-up"].write(f'upload-file = "{path}"\nurl = "{url(at, f"out/copy/{relative}")}"\n')


def rounds(name: str, options: argparse.Namespace, folder: Path) -> list[Run]:
    label, make = LINKS[name]
    only = tuple(filter(None, options.only.split(",")))
    ways = options.ways.split(",")
    who = [(way, it) for way in ways for it in WAYS[way] if not only or it.name.startswith(only)]
    results: list[Run] = []
    out: set[tuple[str, str]] = set()
    target = folder / "out" / "copy"
    with make() as where, site(where, folder, options.files) as at:
        write_lists(at, folder / "tree", target)
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
                failed = answer["exit"] != contender.success
                note = f"exit {answer['exit']}: {' '.join(answer['stderr'][-200:].split())}" if failed else ""
                if answer["timeout"]:
                    note = f"did not finish: {count} of {options.files} files in {CAP_SECONDS} s"
                elif not note and contender.has_files and count != options.files:
                    note = f"{count} files"
                if note:
                    out.add((way, contender.name))
                if target.is_file():
                    target.unlink()
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
        seconds = {who: statistics.median(run.seconds for run in runs) for who, runs in by_name.items()}
        whole = {who: took for who, took in seconds.items() if not by_name[who][-1].note}
        floor = min((took for who, took in whole.items() if who.startswith(RAW)), default=None)
        faster = [who for who, took in whole.items() if floor and took < floor]
        rows = []
        for who, runs in by_name.items():
            rates = [run.files_per_second for run in runs]
            cpu = statistics.median(run.cpu for run in runs)
            of_raw = f"{floor / seconds[who]:.2f}" if floor and not faster and who in whole else "-"
            rate = f"{statistics.median(rates):.0f} ({min(rates):.0f}-{max(rates):.0f})"
            trips = "-" if runs[-1].round_trips is None else str(runs[-1].round_trips)
            rows.append([who, rate, f"{seconds[who]:.2f}", f"{cpu:.2f}", trips, of_raw, runs[-1].note])
        heads = ["", "files/s (median, range)", "s", "client CPU s", "round trips", f"of {RAW}", ""]
        lines += ["", f"## {link}, {way}", "", *tables.markdown(heads, rows, "lrrrrrl")]
        if faster:
            lines += [
                "",
                f"No floor: {', '.join(faster)} took less time than the fastest {RAW}, so shares of it would say nothing.",
            ]
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
