"""Round trips to the first data of a file on an XRootD server: hither beside the stock clients.

The link counts them: a TCP handshake is one, and each request (or group of requests) that waits for
the response before it, up to the one for the data. xrootd as Debian packages it: without security,
with `unix`, with TLS, with both. Each run is a new process; hither once knows the server from an
earlier process and once does not. Needs root, for the link.
"""

import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.generators import talkfile
from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import peer
from bench.harness.interleaved import target_line
from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER, temporary_folder

LINK = Link("r", 100, None, "another country")
UNIX = "xrootd.seclib libXrdSec.so\nsec.protocol unix\nsec.protbind * only unix\n"
# Fits the initial congestion window, and is more than a server sends while logging in.
BYTES = 12_000
KNOWN, UNKNOWN = "hither, server known", "hither, server not known"
MAX_ROUND_TRIPS = {"root://": 2, "root://, unix": 2, "roots://": 3, "roots://, unix": 3}
"""Targets of hither when it knows the server."""


@dataclass(frozen=True)
class Counted:
    """One run. `round_trips`: TCP handshakes (`connections`) and dependent requests (`waits`)."""

    server: str
    who: str
    round_trips: int
    connections: int
    waits: int
    seconds: float


def count(where: Wan, command: list) -> tuple[dict, float, bytes]:
    """Runs a command at the client's end; returns the link's counts, its seconds and its output."""
    where.reset()
    timed = ["sh", "-c", 'start=$(date +%s%N); "$@" || exit; echo $(($(date +%s%N) - start)) >&2', "sh"]
    done = subprocess.run(where.client([*timed, *map(str, command)]), capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return where.stats(), int(done.stderr.split()[-1]) / 1e9, done.stdout


def contenders(url: str, store: Path, trust: Path) -> Iterator[tuple[str, list, Callable[[], None]]]:
    """Name, command, and what runs before it."""
    cat = [
        "env",
        f"SSL_CERT_FILE={trust / 'authority.pem'}",
        HITHER,
        "cat",
        "--range",
        f"0-{BYTES - 1}",
        url,
        "--store",
        store,
    ]
    yield UNKNOWN, cat, lambda: shutil.rmtree(store, ignore_errors=True)
    yield KNOWN, cat, lambda: None
    trusting = ["env", f"X509_CERT_FILE={trust / 'authority.pem'}", f"X509_CERT_DIR={trust}"]
    yield "XrdCl 6.2 (Python)", [*trusting, *peer("bytes.xrdcl_first_byte", url, BYTES)], lambda: None
    yield "xrdcp 5.5", [*trusting, "xrdcp", "-s", "-f", url, "-"], lambda: None


def kinds(tls: servers.Tls) -> dict[str, dict]:
    return {
        "root://": {},
        "root://, unix": {"more": UNIX},
        "roots://": {"tls": tls},
        "roots://, unix": {"tls": tls, "more": UNIX},
    }


def play(runs: int, folder: Path) -> list[Counted]:
    file = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    talkfile.ensure(file, events=3000)
    with file.open("rb") as content:
        wanted = content.read(BYTES)
    found: list[Counted] = []
    with Wan(LINK) as where:
        tls = servers.certificate(folder, where.server_host, named=True)
        subprocess.run(["openssl", "rehash", folder], check=True, capture_output=True)
        for kind, options in kinds(tls).items():
            with servers.xrootd(where, file.parent, **options) as port:
                url = f"{kind.partition(',')[0]}{where.server_host}:{port}//{file.name}"
                for _ in range(runs):
                    for who, command, before in contenders(url, folder / "store", folder):
                        before()
                        seen, seconds, content = count(where, command)
                        if not content.startswith(wanted):
                            raise RuntimeError(f"{who}, {kind}: other bytes than those of the file")
                        trips = seen["connections"] + seen["first_data_round_trip"]
                        found.append(
                            Counted(kind, who, trips, seen["connections"], seen["first_data_round_trip"], seconds)
                        )
                        print(found[-1], file=sys.stderr, flush=True)
    return found


def document(found: list[Counted]) -> list[str]:
    groups: dict[tuple[str, str], list[Counted]] = {}
    for run in found:
        groups.setdefault((run.server, run.who), []).append(run)
    rows = []
    for (server, who), runs in groups.items():
        worst = max(runs, key=lambda run: run.round_trips)
        seconds = statistics.median(run.seconds for run in runs)
        rows.append([server, who, *map(str, (worst.round_trips, worst.connections, worst.waits)), f"{seconds:.3f}"])
    return [
        "# Round trips to the first data",
        "",
        f"The first {BYTES:,} bytes of a file, from a new process each, at {LINK.rtt_ms:g} ms. Counted in the link: TCP handshakes, and",
        "requests that each wait for the response to the one before. The time is that of the process, its start included.",
        "xrootd 5.5; maxima of all runs.",
        "",
        *tables.markdown(["server", "", "round trips", "handshakes", "dependent requests", "s"], rows, "llr"),
        "",
        "## Targets",
        "",
        *(f"- {line}" for line in check_targets(groups)),
    ]


def check_targets(groups: dict[tuple[str, str], list[Counted]]) -> Iterator[str]:
    for server, maximum in MAX_ROUND_TRIPS.items():
        trips = max((run.round_trips for run in groups.get((server, KNOWN), [])), default=None)
        if trips:
            yield target_line(
                f"{server}: {trips} round trips if the server is known, at most {maximum}", trips <= maximum
            )


def main() -> int:
    options = Arguments(__doc__, "reads/first_byte").parse()
    with temporary_folder() as folder:
        found = play(options.runs, folder)
    lines = document(found)
    tables.save(options.output, lines)
    return 1 if any("MISSED" in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
