"""After how many round trips the first data of a file behind an XRootD server comes: hither beside the stock client.

Not by the clock: the witness in the link counts them. A handshake of TCP is one, and each flight of requests up to the
one whose answer is the data. xrootd as Debian has it: open to everybody, with `unix`, with TLS, with both. Everybody is
a new process; hither once knows the server from a process before and once does not. Needs root, for the link.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.generators import talkfile
from bench.harness import servers
from bench.harness.contenders import peer
from bench.harness.links import Link, Wan, is_root
from bench.harness.paths import HITHER, RESULTS

LINK = Link("r", 100, None, "another country")
UNIX = "xrootd.seclib libXrdSec.so\nsec.protocol unix\nsec.protbind * only unix\n"
# As many as fit a first window, and more than a server says of itself.
BYTES = 12_000
KNOWN, STRANGER = "hither, server known", "hither, server not known"
MOST = {"root://": 2, "root://, unix": 2, "roots://": 3, "roots://, unix": 3}
"""Round trips that hither may take where it knows the server."""


@dataclass(frozen=True)
class Counted:
    """One run. `round_trips` are handshakes of TCP, one after the other, and flights up to the one that asked for the data."""

    server: str
    who: str
    round_trips: int
    connections: int
    flights: int
    seconds: float


def count(where: Wan, command: list) -> tuple[dict, float, bytes]:
    """Runs a command at the client's end: the witness's counts, the seconds of the process, and its output."""
    where.reset()
    timed = ["sh", "-c", 'start=$(date +%s%N); "$@" || exit; echo $(($(date +%s%N) - start)) >&2', "sh"]
    done = subprocess.run(where.client([*timed, *map(str, command)]), capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return where.stats(), int(done.stderr.split()[-1]) / 1e9, done.stdout


def contenders(url: str, store: Path, trust: Path) -> Iterator[tuple[str, list, Callable[[], None]]]:
    """Name, command, and what has to happen before."""
    cat = ["env", f"SSL_CERT_FILE={trust / 'authority.pem'}", HITHER, "cat", "--range", f"0-{BYTES - 1}", url, "--store", store]
    yield STRANGER, cat, lambda: shutil.rmtree(store, ignore_errors=True)
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
                        trips = seen["connections"] + seen["data_flight"]
                        found.append(Counted(kind, who, trips, seen["connections"], seen["data_flight"], seconds))
                        print(found[-1], file=sys.stderr, flush=True)
    return found


def document(found: list[Counted]) -> str:
    lines = [
        "# Round trips to the first data",
        "",
        f"The first {BYTES:,} bytes of a file, from a new process each, at {LINK.rtt_ms:g} ms. Counted by the witness in the link:",
        "handshakes of TCP, and flights of requests of which each waits for the answer to the one before. The time is that of",
        "the process, its start included. xrootd 5.5; most of all runs.",
        "",
        "| server | | round trips | handshakes | flights | s |",
        "|---|---|---:|---:|---:|---:|",
    ]
    groups: dict[tuple[str, str], list[Counted]] = {}
    for run in found:
        groups.setdefault((run.server, run.who), []).append(run)
    for (server, who), runs in groups.items():
        worst = max(runs, key=lambda run: run.round_trips)
        seconds = statistics.median(run.seconds for run in runs)
        lines.append(f"| {server} | {who} | {worst.round_trips} | {worst.connections} | {worst.flights} | {seconds:.3f} |")
    lines += ["", "## Bounds", ""]
    for server, most in MOST.items():
        trips = max((run.round_trips for run in groups.get((server, KNOWN), [])), default=None)
        if trips:
            lines.append(f"- {server}: {trips} round trips where the server is known, at most {most}: {'kept' if trips <= most else 'MISSED'}")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one run each")
    parser.add_argument("--output", type=Path, default=RESULTS / "reads" / "first_byte")
    options = parser.parse_args()
    if not is_root():
        sys.exit("first_byte: the link needs root (network namespaces)")
    with tempfile.TemporaryDirectory(prefix="hither-first-") as folder:
        found = play(1 if options.quick else options.runs, Path(folder))
    text = document(found)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".md").write_text(text)
    print(text)
    return 1 if "MISSED" in text else 0


if __name__ == "__main__":
    sys.exit(main())
