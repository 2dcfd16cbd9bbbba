"""The contenders: how each is started, and what one run of it shows.

hither runs as users run it (`hither draw`), each peer in its fastest way: ROOT with a cache larger
than the query, uproot with its own vectored sources, and with its default. `raw` is not a peer but
the floor: the bytes that the query needs, over one fresh TCP connection, nothing decoded.
"""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.generators import talkfile
from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import BENCH, BUILT_PEERS, HITHER, PEERS

# Part headers of a multipart response, and what else a protocol adds to the bytes that the query
# needs.
FRAMING = 1.1


@dataclass(frozen=True)
class Addresses:
    """The servers of one file, as the client reaches them. They differ from run to run."""

    http: str
    http_raised: str
    root: str | None
    raw: tuple[str, int]


@contextmanager
def serving(where: Loopback, file: Path, log: Path | None = None, only_http: bool = False) -> Iterator[Addresses]:
    """Runs nginx, with `log`; nginx with raised header limits; xrootd; and the raw socket."""
    with ExitStack() as stack:

        def start(server, *options, **more) -> tuple[str, int]:
            return where.reach(stack.enter_context(server(where, *options, **more)))

        def url(scheme: str, address: tuple[str, int]) -> str:
            return f"{scheme}://{address[0]}:{address[1]}/{file.name}"

        folder = file.parent
        http = raised = url("http", start(servers.nginx, folder, log))
        root = None
        if not only_http:
            raised = url("http", start(servers.nginx, folder, limits="large_client_header_buffers 8 512k;"))
            if servers.program("xrootd"):
                root = url("root", start(servers.xrootd, folder)).replace(f"/{file.name}", f"//{file.name}")
        yield Addresses(http, raised, root, start(servers.raw))


@dataclass(frozen=True)
class Query:
    """The talk's query, and ROOT's answer from when the file was written."""

    file: Path
    warm_up: Path
    facts: dict

    @classmethod
    def of_the_talk(cls) -> "Query":
        """Over the talk's file, and a small one for warming up; both are written if missing."""
        file = talkfile.DEFAULT_OUTPUT
        warm_up = file.with_name("warm.root")
        talkfile.ensure(warm_up, events=500)
        return cls(file, warm_up, talkfile.ensure(file))

    @property
    def needed_bytes(self) -> int:
        return self.facts["query_bytes"] + self.facts["tree_bytes"]

    @property
    def floor_bytes(self) -> int:
        return math.ceil(self.needed_bytes * FRAMING)

    def __str__(self) -> str:
        facts = self.facts
        return f"`{facts['expression']}` where `{facts['cut']}`, {facts['query_bytes'] / 1e6:.2f} MB of {facts['bytes'] / 1e6:.0f} MB"

    def draw(self, url: str, *options: object) -> list:
        """The command line of `hither draw`."""
        facts = self.facts
        query = [f"{url}:{facts['tree']}", facts["expression"], "--where", facts["cut"]]
        return [HITHER, "draw", *query, "--json", *options]

    def disagreement(self, run: "Run") -> str | None:
        """The difference between a run's answer and ROOT's; None without either."""
        if run.selected is None:
            return None
        return run.disagreement(self.facts["selected"], self.facts["mean"], 1e-12)


Command = Callable[[Addresses, Query], list | None]


@dataclass(frozen=True)
class Contender:
    """`command` makes the command line, or None if the server that it needs is not installed."""

    name: str
    command: Command
    answers: bool = True


@dataclass
class Run:
    """One run. Times in seconds; sizes in MB (10^6 bytes); peak memory in MiB."""

    link: str
    congestion: str
    contender: str
    number: int
    server: str = ""
    seconds: float | None = None
    wall: float | None = None
    cpu: float | None = None
    peak_mb: float | None = None
    turns: int | None = None
    round_trips: int | None = None
    connections: int | None = None
    requests: int | None = None
    received_mb: float | None = None
    sent_mb: float | None = None
    selected: int | None = None
    mean: float | None = None
    late: bool = False
    failure: str | None = None
    commit: str = ""
    """Of a run by an earlier call of the program."""
    report: dict = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return not self.late and self.failure is None

    def disagreement(self, values: int, mean: float, tolerance: float = 1e-9) -> str | None:
        """The difference between the run's answer and the right one, or None."""
        is_near = self.mean is None or math.isclose(self.mean, mean, rel_tol=tolerance)
        if self.selected == values and is_near:
            return None
        return f"{self.selected} values of mean {self.mean!r} instead of {values} and {mean!r}"

    def row(self) -> dict:
        values = asdict(self)
        values.pop("report")
        return values


