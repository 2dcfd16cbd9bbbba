"""`hither cp` side by side with other tools: one large file, and trees of small and mixed ones.

Down over HTTP, TLS and root://, up over WebDAV and root://, from other servers and `hither serve`,
from one `hither serve` to another, and from this machine to itself. Links: loopback, and 50 ms and
120 ms at 1 Gbit/s (stock kernel settings, cubic; with and without loss). On the long ones the
reference for one file is iperf3 with as many bytes in the same round, over eight streams, and
uploads also over one; on loopback it is curl. Each round runs all contenders once, starting with
another one; medians and ratios are printed, and written with every single run to OUTPUT.*. The long
links need root (hither-wan).

    python -m bench.copying --runs 3 --links loopback,far --ways down,tree-root --size 1024

Tools that are not installed are left out; they have the settings with which they are fastest here.
One that needs more than CAP_SECONDS has not finished, which the tables say. The files lie in memory
(/dev/shm) at both ends, so disks are not compared.
"""

import argparse
import contextlib
import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import timed, without_pause
from bench.harness.content import numbered_blocks, write_mixed_tree, write_tree
from bench.harness.interleaved import rotated, say
from bench.harness.links import Link, Loopback, OtherEnd, Wan
from bench.harness.paths import HITHER, MEMORY, temporary_folder

# A run that takes longer is killed, and not repeated; its rate is then an upper limit.
CAP_SECONDS = 300
UNFINISHED = f"did not finish in {CAP_SECONDS} s"

FAR = Link("X", 120, 1000, "another continent")
LOSSY = Link("Y", 120, 1000, "another continent", ("--loss", "0.01%"))
MIDDLE = Link("Z", 50, 1000, "another country")
LINKS: dict[str, tuple[str, Callable[[], Loopback]]] = {
    "loopback": ("loopback", Loopback),
    "middle": ("50 ms, 1 Gbit/s", lambda: Wan(MIDDLE)),
    "far": ("120 ms, 1 Gbit/s", lambda: Wan(FAR)),
    "lossy": ("120 ms, 1 Gbit/s, 0.01 % loss", lambda: Wan(LOSSY)),
}


@dataclass
class Run:
    link: str
    way: str
    who: str
    mbit: float
    seconds: float
    cpu_per_gb: float
    note: str = ""


@dataclass(frozen=True)
class Site:
    """The servers of the file and the tree, and of uploads, all over `folder`."""

    folder: Path
    http: str
    https: str
    authority: Path
    root: str
    dav: str
    own: str
    own_tls: str
    near: str
    """`hither serve` at the client's end."""
    iperf_port: int
    host: str

    def urls(self, base: str, target: Path) -> Path:
        """A list of the URLs of the tree, for curl, and one beside it for aria2c."""
        lists = self.folder / "lists"
        lists.mkdir(exist_ok=True)
        files = sorted(it.relative_to(self.folder) for it in (self.folder / "tree").rglob("f*"))
        output = [(f"{base}/{it}", target / it.relative_to("tree")) for it in files]
        (lists / "curl").write_text("".join(f'url = "{url}"\noutput = "{to}"\n' for url, to in output))
        (lists / "aria2c").write_text("".join(f"{url}\n dir={to.parent}\n out={to.name}\n" for url, to in output))
        return lists


@dataclass(frozen=True)
class Contender:
    """A tool: its command line for a copy to a path or a name, and the program that it needs."""

    name: str
    needs: str
    command: Callable[[Site, Path], list]
    success: int = 0
    """Its exit code when it has copied all; davix-put 0.8 ends a directory with 255."""


@dataclass(frozen=True)
class Way:
    """A kind of copy. Of uploads, the target is a name in the folder `up` of the servers."""

    who: list[Contender]
    source: str = "data"
    """The file, or one of the trees."""
    is_upload: bool = False
    is_kept: bool = True
    needs_server: bool = True


