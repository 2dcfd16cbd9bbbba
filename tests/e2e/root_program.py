"""Processes of ROOT that use the plug-in, `hither root-setup`, and a ROOT made of scripts.

ROOT runs in separate processes: it reads `.rootrc` at its start, and a crash of a library may end the Python process.
Those that run Python are forks of one process that has imported ROOT, which takes longer than most of what they run, and
has loaded nothing else.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harness.paths import HITHER
from bench.harness.waiting import readable

# Compilers take minutes on a busy machine.
PATIENCE = 600
IMPORTED = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
import ROOT
ROOT.gROOT.SetBatch(True)
def answer(**values):
    print(json.dumps(values))
while line := sys.stdin.readline():
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    code, arguments, environment, *outputs = json.loads(line)
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(outputs, 1):
        os.dup2(os.open(path, os.O_WRONLY), number)
    exec(code)
    break
"""
"""The program of the process that has imported ROOT. Each line that it reads names what the next fork runs, and where
what that prints goes; each that it writes is an exit code."""


@dataclass
class RootProgram:
    """A process that has ended."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> dict:
        assert self.code == 0, f"{self.code}\n{self.out}\n{self.err}"
        return json.loads(self.out.strip().splitlines()[-1])


class RootPlugin:
    """A home folder with a registered plug-in and without a store, so that every process behaves like the first one."""

    def __init__(self, home: Path, told: dict):
        self.told = told
        self.environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
        self.imported: subprocess.Popen | None = None
        self.running = ExitStack()

    def run(self, code: str, environment: dict[str, str] | None = None, **arguments) -> RootProgram:
        """Runs Python with ROOT; the dictionary `arguments` has the arguments, `answer(...)` prints."""
        try:
            return self._run(code, environment, arguments)
        except BaseException:
            # Its next exit code would be that of this run.
            self.running.close()
            self.imported = None
            raise

    def _run(self, code: str, environment: dict[str, str] | None, arguments: dict) -> RootProgram:
        if self.imported is None:
            self.imported = self.running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", IMPORTED],
                    env=self.environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            )
            self.running.callback(os.killpg, self.imported.pid, signal.SIGKILL)
        with TemporaryDirectory() as folder:
            out, err = (Path(folder) / name for name in ("out", "err"))
            for path in (out, err):
                path.touch()
            job = [code, arguments, {**self.environment, **(environment or {})}, str(out), str(err)]
            self.imported.stdin.write(json.dumps(job) + "\n")
            self.imported.stdin.flush()
            assert readable(self.imported.stdout, PATIENCE), f"{code} did not end within {PATIENCE} s"
            return RootProgram(int(self.imported.stdout.readline()), out.read_text(), err.read_text())

    def command(self, *command: str, environment: dict[str, str] | None = None) -> RootProgram:
        done = subprocess.run(
            command,
            env={**self.environment, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return RootProgram(done.returncode, done.stdout, done.stderr)


def setup(home: Path, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess:
    """Runs `hither root-setup` for a user with this home."""
    command = [HITHER, "root-setup", *arguments]
    variables = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home / "data"), **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False)


@dataclass
class FakeRoot:
    """Scripts that replace ROOT and a compiler, for tests of the written files."""

    script: Path
    library: Path
    environment: dict[str, str]

    @property
    def arguments(self) -> list[str]:
        return ["--root-config", str(self.script), "--libhither", str(self.library)]


def fake_root(folder: Path, headers: bool = True) -> FakeRoot:
    for name in ("bin", "include", "lib"):
        (folder / "root" / name).mkdir(parents=True)
    root = folder / "root"
    (root / "lib/libCore.so").write_text("")
    if headers:
        (root / "include/TFile.h").write_text("")
    library = folder / "libhither.a"
    library.write_text("")
    scripts = {
        # As in the Python package: folders that do not exist.
        "root-config": 'case $1 in --version) echo 6.99.00 ;; --cflags) echo "-std=c++17 -I/nowhere" ;; *) echo /nowhere ;; esac',
        "rootcling": "exec touch HitherDictionary.cxx",
        "compiler": 'while [ "$1" != -o ]; do shift; done; exec touch "$2"',
    }
    for name, text in scripts.items():
        path = root / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return FakeRoot(root / "bin/root-config", library, {"CXX": str(root / "bin/compiler")})
