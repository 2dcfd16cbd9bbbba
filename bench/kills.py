r"""Kills client, server or both at random moments of copies of every kind, and lets them go on.

Over a link of 5 ms and 1 Gbit/s: one large file, and a tree of small ones with a large one; down
from nginx, xrootd and `hither serve`, in clear and over TLS, up to Apache, xrootd and `hither
serve`. A client that was killed is started again with the same command, a server that was killed is
back after RESTART_SECONDS, which a copy has to outlast. At the end everything must have arrived
with its bytes, and nothing else may be at the target.

What was sent again is the payload that the link counted, less that of a copy that nobody disturbed,
and it has a bound. Copies run with `--max-connections 8 --no-tuning`, so eight blocks of 4 MiB are
in hand at a time; of a tree also eight batches of 8 MiB to or from `hither serve`, elsewhere up to
4,096 small files that wait for their names (docs/semantics.md, "What a copy leaves"). Each kill may
cost that, a listing of the source, and 1 % of the copy for requests and repeated packets. More is
an error, as a fault is. File and tree have to be at least twice as large as the bound.

    python -m bench.kills --kills 200 [--seed 1] [--ways down,tree-up-serve]
    python -m bench.kills --kills 10 --each 10 --victims client --ways tree-serve \
        --files 1000000 --bytes 1000 --output bench/results/kills-million

With `--each 10` the same copy is killed ten times before it may end. The peak of the client's
memory is that of the undisturbed copy. With `--stalls 1,30,300` the server stops instead, for 1 s,
30 s and 300 s, once in each kind of copy, and the client has to outlast it or to go on when it is
started again.

    python -m bench.kills --stalls 1,30,300 --ways down,tree-serve --output bench/results/stalls
"""

import filecmp
import os
import random
import shutil
import signal
import statistics
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle, islice, product
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import timed
from bench.harness.content import FILE_BYTES, numbered_blocks, write_tree
from bench.harness.interleaved import say, target_line
from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER, MEMORY, temporary_folder

LINK = Link("K", 5, 1000, "the next country")
RESTART_SECONDS = 0.3
CONNECTIONS = 8
BLOCK, BATCH, BATCH_FILES, WAITING = 4 << 20, 8 << 20, 1024, 4096
"""Of `hither cp`: bytes of a block, bytes and files of a batch, and small files that wait for their
names."""
OVERHEAD = 0.01
CAP_SECONDS = 300
VICTIMS = ("client", "server", "both")


@dataclass(frozen=True)
class Way:
    """A kind of copy: from a server to a path, or from a path to a server."""

    port: str
    """The server, by its name in `site`."""
    url: str
    source: str = "data"
    """The file, or the tree."""
    is_upload: bool = False

    def in_hand(self, file_bytes: int) -> int:
        """The most bytes that a copy has begun and not finished; those of small files if any."""
        if self.source == "data":
            return CONNECTIONS * BLOCK
        if self.port == "serve":
            return CONNECTIONS * max(BLOCK, min(BATCH, BATCH_FILES * file_bytes))
        return CONNECTIONS * BLOCK + WAITING * file_bytes

    def base(self, at: "Site") -> str:
        return self.url.format(host=at.where.server_host, port=at.ports[self.port])

    def words(self, at: "Site", *words: object) -> list:
        return ["env", f"SSL_CERT_FILE={at.authority}", HITHER, "--store", at.store, *words]

    def command(self, at: "Site", target: Path) -> list:
        base, is_tree = self.base(at), self.source == "tree"
        source = f"{self.source}/." if is_tree else self.source
        there = f"{base}/up/{target.name}" + ("/" if is_tree else "")
        names = (f"{at.folder}/{source}", there) if self.is_upload else (f"{base}/{source}", target)
        limits = ("--max-connections", CONNECTIONS, "--no-tuning")
        return self.words(at, "cp", "--quiet", *limits, *(["-r"] if is_tree else []), *names)


