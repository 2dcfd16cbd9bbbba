"""Servers that a TCP handshake says nothing about, beside curl and aria2c.

A proxy that is near answers for a server that is 50 ms away, as tunnels and terminating proxies do:
5 MB in reads of 8 kB, in a new Python process, beside curl, which gets them in one stream. A server
sends at most 300 kB a second on each connection: 16 MB by `hither cp`, and the talk's query by
`hither draw`, beside aria2c with 16 connections. Measured is the whole process; of Python, the
reads alone. Medians are written to bench/results/reads/slow_servers.md.

    python -m bench.reads.slow_servers --runs 5
"""

import argparse
import statistics
import sys
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.contenders import Query, timed
from bench.harness.content import numbered_blocks
from bench.harness.interleaved import rotated, say
from bench.harness.links import Link, Loopback, Proxied
from bench.harness.paths import HITHER, MEMORY, RESULTS, temporary_folder

BEHIND_PROXY = Link("P", 50, 1000, "behind a proxy")
READ_BYTES, READS = 8 << 10, 640
RATE_LIMIT = "limit_rate 300k;"
CAP_SECONDS = 60
READER = f"""
import sys, time, hither
began = time.perf_counter()
with hither.open(sys.argv[1]) as file:
    for number in range({READS}):
        assert file.read({READ_BYTES})[:8] == number.to_bytes(8, "little")
print(time.perf_counter() - began)
"""
CASES = {
    "behind a proxy": ("reads of 8 kB, hither", "curl", 2.0),
    "limited, a file": ("hither cp", "aria2c -x16", 1.2),
    "limited, a query": ("hither draw", "aria2c -x16, as many bytes", 1.2),
}
"""The contender, its peer, and how many times the peer's seconds it may take at most."""


def measure(runs: int, folder: Path) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}

    def run_all(case: str, where: Loopback, commands: dict[str, list], runs: int) -> None:
        for number in range(runs):
            for who, command in rotated(list(commands.items()), number):
                answer = timed(where, [str(word) for word in command], CAP_SECONDS)
                if answer["exit"] != 0 or answer["timeout"]:
                    raise RuntimeError(f"{who}: {answer['stderr'][-300:]}")
                seconds = float(answer["stdout"]) if who.startswith("reads") else answer["wall"]
                found.setdefault((case, who), []).append(seconds)
                say(f"{case}: {who} {seconds:.2f} s")

    def aria2c(url: str) -> list:
        options = ["-q", "-x16", "-s16", "-k1M", "--file-allocation=none", "--allow-overwrite=true"]
        return ["aria2c", *options, "-d", folder, "-o", "aria2c", url]

    (folder / "reads").write_bytes(b"".join(numbered_blocks(READS, READ_BYTES)))
    (folder / "file").write_bytes(b"".join(numbered_blocks(16, 1 << 20)))
    query = Query.of_the_talk()
    (folder / "as_much").write_bytes(b"".join(numbered_blocks(query.needed_bytes >> 20, 1 << 20)))
    (folder / query.file.name).symlink_to(query.file)
    with Proxied(BEHIND_PROXY) as where, servers.nginx(where, folder) as port:
        host, near = where.reach(port)
        url = f"http://{host}:{near}/reads"
        commands = {
            "reads of 8 kB, hither": [sys.executable, "-c", READER, url],
            "curl": ["curl", "-sSo", "/dev/null", url],
        }
        run_all("behind a proxy", where, commands, runs)
    where = Loopback()
    with servers.nginx(where, folder, limits=RATE_LIMIT) as port:
        base = f"http://{where.server_host}:{port}"
        cp = [HITHER, "cp", "--no-store", "--quiet", f"{base}/file", folder / "copy"]
        run_all("limited, a file", where, {"hither cp": cp, "aria2c -x16": aria2c(f"{base}/file")}, runs)
        draw = query.draw(f"{base}/{query.file.name}", "--no-store")
        as_much = {"hither draw": draw, "aria2c -x16, as many bytes": aria2c(f"{base}/as_much")}
        run_all("limited, a query", where, as_much, max(1, runs // 2))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    with temporary_folder(MEMORY) as folder:
        found = measure(parser.parse_args().runs, folder)
    rows, targets = [], []
    for case, (ours, peer, most) in CASES.items():
        medians = {who: statistics.median(found[case, who]) for who in (ours, peer)}
        rows += [
            [case, who, f"{seconds:.2f} ({min(found[case, who]):.2f}-{max(found[case, who]):.2f})"]
            for who, seconds in medians.items()
        ]
        ratio = medians[ours] / medians[peer]
        targets.append(f"- {case}: {ratio:.2f} x {peer}, at most {most:g} x: {'met' if ratio <= most else 'MISSED'}")
    text = [
        "# Slow answers behind a near proxy, and limited connections",
        "",
        *tables.markdown(["", "", "s"], rows, "llr"),
        "",
    ]
    tables.save(RESULTS / "reads/slow_servers", [*text, "## Targets", "", *targets])


if __name__ == "__main__":
    main()
