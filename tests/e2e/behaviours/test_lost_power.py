"""A server that loses power: files that it had confirmed and not flushed are compared, not trusted."""

import re
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from behaviours.foreign_server import Exchange, Site, serving
from cutting import Relay
from needs import require
from served import serving as serving_hither
from storage.test_copy import journal_of, killed_when

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until

BLOCK = 4 << 20
CONTENT = b"".join(bytes([number]) * BLOCK for number in range(1, 6)) + b"the end"


class Pieces(Exchange):
    """Accepts files in pieces, like Apache's mod_dav, and states no checksums."""

    lock = threading.Lock()

    def answer_put(self) -> bool:
        piece = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", self.headers.get("Content-Range", ""))
        if piece is None:
            return super().answer_put()
        with self.lock:
            first, last = int(piece[1]), int(piece[2])
            held = self.site.files.get(self.name) or b""
            held = held.ljust(last + 1, b"\0")
            self.site.files[self.name] = held[:first] + self.content + held[last + 1 :]
        return self.answer(204)


class PowerLoss:
    """Loses, once, the files that were confirmed before a request, which gets no response."""

    def __init__(self, method: str, confirmed: int = 0, status: int | None = None):
        self.method = method
        self.confirmed = confirmed
        self.status = status
        self.lost = 0
        self.lock = threading.Lock()

    def __call__(self, it: Exchange) -> bool:
        is_meant = it.command == self.method and (self.method == "MOVE" or len(it.content) > 1)
        with self.lock:
            held = {path: data for path, data in it.site.files.items() if data and data.strip(b"\0")}
            confirmed = sum(len(data.replace(b"\0", b"")) for data in held.values())
            if self.lost or not is_meant or confirmed <= self.confirmed:
                return False
            self.lost = confirmed
            # The sizes are kept, as after a crash of XFS or ext4.
            it.site.files |= {path: bytes(len(data)) for path, data in held.items()}
        return it.break_off() if self.status is None else it.answer(self.status)


def read_back(site: Site) -> int:
    return sum(method == "GET" for method, _ in site.requests)


@pytest.mark.parametrize("status", [None, 502], ids=["closed", "proxy"])
def test_pieces_that_a_server_had_confirmed_before_it_lost_power_are_sent_again(hither, tmp_path, status):
    local = tmp_path / "a.dat"
    local.write_bytes(CONTENT)
    loss = PowerLoss("PUT", 2 * BLOCK, status)
    site = Site({"/": None, "/d/": None}, loss)
    with serving(site, Pieces) as server:
        done = hither(
            "cp", local, f"http://127.0.0.1:{server.port}/d/a.dat", "--store", tmp_path / "store", "--retry", "2"
        )
    assert loss.lost, "the server has lost power"
    assert done.code == 0, done
    assert site.files["/d/a.dat"] == CONTENT
    assert "the server had lost" in done.err, done


def test_nothing_is_read_back_where_no_request_fails(hither, tmp_path):
    local = tmp_path / "a.dat"
    local.write_bytes(CONTENT)
    site = Site({"/": None, "/d/": None}, lambda _: False)
    with serving(site, Pieces) as server:
        done = hither("cp", local, f"http://127.0.0.1:{server.port}/d/a.dat", "--no-store")
    assert (done.code, read_back(site)) == (0, 0), done
    assert site.files["/d/a.dat"] == CONTENT


@pytest.mark.parametrize("content", [b"small" * 1000, CONTENT], ids=["small", "large"])
def test_a_file_that_is_lost_while_it_gets_its_name_fails(hither, tmp_path, content):
    local = tmp_path / "a.dat"
    local.write_bytes(content)
    loss = PowerLoss("MOVE")
    site = Site({"/": None, "/d/": None}, loss)
    with serving(site, Pieces) as server:
        url = f"http://127.0.0.1:{server.port}/d/a.dat"
        done = hither("cp", local, url, "--store", tmp_path / "store")
        assert loss.lost == len(content), "the server has lost power"
        assert done.code == 7 and "lost bytes that it had confirmed" in done.err, done
        done = hither("cp", local, url, "--store", tmp_path / "store")
    assert (done.code, site.files["/d/a.dat"]) == (0, content), done


def with_blocks(folder: Path) -> Path | None:
    """The file of which more than five blocks are there."""
    # Files with which a client finds out what a server can are removed meanwhile.
    with suppress(FileNotFoundError):
        return next((it for it in folder.iterdir() if it.stat().st_blocks * 512 > 5 * BLOCK), None)
    return None


@pytest.mark.parametrize("kind", ["apache", "xrootd"])
def test_what_a_real_server_has_lost_is_sent_again(tmp_path, kind):
    require({"apache": "apache2", "xrootd": "xrootd"}[kind])
    www = tmp_path / "www"
    www.mkdir(mode=0o777)
    www.chmod(0o777)
    local = tmp_path / "a.dat"
    local.write_bytes(CONTENT * 3)
    here = Loopback()
    served = servers.apache(here, www, webdav=True) if kind == "apache" else servers.xrootd(here, www)
    with served as port, Relay(port) as relay:
        at = f"127.0.0.1:{relay.port}"
        url = f"http://{at}/a.dat" if kind == "apache" else f"root://{at}//a.dat"
        command = [HITHER, "cp", local, url, "--no-store", "--max-connections", "2"]
        relay.hold_after(10 * BLOCK)
        with subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True) as copying:
            part = wait_until(lambda: with_blocks(www), "blocks")
            servers.kill(port)
            servers.PROCESSES[port].wait()
            with part.open("r+b") as held:
                first = held.read(2 * BLOCK)
                held.seek(0)
                held.write(bytes(len(first)))
            servers.restart(here, port)
            relay.release(cut=True)
            _, told = copying.communicate(timeout=240)
    assert copying.returncode == 0, told
    assert (www / "a.dat").read_bytes() == local.read_bytes()
    assert "the server had lost" in told


def test_a_partial_file_that_was_damaged_at_hither_serve_is_not_gone_on_with(hither, tmp_path):
    local = tmp_path / "a.dat"
    local.write_bytes(CONTENT * 3)
    with (
        serving_hither(tmp_path, "--write") as served,
        Relay(int(served.base.rstrip("/").rpartition(":")[2])) as relay,
    ):
        store = tmp_path / "store"
        arguments = ["cp", local, f"http://127.0.0.1:{relay.port}/a.dat", "--store", store]
        # Over one connection the blocks are confirmed in their order.
        command = [str(word) for word in (HITHER, *arguments, "--max-connections", "1")]
        relay.hold_after(10 * BLOCK)
        assert killed_when(command, lambda: journal_of(store).count(b'"block"') > 5)
        relay.release(cut=True)
        (part,) = (it for it in served.folder.rglob("*") if it.is_file())
        with part.open("r+b") as held:
            held.write(bytes(2 * BLOCK))
        done = hither(*arguments)
        assert done.code == 0, done
        assert (served.folder / "a.dat").read_bytes() == local.read_bytes()
        assert [it for it in served.folder.rglob("*") if it.is_file()] == [served.folder / "a.dat"]
        assert f"the server had lost {2 * BLOCK} bytes" in done.err, done
