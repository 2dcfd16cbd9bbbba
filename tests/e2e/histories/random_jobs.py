"""Random jobs of the command between real servers, with cut connections and kills.

A job is determined by its number: the trees at both ends, the verb with its options, and the faults.
"""

import os
import random
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cutting import Relay
from federate.federated import running

from bench.harness import servers
from bench.harness.links import Loopback

Files = dict[str, bytes]

NAMES = ["a", "b.dat", "B.dat", "x y", "50%", "c:d", "ü é", "a&b=c;d", "#1", "z" * 60]
FOLDERS = ["", "s/", "s/t/", "s t/", "s;t/"]
SIZES = [0, 1, 700, 5_000, 70_000, 300_000, 1_300_000, 9_000_000]
WEIGHTS = [1, 2, 6, 6, 4, 3, 2, 1]
NOW = 1_700_000_000
SOURCE_AGE, OLD_AGE, COPY_AGE = 10_000, 20_000, 5_000
TRANSFERS = ("cp", "cp -r", "sync", "sync --delete", "put")
VERBS = (*TRANSFERS, "cp -r", "sync", "sync --delete", "check", "cat", "rm", "rm -r", "mv")
KINDS = ("nginx", "apache", "xrdhttp", "root", "hither", "s3", "federation")


@dataclass
class Fault:
    """The faults of an end: connections by number, with the bytes after which each is cut."""

    answers: dict[int, int] = field(default_factory=dict)
    requests: dict[int, int] = field(default_factory=dict)


@dataclass
class Job:
    """A command, the files at both ends, and the faults."""

    number: int
    verb: str
    options: list[str]
    source: str
    """The kind of the source, `local` or one of `KINDS`."""
    target: str
    before: Files
    """The files of the source."""
    target_before: Files
    faults: tuple[Fault, Fault]
    kill: tuple[str, int] | None
    """The killed process, the command or the server of the target, and the bytes that pass before."""

    def __str__(self) -> str:
        def sizes(files: Files) -> dict[str, int]:
            return {name: len(data) for name, data in files.items()}

        return (
            f"job {self.number}: {self.verb} {' '.join(self.options)}, from {self.source} {sizes(self.before)} "
            f"to {self.target} {sizes(self.target_before)}, {self.faults}, kill {self.kill}"
        )


def drawn(number: int) -> Job:
    """The job with this number."""
    rng = random.Random(number)
    verb = rng.choice(VERBS)
    kinds = ["local", *rng.choices(KINDS, k=2)]
    source = "local" if verb == "put" else rng.choice(kinds)
    target = rng.choice(kinds[1:] if source == "local" else kinds)
    if verb in ("rm", "rm -r", "mv"):
        source = "local"
    names = {rng.choice(FOLDERS) + rng.choice(NAMES) for _ in range(rng.randint(1, 7))}
    before = {name: rng.randbytes(rng.choices(SIZES, WEIGHTS)[0]) for name in sorted(names)}
    target_before = {name: counterpart(rng, data) for name, data in before.items() if rng.random() < 0.5}
    target_before |= {f"only{n}": rng.randbytes(30) for n in range(rng.randint(0, 2))}
    if verb in ("rm", "rm -r", "mv"):
        target_before = before | target_before
    options = []
    if verb in ("cp", "cp -r", "put"):
        options += rng.choice([[], [], [], ["-n"], ["-u"]] if verb != "put" else [[], ["-n"]])
    if verb in ("cp", "cp -r") and rng.random() < 0.3:
        options += ["--checksum", rng.choice(["adler32", "md5", "sha256"])]
    if verb in ("cp", "cp -r") and "local" not in (source, target) and rng.random() < 0.3:
        options += ["--third-party", rng.choice(["auto", "pull", "push"])]
    if verb in ("sync", "sync --delete") and rng.random() < 0.3:
        options += ["--checksum"]
    if rng.random() < 0.5:
        options += ["--no-store"]
    kill = None
    if rng.random() < 0.25:
        largest = sum(map(len, before.values()))
        kill = (rng.choice(["command", "command", "server"]), rng.randrange(largest + 3_000))
    return Job(number, verb, options, source, target, before, target_before, (fault(rng), fault(rng)), kill)


def counterpart(rng: random.Random, data: bytes) -> bytes:
    """The file with the same name at the target: the same bytes, or older ones of another size."""
    return data if rng.random() < 0.4 else rng.randbytes(len(data) + rng.choice([1, 13, 4_000]))