def hither(*arguments: object) -> list:
    return [HITHER, "cp", "--no-store", "--quiet", *arguments]


def trusting(at: Site, *arguments: object) -> list:
    return ["env", f"SSL_CERT_FILE={at.authority}", *hither(*arguments)]


def rclone(*arguments: object) -> list:
    return ["rclone", "--config", "/dev/null", *arguments]


MANY = ("--transfers", "64", "--checkers", "64", "--http-no-head")
STREAMS = ("--multi-thread-streams", "16", "--multi-thread-cutoff", "64M")
CURL_TREE = ("curl", "-sS", "-Z", "--parallel-max", "300", "--create-dirs")
ARIA2C = ("aria2c", "-q", "--file-allocation=none", "--allow-overwrite=true")


def aria2c_file(url: str, to: Path, *more: str) -> list:
    return [*ARIA2C, "-x16", "-s16", "-k1M", *more, "-d", to.parent, "-o", to.name, url]


def xrdcp(*arguments: object) -> list:
    return ["xrdcp", "-s", "-f", *arguments]


UNCHECKED = "xrdcp -S 8, no page checksums"


def unchecked(*arguments: object) -> list:
    """Without the checksum of each page, which takes most of its processor time."""
    return ["env", "XRD_CPUSEPGWRTRD=0", *xrdcp(*arguments)]


def then_on_disk(*command: object) -> list:
    """The command, and a sync of the file system, as `hither cp` ends with one."""
    return ["sh", "-c", '"$@" && sync -f "$0"', *command[-1:], *command]


def into_new(folder: Path, *command: object) -> list:
    """The command, after its target was made: xrdcp copies several files only into a directory."""
    return ["sh", "-c", 'mkdir -m 777 "$0" && "$@"', folder, *command]


Base = Callable[[Site], str]
"""The URL of a server of the site."""


def to_nowhere(base: Base) -> Way:
    return Way(
        [
            Contender("hither", str(HITHER), lambda at, _: hither(f"{base(at)}/data", "/dev/null")),
            Contender("curl", "curl", lambda at, _: ["curl", "-sS", "-o", "/dev/null", f"{base(at)}/data"]),
            Contender("davix-get", "davix-get", lambda at, _: ["davix-get", f"{base(at)}/data", "/dev/null"]),
        ],
        is_kept=False,
    )


def download(base: Base) -> Way:
    return Way(
        [
            Contender("hither", str(HITHER), lambda at, to: hither(f"{base(at)}/data", to)),
            Contender("curl", "curl", lambda at, to: ["curl", "-sS", "-o", to, f"{base(at)}/data"]),
            Contender("aria2c -x16", "aria2c", lambda at, to: aria2c_file(f"{base(at)}/data", to)),
            Contender(
                "rclone, 16 streams",
                "rclone",
                lambda at, to: rclone("copyto", *STREAMS, "--http-url", base(at), ":http:data", to),
            ),
            Contender("davix-get", "davix-get", lambda at, to: ["davix-get", f"{base(at)}/data", to]),
        ]
    )


def download_over_tls(base: Base) -> Way:
    return Way(
        [
            Contender("hither", str(HITHER), lambda at, to: trusting(at, f"{base(at)}/data", to)),
            Contender(
                "curl", "curl", lambda at, to: ["curl", "-sS", "--cacert", at.authority, "-o", to, f"{base(at)}/data"]
            ),
            Contender(
                "aria2c -x16",
                "aria2c",
                lambda at, to: aria2c_file(f"{base(at)}/data", to, f"--ca-certificate={at.authority}"),
            ),
            Contender(
                "rclone, 16 streams",
                "rclone",
                lambda at, to: rclone(
                    "copyto", *STREAMS, "--ca-cert", at.authority, "--http-url", base(at), ":http:data", to
                ),
            ),
            Contender("davix-get", "davix-get", lambda at, to: ["davix-get", "-k", f"{base(at)}/data", to]),
        ]
    )


