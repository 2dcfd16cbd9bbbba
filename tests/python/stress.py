"""Stress test: forks, threads, event loops, signals and exits while reads are under way.

``python tests/python/stress.py`` runs a thousand rounds; ``test_stress.py`` runs a few. A round
that fails raises. A round that hangs ends the process with the stacks of all threads.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from counting_site import Site

import hither

if TYPE_CHECKING:
    from collections.abc import Callable

CONTENT = b"".join(at.to_bytes(4, "little") for at in range(1 << 18))
PATIENCE = 60


class Rig:
    """A server with one file, and one that never responds."""

    def __init__(self):
        self.site = Site()
        self.url = self.site.put("f", CONTENT)
        self.stuck = Site()
        self.stuck_url = self.stuck.put("f", CONTENT)
        self.stuck.held.clear()

    def close(self):
        self.stuck.close()
        self.site.close()


def client():
    return hither.Client(store=False, anonymous=True)


def check(file, at, length=100):
    found = file.read_at(at, length)
    assert found == CONTENT[at : at + length], (at, length, len(found))


def some_place():
    return random.randrange(len(CONTENT) - 5000)


@contextlib.contextmanager
def readers(read: Callable[[], None], count: int):
    """Runs threads that read until the end of the block."""
    stop, failures = threading.Event(), []

    def keep_on():
        try:
            while not stop.is_set():
                read()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=keep_on) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
    assert not failures, failures


def fork(rig: Rig):
    """A child that is forked while threads read uses the open files of its parent."""
    with client() as own:
        file = own.open(rig.url)
        with readers(lambda: check(file, some_place(), 3000), 3):
            check(file, 0)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    # Ends the child if it hangs; faulthandler's watchdog is a thread, which is not
                    # forked.
                    signal.signal(signal.SIGALRM, signal.SIG_DFL)
                    signal.alarm(PATIENCE)
                    check(file, some_place())
                    check(hither.open(rig.url, client=own), some_place())
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
            check(file, some_place())


def _spawned(file, url):
    check(file, some_place())
    check(hither.open(url, client=file.client), some_place())


def spawn(rig: Rig):
    """A spawned process receives a file, and opens it again."""
    with client() as own:
        file = own.open(rig.url)
        check(file, 0)
        child = multiprocessing.get_context("spawn").Process(target=_spawned, args=(file, rig.url))
        child.start()
        check(file, some_place())
        child.join(PATIENCE)
        assert child.exitcode == 0


def threads(rig: Rig):
    """Threads open, read and close; meanwhile the client is closed."""
    own = client()
    shared = own.open(rig.url)

    def use():
        with contextlib.suppress(ValueError):  # closed
            check(shared, some_place())
            with own.open(rig.url) as file:
                ranges = [(at, at + 10) for at in (some_place(), some_place())]
                views = file.read_ranges(ranges)
                assert [bytes(view) for view in views] == [CONTENT[start:stop] for start, stop in ranges]
                file.hint([(0, 100_000)])

    with readers(use, 6):
        check(shared, some_place())
        own.close()
    assert client().open(rig.url).read(4) == CONTENT[:4]


def event_loop(rig: Rig):
    """Tasks read, some are cancelled, and the loop ends with reads in progress."""
    with client() as own:

        async def use():
            file, stuck = own.open(rig.url), own.open(rig.stuck_url)
            places = [some_place() for _ in range(20)]
            reads = [asyncio.ensure_future(file.read_at_async(at, 50)) for at in places]
            left = [asyncio.ensure_future(stuck.read_at_async(at, 50)) for at in places]
            for task in left[::2]:
                task.cancel()
            found = await asyncio.gather(*reads)
            assert found == [CONTENT[at : at + 50] for at in places]
            await asyncio.gather(*left[::2], return_exceptions=True)
            return [task.done() for task in left[1::2]]

        assert not any(asyncio.run(use()))
        check(own.open(rig.url), 0)


_ENDS = """
import asyncio, sys, threading, hither
url, stuck_url, how = sys.argv[1:]
client = hither.Client(store=False, anonymous=True)
files = [client.open(url) for _ in range(10)]
stuck = client.open(stuck_url)
assert files[0].read(4) == bytes(4)
if how == "thread":
    threading.Thread(target=lambda: stuck.read_at(0, 10), daemon=True).start()
if how == "loop":
    async def leave():
        asyncio.ensure_future(stuck.read_at_async(0, 10))
        await files[1].read_at_async(500_000, 10)
    asyncio.run(leave())
if how == "hint":
    stuck.hint([(0, 900_000)])
    files[1].hint([(0, 900_000)])
if how == "raise":
    threading.Thread(target=lambda: stuck.read_at(0, 10), daemon=True).start()
    sys.exit(7)
print("end")
"""


def end(rig: Rig):
    """A process ends without output, with open files and reads in progress."""
    how = random.choice(["plain", "thread", "loop", "hint", "raise"])
    words = [sys.executable, "-W", "error", "-c", _ENDS, rig.url, rig.stuck_url, how]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    expected = (7, "") if how == "raise" else (0, "end\n")
    assert (ended.returncode, ended.stdout) == expected, (how, ended)
    assert ended.stderr == "", (how, ended)


def interrupt(rig: Rig):
    """Ctrl-C ends a wait, and the file can still be used."""
    with client() as own:
        stuck, file = own.open(rig.stuck_url), own.open(rig.url)
        rig.stuck.asked.clear()

        def press():
            assert rig.stuck.asked.wait(PATIENCE)
            os.kill(os.getpid(), signal.SIGINT)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        presser = threading.Thread(target=press)
        presser.start()
        try:
            stuck.read_at(0, 10)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("a server that never answers has answered")
        finally:
            signal.signal(signal.SIGINT, before)
            presser.join(PATIENCE)
        check(file, some_place())


KINDS = {"fork": fork, "spawn": spawn, "threads": threads, "loop": event_loop, "end": end, "interrupt": interrupt}
SHARES = {"fork": 250, "spawn": 50, "threads": 250, "loop": 250, "end": 100, "interrupt": 100}
"""Rounds of each kind per thousand; a new process costs a hundred times as much as a fork."""


def run(kind: str, rounds: int) -> None:
    rig = Rig()
    try:
        for _ in range(rounds):
            faulthandler.dump_traceback_later(2 * PATIENCE, exit=True)
            KINDS[kind](rig)
    finally:
        faulthandler.cancel_dump_traceback_later()
        rig.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    random.seed(options.seed)
    for kind, share in SHARES.items():
        if options.only in (None, kind):
            rounds = options.rounds if options.only else max(1, options.rounds * share // 1000)
            run(kind, rounds)
            print(f"{kind:10} {rounds:5} rounds", flush=True)


if __name__ == "__main__":
    main()