def fault(rng: random.Random) -> Fault:
    if rng.random() < 0.5:
        return Fault()
    bytes_of = lambda: rng.choice([0, 30, 400, 3_000, 100_000, 1_000_000])  # noqa: E731
    cuts = lambda: {rng.randrange(6): bytes_of() for _ in range(rng.randint(0, 3))}  # noqa: E731
    return Fault(cuts(), cuts())


@dataclass
class End:
    """An end of a job: a folder for each server with its files, and its URL without a trailing slash."""

    kind: str
    folders: list[Path]
    url: str
    relays: list[Relay]
    ports: list[int]
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables with which the command finds the server."""

    def write(self, files: Files, age: Callable[[str], int], places: Callable[[str], list[int]]) -> None:
        for name, data in files.items():
            for place in places(name):
                path = self.folders[place] / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                os.utime(path, (NOW - age(name), NOW - age(name)))
        for folder in filter(Path.exists, self.folders):
            for path in (folder, *folder.rglob("*")):
                path.chmod(0o777 if path.is_dir() else 0o666)

    def make_directories(self, files: Files) -> None:
        """Creates the directories of files, because a command that copies one file does not create any."""
        for folder in self.folders if self.kind != "s3" else []:
            for name in files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)

    def files(self) -> Files:
        """Returns the existing files. Fails if two servers have different files with one name."""
        found: Files = {}
        for folder in self.folders:
            # The server may still carry out the last request of a job that was killed: files and folders vanish.
            for path in (Path(at, name) for at, _, names in os.walk(folder) for name in names):
                with suppress(FileNotFoundError):
                    name, data = str(path.relative_to(folder)), path.read_bytes()
                    assert found.setdefault(name, data) == data, f"two endpoints hold different files: {name}"
        return found

    def heal(self) -> None:
        for relay in self.relays:
            relay.after = relay.takes = lambda _: None


class Site:
    """Servers that all jobs share, each over its own folder."""

    def __init__(self, folder: Path, stack: ExitStack):
        where = Loopback()
        self.roots, self.ports = {}, {}
        start = {
            "nginx": lambda root: servers.nginx(where, root, webdav=True),
            "apache": lambda root: servers.apache(where, root, webdav=True),
            "xrdhttp": lambda root: servers.xrootd(where, root),
            "hither": lambda root: servers.hither(where, root, more=("--write",)),
            "s3": lambda root: servers.s3s(where, root),
        }
        folder.chmod(0o755)
        for kind, run in start.items():
            root = folder / kind
            root.mkdir()
            root.chmod(0o777)
            self.ports[kind] = stack.enter_context(run(root))
            self.roots[kind] = root / "bucket" if kind == "s3" else root
        self.ports["root"], self.roots["root"] = self.ports["xrdhttp"], self.roots["xrdhttp"]
        self.folder = folder

    def end(self, job: Job, side: str, stack: ExitStack) -> End:
        """An empty end of a job, behind relays with its faults."""
        kind, fault = (job.source, job.faults[0]) if side == "from" else (job.target, job.faults[1])
        name = f"{side}{job.number}"

        def folder(root: Path) -> Path:
            # A store has no directories: s3s-fs cannot list an empty one.
            if kind != "s3":
                (root / name).mkdir(mode=0o777)
                (root / name).chmod(0o777)
            return root / name

        if kind == "local":
            return End(kind, [folder(self.folder)], str(self.folder / name), [], [])
        kinds = ["hither", "xrdhttp"] if kind == "federation" else [kind]
        ports = [self.ports[kind] for kind in kinds]
        relays = [stack.enter_context(Relay(port, fault.answers.get, takes=fault.requests.get)) for port in ports]
        folders = [folder(self.roots[kind]) for kind in kinds]
        here = f"127.0.0.1:{relays[0].port}"
        if kind == "federation":
            text = 'write = true\n[federation]\ndeletes = "all"\n' + "".join(
                f'[[endpoints]]\nname = "{kind}"\nurl = "http://127.0.0.1:{relay.port}/{name}"\nwrite = true\n'
                for kind, relay in zip(kinds, relays, strict=True)
            )
            work = self.folder / f"federation-{name}"
            work.mkdir()
            url = stack.enter_context(running(work, text, {}, {})).base.rstrip("/")
        elif kind == "s3":
            url = f"s3://bucket/{name}"
        else:
            url = f"root://{here}//{name}" if kind == "root" else f"http://{here}/{name}"
        variables = servers.s3_environment(relays[0].port) if kind == "s3" else {}
        return End(kind, folders, url, relays, ports, variables)