def upload(base: Base) -> Way:
    return Way(
        [
            Contender("hither", str(HITHER), lambda at, to: hither(at.folder / "data", f"{base(at)}/{to}")),
            Contender("curl -T", "curl", lambda at, to: ["curl", "-sS", "-T", at.folder / "data", f"{base(at)}/{to}"]),
            Contender(
                "rclone",
                "rclone",
                lambda at, to: rclone("copyto", "--webdav-url", base(at), at.folder / "data", f":webdav:{to}"),
            ),
            Contender("davix-put", "davix-put", lambda at, to: ["davix-put", at.folder / "data", f"{base(at)}/{to}"]),
        ],
        is_upload=True,
    )


def third_party(mode: str) -> Contender:
    """A copy between two `hither serve`, of which the one named by `mode` works."""
    return Contender(
        f"hither, {mode}",
        str(HITHER),
        lambda at, to: hither("--third-party", mode, f"{at.own}/data", f"{at.near}/{to.name}"),
    )


# Those of hither serve end with "serve".
WAYS = {
    "nowhere": to_nowhere(lambda at: at.http),
    "nowhere-serve": to_nowhere(lambda at: at.own),
    "down": download(lambda at: at.http),
    "down-serve": download(lambda at: at.own),
    "tls": download_over_tls(lambda at: at.https),
    "tls-serve": download_over_tls(lambda at: at.own_tls),
    "root": Way(
        [
            Contender("hither", str(HITHER), lambda at, to: hither(f"{at.root}//data", to)),
            Contender("xrdcp", "xrdcp", lambda at, to: xrdcp(f"{at.root}//data", to)),
            Contender("xrdcp -S 4", "xrdcp", lambda at, to: xrdcp("-S", "4", f"{at.root}//data", to)),
            Contender(UNCHECKED, "xrdcp", lambda at, to: unchecked("-S", "8", f"{at.root}//data", to)),
        ]
    ),
    "up": upload(lambda at: at.dav),
    "up-serve": upload(lambda at: f"{at.own}/up"),
    "up-root": Way(
        [
            Contender("hither", str(HITHER), lambda at, to: hither(at.folder / "data", f"{at.root}//up/{to}")),
            Contender("xrdcp", "xrdcp", lambda at, to: xrdcp(at.folder / "data", f"{at.root}//up/{to}")),
            Contender(
                UNCHECKED, "xrdcp", lambda at, to: unchecked("-S", "8", at.folder / "data", f"{at.root}//up/{to}")
            ),
        ],
        is_upload=True,
    ),
    "third-party": Way([third_party("pull"), third_party("push")]),
    "local": Way(
        [
            Contender("hither", str(HITHER), lambda at, to: hither(at.folder / "data", to)),
            Contender("cp", "cp", lambda at, to: ["cp", at.folder / "data", to]),
            Contender("cp, sync", "cp", lambda at, to: then_on_disk("cp", at.folder / "data", to)),
            Contender("rclone", "rclone", lambda at, to: rclone("copyto", at.folder / "data", to)),
        ],
        needs_server=False,
    ),
    "tree-http": Way(
        [
            Contender("hither", str(HITHER), lambda at, to: hither("-r", f"{at.http}/tree/.", to)),
            Contender("curl -Z", "curl", lambda at, to: [*CURL_TREE, "-K", at.urls(at.http, to) / "curl"]),
            Contender("aria2c -j64", "aria2c", lambda at, to: [*ARIA2C, "-j64", "-i", at.urls(at.http, to) / "aria2c"]),
            Contender(
                "rclone, 64 transfers",
                "rclone",
                lambda at, to: rclone("copy", *MANY, "--http-url", f"{at.http}/tree/", ":http:", to),
            ),
        ],
        source="tree",
    ),
    "tree-http2": Way(
        [
            Contender("hither", str(HITHER), lambda at, to: trusting(at, "-r", f"{at.https}/tree/.", to)),
            Contender(
                "curl -Z --http2",
                "curl",
                lambda at, to: [*CURL_TREE, "--cacert", at.authority, "--http2", "-K", at.urls(at.https, to) / "curl"],
            ),
            Contender(
                "rclone, 64 transfers",
                "rclone",
                lambda at, to: rclone(
                    "copy", *MANY, "--ca-cert", at.authority, "--http-url", f"{at.https}/tree/", ":http:", to
                ),
            ),
        ],
        source="tree",
    ),
    "mixed-serve": Way(
        [
            Contender("hither", str(HITHER), lambda at, to: hither("-r", f"{at.own}/mixed/.", to)),
            Contender(
                "rclone, 64 transfers",
                "rclone",
                lambda at, to: rclone("copy", *MANY, "--http-url", f"{at.own}/mixed/", ":http:", to),
            ),
        ],
        source="mixed",
    ),
    "tree-root": Way(
        [
            Contender("hither", str(HITHER), lambda at, to: hither("-r", f"{at.root}//tree/.", to)),
            Contender(
                "xrdcp -r",
                "xrdcp",
                lambda at, to: into_new(to, *xrdcp("-r", "--parallel", "64", f"{at.root}//tree", to)),
            ),
        ],
        source="tree",
    ),
    "tree-up": Way(
        [
            Contender("hither", str(HITHER), lambda at, to: hither("-r", at.folder / "tree/.", f"{at.dav}/{to}/")),
            Contender(
                "rclone, 64 transfers, WebDAV",
                "rclone",
                lambda at, to: rclone(
                    "copy",
                    *MANY,
                    *without_pause(),
                    "--no-check-dest",
                    "--webdav-url",
                    at.dav,
                    at.folder / "tree",
                    f":webdav:{to}",
                ),
            ),
            Contender(
                "davix-put -r 64",
                "davix-put",
                lambda at, to: ["davix-put", "-r", 64, at.folder / "tree", f"{at.dav.replace('http', 'dav', 1)}/{to}"],
                success=255,
            ),
        ],
        is_upload=True,
        source="tree",
    ),
    "tree-up-root": Way(
        [
            Contender("hither", str(HITHER), lambda at, to: hither("-r", at.folder / "tree/.", f"{at.root}//up/{to}/")),
            Contender(
                "xrdcp -r",
                "xrdcp",
                lambda at, to: into_new(
                    at.folder / "up" / to,
                    *xrdcp("-r", "--parallel", "64", at.folder / "tree", f"{at.root}//up/{to}/"),
                ),
            ),
        ],
        is_upload=True,
        source="tree",
    ),
    "tree-local": Way(
        [
            Contender("hither", str(HITHER), lambda at, to: hither("-r", at.folder / "tree/.", to)),
            Contender("cp -r", "cp", lambda at, to: ["cp", "-r", at.folder / "tree", to]),
            Contender("cp -r, sync", "cp", lambda at, to: then_on_disk("cp", "-r", at.folder / "tree", to)),
            Contender("rclone, 64 transfers", "rclone", lambda at, to: rclone("copy", *MANY, at.folder / "tree", to)),
        ],
        source="tree",
        needs_server=False,
    ),
}
ONLY_LOOPBACK = {"nowhere", "nowhere-serve", "local", "tree-local"}


