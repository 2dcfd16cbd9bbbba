"""500 readers through `hither federate`, of whose two endpoints one is killed, or falls silent.

Over a link of 100 ms, without a limit of its rate. Each reader of one program has a file of its
own, which both endpoints (nginx) have, and reads 2 KiB at a time. At half-time the first endpoint's
process is killed, or its packets are dropped. Every byte is compared; the longest read tells the
pause, in round trips. A silent endpoint is noticed by the no-progress clock (30 s), unless a
replica is asked earlier. Needs root.

    python -m bench.reads.federate_readers [--quick]
"""

import json
import os
import struct
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.interleaved import say
from bench.harness.links import Link, Wan
from bench.harness.paths import HITHER, HITHER_BENCH, MEMORY, temporary_folder

LINK = Link("R", 100, None, "another continent")
READERS = 500
FILE_BYTES = 512 << 10
SECONDS = 16
TARGET_TRIPS = 3
PROGRAM = [HITHER_BENCH, "many-readers"]
FAULTS = ("killed", "silent")


def silence(where: Wan, port: int) -> None:
    """Drops what a port of the server's end sends, for as long as the link exists."""
    rule = ["ip", "rule", "add", "ipproto", "tcp", "sport", str(port), "blackhole"]
    subprocess.run(where.server(rule), check=True)


def run(folder: Path, readers: int, fault: str) -> dict:
    with ExitStack() as stack:
        where = stack.enter_context(Wan(LINK))
        ports = [stack.enter_context(servers.nginx(where, folder / "www")) for _ in range(2)]
        port = servers.free_port()
        address = f"{where.server_host}:{port}"
        # All clients are near to the first endpoint.
        config = f'[[sites]]\nname = "here"\nnetworks = ["{where.client_host}/32"]\n'
        for name, each, site in (("first", ports[0], 'site = "here"'), ("second", ports[1], "")):
            config += f'[[endpoints]]\nname = "{name}"\nurl = "http://{where.server_host}:{each}/"\n{site}\n'
        (folder / "federation.toml").write_text(config)
        command = [HITHER, "federate", "--config", folder / "federation.toml", "--listen", address]
        stack.enter_context(servers.running(where, list(map(str, command)), port, folder / "federation.log"))
        program = [*PROGRAM, f"http://{address}/", readers, SECONDS]
        process = subprocess.Popen(where.client(list(map(str, program))), stdout=subprocess.PIPE, text=True)
        if process.stdout.readline() != "reading\n":
            raise RuntimeError(f"the readers did not begin: {process.communicate()[0]}")
        time.sleep(SECONDS / 2)
        if fault == "killed":
            servers.kill(ports[0])
        else:
            silence(where, ports[0])
        return json.loads(process.communicate()[0])


def main() -> None:
    options = Arguments(__doc__, "reads/federate_readers", quick="100 readers once").parse()
    readers = 100 if options.quick else READERS
    rows, met = "", []
    with temporary_folder(MEMORY) as folder:
        (folder / "www").mkdir()
        words = struct.pack(f"<{FILE_BYTES // 8}Q", *range(FILE_BYTES // 8))
        for number in range(readers):
            (folder / "www" / str(number)).write_bytes(words)
            os.utime(folder / "www" / str(number), (1_700_000_000, 1_700_000_000))
        for fault in FAULTS:
            for _ in range(options.runs):
                told = run(folder, readers, fault)
                before, after = told["before"], told["after"]
                trips = after["max_ms"] / LINK.rtt_ms
                met.append((fault, trips, told["wrong"] + told["errors"]))
                rows += f"| {fault} | {before['reads'] + after['reads']:,} | {told['wrong']} | {told['errors']} "
                rows += (
                    f"| {before['median_ms']:.0f} | {before['max_ms']:.0f} | {after['max_ms']:.0f} | {trips:.1f} |\n"
                )
                say(f"{fault}: {told}")
    kills = [trips for fault, trips, _ in met if fault == "killed"]
    text = (
        f"# An endpoint of {readers} readers dies\n\n{LINK.label}, one program.\n\n"
        "| first endpoint | reads | wrong | failed | median ms | longest before | longest after | round trips |\n"
        f"|---|---|---|---|---|---|---|---|\n{rows}\n"
        f"After a kill the longest read took {max(kills):.1f} round trips (target {TARGET_TRIPS} more than one); "
        f"{sum(bad for *_, bad in met)} reads were wrong or failed.\n"
    )
    tables.save(options.output, [text])


if __name__ == "__main__":
    main()