def peer(program: str, *arguments: object) -> list[str]:
    """The command line of a program of `peers`, to be run from the repository's root."""
    return [sys.executable, "-m", f"bench.peers.{program}", *map(str, arguments)]


def compiled_peer(program: str, *flags: str) -> Path:
    """A C++ program of `peers`, compiled unless its binary is newer than source and archives."""
    source = PEERS / f"{program}.cpp"
    binary = BUILT_PEERS / source.stem
    made_of = [source, *(Path(flag) for flag in flags if flag.endswith(".a"))]
    if not binary.exists() or binary.stat().st_mtime < max(part.stat().st_mtime for part in made_of):
        BUILT_PEERS.mkdir(parents=True, exist_ok=True)
        subprocess.run(["g++", "-std=c++17", "-O2", source, "-o", binary, *flags], check=True)
    return binary


def without_pause() -> list[str]:
    """The option by which rclone leaves out its pause of 10 ms between requests over WebDAV.

    Versions that do not have it send at most a hundred requests a second, to any server.
    """
    option = "--webdav-pacer-min-sleep"
    told = subprocess.run(["rclone", "help", "flags"], capture_output=True, text=True, check=False).stdout
    return [f"{option}=0"] if option in told else []


def hither(*options: object, protocol: str = "http") -> Command:
    def command(at: Addresses, query: Query) -> list | None:
        url = at.http if protocol == "http" else at.root
        return query.draw(url, *(options if "--store" in options else (*options, "--no-store"))) if url else None

    return command


def root_draw(protocol: str, cache: int, entries: int | None = None) -> Command:
    def command(at: Addresses, _: Query) -> list[str] | None:
        url = at.http if protocol == "http" else at.root
        limit = ["--entries", entries] if entries else []
        return peer("draw.root_draw", url, "--cache", cache, *limit) if url else None

    return command


def uproot_read(protocol: str, source: str) -> Command:
    def command(at: Addresses, query: Query) -> list[str] | None:
        url = {"http": at.http, "http raised": at.http_raised, "root": at.root}[protocol]
        return peer("draw.uproot_read", url, source, query.warm_up) if url else None

    return command


def raw(connections: int = 1) -> Command:
    return lambda at, query: peer("bytes.raw_client", *at.raw, query.floor_bytes, connections)


TEN_MB = 10_000_000
PEERS_OF_HITHER = (
    Contender("root root://", root_draw("root", TEN_MB)),
    Contender("root http", root_draw("http", TEN_MB)),
    Contender("uproot XRootDSource", uproot_read("root", "XRootDSource")),
    # HTTPSource asks for all baskets in one request. A stock nginx refuses the long header (400),
    # and uproot then asks for each basket on its own; a server with raised limits shows the one
    # request.
    Contender("uproot HTTPSource", uproot_read("http", "HTTPSource")),
    Contender("uproot HTTPSource, raised header limit", uproot_read("http raised", "HTTPSource")),
    Contender("uproot default http", uproot_read("http", "default")),
)
RAW = Contender("raw", raw(), answers=False)


def timed(where: Loopback, command: list, timeout: float) -> dict:
    """Runs a command at the client's end under process_time.py; returns what that prints."""
    timer = [sys.executable, str(BENCH / "harness" / "process_time.py"), f"{timeout:g}", *map(str, command)]
    return json.loads(subprocess.run(where.client(timer), stdout=subprocess.PIPE, text=True, check=True).stdout)


def measure(where: Loopback, command: list, run: Run, timeout: float) -> Run:
    """Runs a command at the client's end and fills in what it prints and what the link counts."""
    where.reset()
    outside = timed(where, command, timeout)
    run.wall, run.cpu, run.peak_mb = outside["wall"], outside["cpu"], outside["peak_mb"]
    if stats := where.stats():
        run.turns, run.round_trips, run.connections = stats["turns"], stats["round_trips"], stats["connections"]
        run.received_mb = stats["to_client"]["ip_bytes"] / 1e6
        run.sent_mb = stats["to_server"]["ip_bytes"] / 1e6
    if outside["timeout"]:
        run.late = True
        return run
    if outside["exit"] != 0:
        last = outside["stderr"].strip().splitlines()
        run.failure = f"exit code {outside['exit']}: {last[-1] if last else 'no message'}"
        return run
    inside = json.loads(outside["stdout"].strip().splitlines()[-1] if "\n{" in outside["stdout"] else outside["stdout"])
    run.report = inside.get("report", inside)
    run.seconds = run.report["seconds"]
    run.requests = run.report.get("requests")
    run.selected, run.mean = inside.get("selected"), inside.get("mean")
    return run