@contextlib.contextmanager
def site(where: Loopback, folder: Path) -> Iterator[Site]:
    """The servers that tools copy from and to, at the server's end."""
    host = where.server_host
    with contextlib.ExitStack() as stack:
        index = "autoindex on;"
        tls = servers.certificate(folder, host, named=True)
        web = stack.enter_context(servers.nginx(where, folder, locations=index))
        secure = stack.enter_context(servers.nginx(where, folder, locations=index, tls=tls, http2=True))
        grid = stack.enter_context(servers.xrootd(where, folder))
        dav = stack.enter_context(servers.apache(where, folder / "up", webdav=True))
        config = folder / "hither.toml"
        third_party = '[third_party]\nclear_text = true\nnetworks = ["10.0.0.0/8", "127.0.0.0/8"]\n'
        config.write_text(f"anonymous_write = true\n{third_party}")
        writing = "--write", "--config", str(config)
        own = stack.enter_context(servers.hither(where, folder, more=writing))
        near = stack.enter_context(servers.hither(OtherEnd(where), folder, more=writing))
        own_tls = stack.enter_context(servers.hither(where, folder, tls=tls))
        port = servers.free_port()
        log = folder / "iperf.log"
        stack.enter_context(servers.running(where, ["iperf3", "-s", "-p", str(port)], port, log))
        urls = f"http://{host}:{web}", f"https://{host}:{secure}", tls.authority
        own_urls = f"http://{host}:{own}", f"https://{host}:{own_tls}"
        yield Site(
            folder,
            *urls,
            f"root://{host}:{grid}",
            f"http://{host}:{dav}",
            *own_urls,
            f"http://{where.client_host}:{near}",
            port,
            host,
        )


