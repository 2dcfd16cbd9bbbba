"""The examples of README.md and of the guides run unchanged, with real servers on this machine.

The fenced blocks of a document run in order, in one folder: `sh` in bash, `python` in the namespace of one interpreter.
A block of `toml` begins with the name of a configuration file, `# serve.toml`: it is appended to that file, and a
server (a federation for `# federation.toml`, or the command for `# ~/.config/hither/config.toml`) has to accept the
file. `text` after a block of `sh` is its expected output; `...` matches any text. A block that cannot run has its
reason before it: `<!-- not run: needs systemd -->`.
"""

import ast
import asyncio
import doctest
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.generators import talkfile
from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER, ROOT, temporary_folder
from hither import _client
from hither.fsspec import HitherFileSystem

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs/guides").glob("*.md"))]
LANGUAGES = {"sh", "python", "toml", "text", "json", "yaml", "c", "cpp"}
FENCE = re.compile(r"(?:^<!-- not run: (?P<reason>.+) -->\n)?^```(?P<language>.*)\n(?P<code>(?:.*\n)*?)```$", re.MULTILINE)
XROOTD = "127.0.0.1:1094"
S3 = "127.0.0.1:9000"


@dataclass
class Block:
    document: Path
    line: int
    language: str
    code: str
    reason: str | None

    def __str__(self):
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks(document: Path) -> list[Block]:
    text = document.read_text()
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        found.append(Block(document, line, match["language"], match["code"], match["reason"]))
    return found


