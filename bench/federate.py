"""`hither federate` on one core: redirects and answers about names, beside nginx's `return 302`.

The first table is about names that the federation knows. The second is about names that it hears
for the first time, of which one endpoint has the file, while others misbehave: one refuses
connections, one answers after two seconds, one says that it has every file. Needs `wrk`
(`apt-get install wrk`); *no root*. Server and load have a core each.

    python -m bench.federate [--quick]
"""

import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.links import Loopback
from bench.harness.paths import HITHER, temporary_folder

KNOWN, NEW = 2_000, 40_000
"""Names that are asked for again and again, and those that are asked for once."""
CONNECTIONS, FEW = 32, 4
SECONDS = 8
SLOW_SECONDS = 2
TARGET_RATIO, TARGET_P99_MS = 0.5, 5.0

REDIRECT = """
        location / { return 302 http://127.0.0.1:9/$uri; }
"""
LIE = """
        location / {
            if ($request_method = HEAD) { return 200 lie; }
            if ($request_method = GET) { return 404; }
            return 405;
        }
"""
SCRIPT = """
local at = {first}
request = function()
    at = at + 1
    return wrk.format("{method}", "/" .. (at % {count}), {{ ["Depth"] = "0" }})
end
done = function(summary, latency, requests)
    io.write(string.format('{{"requests": %d, "micros": %d, "p50": %f, "p99": %f, "max": %f, "bad": %d}}\\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
        summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout))
end
"""


@dataclass
class Load:
    """A measurement of wrk."""

    rate: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    bad: int


def load(folder: Path, port: int, method: str, count: int, connections: int, seconds: int, first: int = 0) -> Load:
    script = folder / "load.lua"
    script.write_text(SCRIPT.format(first=first, method=method, count=count))
    command = ["taskset", "2", servers.needed("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "-s"]
    done = subprocess.run(
        [*command, script, f"http://127.0.0.1:{port}/"], check=True, capture_output=True, text=True
    ).stdout
    told = json.loads(re.search(r"^\{.*\}$", done, re.MULTILINE)[0])
    rate = told["requests"] / (told["micros"] / 1e6)
    return Load(rate, told["p50"] / 1e3, told["p99"] / 1e3, told["max"] / 1e3, told["bad"])


@contextmanager
def slow_server() -> Iterator[int]:
    """Says after two seconds that it has nothing."""
    port, stop = servers.free_port(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(SLOW_SECONDS)
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def serve() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", port):
            await stop.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


@contextmanager
def federation(folder: Path, ports: dict[str, int]) -> Iterator[int]:
    """Runs a federation on the first core."""
    endpoints = "".join(
        f'[[endpoints]]\nname = "{name}"\nurl = "http://127.0.0.1:{port}/"\n' for name, port in ports.items()
    )
    config = folder / "federation.toml"
    config.write_text(endpoints)
    port = servers.free_port()
    listen = f"127.0.0.1:{port}"
    command = ["taskset", "1", HITHER, "federate", "--json", "--config", config, "--listen", listen]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    try:
        json.loads(process.stdout.readline())
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def median(runs: list[Load]) -> Load:
    of = {name: statistics.median(getattr(run, name) for run in runs) for name in Load.__dataclass_fields__}
    return Load(**of)


def row(name: str, runs: list[Load]) -> str:
    m = median(runs)
    return f"| {name} | {m.rate:,.0f} | {m.p50_ms:.2f} | {m.p99_ms:.2f} | {m.max_ms:.1f} | {int(m.bad)} |\n"


HEAD = "| | requests/s | median ms | 99 % ms | maximum ms | failed |\n|---|---|---|---|---|---|\n"


def main() -> None:
    parser = Arguments(__doc__, "federate", quick="two seconds once")
    options = parser.parse(needs_root=False)
    seconds = 2 if options.quick else SECONDS
    where = Loopback()
    known: dict[str, list[Load]] = {"nginx, `return 302`": [], "redirects": [], "PROPFIND of a file": []}
    new: dict[str, list[Load]] = {"all well": [], "one dead, one slow, one lying": []}
    with temporary_folder() as folder, ExitStack() as stack:
        root = folder / "www"
        root.mkdir()
        for number in range(NEW):
            (root / str(number)).write_bytes(b"1000")
        os.sched_setaffinity(0, {1})
        good = stack.enter_context(servers.nginx(where, root))
        other = stack.enter_context(servers.nginx(where, root))
        liar = stack.enter_context(servers.nginx(where, root, locations=LIE))
        slow = stack.enter_context(slow_server())
        dead = servers.free_port()
        # Inherited by what starts now.
        os.sched_setaffinity(0, {0})
        redirecting = stack.enter_context(servers.nginx(where, root, locations=REDIRECT))
        os.sched_setaffinity(0, {1})
        for _ in range(options.runs):
            runs = known["nginx, `return 302`"]
            runs.append(load(folder, redirecting, "GET", KNOWN, CONNECTIONS, seconds))
            with federation(folder, {"good": good, "other": other}) as port:
                load(folder, port, "GET", KNOWN, FEW, 2)
                known["redirects"].append(load(folder, port, "GET", KNOWN, CONNECTIONS, seconds))
                runs = known["PROPFIND of a file"]
                runs.append(load(folder, port, "PROPFIND", KNOWN, CONNECTIONS, seconds))
            with federation(folder, {"good": good, "other": other}) as port:
                new["all well"].append(load(folder, port, "GET", NEW, FEW, seconds))
            ports = {"good": good, "dead": dead, "slow": slow, "liar": liar}
            with federation(folder, ports) as port:
                new["one dead, one slow, one lying"].append(load(folder, port, "GET", NEW, FEW, seconds))
    ratio = median(known["redirects"]).rate / median(known["nginx, `return 302`"]).rate
    p99 = median(new["one dead, one slow, one lying"]).p99_ms
    text = (
        f"# `hither federate` on one core\n\nRuns: {options.runs}, of which medians.\n\n"
        f"{KNOWN:,} names that the federation knows, over {CONNECTIONS} connections:\n\n{HEAD}"
        + "".join(row(name, runs) for name, runs in known.items())
        + f"\nNames that it hears for the first time, over {FEW} connections; the endpoints are nginx on the core of the "
        f"load:\n\n{HEAD}"
        + "".join(row(name, runs) for name, runs in new.items())
        + f"\nRedirects are {ratio:.2f} of nginx's (target {TARGET_RATIO}); with bad endpoints 99 % of new names take "
        f"{p99:.2f} ms (target {TARGET_P99_MS:.0f}).\n"
    )
    tables.save(options.output, [text])


if __name__ == "__main__":
    main()
