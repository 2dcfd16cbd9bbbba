"""Copies by a cluster of processes, any of which is killed or stopped meanwhile."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import unquote

import pytest
from cluster_rig import LARGE, PATIENCE, connected, content, write_tree
from e2e.behaviours.foreign_server import Site, serving
from needs import python_package, require

from bench.harness import access_log, servers
from bench.harness.links import Loopback
from bench.harness.waiting import wait_until

python_package("distributed")
import hither.cluster  # noqa: E402

# Nodes share a bandwidth, and are killed and stopped while they copy.
pytestmark = pytest.mark.pair

RATE = 40_000_000


def logged(log):
    """The requests in a log of nginx."""
    return list(access_log.table_rows(access_log.whole_lines(log)))


def sent(folder, first=0):
    """Parts of files that the source's server has sent, from a row of its log on.

    Each is a path, a range, and true if it was sent completely.
    """
    found = []
    for row in logged(folder / "source.log")[first:]:
        if row.method == "GET" and not row.uri.endswith("/"):
            start, last = map(int, re.findall(r"\d+", row.ranges)) if row.ranges != "-" else (0, row.bytes_sent - 1)
            found.append((row.uri, start, last + 1, row.bytes_sent > last - start))
    return found


def sent_again(before, after):
    """The number of bytes that were requested after they had been sent."""
    return sum(
        max(0, min(end, begun_end) - max(start, begun))
        for uri, start, end, _ in after
        for begun_uri, begun, begun_end, is_whole in before
        if is_whole and uri == begun_uri
    )


def shares(cluster):
    """The bytes per second that each node may copy."""
    found = {}
    for path in cluster.folder.glob("*/hither/cluster/movers/*/*/share.json"):
        with contextlib.suppress(FileNotFoundError):
            found[path.parent.name] = json.loads(path.read_text())["bandwidth"]
    return found


def results(cluster):
    """The errors of the leases that have ended, by their files."""
    paths = cluster.folder.glob("*/hither/cluster/movers/*/*/results/*.json")
    return {path.name: json.loads(path.read_text())["error"] for path in paths}


class Running:
    """A copy in a thread."""

    def __init__(self, dask, *names, **options):
        self.done, self.error, self.seen = None, None, None
        self.thread = threading.Thread(target=self._run, args=(dask, names, options), daemon=True)
        self.thread.start()

    def _run(self, dask, names, options):
        try:
            self.done = hither.cluster.copy(dask, *names, progress=self._show, **options)
        except Exception as error:  # noqa: BLE001
            self.error = error

    def _show(self, progress):
        self.seen = progress

    def until_held(self, relay):
        wait_until(lambda: not self.thread.is_alive() or relay.held.is_set(), "the held bytes")
        assert self.thread.is_alive(), f"it ended: {self.error or self.done}"

    def end(self):
        self.thread.join(2 * PATIENCE)
        assert not self.thread.is_alive(), self.seen
        if self.error:
            raise self.error
        return self.done


REQUEST_BYTES = 1000
"""More than the request line and the headers of any request of a copy."""


@pytest.mark.usefixtures("patient")
def test_a_tree_is_copied_from_a_server_to_a_shared_directory(dask, source, tmp_path):
    root, size, url = source
    addresses = ["127.0.0.2", "127.0.0.3"]
    done = hither.cluster.copy(dask, url, tmp_path / "to", large="8 MiB", source_addresses=addresses)
    assert (done.files, done.bytes, done.failures) == (302, size, {})
    assert content(tmp_path / "to") == content(root)
    assert set(done.nodes) == {"a", "b"}
    assert sum(done.nodes.values()) == done.bytes_arrived
    moved = [sum(node[address] for node in done.sources.values()) for address in addresses]
    # The rest of a slow piece is requested twice, and dropped where the other response was first:
    # what nodes count lies between the size and what the server has sent, with all headers.
    assert size <= done.bytes_arrived < sum(moved)
    assert min(moved) > 0

    def served():
        return sum(row.bytes_sent + REQUEST_BYTES for row in logged(tmp_path / "source.log"))

    # nginx logs a response that was broken off when it sees the end of the connection.
    wait_until(lambda: served() >= sum(moved), "the log of what was counted")


@pytest.mark.usefixtures("patient")
def test_ranges_and_small_files_go_to_a_server(dask, tmp_path):
    root = tmp_path / "tree"
    size = write_tree(root)
    (tmp_path / "www").mkdir()
    log = tmp_path / "access.json"
    with servers.hither(Loopback(), tmp_path / "www", log, more=("--write",)) as port:
        done = hither.cluster.copy(dask, root, f"http://127.0.0.1:{port}/to", large="8 MiB")
        again = hither.cluster.copy(dask, f"{root}/.", f"http://127.0.0.1:{port}/to", include=["large*"])
        # The nodes have learned about the server meanwhile, so they make no trial requests.
        known = hither.cluster.copy(dask, root, f"http://127.0.0.1:{port}/known", large="8 MiB")
    assert (done.failures, done.bytes_arrived) == ({}, size)
    assert (again.failures, again.files) == ({}, 2)
    assert (known.failures, known.bytes_arrived) == ({}, size)
    for copied in ("to", "known"):
        assert content(tmp_path / "www" / copied) == content(root)
    for name in ("large1", "d1/ä 8%"):
        assert int((tmp_path / "www" / "to" / name).stat().st_mtime) == int((root / name).stat().st_mtime)


@pytest.mark.usefixtures("patient")
def test_all_nodes_together_have_no_more_connections_than_the_copy_may(dask, tmp_path):
    require("nginx")
    root = tmp_path / "www" / "tree"
    write_tree(root, small=1, large=3)
    # A concurrent request gets the status 503; requests are slow so that they overlap.
    limit = "location ~ /large { limit_conn all 3; limit_rate 8m; }"
    zone = "limit_conn_zone $server_port zone=all:1m;"
    log = tmp_path / "access.log"
    with servers.nginx(Loopback(), tmp_path / "www", log, f"autoindex on; {limit}", zone) as port:
        url = f"http://127.0.0.1:{port}/tree"
        done = hither.cluster.copy(dask, url, tmp_path / "to", large="8 MiB", max_connections=3)
    assert done.failures == {}
    assert content(tmp_path / "to") == content(root)
    refused = [row.uri for row in logged(log) if row.status == 503]
    assert not refused


@pytest.mark.usefixtures("patient")
def test_a_file_that_cannot_be_copied_fails_alone_and_is_tried_again_by_the_next_copy(dask, source, tmp_path):
    root, _, url = source
    (root / "d1" / "secret").write_bytes(b"secret")
    done = hither.cluster.copy(dask, url, tmp_path / "to")
    assert (list(done.failures), done.files_failed, done.files) == (["d1/secret"], 1, 302)
    (tmp_path / "open").touch()
    done = hither.cluster.copy(dask, url, tmp_path / "to")
    assert (done.files, done.files_failed, done.bytes_arrived) == (303, 0, len(b"secret"))


def written_by(call, folder):
    """The files that `call` writes in a folder, which have new inodes, and its result."""
    inodes = lambda: {path: path.stat().st_ino for path in folder.rglob("*") if path.is_file()}  # noqa: E731
    before = inodes()
    done = call()
    return {str(path.relative_to(folder)) for path, inode in inodes().items() if before.get(path) != inode}, done


def refused(root, folder):
    """A file of the source that cannot be copied before `folder`/open exists."""
    (root / "d1" / "secret").write_bytes(b"secret")
    return folder / "open"


def test_the_next_copy_looks_at_both_sides_once_more(dask, source, tmp_path):
    root, _, url = source
    to = tmp_path / "to"
    may_go = refused(root, tmp_path)
    options = {"large": "8 MiB"}
    assert list(hither.cluster.copy(dask, url, to, **options).failures) == ["d1/secret"]
    may_go.touch()
    # One of each: changed, new and removed at the source; removed, cut and removed with its
    # directory here.
    changed = {"d1/ä 1%": b"of another size", "new/one": b"new", "large0": b"L" * (LARGE + 9)}
    (root / "new").mkdir()
    for name, data in changed.items():
        (root / name).write_bytes(data)
    (root / "d2" / "ä 2%").unlink()
    (to / "d3" / "ä 3%").unlink()
    (to / "d4" / "ä 4%").write_bytes(b"")
    shutil.rmtree(to / "d5")
    lost = [root / "d3/ä 3%", root / "d4/ä 4%", *(root / "d5").iterdir()]
    anew = {*changed, "d1/secret", *(str(path.relative_to(root)) for path in lost)}
    written, done = written_by(lambda: hither.cluster.copy(dask, url, to, **options), to)
    assert (done.failures, written) == ({}, anew)
    # The rest of a slow piece is requested twice.
    assert done.bytes_arrived >= sum((root / name).stat().st_size for name in anew)
    assert f"{url}: not all listings tell times: what changed and kept its size is not copied again" in done.notices
    (to / "d2" / "ä 2%").unlink()
    assert content(to) == content(root)
    assert done.files == len([path for path in root.rglob("*") if path.is_file()])


@pytest.mark.usefixtures("patient")
def test_the_next_copy_lists_each_directory_of_the_destination_once(dask, source, tmp_path):
    root, _, url = source
    may_go = refused(root, tmp_path)
    log = tmp_path / "destination.log"
    (tmp_path / "there").mkdir()
    with servers.hither(Loopback(), tmp_path / "there", log, more=("--write",)) as port:
        to = f"http://127.0.0.1:{port}/to"
        assert list(hither.cluster.copy(dask, url, to).failures) == ["d1/secret"]
        # The server logs later than it responds, but nothing once it was killed.
        servers.restart(Loopback(), port)
        first = log.read_bytes().count(b"\n")
        may_go.touch()
        done = hither.cluster.copy(dask, url, to)
        assert (done.failures, done.bytes_arrived) == ({}, len(b"secret"))
    looks = [
        path.rstrip("/") for method, path, _ in answers(log, first) if method == "PROPFIND" and ".hither" not in path
    ]
    directories = ["/to", *(f"/to/{path.relative_to(root)}" for path in root.rglob("*") if path.is_dir())]
    assert set(looks) <= {*directories, "/to/d1/secret"}, looks
    assert all(looks.count(path) == 1 for path in directories if re.search(r"/d[02-6]$", path)), looks
    assert content(tmp_path / "there/to") == content(root)


def test_a_large_file_that_changed_is_copied_by_the_next_copy(dask, tmp_path):
    old, new = bytes(LARGE), b"new" + bytes(LARGE)
    files = {"/": None, "/tree/": None, "/tree/small": b"small", "/tree/large": old}

    def grows(exchange):
        # A file is requested when it was listed.
        if (exchange.command, exchange.name) == ("GET", "/tree/large"):
            site.files["/tree/large"] = new
        return False

    site = Site(files, grows)
    with serving(site) as server:
        url = f"http://127.0.0.1:{server.port}/tree"
        copy = lambda: hither.cluster.copy(dask, url, tmp_path / "to", large="8 MiB")  # noqa: E731
        done = copy()
        assert (list(done.failures), done.error_kind) == (["large"], "changed")
        written, done = written_by(copy, tmp_path / "to")
    assert (done.failures, done.bytes, written) == ({}, len(b"small") + len(new), {"large"})
    # The rest of a slow piece is requested twice.
    assert done.bytes_arrived >= len(new)
    assert {path.name: path.read_bytes() for path in (tmp_path / "to").iterdir()} == {"small": b"small", "large": new}


def test_a_file_of_a_far_date_is_copied_with_the_others(dask, tmp_path):
    write_tree(tmp_path / "tree", small=3, large=0)
    # In nanoseconds since 1970 this exceeds SQLite's integers.
    os.utime(tmp_path / "tree/d1/ä 1%", (10_413_792_000, 10_413_792_000))
    done = hither.cluster.copy(dask, tmp_path / "tree", tmp_path / "to")
    assert (done.failures, done.files) == ({}, 3)
    assert content(tmp_path / "to") == content(tmp_path / "tree")


@pytest.mark.usefixtures("patient")
def test_a_directory_that_cannot_be_listed_fails_alone(dask, source, tmp_path):
    root, _, url = source
    (root / "d1" / "secret").mkdir()
    (root / "d1" / "secret" / "file").write_bytes(b"secret")
    done = hither.cluster.copy(dask, url, tmp_path / "to")
    assert (list(done.failures), done.files_failed, done.files) == (["d1/secret"], 1, 302)
    assert "cannot list the directory" in done.failures["d1/secret"]
    assert [it for it in done.notices if it.startswith(f"{url}: the server lists directories by HTML")]
    (tmp_path / "open").touch()
    done = hither.cluster.copy(dask, url, tmp_path / "to")
    assert (done.files, done.files_failed, done.bytes_arrived) == (303, 0, len(b"secret"))
    assert content(tmp_path / "to") == content(root)


@pytest.mark.parametrize("after", [0.2, 0.6])
def test_a_node_that_is_killed_costs_the_leases_that_it_had(after, cluster, dask, relayed, tmp_path):
    root, size, url, relay = relayed
    relay.hold_after(int(after * size))
    copying = Running(dask, url, tmp_path / "to", large="8 MiB", bandwidth=RATE)
    copying.until_held(relay)
    cluster.kill("b")
    relay.release()
    done = copying.end()
    assert done.failures == {}
    assert content(tmp_path / "to") == content(root)


def test_the_bandwidth_of_a_node_that_is_gone_goes_to_the_other(cluster, dask, relayed, tmp_path):
    _, size, url, relay = relayed
    relay.hold_after(size // 10)
    copying = Running(dask, url, tmp_path / "to", large="8 MiB", bandwidth=RATE)
    wait_until(lambda: shares(cluster) == {"a": RATE // 2, "b": RATE // 2}, "half of the rate for each node")
    cluster.kill("b")

    def all_for_a():
        # A lease counts for the node that is gone until another one has received bytes of it: each
        # connection forwards some.
        relay.release()
        relay.hold_after(1)
        return shares(cluster).get("a") == RATE

    wait_until(all_for_a, "all of the rate for the node that is left", every=2)
    copying.until_held(relay)
    relay.release()
    assert copying.end().bytes == size
    assert list(cluster.folder.glob("a/hither/cluster/movers/*/a/last")), "no lease waits"


@pytest.mark.slow
def test_a_node_that_is_stopped_and_goes_on_later_changes_nothing(cluster, dask, relayed, tmp_path):
    root, size, url, relay = relayed
    relay.hold_after(int(0.3 * size))
    copying = Running(dask, url, tmp_path / "to", large="8 MiB", bandwidth=RATE)
    copying.until_held(relay)
    assert cluster.signal("b", signal.SIGSTOP) == 2
    relay.release()
    done = copying.end()
    assert done.failures == {}
    before = content(tmp_path / "to")
    assert before == content(root)
    stats = {path: path.stat() for path in (tmp_path / "to").rglob("*")}
    cluster.signal("b", signal.SIGCONT)
    wait_until(lambda: not cluster.leases("b"), "the end of b's leases")
    assert content(tmp_path / "to") == before
    assert {path: path.stat() for path in (tmp_path / "to").rglob("*")} == stats


def answers(log, first=0):
    """Methods, paths and statuses in a log of `hither serve` or nginx, from a line on."""
    for line in access_log.whole_lines(log).splitlines()[first:]:
        if line.startswith("{"):
            entry = json.loads(line)
            yield entry["method"], unquote(entry["target"]), entry["status"]
        else:
            row = next(access_log.table_rows(line))
            yield row.method, row.uri, row.status


@pytest.mark.slow
@pytest.mark.parametrize("server", ["hither serve", "nginx"])
def test_a_node_that_goes_on_finds_its_fences_gone_at_a_server(server, cluster, dask, relayed, tmp_path):
    root, size, url, relay = relayed
    there, log = tmp_path / "there", tmp_path / "destination.log"
    there.mkdir()
    if server == "nginx":
        serving = servers.nginx(Loopback(), there, log, webdav=True)
    else:
        serving = servers.hither(Loopback(), there, log, more=("--write",))
    with serving as port:
        relay.hold_after(size // 10)
        copying = Running(dask, url, f"http://127.0.0.1:{port}/to", large="8 MiB", bandwidth=RATE)
        copying.until_held(relay)
        (fences,) = (there / "to").glob(".hither-cluster-*-*")

        def stopped_at_work():
            cluster.signal("b", signal.SIGSTOP)
            if found := {path.stem for path in cluster.leases("b") if (fences / path.stem).exists()}:
                return found
            return cluster.signal("b", signal.SIGCONT) and None

        taken = wait_until(stopped_at_work, "a lease of b")
        wait_until(lambda: not any((fences / name).exists() for name in taken), "the removal of b's fences")
        # A server writes its log after its response.
        wait_until(
            lambda: taken <= {Path(uri).name for method, uri, _ in answers(log) if method == "DELETE"}, "the log"
        )
        first = log.read_bytes().count(b"\n")
        relay.release()
        cluster.signal("b", signal.SIGCONT)
        wait_until(lambda: not taken & {path.stem for path in cluster.leases("b")}, "the end of b's leases")
        assert copying.end().failures == {}
        assert content(there / "to") == content(root)
    # A coordinator that takes a lease back deletes its fence.
    seen = [it for it in answers(log, first) if it[0] != "DELETE" and any(f"/{name}/" in f"{it[1]}/" for name in taken)]
    assert seen
    # What a node does when it learns that the lease was taken back is given up, without a status.
    assert [it for it in seen if 0 < it[2] < 400] == []


@pytest.mark.slow
@pytest.mark.parametrize("server", ["nginx", "xrootd"])
def test_a_node_that_goes_on_late_changes_nothing_where_directories_are_made_for_files(
    server, cluster, dask, relayed, tmp_path
):
    root, size, url, relay = relayed
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o777)
    require("xrootd")
    if server == "nginx":
        serving = servers.nginx(Loopback(), there, locations="create_full_put_path on;", webdav=True)
    else:
        serving = servers.xrootd(Loopback(), there)
    with serving as port:
        # Less than any lease, so each node has one.
        relay.hold_after(size // 100)
        copying = Running(dask, url, f"http://127.0.0.1:{port}/to", bandwidth=RATE)
        copying.until_held(relay)

        def stopped_at_work():
            cluster.signal("b", signal.SIGSTOP)
            return cluster.leases("b") or (cluster.signal("b", signal.SIGCONT) and None)

        wait_until(stopped_at_work, "a lease of b")
        relay.release()
        done = copying.end()
        assert done.failures == {}
        (left,) = (there / "to").glob(".hither-*")
        assert left.is_file()
        assert [notice for notice in done.notices if left.name in notice and " b from writing late" in notice]
        left.chmod(0o666)
        before = content(there / "to")
        assert {name: it for name, it in before.items() if name != left.name} == content(root)
        for path in (there / "to").rglob("*"):
            if path.is_file() and path != left:
                path.write_bytes(b"edited after the job")
        edited = content(there / "to")
        cluster.signal("b", signal.SIGCONT)
        wait_until(lambda: not cluster.leases("b"), "the end of b's leases")
        assert content(there / "to") == edited


@pytest.mark.parametrize("files", [28, pytest.param(300, marks=pytest.mark.soak)])
@pytest.mark.parametrize("server", ["nginx", "xrootd", "root"])
def test_files_below_a_name_that_is_a_file_at_the_destination_fail_alone(server, files, dask, tmp_path):
    root = tmp_path / "tree"
    write_tree(root, small=files)
    there = tmp_path / "there"
    (there / "to").mkdir(parents=True)
    (there / "to" / "d3").write_bytes(b"in the way")
    for path in (there, there / "to"):
        path.chmod(0o777)
    require("xrootd")
    serving = servers.nginx(Loopback(), there, webdav=True) if server == "nginx" else servers.xrootd(Loopback(), there)
    with serving as port:
        base = f"root://127.0.0.1:{port}//" if server == "root" else f"http://127.0.0.1:{port}/"
        done = hither.cluster.copy(dask, f"{root}/.", f"{base}to")
    below = {str(path.relative_to(root)) for path in (root / "d3").iterdir()}
    assert set(done.failures) == below
    expected = {name: it for name, it in content(root).items() if name not in below} | {
        "d3": hashlib.sha256(b"in the way").hexdigest()
    }
    # A job with failures leaves its mark, for the next one.
    assert {name: it for name, it in content(there / "to").items() if not name.startswith(".hither-")} == expected


@pytest.mark.slow
def test_a_mover_that_is_stopped_alone_is_not_waited_for(cluster, dask, relayed, tmp_path):
    root, size, url, relay = relayed
    relay.hold_after(int(0.3 * size))
    copying = Running(dask, url, tmp_path / "to", large="8 MiB", bandwidth=RATE)
    copying.until_held(relay)
    assert cluster.signal("b", signal.SIGSTOP, only="hither\0mover") == 1
    relay.release()
    assert copying.end().failures == {}
    assert content(tmp_path / "to") == content(root)


@pytest.mark.usefixtures("patient")
def test_movers_go_on_without_scheduler_and_the_next_copy_goes_on_from_there(cluster, relayed, tmp_path):
    root, _, url, relay = relayed
    # More than the nodes have in their leases when they are alone.
    size = write_tree(root, large=8)
    dask = connected(cluster)
    dask.wait_for_workers(2, timeout=PATIENCE)
    relay.hold_after(int(0.1 * size))
    copying = Running(dask, url, tmp_path / "to", large="8 MiB", bandwidth=RATE)
    copying.until_held(relay)
    cluster.kill("scheduler")
    begun = {path.name for name in "ab" for path in cluster.leases(name)}
    relay.release()
    with pytest.raises(hither.cluster.ClusterLostError, match="goes on from there"):
        copying.end()
    with contextlib.suppress(TimeoutError):
        dask.close(timeout=1)
    # Workers end with their scheduler; movers finish their leases.
    wait_until(lambda: not cluster.leases("a") and not cluster.leases("b"), "the end of all leases")
    assert begun
    assert begun <= {name for name, error in results(cluster).items() if error is None}
    # After this, nginx logs nothing of the requests before it.
    servers.settle(Loopback(), relay.upstream)
    servers.restart(Loopback(), relay.upstream)
    before = sent(tmp_path)
    rows = len(logged(tmp_path / "source.log"))
    cluster.start_scheduler()
    for name in "ab":
        cluster.start(name)
    with connected(cluster) as dask:
        dask.wait_for_workers(2, timeout=PATIENCE)
        done = hither.cluster.copy(dask, url, tmp_path / "to", large="8 MiB")
    assert content(tmp_path / "to") == content(root)
    assert (done.bytes, done.failures) == (size, {})
    assert done.bytes_arrived > 0
    # Movers have finished their leases, so no lease was open.
    assert sent_again(before, sent(tmp_path, rows)) == 0


def test_a_client_that_is_killed_is_continued_by_the_next(cluster, dask, source, tmp_path):
    root, size, url = source
    command = [sys.executable, "-m", "hither", "cp", "-r", "--cluster", cluster.scheduler_file, "--json"]
    command += ["--bwlimit", "20M", url, tmp_path / "to"]
    first = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE)
    wait_until(lambda: len(list((tmp_path / "to").glob("d*/*"))) > 50, "50 files")
    first.kill()
    first.communicate()
    done = hither.cluster.copy(dask, url, tmp_path / "to")
    assert (done.files, done.bytes, done.failures) == (302, size, {})
    assert content(tmp_path / "to") == content(root)


def test_a_copy_that_is_detached_needs_no_client(cluster, source, tmp_path):
    root, _, url = source
    with connected(cluster) as other:
        assert hither.cluster.copy(other, url, tmp_path / "to", detach=True) is None
    to = tmp_path / "to"
    # Its own directory is removed last: until then names vanish while they are listed.
    wait_until(lambda: (to / "large1").exists() and not list(to.glob(".hither-*")), "the file, and no other", PATIENCE)
    assert content(to) == content(root)


def test_a_detached_copy_goes_on_when_the_worker_that_deals_out_is_killed(cluster, relayed, tmp_path):
    root, size, url, relay = relayed
    to = tmp_path / "to"
    relay.hold_after(size // 2)
    # The nodes share only the destination.
    with connected(cluster) as other:
        other.wait_for_workers(2, timeout=PATIENCE)
        assert hither.cluster.copy(other, url, to, bandwidth=RATE, detach=True) is None
    wait_until(relay.held.is_set, "the held bytes", PATIENCE)
    (manifest,) = cluster.folder.glob("*/hither/cluster/jobs/*/manifest.sqlite")
    cluster.kill(manifest.relative_to(cluster.folder).parts[0])
    relay.release()
    is_whole = lambda: (to / "large1").exists() and not list(to.glob(".hither-*"))  # noqa: E731
    wait_until(is_whole, "the tree, and nothing else", PATIENCE)
    assert content(to) == content(root)


def test_two_runs_of_one_copy_do_not_meet(dask, relayed, tmp_path):
    _, size, url, relay = relayed
    relay.hold_after(size // 10)
    copying = Running(dask, url, tmp_path / "to")
    copying.until_held(relay)
    with pytest.raises(hither.HitherError, match="another process"):
        hither.cluster.copy(dask, url, tmp_path / "to")
    relay.release()
    assert copying.end().failures == {}