def timed_copy(where: Loopback, command: list, size: int, success: int) -> tuple[float, float, str]:
    """Seconds, CPU seconds per GB of the client, and what went wrong."""
    answer = timed(where, [str(word) for word in command], CAP_SECONDS)
    failed = f"exit {answer['exit']}: {' '.join(answer['stderr'][-200:].split())}" if answer["exit"] != success else ""
    return answer["wall"], answer["cpu"] / (size / 1e9), UNFINISHED if answer["timeout"] else failed


def content_bytes(path: Path) -> int:
    """The size of a file, or of all files in a directory."""
    if path.is_dir():
        return sum(it.stat().st_size for it in path.rglob("*") if it.is_file() and not it.name.startswith("."))
    return path.stat().st_size if path.exists() else 0


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def iperf(where: Loopback, at: Site, way: Way, streams: int, size: int) -> list[Run]:
    """Its own rate, which leaves connecting out, and that of its whole process."""
    command = ["iperf3", "-c", at.host, "-p", str(at.iperf_port), "-P", str(streams), "-n", str(size), "-J"]
    command += [] if way.is_upload else ["-R"]
    began = time.monotonic()
    answer = json.loads(subprocess.run(where.client(command), stdout=subprocess.PIPE, text=True, check=False).stdout)
    wall = time.monotonic() - began
    end = answer.get("end", {}).get("sum_received", {})
    name, cpu = f"iperf3 -P{streams}", 0
    inside = Run("", "", name, end.get("bits_per_second", 0) * 1e-6, end.get("seconds", 0), cpu)
    return [inside, Run("", "", f"{name}, whole process", size * 8e-6 / wall, wall, cpu)]


def write_sources(folder: Path, ways: list[str], options: argparse.Namespace) -> None:
    """Files and trees that these ways copy."""
    for source in {WAYS[name].source for name in ways}:
        if source == "data":
            with (folder / "data").open("wb") as file:
                file.writelines(numbered_blocks(options.size, 1 << 20))
        elif source == "tree":
            write_tree(folder / "tree", options.files)
        else:
            write_mixed_tree(folder / "mixed", options.largest << 20)


