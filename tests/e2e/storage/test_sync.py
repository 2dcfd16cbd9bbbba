"""`hither sync` and `hither check` with real servers, and filters compared with rclone's."""

import contextlib
import http.server
import json
import os
import random
import subprocess
import threading
from pathlib import Path

import pytest
from needs import require
from served import serving
from storage.test_copy import behind_relay, killed_when

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER

DIFFERENT = 12
LONG_AGO = 1_600_000_000
NAMES = 100_000


def write(path: Path, content: bytes, time: int = LONG_AGO) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time, time))
    return path


def files(root: Path) -> dict[str, bytes]:
    found = (it for it in root.rglob("*") if it.is_file() and not it.name.startswith(".hither-"))
    return {str(it.relative_to(root)): it.read_bytes() for it in found}


def tree(root: Path) -> dict[str, bytes]:
    write(root / "a b.root", b"one" * 1000)
    write(root / "run 1/events", bytes(5_000_000))
    write(root / "run 1/deep/er/x", b"x")
    write(root / "run 2/y", b"y")
    return files(root)


@contextlib.contextmanager
def hither_serve(folder: Path):
    with serving(folder, "--write") as served:
        yield served.base.rstrip("/"), served.folder


@contextlib.contextmanager
def nginx(folder: Path):
    require("nginx")
    root = folder / "www"
    root.mkdir()
    with servers.nginx(Loopback(), root, webdav=True) as port:
        yield f"http://127.0.0.1:{port}", root


@contextlib.contextmanager
def xrootd(folder: Path):
    require("xrootd")
    root = folder / "www"
    root.mkdir()
    for path in (folder, *folder.parents):
        if path != Path("/") and path.stat().st_mode & 0o005 != 0o005:
            path.chmod(path.stat().st_mode | 0o055)
    root.chmod(0o777)
    with servers.xrootd(Loopback(), root) as port:
        yield f"root://127.0.0.1:{port}/", root


