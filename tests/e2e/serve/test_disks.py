"""`hither serve`, and copies, on disks that are full, read-only, without attributes, or lose power.

Each test has a mount namespace with the file systems that it needs, in which this file runs again as a program.
"""

import fcntl
import http.client
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path

import pytest
from cutting import Relay
from needs import require, require_network_namespaces

from bench.harness.paths import HITHER, ROOT
from bench.harness.waiting import wait_until

MIB = 1 << 20
LOTS = "/.well-known/hither/lots"


class Served:
    """A server over a folder, and requests to it, each on a new connection."""

    def __init__(self, root: Path, more: str = "", log: Path | None = None):
        self.root, self.log = root, log
        self.config = root.parent / "serve.toml"
        self.config.write_text(f'root = "{root}"\nlisten = ["127.0.0.1:0"]\nwrite = true\n{more}')

    def __enter__(self) -> "Served":
        logged = ["--access-log", self.log] if self.log else []
        command = [HITHER, "serve", "--json", "--config", self.config, *logged]
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        url = json.loads(self.process.stdout.readline())["urls"][0]
        self.port = int(url.rstrip("/").rsplit(":", 1)[1])
        return self

    def __exit__(self, *_error) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.process.stdout.close()

    def ask(self, method: str, path: str, body=None, **fields: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        try:
            connection.request(method, path, body, headers, encode_chunked="Transfer-Encoding" in headers)
            answer = connection.getresponse()
            self.told, self.headers = answer.read(), answer.headers
            return answer.status
        except (BrokenPipeError, ConnectionResetError):
            # The request was refused before all of it was sent.
            answer = connection.response_class(connection.sock)
            answer.begin()
            return answer.status
        finally:
            connection.close()

    def lot(self, path: str, size: int) -> str:
        wanted = json.dumps({"path": path, "bytes": size, "lease_seconds": 1000})
        assert self.ask("POST", LOTS, wanted) == 201, self.told
        return json.loads(self.told)["id"]


def run(*command) -> None:
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def mounted(folder: Path, kind: str, size: int, options: str = ""):
    """A folder on a small file system."""
    folder.mkdir(exist_ok=True)
    more = f",{options}" if options else ""
    if kind in ("tmpfs", "ramfs"):
        run("mount", "-t", kind, "-o", f"size={size}{more}", kind, folder)
    else:
        image = folder.with_suffix(".image")
        with image.open("wb") as file:
            file.truncate(size)
        run("mkfs.ext4", "-q", "-F", "-m", "0", image)
        run("mount", "-o", f"loop{more}", image, folder)
    try:
        yield folder
    finally:
        run("umount", "-l", folder)


def fill(folder: Path) -> Path:
    """Fills the disk, so that no block is free."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (MIB, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
        os.fsync(file.fileno())
    return filler


PATCH = """<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x xmlns="u">{}</x></D:prop></D:set></D:propertyupdate>"""


def full_disk(folder: Path) -> None:
    """Requests that need space get 507 on a full disk, all others succeed, and all succeed once there is space."""
    with mounted(folder / "disk", "ext4", 32 * MIB) as disk:
        root = disk / "data"
        (root / "d").mkdir(parents=True)
        (root / "d/file").write_bytes(bytes(MIB))
        with Served(root, "[lots]\nbytes = 20000000\n") as served:
            lot = served.lot("lot", 4 * MIB)
            filler = fill(disk)
            assert served.ask("PUT", "/new", bytes(MIB)) == 507
            assert served.ask("PUT", "/d/file", bytes(2 * MIB)) == 507
            chunks = iter([bytes(65536)] * 32)
            assert served.ask("PUT", "/new", chunks, Transfer_Encoding="chunked") == 507
            assert served.ask("COPY", "/d/file", Destination="/copy") == 507
            assert served.ask("COPY", "/d", Destination="/copies") == 507
            part = ".hither-0123456789abcdef.part"
            assert served.ask("PUT", f"/{part}", bytes(9), Content_Range="bytes 0-8/9000000") == 507
            # Small attributes fit into the inode.
            assert served.ask("PROPPATCH", "/d/file", PATCH.format("x" * 9000)) == 507, served.told
            made = [served.ask("MKCOL", f"/m{n}") for n in range(300)]
            assert set(made) <= {201, 507} and 507 in made, made
            more = json.dumps({"path": "other", "bytes": 4 * MIB, "lease_seconds": 9})
            assert served.ask("POST", LOTS, more) == 507, served.told
            assert served.ask("PATCH", f"{LOTS}/{lot}", json.dumps({"bytes": 9 * MIB})) == 507
            # The lease continues, and the files of the lot keep their reserved space on the full disk.
            assert served.ask("PATCH", f"{LOTS}/{lot}", json.dumps({"lease_seconds": 500})) == 200, served.told
            assert served.ask("GET", "/d/file") == 200 and len(served.told) == MIB
            assert sorted(path.name for path in (root / "d").iterdir()) == ["file"]
            assert not (root / "copies").exists() and not (root / "new").exists()
            assert served.ask("MOVE", "/d/file", Destination="/moved") in (201, 507)
            assert served.ask("DELETE", f"{LOTS}/{lot}") == 204, served.told
            filler.unlink()
            assert served.ask("PUT", "/new", bytes(MIB)) == 201
            assert served.ask("POST", LOTS, more) == 201, served.told
        assert [path for path in root.rglob(".hither-put-*") if path.name != ".hither-put-lots"] == []


def lot_on_a_full_disk(folder: Path) -> None:
    """The owner of a lot writes into it on a disk that is full for all others, also a body of unknown length."""
    with mounted(folder / "disk", "ext4", 64 * MIB) as disk:
        root = disk / "data"
        (root / "lot").mkdir(parents=True)
        with Served(root, "[lots]\nbytes = 90000000\n") as served:
            served.lot("lot", 24 * MIB)
            fill(disk)
            assert served.ask("PUT", "/new", bytes(MIB)) == 507
            assert served.ask("PUT", "/lot/one", bytes(8 * MIB)) == 201, served.told
            chunks = iter([bytes(65536)] * 160)
            assert served.ask("PUT", "/lot/two", chunks, Transfer_Encoding="chunked") == 201, served.told
            assert served.ask("PUT", "/lot/three", bytes(9 * MIB)) == 507


def read_only(folder: Path) -> None:
    """Changes get 403 on a file system that becomes read-only while it is served."""
    with mounted(folder / "disk", "ext4", 32 * MIB) as disk:
        root = disk / "data"
        (root / "d").mkdir(parents=True)
        (root / "d/file").write_bytes(b"hello")
        with Served(root) as served:
            run("mount", "-o", "remount,ro", disk)
            changes(served)


def failed_disk(folder: Path) -> None:
    """The same for changes of lots, when the kernel makes a damaged file system read-only."""
    with mounted(folder / "disk", "ext4", 32 * MIB, "errors=remount-ro") as disk:
        root = disk / "data"
        (root / "d").mkdir(parents=True)
        (root / "d/file").write_bytes(b"hello")
        with Served(root, "[lots]\nbytes = 20000000\n") as served:
            lot = served.lot("lot", MIB)
            device = subprocess.run(["findmnt", "-no", "SOURCE", disk], capture_output=True, text=True, check=True)
            trigger = Path("/sys/fs/ext4", Path(device.stdout.strip()).name, "trigger_fs_error")
            if not trigger.exists():
                print("SKIP this kernel fails no disk for tests")
                return
            trigger.write_text("1")
            changes(served)
            for _ in range(2):
                more = json.dumps({"path": "other", "bytes": MIB, "lease_seconds": 9})
                assert served.ask("POST", LOTS, more) == 403, served.told
                assert served.ask("PATCH", f"{LOTS}/{lot}", json.dumps({"bytes": 2 * MIB})) == 403, served.told
                assert served.ask("DELETE", f"{LOTS}/{lot}") == 403, served.told
            assert served.ask("GET", f"{LOTS}/{lot}") == 200


def changes(served: Served) -> None:
    asked = {
        "PUT new": served.ask("PUT", "/new", b"x"),
        "PUT": served.ask("PUT", "/d/file", b"x"),
        "piece": served.ask("PUT", "/.hither-0123456789abcdef.part", b"x", Content_Range="bytes 0-0/2"),
        "MKCOL": served.ask("MKCOL", "/m"),
        "DELETE": served.ask("DELETE", "/d/file"),
        "DELETE folder": served.ask("DELETE", "/d"),
        "MOVE": served.ask("MOVE", "/d/file", Destination="/moved"),
        "MOVE folder": served.ask("MOVE", "/d", Destination="/moved"),
        "COPY": served.ask("COPY", "/d/file", Destination="/copy"),
        "COPY folder": served.ask("COPY", "/d", Destination="/copy"),
        "PROPPATCH": served.ask("PROPPATCH", "/d/file", PATCH.format("y")),
    }
    assert set(asked.values()) == {403}, asked
    assert served.ask("GET", "/d/file", Want_Digest="adler32") == 200 and served.told == b"hello"
    assert served.headers["Digest"] == f"adler32={zlib.adler32(b'hello'):08x}"


def few_inodes(folder: Path) -> None:
    """No free inode means no space, and a memory file system works like any other."""
    with mounted(folder / "disk", "tmpfs", 8 * MIB, "nr_inodes=8") as disk:
        root = disk / "data"
        root.mkdir()
        with Served(root) as served:
            told = [served.ask("PUT", f"/file{n}", b"hello") for n in range(10)]
            assert set(told) == {201, 507}, told
            assert served.ask("MKCOL", "/m") == 507
            assert served.ask("PUT", "/file0", bytes(16 * MIB)) == 507
            assert served.ask("GET", "/file0") == 200 and served.told == b"hello"


def no_attributes(folder: Path) -> None:
    """If attributes and reservations are not supported, everything except properties works."""
    with mounted(folder / "disk", "ramfs", 0) as disk:
        root = disk / "data"
        (root / "d").mkdir(parents=True)
        with Served(root) as served:
            assert served.ask("PUT", "/d/file", b"hello") == 201, served.told
            assert served.ask("PUT", "/d/file", b"jello") == 204, served.told
            assert served.ask("PROPPATCH", "/d/file", PATCH.format("y")) == 403, served.told
            assert served.ask("COPY", "/d", Destination="/e") == 201
            assert served.ask("MOVE", "/e/file", Destination="/d/file") == 204
            assert served.ask("HEAD", "/d/file", Want_Digest="adler32") == 200
            assert served.headers["Digest"] == f"adler32={zlib.adler32(b'jello'):08x}"


def full_log(folder: Path) -> None:
    """Requests succeed while the disk of the access log is full."""
    root = folder / "data"
    root.mkdir()
    (root / "file").write_bytes(b"hello")
    with mounted(folder / "logs", "tmpfs", 64 << 10) as logs, Served(root, log=logs / "access.json") as served:
        fill(logs)
        for _ in range(200):
            assert served.ask("GET", "/file") == 200 and served.told == b"hello"


def power(folder: Path) -> None:
    """Every confirmed byte exists after a power loss; a negative control shows that the test would detect a loss."""
    for durable in (True, False):
        # The kernel must not commit by itself what is not durable.
        with mounted(folder / "disk", "ext4", 64 * MIB, "commit=600") as disk:
            root = disk / "data"
            (root / "d").mkdir(parents=True)
            (root / "d/old").write_bytes(b"old" * 100_000)
            run("sync", "-f", disk)
            with Served(root, "" if durable else "durable = false\n") as served:
                body = os.urandom(3 * MIB)
                assert served.ask("PUT", "/d/new", body) == 201
                assert served.ask("PUT", "/d/old", body) == 204
                assert served.ask("MKCOL", "/m") == 201
                part = "/.hither-0123456789abcdef.part"
                assert served.ask("PUT", part, body[:99], Content_Range="bytes 0-98/100") == 204
                assert served.ask("PUT", part, body[99:100], Content_Range="bytes 99-99/100") == 204
                assert served.ask("MOVE", part, Destination="/m/moved") == 201
                assert served.ask("COPY", "/d", Destination="/m/copy") == 201
                held = os.open(disk, os.O_RDONLY)
                # EXT4_IOC_SHUTDOWN without flushing the journal.
                fcntl.ioctl(held, 0x8004587D, struct.pack("I", 2))
                os.close(held)
                assert served.ask("PUT", "/d/late", body) >= 400
            run("umount", disk)
            run("mount", "-o", "loop", disk.with_suffix(".image"), disk)
            kept = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
            wanted = {"d/new": body, "d/old": body, "m/moved": body[:100], "m/copy/new": body, "m/copy/old": body}
            assert (kept == wanted) == durable, {name: len(content) for name, content in kept.items()}


def free(disk: Path) -> int:
    told = os.statvfs(disk)
    return told.f_bavail * told.f_frsize


def cp(*arguments) -> subprocess.CompletedProcess:
    command = [HITHER, "cp", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=120)


def too_large(folder: Path) -> None:
    """A file that does not fit uses no disk space; those that fit are copied."""
    root = folder / "data"
    root.mkdir()
    for name, size in (("large", 100 * MIB), ("one", 30 * MIB), ("two", 30 * MIB)):
        (root / name).write_bytes(b"x" * size)
    with mounted(folder / "disk", "ext4", 64 * MIB) as disk, Served(root) as served:
        before = free(disk)
        url = f"http://127.0.0.1:{served.port}/"
        for source in (f"{url}large", root / "large"):
            done = cp("--store", folder / "store", source, disk / "large")
            assert done.returncode == 11, done
            assert f"it needs {100 * MIB} bytes more, and {before} are free" in done.stderr, done
            assert "is kept" not in done.stderr, done
            assert [it.name for it in disk.iterdir()] == ["lost+found"]
            assert free(disk) == before
        # Two files that begin together may take the space from each other, so that neither fits.
        (disk / "tree").mkdir()
        assert cp("--store", folder / "store", f"{url}one", disk / "tree/one").returncode == 0
        done = cp("-r", "-n", "--store", folder / "store", f"{url}.", disk / "tree")
        assert done.returncode == 11, done
        assert [it.name for it in (disk / "tree").iterdir()] == ["one"], done
        assert free(disk) > before - 31 * MIB


def full_target(folder: Path) -> None:
    """The disk becomes full in the middle of a file: whole blocks are kept, the next attempt resumes from them, and the
    message says so."""
    root = folder / "data"
    root.mkdir()
    (root / "file").write_bytes(os.urandom(30 * MIB))
    with mounted(folder / "disk", "tmpfs", 64 * MIB) as disk, Served(root) as served, Relay(served.port) as relay:
        command = [f"http://127.0.0.1:{relay.port}/file", disk / "file", "--store", folder / "store"]
        relay.hold_after(15 * MIB)
        first = [str(word) for word in [HITHER, "cp", "--max-connections", 1, *command]]
        with subprocess.Popen(first, stderr=subprocess.PIPE, text=True) as copying:
            journals = (folder / "store/copies").glob
            wait_until(lambda: any(b'"block"' in it.read_bytes() for it in journals("*")), "a block of the file")
            filler = fill(disk)
            relay.release()
            told = copying.communicate(timeout=120)[1]
        assert copying.returncode == 11, told
        (part,) = disk.glob(".hither-*")
        kept = re.search(rf"; (\d+) bytes are kept in {re.escape(str(part))}", told)
        assert kept and int(kept[1]) == part.stat().st_blocks * 512 > 0, told
        filler.unlink()
        done = cp("--json", *command)
        assert done.returncode == 0 and json.loads(done.stdout)["bytes_resumed"] == int(kept[1]), done
        assert (disk / "file").read_bytes() == (root / "file").read_bytes()


def small_files(folder: Path) -> None:
    """The disk becomes full in the middle of a tree of small files: files without space leave nothing behind."""
    root = folder / "data"
    (root / "tree").mkdir(parents=True)
    for number in range(60):
        (root / "tree" / str(number)).write_bytes(os.urandom(100_000))
    with mounted(folder / "disk", "tmpfs", 4 * MIB) as disk, Served(root) as served:
        for source in (f"http://127.0.0.1:{served.port}/tree", root / "tree"):
            done = cp("-r", "--store", folder / "store", source, disk / "tree")
            assert done.returncode == 11, done
            copied = list((disk / "tree").iterdir())
            assert 0 < len(copied) < 60 and not [it for it in copied if it.name.startswith(".hither-")], copied
            shutil.rmtree(disk / "tree")


def full_store(folder: Path) -> None:
    """Copies and syncs continue if the store is full or read-only, and report that they cannot be resumed."""
    source = folder / "source"
    source.mkdir()
    (source / "file").write_bytes(b"x" * 3 * MIB)
    with mounted(folder / "disk", "tmpfs", MIB // 4) as disk:
        store = disk / "store"
        store.mkdir(mode=0o700)
        fill(disk)
        for options in ("rw", "ro"):
            run("mount", "-o", f"remount,{options}", disk)
            for verb in (["cp", "-r"], ["sync"]):
                target = folder / f"{verb[0]} {options}"
                command = [HITHER, *verb, "--store", store, source, target]
                done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
                assert done.returncode == 0 and "cannot be resumed" in done.stderr, done
                assert str(store) in done.stderr, done
                assert (target / "file").stat().st_size == 3 * MIB


JOBS = [
    small_files,
    full_store,
    too_large,
    full_target,
    full_disk,
    lot_on_a_full_disk,
    read_only,
    failed_disk,
    few_inodes,
    no_attributes,
    full_log,
    power,
]


@pytest.mark.parametrize("job", [job.__name__ for job in JOBS])
def test_a_disk_failure_loses_and_leaks_nothing(hither, tmp_path, job):
    require_network_namespaces()
    require("mkfs.ext4")
    probe = subprocess.run(["unshare", "-m", "losetup", "-f"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"there are no loop devices here: {probe.stderr.strip()}")
    command = ["unshare", "-m", "--propagation", "private", sys.executable, __file__, job, tmp_path]
    paths = os.pathsep.join([str(folder) for folder in (*Path(__file__).parents[1:3], ROOT)])
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if done.stdout.startswith("SKIP"):
        pytest.skip(done.stdout)


if __name__ == "__main__":
    {job.__name__: job for job in JOBS}[sys.argv[1]](Path(sys.argv[2]))