def rounds(where: Loopback, at: Site, label: str, name: str, options: argparse.Namespace) -> list[Run]:
    way = WAYS[name]
    size = content_bytes(at.folder / way.source)
    only = tuple(filter(None, options.only.split(",")))
    results: list[Run] = []
    out: set[str] = set()
    for number in range(options.runs):
        if way.source != "tree" and way.needs_server and not options.no_iperf:
            for streams in (8, 1) if way.is_upload else (8,):
                for run in iperf(where, at, way, streams, size):
                    run.link, run.way = label, name
                    results.append(run)
                    say(f"{label}, {name}: {run.who} {run.mbit:.0f} Mbit/s")
        for contender in rotated(way.who, number):
            left_out = contender.name in out or not contender.name.startswith(only or ("",))
            if left_out or shutil.which(contender.needs) is None:
                continue
            there = at.folder / ("up/copied" if way.is_upload else "copied")
            target = Path(there.name) if way.is_upload else there
            seconds, cpu, note = timed_copy(where, contender.command(at, target), size, contender.success)
            if way.is_kept and not note and (seen := content_bytes(there)) != size:
                note = f"{seen} of {size} bytes"
            remove(there)
            if note:
                out.add(contender.name)
            mbit = size * 8e-6 / seconds
            results.append(Run(label, name, contender.name, mbit, seconds, cpu, note))
            say(f"{label}, {name}: {contender.name} {mbit:.0f} Mbit/s, {seconds:.2f} s, {cpu:.2f} CPU s/GB {note}")
    return results


def table(results: list[Run], files: int) -> list[str]:
    lines = []
    for (link, way), by_name in tables.grouped(results, lambda run: (run.link, run.way)):
        our_names = [who for who in by_name if who.startswith("hither")]
        ours = max((statistics.median(run.mbit for run in by_name[who]) for who in our_names), default=0)
        rows = []
        for who, runs in by_name.items():
            rates = [run.mbit for run in runs]
            is_limit, note = runs[-1].note == UNFINISHED, runs[-1].note
            median, seconds, cpu = (
                statistics.median(getattr(run, figure) for run in runs) for figure in ("mbit", "seconds", "cpu_per_gb")
            )
            rows.append(
                [
                    who,
                    f"< {median:.0f}" if is_limit else f"{median:.0f} ({min(rates):.0f}-{max(rates):.0f})",
                    f"{seconds:.2f}",
                    f"{'< ' * is_limit}{files / seconds:.0f}" if WAYS[way].source == "tree" else "",
                    "" if who.startswith("iperf3") else f"{cpu:.2f}",
                    f"> {ours / median:.2f}" if is_limit else f"{ours / median:.2f}" if median and not note else "-",
                    note,
                ]
            )
        heads = ["", "Mbit/s (median, range)", "s", "files/s", "CPU s/GB", "hither is faster by", ""]
        lines += ["", f"## {link}, {way}", "", *tables.markdown(heads, rows, "lrrrrrl")]
    return lines


def main() -> None:
    parser = Arguments(__doc__, "copying", quick="one run each, loopback only")
    parser.add_argument("--links", default="loopback,middle,far,lossy", help="default %(default)s")
    parser.add_argument("--ways", default=",".join(WAYS), help="default %(default)s")
    parser.add_argument("--size", type=int, default=1024, help="of the file, in MiB (default %(default)s)")
    parser.add_argument("--files", type=int, default=5000, help="of 10 KiB each in the tree (default %(default)s)")
    parser.add_argument("--largest", type=int, default=2048, help="MiB of the largest file of the mixed tree")
    parser.add_argument("--only", default="", help="contenders, by the beginning of their names")
    parser.add_argument("--no-iperf", action="store_true", help="without iperf3")
    options = parser.parse(needs_root=False)
    links = ["loopback"] if options.quick else options.links.split(",")
    results: list[Run] = []
    with temporary_folder(MEMORY) as folder:
        (folder / "up").mkdir()
        (folder / "up").chmod(0o777)
        ways = options.ways.split(",")
        write_sources(folder, ways, options)
        for link in links:
            label, make = LINKS[link]
            with make() as where, site(where, folder) as at:
                for name in ways:
                    if link == "loopback" or name not in ONLY_LOOPBACK:
                        results += rounds(where, at, label, name, options)
    heading = f"# Copies of {options.size} MiB, and of {options.files} files of 10 KiB"
    tables.save(options.output, [heading, *table(results, options.files)])
    tables.write_csv(options.output, [vars(run) for run in results])


if __name__ == "__main__":
    main()