def ended(*arguments, code: int = 0) -> dict:
    command = [str(it) for it in (HITHER, *arguments)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert told.returncode == code, f"{command}: {told.returncode}\n{told.stdout}\n{told.stderr}"
    return json.loads(told.stdout)


def sync(*arguments, code: int = 0) -> dict:
    return ended("sync", "--json", "--no-store", *arguments, code=code)


def check(*arguments, code: int = 0) -> dict:
    return ended("check", "--json", "--no-store", *arguments, code=code)


@pytest.mark.parametrize("server", [hither_serve, nginx, xrootd])
def test_a_mirror_goes_up_and_down_and_follows_its_source(hither, server, tmp_path):
    with server(tmp_path) as (url, root):
        source, down = tmp_path / "source", tmp_path / "down"
        whole = tree(source)
        up = sync(source, f"{url}/mirror")
        assert (up["files"], up["failures"], up["files_deleted"]) == (4, [], 0)
        assert files(root / "mirror") == whole
        assert check(source, f"{url}/mirror")["equal"] == len(whole)
        assert check("--checksum", source, f"{url}/mirror")["equal"] == len(whole)
        assert sync(source, f"{url}/mirror")["files"] == 0, "nothing is copied twice"
        first = sync(f"{url}/mirror", down)
        assert (first["files"], files(down)) == (4, whole)
        assert sync(f"{url}/mirror", down)["files"] == 0, "nothing is copied twice"
        # The source loses a directory, and a file changes.
        for path in ("run 1/deep/er/x", "run 1/events"):
            (source / path).unlink()
        for path in ("run 1/deep/er", "run 1/deep", "run 1"):
            (source / path).rmdir()
        write(source / "run 2/y", b"changed", 2_000_000_000)
        differing = check(source, f"{url}/mirror", code=DIFFERENT)
        told = {it["path"]: it["difference"] for it in differing["differences"]}
        only = "only_in_destination"
        assert told == {"run 1/deep/er/x": only, "run 1/events": only, "run 2/y": "size"}
        assert sync(source, f"{url}/mirror")["files"] == 1
        assert len(files(root / "mirror")) == 4, "nothing is deleted unasked"
        gone = sync("--delete", source, f"{url}/mirror")
        assert (gone["files_deleted"], gone["failures"]) == (2, [])
        assert files(root / "mirror") == files(source)
        if server is nginx:
            # nginx's index may hide names, and its DELETE would remove them, too.
            assert gone["directories_deleted"] == 0
            assert any("1 directories kept" in notice for notice in gone["notices"])
        else:
            assert gone["directories_deleted"] == 3
            assert not (root / "mirror/run 1").exists()


def test_contents_of_equal_size_and_time_differ_only_by_checksum(hither, tmp_path):
    with hither_serve(tmp_path) as (url, root):
        source = tmp_path / "source"
        tree(source)
        sync(source, f"{url}/mirror")
        damaged = root / "mirror/run 1/events"
        time = damaged.stat().st_mtime
        write(damaged, b"?" * 5_000_000, int(time))
        assert check(source, f"{url}/mirror")["different"] == 0
        told = check("--checksum", source, f"{url}/mirror", code=DIFFERENT)
        assert [(it["path"], it["difference"]) for it in told["differences"]] == [("run 1/events", "checksum")]
        assert sync("--checksum", source, f"{url}/mirror")["files"] == 1
        check("--checksum", source, f"{url}/mirror")


def test_a_server_that_keeps_times_gets_a_source_that_became_older(hither, tmp_path):
    with hither_serve(tmp_path) as (url, root):
        source = tmp_path / "source"
        write(source / "f", b"version 2")
        write(source / "same", b"same")
        sync(source, f"{url}/mirror")
        # Another client has replaced it with the same bytes, but another time.
        write(root / "mirror/same", b"same", LONG_AGO + 1000)
        write(source / "f", b"version 1", LONG_AGO - 1000)
        told = check(source, f"{url}/mirror", code=DIFFERENT)
        assert [it["path"] for it in told["differences"]] == ["f"]
        assert sync(source, f"{url}/mirror")["files"] == 1
        assert (root / "mirror/f").read_bytes() == b"version 1"
        assert check(source, f"{url}/mirror")["equal"] == 2


def test_times_before_1970_are_times(hither, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    write(source / "f", b"1950", -631_152_000)
    write(target / "f", b"1969", -3600)
    check(source, target, code=DIFFERENT)
    assert sync(source, target)["files"] == 1
    assert (target / "f").read_bytes() == b"1950"
    assert int((target / "f").stat().st_mtime) == -631_152_000
    assert check(source, target)["equal"] == 1
    assert "1950-01-01" in hither("ls", "-l", source).out
    # Older than all other files.
    write(target / "f", b"2020")
    for arguments in (["-u", source / "f", target / "f"], ["-r", "-u", f"{source}/.", target]):
        assert hither("cp", "--no-store", *arguments).code == 0
        assert (target / "f").read_bytes() == b"2020"


def test_a_time_before_1970_is_not_sent_as_1970(hither, tmp_path):
    with hither_serve(tmp_path) as (url, root):
        source = tmp_path / "source"
        write(source / "f", b"1950", -631_152_000)
        write(source / "g", bytes(3_000_000), -631_152_000)
        for _ in range(2):
            assert sync(source, f"{url}/mirror")["failures"] == []
        assert check(source, f"{url}/mirror")["equal"] == 2
        for name in "fg":
            assert (root / "mirror" / name).stat().st_mtime > LONG_AGO


def test_a_server_without_checksums_is_read(hither, tmp_path):
    with nginx(tmp_path) as (url, root):
        source = tmp_path / "source"
        tree(source)
        sync(source, f"{url}/mirror")
        write(root / "mirror/run 2/y", b"z", 2_000_000_000)
        told = check("--checksum", source, f"{url}/mirror", code=DIFFERENT)
        assert [(it["path"], it["difference"]) for it in told["differences"]] == [("run 2/y", "checksum")]
        assert told["equal"] == 3


UNLISTABLE = """
        location = "/mirror/run 1/" { add_header Retry-After 3600 always; return 503; }
"""


def test_a_directory_that_answers_503_prevents_every_deletion(hither, tmp_path):
    require("nginx")
    root = tmp_path / "www"
    tree(root / "mirror")
    down = tmp_path / "down"
    with servers.nginx(Loopback(), root, webdav=True) as port:
        assert sync(f"http://127.0.0.1:{port}/mirror", down)["files"] == 4
    (root / "mirror/run 2/y").unlink()
    write(down / "own", b"own")
    with servers.nginx(Loopback(), root, locations=UNLISTABLE, webdav=True) as port:
        told = sync("--delete", f"http://127.0.0.1:{port}/mirror", down, code=5)
    assert told["files_deleted"] == 0
    assert any("nothing deleted" in it for it in told["notices"])
    assert set(files(down)) == {"a b.root", "run 1/events", "run 1/deep/er/x", "run 2/y", "own"}


class BreaksOff(http.server.BaseHTTPRequestHandler):
    """Lists two files over HTTP/1.0, without a length; the listing of the directory /broken ends after the first of
    them."""

    def do_GET(self):
        page = "<html><title>Index of /</title><pre>"
        lines = [f'<a href="{name}">{name}</a> 21-Nov-2026 15:20 1\r\n' for name in "ab"]
        if self.path.endswith("/"):
            whole = page + "".join(lines) + "</pre></body></html>"
            self.answer(page + lines[0] if self.path == "/broken/" else whole, "text/html")
        else:
            self.answer("x", "text/plain")

    def do_HEAD(self):
        self.answer("", "text/plain")

    def answer(self, text, kind):
        is_directory = self.path in {"/broken", "/whole"}
        self.send_response(301 if is_directory else 200)
        if is_directory:
            self.send_header("Location", f"{self.path}/")
        self.send_header("Content-Type", kind)
        self.send_header("Last-Modified", "Fri, 20 Nov 2026 10:00:00 GMT")
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PROPFIND(self):
        self.send_error(405)

    def log_message(self, *_):
        pass


def test_an_index_that_breaks_off_prevents_every_deletion(hither, tmp_path):
    write(tmp_path / "a", b"x")
    write(tmp_path / "b", b"x")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), BreaksOff) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        url = f"http://127.0.0.1:{server.server_port}"
        told = sync("--delete", "--size-only", f"{url}/broken", tmp_path, code=5)
        whole = check("--size-only", f"{url}/whole", tmp_path)
        server.shutdown()
    assert "breaks off" in told["error"]["message"]
    assert set(files(tmp_path)) == {"a", "b"}
    assert whole["equal"] == 2


