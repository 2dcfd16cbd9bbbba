"""Who takes part, how each is started, and what one run of one of them tells.

hither comes as it is used (`hither draw`), the peers in the way that is fastest for each: ROOT with a cache larger than
the query, uproot with its own vectored sources, and with what it takes when nobody chooses. `raw` is not a peer but the floor:
the bytes that the query needs, over one fresh TCP connection, nothing decoded.
"""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.harness.links import Loopback
from bench.harness.paths import BENCH, HITHER

# Part headers of a multipart answer, and what else a protocol adds to the bytes that the query needs.
FRAMING = 1.1


@dataclass(frozen=True)
class Addresses:
    """Where the client finds the servers. Addresses and the link differ from run to run, commands don't."""

    http: str
    http_raised: str
    root: str | None
    raw_host: str
    raw_port: int


@dataclass(frozen=True)
class Query:
    """The talk's query, and its answer as ROOT gave it when the file was written."""

    file: Path
    warm_up: Path
    facts: dict

    @property
    def floor_bytes(self) -> int:
        return math.ceil((self.facts["query_bytes"] + self.facts["tree_bytes"]) * FRAMING)


@dataclass(frozen=True)
class Contender:
    """`command` makes the command line; None where the contender can't take part (no xrootd, no ROOT)."""

    name: str
    command: Callable[[Addresses, Query], list[str] | None]
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
    flights: int | None = None
    connections: int | None = None
    requests: int | None = None
    received_mb: float | None = None
    sent_mb: float | None = None
    selected: int | None = None
    mean: float | None = None
    late: bool = False
    failure: str | None = None
    report: dict = field(default_factory=dict)

    def row(self) -> dict:
        values = asdict(self)
        values.pop("report")
        return values


def peer(program: str, *arguments: object) -> list[str]:
    """The command line of a program of `peers`, to be run from the repository's root."""
    return [sys.executable, "-m", f"bench.peers.{program}", *map(str, arguments)]


def hither(
    connections: int | None = None, store: Path | None = None, protocol: str = "http"
) -> Callable[[Addresses, Query], list[str] | None]:
    def command(at: Addresses, query: Query) -> list[str] | None:
        url = at.http if protocol == "http" else at.root
        if url is None:
            return None
        facts = query.facts
        arguments = [str(HITHER), "draw", f"{url}:{facts['tree']}", facts["expression"], "--where", facts["cut"]]
        arguments += ["--connections", str(connections)] if connections else []
        arguments += ["--store", str(store)] if store else ["--no-store"]
        return [*arguments, "--json"]

    return command


def root_draw(protocol: str, cache: int, entries: int | None = None) -> Callable[[Addresses, Query], list[str] | None]:
    def command(at: Addresses, _: Query) -> list[str] | None:
        url = at.http if protocol == "http" else at.root
        limit = ["--entries", str(entries)] if entries else []
        return peer("draw.root_draw", url, "--cache", str(cache), *limit) if url else None

    return command


def uproot_read(protocol: str, source: str) -> Callable[[Addresses, Query], list[str] | None]:
    def command(at: Addresses, query: Query) -> list[str] | None:
        url = {"http": at.http, "http raised": at.http_raised, "root": at.root}[protocol]
        return peer("draw.uproot_read", url, source, str(query.warm_up)) if url else None

    return command


def raw(connections: int = 1) -> Callable[[Addresses, Query], list[str]]:
    def command(at: Addresses, query: Query) -> list[str]:
        client = peer("bytes.raw_client", at.raw_host, str(at.raw_port))
        return [*client, str(query.floor_bytes), str(connections)]

    return command


TEN_MB = 10_000_000
PEERS_OF_HITHER = (
    Contender("root root://", root_draw("root", TEN_MB)),
    Contender("root http", root_draw("http", TEN_MB)),
    Contender("uproot XRootDSource", uproot_read("root", "XRootDSource")),
    # HTTPSource asks for all baskets in one request. A stock nginx refuses the long header (400), upon which uproot
    # asks for every basket on its own; a server with raised limits shows what it can do otherwise.
    Contender("uproot HTTPSource", uproot_read("http", "HTTPSource")),
    Contender("uproot HTTPSource, raised header limit", uproot_read("http raised", "HTTPSource")),
    Contender("uproot default http", uproot_read("http", "default")),
)
RAW = Contender("raw", raw(), answers=False)


def contest(where: Loopback, command: list[str], run: Run, timeout: float) -> Run:
    """Runs one command at the client's end and fills in what it and the witness in the link say."""
    where.reset()
    timed = [sys.executable, str(BENCH / "harness" / "process_time.py"), f"{timeout:g}", *command]
    told = subprocess.run(where.client(timed), stdout=subprocess.PIPE, text=True, check=True).stdout
    outside = json.loads(told)
    run.wall, run.cpu, run.peak_mb = outside["wall"], outside["cpu"], outside["peak_mb"]
    if stats := where.stats():
        run.turns, run.flights, run.connections = stats["turns"], stats["flights"], stats["connections"]
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


def disagreement(run: Run, facts: dict) -> str | None:
    """What is wrong with the answer of a run that gave one; None where it is ROOT's."""
    if run.selected is None:
        return None
    if run.selected != facts["selected"]:
        return f"{run.contender} on {run.link} selected {run.selected} values instead of {facts['selected']}"
    if not math.isclose(run.mean, facts["mean"], rel_tol=1e-12):
        return f"{run.contender} on {run.link} has mean {run.mean!r} instead of {facts['mean']!r}"
    return None
