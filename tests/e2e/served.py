"""A running `hither serve`, and common programs that use it."""

import json
import os
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from needs import require

from bench.harness.paths import HITHER
from bench.harness.servers import with_config

PATIENCE = 240
CONTENT = bytes(range(256)) * 4096
"""The default content of files: 1 MiB."""


@dataclass
class Served:
    """A server over a folder."""

    base: str
    folder: Path
    log: Path
    process: subprocess.Popen
    told: dict
    """The JSON object that the server printed."""

    def url(self, name: str) -> str:
        return f"{self.base}{name}"

    def file(self, name: str, content: bytes = CONTENT) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return self.url(name)

    def logged(self) -> list[dict]:
        """Returns the log, which is complete when the server has stopped, in the order of requests."""
        return in_order(self.log)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


def in_order(log: Path) -> list[dict]:
    """The lines of a log in the order of requests: each is written some time after its response."""
    return sorted(map(json.loads, log.read_text().splitlines()), key=lambda line: line["time"])


@contextmanager
def serving(folder: Path, *flags: str):
    www, log = folder / "www", folder / "access.json"
    www.mkdir(exist_ok=True)
    command = [HITHER, "serve", "--json", "--listen", "127.0.0.1:0", "--access-log", log, *with_config(flags), www]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    try:
        told = json.loads(process.stdout.readline())
        yield Served(told["urls"][0], www, log, process, told)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def run(*command, code: int = 0, **options) -> str:
    """Runs a program that must end with this exit code; skips the test if it is not installed."""
    require(str(command[0]))
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=PATIENCE, check=False, **options
    )
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


DEBIANS_PYTHON = {"env": {**os.environ, "GFAL_PYTHONBIN": "/usr/bin/python3"}}
"""For gfal's commands: Debian's modules work only with Debian's Python."""