def test_a_dry_run_prints_what_would_be_done(hither, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    tree(source)
    write(target / "old", b"old")
    told = hither("sync", "--no-store", "--delete", "--dry-run", "--exclude", "/run 1/", source, target)
    assert told.code == 0, told.err
    assert sorted(told.out.splitlines()) == ["+ a b.root", "+ run 2/y", "- old"]
    assert "2 files" in told.err and "1 name to delete" in told.err
    assert set(files(target)) == {"old"}
    told = sync("--delete", "-n", source, target)
    assert (told["dry_run"], told["files"], told["files_deleted"]) == (True, 4, 1)
    assert len(told["differences"]) == 5


@pytest.mark.parametrize("excluded", [(), ("--exclude", "2")])
@pytest.mark.parametrize("most", [1, 5])
def test_either_all_or_nothing_is_deleted(hither, tmp_path, most, excluded):
    """If more entries would be deleted than allowed, no removal is tried, because its refusal would be the message."""
    write(tmp_path / "source/a", b"a")
    with nginx(tmp_path) as (url, root):
        for number in range(3):
            write(root / f"extra/deep/{number}", b"x")
        command = ["sync", "--no-store", "--delete", "--max-delete", most, *excluded, tmp_path / "source", url]
        done = hither(*map(str, command))
    names = "4 names" if excluded else "5 names"
    assert (done.code, names in done.err, "not empty" in done.err) == (
        (2, True, False) if most == 1 else (0, False, False)
    ), done
    kept = ["0", "1", "2"] if most == 1 else ["2"] if excluded else []
    assert set(files(root)) == {"a", *(f"extra/deep/{name}" for name in kept)}, done


def test_a_killed_sync_deletes_nothing_and_the_next_one_ends_it(hither, tmp_path):
    with hither_serve(tmp_path) as (url, root), behind_relay(url) as relay:
        source, store = root / "source", tmp_path / "store"
        for number in range(300):
            write(source / f"{number % 7}/{number}", random.Random(number).randbytes(number * 100))
        target = tmp_path / "target"
        write(target / "old/er", b"old")
        command = ["sync", "--json", "--delete", "--store", store, f"http://127.0.0.1:{relay.port}/source", target]
        # Of 4.5 MB.
        relay.hold_after(2 << 20)
        assert killed_when([str(it) for it in (HITHER, *command)], relay.held.is_set)
        relay.release(cut=True)
        assert (target / "old/er").exists()
        told = ended(*command)
        assert told["failures"] == []
        assert files(target) == files(source)
        assert list((store / "copies").iterdir()) == []


@pytest.mark.in_memory
def test_a_hundred_thousand_names_take_little_memory(hither, tmp_path):
    fewer, many, empty = tmp_path / "fewer", tmp_path / "many", tmp_path / "empty"
    empty.mkdir()
    for root, names in ((fewer, NAMES // 10), (many, NAMES)):
        for directory in range(names // 500):
            folder = root / str(directory)
            folder.mkdir(parents=True)
            for number in range(500):
                (folder / f"a file with quite a long name, as they are, {number}").touch()
    here = Loopback()
    compared = [hither("check", "--no-store", "--quiet", root, empty, where=here) for root in (fewer, many)]
    assert [done.code for done in compared] == [DIFFERENT, DIFFERENT]
    assert compared[1].out.count("\n") == NAMES
    copied = [hither("cp", "-r", "--json", "--no-store", root, "/dev/null", where=here) for root in (fewer, many)]
    assert copied[1].json["files"] == NAMES
    # The names kept in memory would need at least 22 MB more.
    for few, all_of_them in (compared, copied):
        assert all_of_them.peak_mb < few.peak_mb + 12


# --- Filters ---------------------------------------------------------------------------------------------------------

PIECES = ["a", "b", "ab", "x.jpg", "x.png", "y.jpg", "dir", "sub", "a.b", "c[d]", "e1", "e2"]
PATTERNS = [
    *("*.jpg", "/a", "/a/**", "a/", "dir/", "/dir/sub/", "**", "*", "/*", "a*", "*b", "?", "[ab]", "[^ab]", "e[0-9]"),
    *("*.{jpg,png}", "{a,b}/**", "sub/*.jpg", "/*/a", "**/sub/**", "a**", "dir/**/a", "{{x\\..*}}", "/{{.*/}}a"),
    *("c\\[d\\]", "{dir/**,sub/a}", "*/*", "/dir/*.jpg", "sub/**.png", "a.b", "e\\d"),
]


def random_tree(root: Path, numbers: random.Random) -> None:
    for _ in range(150):
        path = root.joinpath(*(numbers.choice(PIECES) for _ in range(numbers.randrange(1, 5))))
        with contextlib.suppress(OSError):
            write(path, b"")


def random_filter(numbers: random.Random) -> list[str]:
    options = []
    for _ in range(numbers.randrange(1, 6)):
        pattern = numbers.choice(PATTERNS)
        options += ["--filter", f"{numbers.choice('+-')} {pattern}"]
    if numbers.random() < 0.5:
        kind = numbers.choice(["--include", "--exclude"])
        options = [kind, numbers.choice(PATTERNS), kind, numbers.choice(PATTERNS)]
    return options


def test_filters_choose_what_rclone_chooses(hither, tmp_path):
    rclone = require("rclone")
    root, empty = tmp_path / "root", tmp_path / "empty"
    empty.mkdir()
    numbers = random.Random(17)
    random_tree(root, numbers)
    config = tmp_path / "rclone.conf"
    config.touch()
    chosen = set()
    for _ in range(60):
        options = random_filter(numbers)
        command = [rclone, "--config", str(config), "lsf", "-R", "--files-only", *options, str(root)]
        theirs = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        ours = check(*options, root, empty, code=DIFFERENT if theirs else 0)
        assert sorted(it["path"] for it in ours["differences"]) == sorted(theirs.splitlines()), options
        chosen.add(len(ours["differences"]))
    assert len(chosen) > 20, "the filters choose different numbers of files"


def test_rules_and_names_come_from_files(hither, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    tree(source)
    rules = tmp_path / "rules"
    rules.write_text("# comment\n- /run 1/deep/**\n+ /run 1/**\n\n- *\n")
    assert sync("--filter-from", rules, source, target)["files"] == 1
    assert set(files(target)) == {"run 1/events"}
    assert not (target / "run 2").exists()
    names = tmp_path / "names"
    names.write_text("run 2/y\nrun 3/none\n")
    told = ended("cp", "-r", "--json", "--no-store", "--files-from", names, source, tmp_path / "copy", code=3)
    assert told["files"] == 1
    assert [it["source"] for it in told["failures"]] == ["run 3/none"]
    wrong = hither("cp", "--no-store", "--include", "*.root", source / "a b.root", target)
    assert wrong.code == 2 and "add -r" in wrong.err
    wrong = hither("check", "--no-store", "--include", "a{b", source, target)
    assert wrong.code == 2 and "a{b" in wrong.err


# --- Limits ----------------------------------------------------------------------------------------------------------


def test_limits_are_understood_and_the_stages_reported(hither, tmp_path):
    with hither_serve(tmp_path) as (url, root):
        content = random.Random(3).randbytes(6_000_000)
        write(root / "f", content)
        limits = ("--bwlimit", "00:00,2M sat-08:00,3M:2M", "--transfers", 2, "--retry", 3, "--max-connections", 4)
        told = ended("cp", "--json", "--no-store", *limits, f"{url}/f", tmp_path / "f")
        assert (tmp_path / "f").read_bytes() == content
        # 6 MB at 2 MiB/s; this bounds the clock of the stage, not of the test.
        assert told["stages"]["fetch"]["blocked"] > 0
        assert told["stages"]["write"]["busy"] > 0
        free = ended("cp", "--json", "--no-store", f"{url}/f", tmp_path / "g")
        assert free["stages"]["fetch"]["busy"] > 0
    for option, value in (("--bwlimit", "08:00,"), ("--bwlimit", "fast"), ("--transfers", 0), ("--retry", 0)):
        told = hither("cp", "--no-store", option, value, tmp_path / "f", tmp_path / "h")
        assert told.code == 2, told.err