WAYS = {
    "down": Way("nginx", "http://{host}:{port}"),
    "down-serve": Way("serve", "http://{host}:{port}"),
    "down-tls": Way("nginx-tls", "https://{host}:{port}"),
    "down-root": Way("xrootd", "root://{host}:{port}/"),
    "up": Way("apache", "http://{host}:{port}", is_upload=True),
    "up-serve": Way("serve", "http://{host}:{port}", is_upload=True),
    "up-root": Way("xrootd", "root://{host}:{port}/", is_upload=True),
    "tree": Way("nginx", "http://{host}:{port}", source="tree"),
    "tree-serve": Way("serve", "http://{host}:{port}", source="tree"),
    "tree-root": Way("xrootd", "root://{host}:{port}/", source="tree"),
    "tree-up": Way("apache", "http://{host}:{port}", source="tree", is_upload=True),
    "tree-up-serve": Way("serve", "http://{host}:{port}", source="tree", is_upload=True),
    "tree-up-root": Way("xrootd", "root://{host}:{port}/", source="tree", is_upload=True),
}


@dataclass(frozen=True)
class Site:
    where: Wan
    folder: Path
    store: Path
    authority: Path
    ports: dict[str, int]


@dataclass(frozen=True)
class Usual:
    """A copy that nobody disturbs."""

    seconds: float
    moved_mb: float
    peak_mb: float
    bound_mb: float
    """The most that a kill may have sent again."""


@dataclass
class Run:
    way: str
    victim: str
    kills: int
    seconds: float
    went_on: bool
    """The copy outlasted the last kill, which only one of a server allows."""
    resent_mb: float
    bound_mb: float
    fault: str = ""

    @property
    def is_above(self) -> bool:
        return self.resent_mb > self.bound_mb


