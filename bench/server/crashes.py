"""Kills `hither serve` at random moments of a mixed load, and checks its folder after each restart.

Several clients put, copy, move and remove files and folders, write files in pieces, and make,
extend and release lots, each in a folder of its own. Each knows what its folder holds, and which
request had no response when the server was killed: that one may have been carried out or not, but
not in part. After each restart the folders must hold what the clients know, lots must match the
files and the reserved blocks, checksums must match the bytes, and no temporary file may remain.
"""

import argparse
import base64
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness.servers import hither_process
from bench.harness.waiting import wait_until

LOTS = "/.well-known/hither/lots"
MIB = 1 << 20
BLOCK = 4096
PRIVATE = re.compile(r"^\.hither-put-[0-9a-f]{16}$")
PART = re.compile(r"^\.hither-[0-9a-f]+\.part$")
FEWEST = 10
"""Requests that are answered before a kill."""
# Statuses of correct responses; others are faults of the server.
FINE = {200, 201, 204, 404, 409, 412, 507}


class Fault(RuntimeError):
    """A promise of the server that is broken."""


def content(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def footprint(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


@dataclass
class Server:
    """`hither serve` over a folder; it can be killed and started again."""

    root: Path
    config: Path
    process: subprocess.Popen | None = None
    address: str = ""

    def start(self) -> None:
        self.process, self.address = hither_process("--config", self.config)

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(60)
        self.process.stdout.close()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address, timeout=60)

    def ask(self, method: str, target: str, body=None, **headers) -> tuple[int, bytes]:
        connection = self.connect()
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


# The contents of a folder: seed and size of each file by its path; None for a folder.
State = dict[str, tuple[int, int] | None]


def below(state: State, path: str) -> State:
    return {name: what for name, what in state.items() if name == path or name.startswith(path + "/")}


def without(state: State, path: str) -> State:
    gone = below(state, path)
    return {name: what for name, what in state.items() if name not in gone}


def renamed(state: State, path: str, to: str) -> State:
    return {to + name[len(path) :]: what for name, what in below(state, path).items()}


@dataclass
class Client:
    """One client, with its folder."""

    number: int
    server: Server
    random: random.Random
    # Possible contents of the folder: one state, or several if a request had no response.
    states: list[State] = field(default_factory=lambda: [{}])
    lots: dict[str, int] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    may_have_made: bool = False
    requests: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def folder(self) -> str:
        return f"/w{self.number}"

    def target(self, path: str) -> str:
        return f"{self.folder}/{path}"

    def work(self) -> None:
        """Sends requests until the server is killed."""
        connection = self.server.connect()
        with suppress(OSError, http.client.HTTPException):
            while True:
                self.one(connection)
                self.requests += 1
        connection.close()

    def send(self, connection, method: str, target: str, body=None, **headers) -> int:
        connection.request(method, target, body, headers, encode_chunked=headers.get("Transfer-Encoding") is not None)
        answer = connection.getresponse()
        self.told = answer.read()
        if answer.status not in FINE:
            self.wrong.append(f"{method} {target}: {answer.status} {self.told[:200]!r}")
        return answer.status

    def change(self, connection, after: State, method: str, path: str, body=None, others=(), **headers) -> None:
        """A request that changes the state to `after`, or leaves it."""
        (before,) = self.states
        self.states = [before, after, *others]
        status = self.send(connection, method, self.target(path), body, **headers)
        self.states = [after if status < 300 else before]

    def one(self, connection) -> None:
        (state,) = self.states
        files = [name for name, what in state.items() if what is not None]
        folders = [name for name, what in state.items() if what is None]
        places = [f"f{n}" for n in range(6)] + [f"{folder}/f{n}" for folder in folders for n in range(3)]
        name = self.random.choice(places)
        kind = self.random.choices(
            ["put", "pieces", "copy", "move", "delete", "folder", "lot"], [10, 2, 4, 4, 4, 4, 2]
        )[0]
        if kind == "put":
            self.put(connection, state, name)
        elif kind == "pieces":
            self.pieces(connection, state, name)
        elif kind in ("copy", "move") and files:
            source = self.random.choice(files)
            if source != name:
                after = {**(state if kind == "copy" else without(state, source)), name: state[source]}
                self.change(connection, after, kind.upper(), source, Destination=self.target(name))
        elif kind == "delete" and state:
            name = self.random.choice(list(state))
            self.change(connection, without(state, name), "DELETE", name)
        elif kind == "folder":
            self.change_folder(connection, state, folders)
        elif kind == "lot":
            self.change_lot(connection)

    def put(self, connection, state: State, name: str) -> None:
        seed, size = self.random.randrange(1 << 30), int(self.random.paretovariate(0.6) * 1000) % (2 * MIB)
        body = content(seed, size)
        headers = {}
        if self.random.random() < 0.3:
            headers["Digest"] = f"adler32={zlib.adler32(body):08x}"
        if self.random.random() < 0.3:
            headers["Transfer-Encoding"] = "chunked"
            chunks = [body[at : at + 65536] for at in range(0, len(body), 65536)]
            self.change(connection, {**state, name: (seed, size)}, "PUT", name, iter(chunks), **headers)
        else:
            self.change(connection, {**state, name: (seed, size)}, "PUT", name, body, **headers)

    def pieces(self, connection, state: State, name: str) -> None:
        seed, size = self.random.randrange(1 << 30), self.random.randrange(2, MIB)
        body, middle = content(seed, size), size // 2
        part = f".hither-{self.random.randrange(1 << 64):016x}.part"
        for start, end in ((0, middle), (middle, size)):
            field = f"bytes {start}-{end - 1}/{size}"
            told = self.send(connection, "PUT", self.target(part), body[start:end], **{"Content-Range": field})
            if told >= 300:
                return
        self.change(connection, {**state, name: (seed, size)}, "MOVE", part, Destination=self.target(name))

    def change_folder(self, connection, state: State, folders: list[str]) -> None:
        name = f"d{self.random.randrange(3)}"
        if name not in folders:
            self.change(connection, {**state, name: None}, "MKCOL", name)
            return
        to = f"d{self.random.randrange(3)}"
        if to == name:
            return
        method = self.random.choice(["COPY", "MOVE"])
        after = {**without(state, to), **renamed(state, name, to)}
        others = []
        if method == "MOVE":
            after = without(after, name)
            # The two folders are exchanged, and the replaced one is not hidden yet.
            rest = without(without(state, name), to)
            others = [{**rest, **renamed(state, name, to), **renamed(state, to, name)}]
        self.change(connection, after, method, name, others=others, Destination=self.target(to))

    def change_lot(self, connection) -> None:
        kind = {"Content-Type": "application/json"}
        if not self.lots:
            wanted = {"path": self.folder, "bytes": self.random.randrange(64, 96) * MIB, "lease_seconds": 100_000}
            self.may_have_made = True
            if self.send(connection, "POST", LOTS, json.dumps(wanted), **kind) == 201:
                self.lots[json.loads(self.told)["id"]] = wanted["bytes"]
            self.may_have_made = False
            return
        ((number, _),) = self.lots.items()
        self.doubtful.add(number)
        if self.random.random() < 0.5:
            size = self.random.randrange(64, 96) * MIB
            changed = json.dumps({"bytes": size, "lease_seconds": 90_000})
            if self.send(connection, "PATCH", f"{LOTS}/{number}", changed, **kind) == 200:
                self.lots[number] = size
        elif self.send(connection, "DELETE", f"{LOTS}/{number}") == 204:
            del self.lots[number]
        self.doubtful.discard(number)

    def check_folder(self) -> None:
        """Checks that the folder holds one of the possible states, which becomes the only one."""
        if self.wrong:
            raise Fault("; ".join(self.wrong[:3]))
        found = held(self.server.root / self.folder[1:])
        for state in self.states:
            if {name: what and what[1] for name, what in state.items()} == {
                n: s for n, (s, _) in found.items()
            } and all(what is None or found[name][1].read_bytes() == content(*what) for name, what in state.items()):
                self.states = [state]
                return
        seen = {name: size for name, (size, _) in found.items()}
        raise Fault(f"{self.folder} holds {seen}, expected one of {self.states}")


def held(folder: Path) -> dict[str, tuple[int | None, Path]]:
    found = {}
    for path in folder.rglob("*"):
        if not PART.match(path.name):
            found[str(path.relative_to(folder))] = (None if path.is_dir() else path.stat().st_size, path)
    return found


def left_over(root: Path) -> list[str]:
    # Folders vanish meanwhile, which `os.walk` passes over.
    return [
        f"{folder}/{name}" for folder, names, files in os.walk(root) for name in names + files if PRIVATE.match(name)
    ]


def check_leftovers(root: Path) -> int:
    """Waits until the killed server's temporary files are gone; returns how many there were."""
    there = left_over(root)
    try:
        wait_until(lambda: not left_over(root), "the removal of temporary files", 30)
    except TimeoutError as error:
        raise Fault(f"temporary files remain: {left_over(root)}") from error
    return len(there)


def check_sums(root: Path) -> int:
    """Compares stored checksums of present files with their bytes; returns their number."""
    checked = 0
    for path in root.rglob("*"):
        if not path.is_file() or ".hither-put-lots" in path.parts:
            continue
        with suppress(OSError):
            stamp, value = os.getxattr(path, "user.hither.sum.adler32").decode().split()
            about = path.stat()
            if stamp == f"{about.st_size:x}-{about.st_mtime_ns:x}":
                checked += 1
                if int(value, 16) != zlib.adler32(path.read_bytes()):
                    raise Fault(f"{path}: its checksum is stale")
    return checked


def check_lots(server: Server, clients: list[Client]) -> None:
    """Checks that clients made these lots, what they use, and what is reserved."""
    status, told = server.ask("GET", LOTS)
    if status != 200:
        raise Fault(f"lots: {status} {told!r}")
    told, free = {lot["id"]: lot for lot in json.loads(told)}, 0
    for lot in told.values():
        folder = server.root / lot["path"].strip("/")
        files = [path for path in folder.rglob("*") if path.is_file()]
        used = sum(footprint(path.stat().st_size) for path in files)
        if lot["used_bytes"] != used:
            raise Fault(f"{lot} uses {used}")
        free += max(0, lot["bytes"] - used)
    for client in clients:
        own = {number: lot for number, lot in told.items() if lot["path"] == client.folder}
        for number, size in client.lots.items():
            if number not in client.doubtful and (number not in own or own[number]["bytes"] != size):
                raise Fault(f"lot {number} of {size} bytes of {client.folder} is missing: {own}")
        strange = set(own) - set(client.lots)
        if strange and not client.may_have_made:
            raise Fault(f"lots of {client.folder} that were not made, or were released: {own}")
        client.lots = {number: lot["bytes"] for number, lot in own.items()}
        client.doubtful, client.may_have_made = set(), False
    about = (server.root / ".hither-put-lots/reserve").stat()
    margin = max(free // 256, MIB) if free else 0
    if about.st_size != free + margin or not about.st_size <= about.st_blocks * 512 <= about.st_size + MIB:
        raise Fault(f"{about.st_size} bytes and {about.st_blocks * 512} on disk are reserved for {free}")


def check_digests(server: Server, clients: list[Client], chance: random.Random) -> None:
    """Checks the digest that the server sends for a random file of each client."""
    for client in clients:
        files = {name: what for name, what in client.states[0].items() if what}
        if files:
            name, what = chance.choice(list(files.items()))
            connection = server.connect()
            connection.request("GET", client.target(name), headers={"Want-Repr-Digest": "sha-256=1"})
            answer = connection.getresponse()
            body, told = answer.read(), answer.getheader("Repr-Digest", "")
            connection.close()
            digest = base64.b64encode(hashlib.sha256(content(*what)).digest()).decode()
            if body != content(*what) or digest not in told:
                raise Fault(f"{client.target(name)} differs from its digest {told}")


def torture(folder: Path, kills: int, seed: int, clients: int = 6, max_seconds: float = 0.6) -> dict[str, int]:
    """Kills a server `kills` times; returns counts, or raises a Fault."""
    root = folder / "data"
    root.mkdir()
    config = folder / "serve.toml"
    config.write_text(
        f'root = "{root}"\nlisten = ["127.0.0.1:0"]\nwrite = true\n[lots]\nbytes = {1 << 30}\nlease_seconds = 200000\n'
    )
    server = Server(root, config)
    chance = random.Random(seed)
    crowd = [Client(n, server, random.Random(seed * 1000 + n)) for n in range(clients)]
    for client in crowd:
        (root / client.folder[1:]).mkdir()
    try:
        return rounds(server, crowd, chance, kills, max_seconds)
    finally:
        if server.process and server.process.poll() is None:
            server.end(signal.SIGKILL)


def rounds(
    server: Server, crowd: list[Client], chance: random.Random, kills: int, max_seconds: float
) -> dict[str, int]:
    root = server.root
    counts = {"kills": 0, "requests": 0, "sums": 0, "leftovers": 0, "unanswered": 0}
    for round_ in range(kills + 1):
        server.start()
        begun = sum(client.requests for client in crowd)
        counts["leftovers"] += check_leftovers(root)
        counts["unanswered"] += sum(len(client.states) > 1 for client in crowd)
        for client in crowd:
            client.check_folder()
        check_lots(server, crowd)
        check_digests(server, crowd, chance)
        counts["sums"] += check_sums(root)
        if round_ == kills:
            break
        threads = [threading.Thread(target=client.work) for client in crowd]
        for thread in threads:
            thread.start()
        time.sleep(chance.uniform(0.02, max_seconds))
        # On a busy machine the first requests take longer than that.
        wait_until(lambda begun=begun: sum(client.requests for client in crowd) >= begun + FEWEST, "requests")
        server.end(signal.SIGKILL)
        for thread in threads:
            thread.join()
        counts["kills"] += 1
    server.end(signal.SIGTERM)
    counts["requests"] = sum(client.requests for client in crowd)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default %(default)s")
    parser.add_argument("--folder", type=Path, help="default: the folder for temporary files")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kills-", dir=arguments.folder))
    began = time.monotonic()
    try:
        counts = torture(folder, arguments.kills, arguments.seed)
    except RuntimeError as fault:
        sys.exit(f"{fault}\n(the server's folder is kept: {folder})")
    shutil.rmtree(folder)
    print(json.dumps({**counts, "seconds": round(time.monotonic() - began, 1)}))


if __name__ == "__main__":
    main()
