"""Processes of ROOT that use the plug-in, `hither root-setup`, and a ROOT made of scripts.

ROOT runs in separate processes: it reads `.rootrc` at its start, and a crash of a library may end the Python process.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.harness.paths import HITHER

# Compilers take minutes on a busy machine.
PATIENCE = 600
PRELUDE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import ROOT
ROOT.gROOT.SetBatch(True)
arguments = json.loads(sys.argv[1])
def answer(**values):
    print(json.dumps(values))
"""


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
        self.environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
        (home / ".config/hither").mkdir(parents=True)
        (home / ".config/hither/config.toml").write_text('store = ""\n')

    def run(self, code: str, environment: dict[str, str] | None = None, **arguments) -> RootProgram:
        """Runs Python with ROOT; the dictionary `arguments` has the arguments, `answer(...)` prints."""
        return self.command(sys.executable, "-c", PRELUDE + code, json.dumps(arguments), environment=environment)

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