def start(site: Site, command: list) -> subprocess.Popen:
    words = site.where.client([str(word) for word in command])
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(process: subprocess.Popen) -> str:
    """Waits for a copy; returns what went wrong."""
    try:
        _, errors = process.communicate(timeout=CAP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"not ended after {CAP_SECONDS} s"
    return "" if process.returncode == 0 else f"exit {process.returncode}: {errors.strip()[-300:]}"


def difference(left: Path, right: Path) -> str:
    """Names that only one of two trees has, or files with other bytes; empty if there are none."""
    if not right.exists():
        return "nothing has arrived"
    if left.is_file():
        return "" if filecmp.cmp(left, right, shallow=False) else "other bytes"
    # A killed Apache leaves its own temporary files.
    trees = ((root, (it for it in root.rglob("*") if not it.name.startswith(".davfs.tmp"))) for root in (left, right))
    there, here = (sorted(it.relative_to(root) for it in names) for root, names in trees)
    if there != here:
        odd = sorted(set(there) ^ set(here))
        return f"{len(odd)} names differ, {odd[0]} is one"
    files = [name for name in there if (left / name).is_file()]
    wrong = [name for name in files if not filecmp.cmp(left / name, right / name, shallow=False)]
    return f"other bytes in {len(wrong)} files, {wrong[0]} is one" if wrong else ""


def payload_mb(site: Site) -> float:
    stats = site.where.stats()
    return sum(stats[way]["payload_bytes"] for way in ("to_client", "to_server")) / 1e6


def cleared(site: Site, way: Way) -> Path:
    """The target of a copy, of which nothing is left by an earlier one."""
    target = site.folder / ("up/copy" if way.is_upload else "copy")
    shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    for part in target.parent.glob(".hither-*"):
        part.unlink()
    shutil.rmtree(site.store / "copies", ignore_errors=True)
    site.where.reset()
    return target


def undisturbed(site: Site, name: str, file_bytes: int) -> Usual:
    way = WAYS[name]
    target = cleared(site, way)
    told = timed(site.where, way.command(site, target), CAP_SECONDS)
    moved = payload_mb(site)
    if told["exit"] != 0 or (fault := difference(site.folder / way.source, target)):
        raise SystemExit(f"{name}, undisturbed: {told['stderr'][-300:]}{fault}")
    bound = way.in_hand(file_bytes) / 1e6 + OVERHEAD * moved + listing_mb(site, way)
    if 2 * bound > moved:
        raise SystemExit(
            f"{name}: {bound:.0f} MB of {moved:.0f} MB may be sent again: add --files, --large, --tree-large"
        )
    peak = told["peak_mb"]
    say(f"{name}: {told['wall']:.2f} s, {moved:.1f} MB, {peak:.0f} MB of memory, undisturbed; bound {bound:.1f} MB")
    return Usual(told["wall"], moved, peak, bound)


def listing_mb(site: Site, way: Way) -> float:
    """The payload of a listing of the source, if that is a tree on a server."""
    if way.is_upload or way.source == "data":
        return 0.0
    site.where.reset()
    told = timed(site.where, way.words(site, "find", f"{way.base(site)}/{way.source}"), CAP_SECONDS)
    if told["exit"] != 0:
        raise SystemExit(f"find: {told['stderr'][-300:]}")
    return payload_mb(site)


def killed(site: Site, name: str, victim: str, moments: list[float], usual: Usual) -> Run:
    """A copy that is disturbed at these moments, in seconds after each of its starts."""
    way = WAYS[name]
    target, port = cleared(site, way), site.ports[way.port]
    command = way.command(site, target)
    begun, kills = time.monotonic(), 0
    for moment in moments:
        kills += 1
        process = start(site, command)
        time.sleep(moment)
        if victim != "server":
            os.killpg(process.pid, signal.SIGKILL)
        if victim != "client":
            servers.kill(port)
            time.sleep(RESTART_SECONDS)
            servers.restart(site.where, port)
        if not (fault := finish(process)):
            break
    went_on = not fault
    if fault:
        fault = finish(start(site, command))
    seconds, resent = time.monotonic() - begun, max(0.0, payload_mb(site) - usual.moved_mb)
    fault = fault or difference(site.folder / way.source, target)
    return Run(name, victim, kills, seconds, went_on, resent, kills * usual.bound_mb, fault)


def stalled(site: Site, name: str, seconds: float, moment: float, usual: Usual) -> Run:
    """A copy whose server stops for some seconds, and then goes on as if nothing had been."""
    way = WAYS[name]
    target = cleared(site, way)
    begun, process = time.monotonic(), start(site, way.command(site, target))
    time.sleep(moment)
    with servers.stopped(site.ports[way.port]):
        time.sleep(seconds)
    fault = finish(process)
    went_on = not fault
    if fault:
        fault = finish(start(site, way.command(site, target)))
    passed, resent = time.monotonic() - begun, max(0.0, payload_mb(site) - usual.moved_mb)
    fault = fault or difference(site.folder / way.source, target)
    return Run(name, f"server, for {seconds:g} s", 1, passed, went_on, resent, usual.bound_mb, fault)


def table(runs: list[Run], usual: dict[str, Usual]) -> list[str]:
    rows = []
    for way, victim in dict.fromkeys((run.way, run.victim) for run in sorted(runs, key=lambda run: run.way)):
        these = [run for run in runs if (run.way, run.victim) == (way, victim)]
        resent = [run.resent_mb for run in these]
        faults = [run.fault for run in these if run.fault]
        went_on = str(sum(run.went_on for run in these)) if victim.startswith("server") else ""
        figures = f"{usual[way].moved_mb:.1f}", f"{statistics.median(resent):.1f}", f"{max(resent):.1f}"
        kills = str(sum(run.kills for run in these))
        peak = f"{usual[way].peak_mb:.0f}"
        above = str(sum(run.is_above for run in these))
        bound = f"{max(run.bound_mb for run in these):.1f}"
        counts = bound, above, str(len(faults))
        rows.append([way, victim, peak, kills, went_on, *figures, *counts, faults[0] if faults else ""])
    counted = ["peak MiB", "times", "went on", "MB", "sent again, median", "at most", "bound", "above it", "faults"]
    heads = ["", "killed or stopped", *counted, ""]
    return tables.markdown(heads, rows, "llrrrrrrrrrl")


def site(stack: ExitStack, folder: Path) -> Site:
    where = stack.enter_context(Wan(LINK))
    tls = servers.certificate(folder, where.server_host, named=True)
    index = "autoindex on;"
    config = folder / "hither.toml"
    config.write_text("anonymous_write = true\n")
    ports = {
        "nginx": servers.nginx(where, folder, locations=index),
        "nginx-tls": servers.nginx(where, folder, locations=index, tls=tls),
        "xrootd": servers.xrootd(where, folder),
        "apache": servers.apache(where, folder, webdav=True),
        "serve": servers.hither(where, folder, more=("--write", "--config", str(config))),
    }
    return Site(where, folder, folder / "store", tls.authority, {k: stack.enter_context(v) for k, v in ports.items()})


def main() -> None:
    parser = Arguments(__doc__, "kills", quick="13 kills")
    parser.add_argument("--kills", type=int, default=200, help="in all (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default %(default)s)")
    parser.add_argument("--each", type=int, default=1, help="of them during a copy (default %(default)s)")
    parser.add_argument("--victims", default=",".join(VICTIMS), help="default %(default)s")
    parser.add_argument("--ways", default=",".join(WAYS), help="default %(default)s")
    parser.add_argument("--large", type=int, default=384, help="MiB of the file (default %(default)s)")
    parser.add_argument("--tree-large", type=int, default=128, help="MiB of that in the tree (default %(default)s)")
    parser.add_argument("--files", type=int, default=20_000, help="small ones in the tree (default %(default)s)")
    parser.add_argument("--bytes", type=int, default=FILE_BYTES, help="of each of them (default %(default)s)")
    parser.add_argument("--stalls", default="", help="seconds for which the server stops, instead of kills")
    options = parser.parse()
    ways, victims = options.ways.split(","), options.victims.split(",")
    numbers = random.Random(options.seed)
    runs: list[Run] = []
    with temporary_folder(MEMORY) as folder, ExitStack() as stack:
        (folder / "up").mkdir()
        (folder / "up").chmod(0o777)
        (folder / "data").write_bytes(b"".join(numbered_blocks(options.large, 1 << 20)))
        write_tree(folder / "tree", options.files, options.bytes)
        (folder / "tree/large").write_bytes(b"".join(numbered_blocks(options.tree_large, 1 << 20)))
        at = site(stack, folder)
        usual = {name: undisturbed(at, name, options.bytes) for name in ways}
        stalls = [float(seconds) for seconds in options.stalls.split(",") if seconds]
        for seconds, name in product(stalls, ways):
            runs.append(stalled(at, name, seconds, numbers.uniform(0, usual[name].seconds), usual[name]))
            say(f"{name}, server stopped for {seconds:g} s: {runs[-1].seconds:.1f} s in all {runs[-1].fault}")
        copies = 0 if stalls else 13 if options.quick else options.kills // options.each
        for victim, name in islice(cycle(product(victims, ways)), copies):
            # What a copy has done before a kill it does not do again: the moments share its time.
            longest = usual[name].seconds / options.each
            moments = [numbers.uniform(0, longest) for _ in range(options.each)]
            runs.append(killed(at, name, victim, moments, usual[name]))
            again = f"{runs[-1].resent_mb:.1f} MB again, at most {runs[-1].bound_mb:.1f}"
            say(f"{name}, {victim} killed: {again} {runs[-1].fault}")
    faults, above = (sum(map(bool, flags)) for flags in ([run.fault for run in runs], [run.is_above for run in runs]))
    heading = f"# Copies whose {'server stops' if options.stalls else 'client or server is killed'}"
    notes = [
        f"A file of {options.large} MiB; a tree of {options.files:,} files of {options.bytes:,} bytes and one of "
        f"{options.tree_large} MiB; {CONNECTIONS} connections.",
        "",
        f"- {target_line(f'disturbed {sum(run.kills for run in runs)} times: {faults} faults, at most 0', not faults)}",
        f"- {target_line(f'copies that sent more again than the blocks in hand: {above}, at most 0', not above)}",
    ]
    tables.save(options.output, [heading, "", *notes, "", *table(runs, usual)])
    tables.write_csv(options.output, [vars(run) for run in runs])
    raise SystemExit(1 if faults or above else 0)


if __name__ == "__main__":
    main()
