"""`hither tune sweep` over nginx, xrootd and `hither serve`, on links of 0.2 and 10 ms.

    python -m bench.profile_sweep [--runs 3] [--servers gridftp --output sweep-gridftp]

Two experiments: connections in both directions, and connections with the largest send buffer of
the servers' TCP, which is set in their network namespace before each run. Clients are `hither cp`,
`xrdcp` for xrootd, and `globus-url-copy` for GridFTP, which is left out unless it is named. Files
lie in memory. Needs root. Results: `results/profile/sweep.md`, and points (`.csv`) and plots
(`.html`) of each experiment.
"""

import argparse
import contextlib
import json
import subprocess
from pathlib import Path

from bench.harness import servers
from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER, HITHER_WAN, MEMORY, RESULTS, temporary_folder
from bench.harness.tables import save

OUTPUT = RESULTS / "profile"
LINKS = (Link("N", 0.2, 1000, "the same room"), Link("F", 10, 1000, "another country"))
XRDCP = ["xrdcp", "--silent", "--force", "--streams", "{connections}", "{source}", "{target}"]
# It takes local files as URLs only.
URL_COPY = (
    'a=$2; b=$3; case $a in /*) a=file://$a;; *) b=file://$b;; esac; exec globus-url-copy -fast -p "$1" "$a" "$b"'
)
URL_COPY_COMMAND = ["sh", "-c", URL_COPY, "globus-url-copy", "{connections}", "{source}", "{target}"]
CLIENTS = {"xrootd": XRDCP, "gridftp": URL_COPY_COMMAND}
SET_BUFFER = "echo 4096 16384 {tcp_buffer} > /proc/sys/net/ipv4/tcp_wmem"

CONNECTIONS = """bytes = "100M"
[axes]
direction = ["read", "write"]
file_size = ["100M"]
connections = [1, 4, 8]
"""
TCP_BUFFER = """bytes = "32M"
[axes]
file_size = ["32M"]
connections = [1, 8]
tcp_buffer = [65536, 262144, 1048576, 4194304]
"""


def server(where: Wan, name: str, url: str, port: int, folder: Path, before: list[str]) -> str:
    """The lines of a server in an experiment file; strings in TOML are those in JSON."""
    lines = {
        "name": f"{name} {where.link.rtt_ms:g} ms",
        "url": url,
        "storage": f"{folder}/",
        "pid": servers.PROCESSES[port].pid,
        "hither": where.client([str(HITHER)]),
        "before": before,
    }
    if name in CLIENTS:
        lines["client"] = where.client(CLIENTS[name])
    return "\n".join(["[[server]]", *(f"{key} = {json.dumps(value)}" for key, value in lines.items())]) + "\n"


def sweep(name: str, head: str, parts: list[str], runs: int, work: Path, output: str) -> str:
    """Runs an experiment; returns the table."""
    (work / f"{name}.toml").write_text(f"runs = {runs}\n{head}{''.join(parts)}")
    files = ("--csv", OUTPUT / f"{output}-{name}.csv", "--html", OUTPUT / f"{output}-{name}.html")
    command = [str(word) for word in (HITHER, "tune", "sweep", *files, f"{name}.toml")]
    return subprocess.run(command, cwd=work, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--servers", default="nginx,xrootd,hither serve", help="names, comma separated")
    parser.add_argument("--output", default="sweep", help="beginning of the names of the results (default %(default)s)")
    chosen = parser.parse_args()
    runs, output = chosen.runs, chosen.output
    OUTPUT.mkdir(parents=True, exist_ok=True)
    connections, buffers = [], []
    with temporary_folder(MEMORY) as work, contextlib.ExitStack() as stack:
        folder = work / "www"
        folder.mkdir()
        for where in (stack.enter_context(Wan(link)) for link in LINKS):
            host = where.server_host
            write = ("--write", "--config", str(work / "serve.toml"))
            (work / "serve.toml").write_text("anonymous_write = true\n")
            known = {
                "nginx": ("http://{}:{}/", servers.nginx(where, folder, webdav=True)),
                "xrootd": ("root://{}:{}//", servers.xrootd(where, folder)),
                "hither serve": ("http://{}:{}/", servers.hither(where, folder, more=write)),
                "gridftp": (f"ftp://{{}}:{{}}{folder}/", servers.gridftp(where)),
            }
            for name in chosen.servers.split(","):
                url, running = known[name]
                port = stack.enter_context(running)
                told = (where, name, url.format(host, port), port, folder)
                connections.append(server(*told, []))
                before = [str(HITHER_WAN), "exec", where.name, "server", "--", "sh", "-c", SET_BUFFER]
                buffers.append(server(*told, before))
        tables = [
            sweep("connections", CONNECTIONS, connections, runs, work, output),
            sweep("tcp_buffer", TCP_BUFFER, buffers, runs, work, output),
        ]
    save(OUTPUT / output, ["# Sweeps", "", "Links of 1 Gbit/s.", *(f"\n```text\n{table}```" for table in tables)])


if __name__ == "__main__":
    main()