class Scratch:
    """The folder in which a document's blocks run, and the servers that the blocks name."""

    def __init__(self, folder: Path, stack: ExitStack):
        self.folder, self.stack = folder, stack
        self.names = types.ModuleType("__main__").__dict__
        self.served = None
        # Servers that run as other users write to it.
        data = folder / "target/data"
        for path in (data, folder / "home", folder / "etc", folder / "bin"):
            path.mkdir(parents=True)
            path.chmod(0o777)
        talkfile.ensure(talkfile.DEFAULT_OUTPUT)
        try:
            os.link(talkfile.DEFAULT_OUTPUT, data / "talk.root")
        except OSError:
            (data / "talk.root").write_bytes(talkfile.DEFAULT_OUTPUT.read_bytes())
        shutil.copytree(ROOT / "docs/examples", folder / "docs/examples")
        (folder / "bin/hither").symlink_to(HITHER)
        (folder / "target/release").mkdir()
        (folder / "target/release/hither").symlink_to(HITHER)
        tls = servers.certificate(folder / "etc")
        tls.certificate.rename(folder / "etc/host.pem")
        tls.key.rename(folder / "etc/host.key")
        (folder / "etc/certificates").mkdir()
        tls.authority.rename(folder / "etc/certificates/authority.pem")
        # Replaced: ports and addresses that other programs may use, and folders that belong to the administrator.
        self.instead = {f"127.0.0.1:{port}": f"127.0.0.1:{servers.free_port()}" for port in (8080, 8443, 9464)}
        self.instead["localhost:8080"] = self.instead["127.0.0.1:8080"].replace("127.0.0.1", "localhost")
        self.instead |= {"/etc/hither/": f"{folder}/etc/", "/var/log/hither/": f"{folder}/", '"/data"': f'"{data}"'}

    def here(self, code: str) -> str:
        """The code with the ports and folders of this run."""
        if XROOTD in code and XROOTD not in self.instead:
            port = self.stack.enter_context(servers.xrootd(Loopback(), self.folder / "target/data"))
            self.instead[XROOTD] = f"127.0.0.1:{port}"
        if S3 in code and S3 not in self.instead:
            (self.folder / "store").mkdir()
            port = self.stack.enter_context(servers.s3s(Loopback(), self.folder / "store"))
            self.instead[S3] = f"127.0.0.1:{port}"
        for written, used in self.instead.items():
            code = code.replace(written, used)
        return code

    def run(self, block: Block, expected: str | None) -> None:
        code = self.here(block.code)
        if block.language == "sh":
            self.run_shell(code, self.here(expected) if expected else None)
        elif block.language == "python":
            self.run_python(code, str(block))
        else:
            self.run_toml(code)

    def run_shell(self, code: str, expected: str | None) -> None:
        """Runs the lines in bash; a server that a line starts runs until the next one is started."""
        part, printed = [], ""
        for line in [*code.splitlines(), "hither serve"]:
            words = shlex.split(line, comments=True) if "hither serve " in f"{line} " else []
            if len(words) < 2 or words[1] != "serve":
                part.append(line)
                continue
            command = ["bash", "-euo", "pipefail", "-c", "\n".join(part)]
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            printed, part = printed + done.stdout, []
            if len(words) > 2:
                self.serve(words[2:])
        if expected is not None:
            same = doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            assert same, printed

    def serve(self, arguments: list[str]) -> None:
        self.stop()
        if not {"--listen", "--config"} & set(arguments):
            arguments = [*arguments, "--listen", self.instead["127.0.0.1:8080"]]
        command = [HITHER, "serve", "--json", *servers.with_config(arguments)]
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        started = json.loads(process.stdout.readline())
        assert "urls" in started, started
        self.served = process

    def stop(self) -> None:
        if self.served is not None:
            self.served.terminate()
            assert self.served.wait(60) == 0
            self.served = None

    def run_python(self, code: str, name: str) -> None:
        compiled = compile(code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if compiled.co_flags & inspect.CO_COROUTINE:
            asyncio.run(types.FunctionType(compiled, self.names)())
        else:
            exec(compiled, self.names)

    def run_toml(self, code: str) -> None:
        name = code.partition("\n")[0].removeprefix("# ")
        path = self.folder / Path(name).expanduser()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(code)
        if path.name == "serve.toml":
            self.serve(["--config", str(path)])
        elif path.name == "federation.toml":
            check = [HITHER, "federate", "--config", path, "--check-config"]
            subprocess.run(check, check=True, stdout=subprocess.DEVNULL)
        else:
            subprocess.run([HITHER, "ls", self.folder], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def scratch(monkeypatch):
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        for name in ("CACHE", "CONFIG", "RUNTIME"):
            monkeypatch.setenv(f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}", f"{folder}/home/.{name.lower()}")
        monkeypatch.setenv("HOME", f"{folder}/home")
        monkeypatch.setenv("PATH", os.pathsep.join([f"{folder}/bin", str(Path(sys.executable).parent), os.environ["PATH"]]))
        # The default client of another document has other settings.
        _client._default.clear()
        HitherFileSystem.clear_instance_cache()
        scratch = Scratch(folder, stack)
        monkeypatch.chdir(folder)
        stack.callback(scratch.stop)
        yield scratch


def test_the_steps_of_the_service_install_what_its_unit_names():
    unit = (ROOT / "packaging/hither-serve.service").read_text()
    (steps,) = [block.code for block in blocks(ROOT / "docs/guides/serving.md") if "daemon-reload" in block.code]
    command = re.search(r"ExecStart=(\S+) serve --config (\S+)", unit)
    assert command and all(path in steps for path in command.groups())
    assert re.search(r"^User=(\S+)", unit, re.MULTILINE)[1] in steps.split("useradd", 1)[1]
    for source in re.findall(r"packaging/\S+", steps):
        assert (ROOT / source).is_file(), source


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_what_examples_import_is_installed_by_their_document(document):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = document.read_text()
    installed = {"hither", "numpy"}
    for command in re.findall(r"pip install ([^#`\n]*)", text):
        words = set(re.findall(r"[\w-]+", command))
        installed |= words | {re.match(r"[\w-]+", needed)[0] for extra in words for needed in extras.get(extra, [])}
    python = [ast.parse(block.code) for block in blocks(document) if block.language == "python"]
    nodes = [node for tree in python for node in ast.walk(tree)]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    # Arrays are awkward's unless another library is requested.
    if any(isinstance(node, ast.Attribute) and node.attr == "arrays" for node in nodes):
        imported.add("awkward")
    missing = {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) - installed
    assert not missing, f"{document.name} does not say: pip install {' '.join(sorted(missing))}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_examples_run(document, scratch, capsys):
    found = blocks(document)
    assert document.read_text().count("\n```") == 2 * len(found), "a fence is not closed, or stands inside another"
    assert {block.language for block in found} <= LANGUAGES
    code = [block for block in found if block.language in {"sh", "python", "toml"}]
    ran = 0
    for block in code:
        following = found[found.index(block) + 1 :][:1]
        expected = following[0].code if block.language == "sh" and following and following[0].language == "text" else None
        if block.reason is None:
            try:
                scratch.run(block, expected)
            except Exception as error:
                error.add_note(f"in {block}")
                raise
            ran += 1
    with capsys.disabled():
        print(f"\n{document.relative_to(ROOT)}: {ran} blocks ran, {len(code) - ran} did not")
        for block in code:
            if block.reason is not None:
                print(f"  {block}: {block.reason}")
