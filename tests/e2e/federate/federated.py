"""A running `hither federate` over nginx, Apache, XRootD and `hither serve`."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from served import PATIENCE

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER

NAMES = ("nginx", "apache", "xrootd", "hither")


def content(name: str) -> bytes:
    """The content of a file, which depends only on its name."""
    return (name.encode() * 20_000)[:100_000]


@dataclass
class Federated:
    """A federation, with the folders and ports of its endpoints by name."""

    base: str
    metrics: str
    folders: dict[str, Path]
    ports: dict[str, int]
    config: Path
    log: Path
    process: subprocess.Popen

    def url(self, name: str = "") -> str:
        return f"{self.base}{name}"

    def put(self, name: str, *endpoints: str) -> bytes:
        """Writes a file at endpoints, with an old time, so that servers give it a strong entity tag."""
        for endpoint in endpoints:
            path = self.folders[endpoint] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.parent.chmod(0o777)
            path.write_bytes(content(name))
            os.utime(path, (1_700_000_000, 1_700_000_000))
        return content(name)

    def reload(self, text: str) -> None:
        self.config.write_text(text)
        self.process.send_signal(signal.SIGHUP)

    def logged(self) -> list[dict]:
        """Stops the federation and returns its log."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def endpoints(ports: dict[str, int], **keys: str) -> str:
    """The tables of endpoints, each with additional keys."""
    return "".join(
        f'\n[[endpoints]]\nname = "{name}"\nurl = "http://127.0.0.1:{port}/"\n{keys.get(name, "")}\n'
        for name, port in ports.items()
    )


@contextmanager
def federating(folder: Path, settings: str = "", chosen: tuple[str, ...] = NAMES, **keys: str):
    """Runs endpoints, and a federation of them with these settings and additional keys for each endpoint."""
    where = Loopback()
    folders = {name: folder / name for name in chosen}
    for path in folders.values():
        path.mkdir()
        path.chmod(0o777)
    start = {
        "nginx": lambda root: servers.nginx(where, root, webdav=True),
        "apache": lambda root: servers.apache(where, root, webdav=True),
        "xrootd": lambda root: servers.xrootd(where, root),
        "hither": lambda root: servers.hither(where, root, more=("--write",)),
    }
    with ExitStack() as stack:
        ports = {name: stack.enter_context(start[name](folders[name])) for name in chosen}
        with running(folder, settings + endpoints(ports, **keys), folders, ports) as federated:
            yield federated


def patient(text: str) -> str:
    """The configuration with deadlines that endpoints keep on a busy machine, too; no majority decides before."""
    table = "[federation]\n"
    names = ("deadline_seconds", "listing_deadline_seconds", "agreement_seconds")
    deadlines = table + "".join(f"{name} = {PATIENCE}\n" for name in names)
    return text.replace(table, deadlines) if table in text else f"{text}\n{deadlines}"


@contextmanager
def running(folder: Path, text: str, folders: dict[str, Path], ports: dict[str, int], *, is_patient: bool = True):
    """Runs a federation with a configuration."""
    config, log = folder / "federation.toml", folder / "federation.json"
    config.write_text(patient(text) if is_patient else text)
    command = [HITHER, "federate", "--json", "--config", config, "--listen", "127.0.0.1:0"]
    command += ["--metrics", "127.0.0.1:0", "--access-log", log]
    # Of this test, beside the endpoints: another test may have others at the same ports.
    home = next(iter(folders.values())).parent if folders else folder
    environment = {**os.environ, "XDG_STATE_HOME": str(home / "state")}
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        told = json.loads(process.stdout.readline())
        yield Federated(told["urls"][0], told["metrics"], folders, ports, config, log, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


class Unfollowed(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def ask(url: str, method: str = "GET", headers: dict | None = None, body: bytes | None = None):
    """Sends a request without following redirects; returns status, fields and body."""
    request = urllib.request.Request(url, body, headers or {}, method=method)
    try:
        with urllib.request.build_opener(Unfollowed).open(request, timeout=PATIENCE) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()
