"""root:// and roots://: the same results, in as few round trips as the protocol allows, with several kinds of
servers."""

import hashlib
import os
import shutil
import subprocess

import pytest
from command import run
from needs import require

from bench.harness import servers
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until

NOT_FOUND, CREDENTIALS, UNSUPPORTED = 3, 4, 8
QUERY = ("rawtr", "--where", "E33>5", "--json")
UNIX = "xrootd.seclib libXrdSec.so\nsec.protocol unix\nsec.protbind * only unix\n"


@pytest.fixture
def serve(tmp_path, small):
    """Starts xrootd with additional lines of configuration; yields its port."""
    require("xrootd")
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / small.path.name).symlink_to(small.path)
    started = []

    def start(where=None, **options):
        server = servers.xrootd(where or Loopback(), folder, **options)
        started.append(server)
        return server.__enter__()

    yield start
    for server in started:
        server.__exit__(None, None, None)


@pytest.fixture(scope="module")
def away(netns):
    """A link: on loopback a response may arrive before the next request is written."""
    with Wan(Link("x", 20, None, "another site"), real_time=True) as where:
        yield where


def drawn(small, url, *options, authority=None, where=None):
    trust = ["env", f"SSL_CERT_FILE={authority}"] if authority else []
    told = run([*trust, HITHER, "draw", f"{url}//{small.path.name}:T", *QUERY, *options], where)
    assert told.code == 0, told.err
    assert told.json["selected"] == small.facts["selected"]
    return told.json["report"]


@pytest.mark.netns
@pytest.mark.parametrize("more", ["", UNIX], ids=["no proof wanted", "unix"])
def test_a_cold_read_takes_four_round_trips_and_a_warm_one_takes_one(serve, small, tmp_path, away, more):
    url = f"root://{away.server_host}:{serve(away, more=more)}"
    store = ("--store", str(tmp_path / "store"))
    # Login, open and head; tail; tree; baskets. A repeated login takes two more.
    assert drawn(small, url, *store, where=away)["round_trips"] <= (6 if more else 4)
    assert drawn(small, url, *store, where=away)["round_trips"] == 1
    assert drawn(small, url, "--no-store", "--max-connections", "1", where=away)["connections"] <= 2


def test_only_requested_bytes_are_fetched(serve, small):
    report = drawn(small, f"root://127.0.0.1:{serve()}", "--no-store")
    assert report["bytes_payload"] == report["bytes_requested"]
    assert report["bytes_received"] <= 1.05 * report["bytes_payload"]


@pytest.mark.netns
def test_tls_costs_one_round_trip(serve, small, tmp_path, away):
    tls = servers.certificate(tmp_path, away.server_host)
    store = ("--store", str(tmp_path / "store"))
    url = f"roots://{away.server_host}:{serve(away, tls=tls)}"
    drawn(small, url, *store, authority=tls.authority, where=away)
    assert drawn(small, url, *store, authority=tls.authority, where=away)["round_trips"] == 2
    refused = run([HITHER, "stat", f"{url}//{small.path.name}", "--no-store"], away)
    assert "certificate" in refused.err, refused.err


@pytest.mark.netns
def test_a_server_that_requires_tls_is_remembered(serve, small, tmp_path, away):
    tls = servers.certificate(tmp_path, away.server_host)
    store = ("--store", str(tmp_path / "store"))
    url = f"root://{away.server_host}:{serve(away, tls=tls)}"
    drawn(small, url, *store, authority=tls.authority, where=away)
    again = drawn(small, url, *store, authority=tls.authority, where=away)
    assert (again["round_trips"], again["connections"]) == (2, 1)
    # It has none left.
    assert drawn(small, f"root://{away.server_host}:{serve(away)}", *store, where=away)["retries"] == 0
    refused = run([HITHER, "stat", f"{url}//{small.path.name}", "--no-store"], away)
    assert "certificate" in refused.err, refused.err


def test_a_server_without_tls_is_an_error_for_roots(serve, small):
    told = run([HITHER, "draw", f"roots://127.0.0.1:{serve()}//{small.path.name}:T", *QUERY, "--no-store"])
    assert told.code == UNSUPPORTED, told.err
    assert "does not support TLS" in told.err


def test_a_failed_login_names_the_accepted_methods(serve, small, tmp_path):
    # The path of keys that are shared with others.
    keys = tmp_path / "sss.keytab"
    subprocess.run(["xrdsssadmin", "-k", "1", "-u", "anybody", "-g", "usrgroup", "add", keys], check=True, capture_output=True)
    if os.geteuid() == 0:
        shutil.chown(keys, "nobody")
    tmp_path.chmod(0o755)
    more = f"xrootd.seclib libXrdSec.so\nsec.protocol sss -s {keys}\nsec.protbind * only sss\n"
    port = serve(more=more)
    told = run([HITHER, "draw", f"root://127.0.0.1:{port}//{small.path.name}:T", *QUERY, "--no-store"])
    assert told.code == CREDENTIALS, told.err
    assert "sss" in told.err


def test_a_directory_is_located_once(serve, small, tmp_path):
    data = serve()
    (tmp_path / "served" / "other").symlink_to(small.path)
    # Each redirects every request to the next one.
    inner = serve(more=f"xrootd.redirect localhost:{data} /\n")
    outer = serve(more=f"xrootd.redirect localhost:{inner} /\n")
    store = ("--store", str(tmp_path / "store"))
    drawn(small, f"root://127.0.0.1:{outer}", *store)
    for port in (outer, inner):
        servers.kill(port)
    other = run([HITHER, "draw", f"root://127.0.0.1:{outer}//other:T", *QUERY, *store])
    assert other.code == 0, other.err
    assert other.json["selected"] == small.facts["selected"]
    assert other.json["report"]["retries"] == 0
    # A file in another directory may be on any server.
    (tmp_path / "served" / "d").mkdir()
    (tmp_path / "served" / "d" / "f").symlink_to(small.path)
    lost = run([HITHER, "stat", f"root://127.0.0.1:{outer}//d/f", *store])
    assert lost.code != 0, lost.out


@pytest.fixture
def cluster(tmp_path):
    """Two data servers behind a manager, with a file on each and one on both: URL, content of the shared file, and
    ports."""
    require("cmsd")
    content = os.urandom(60_000_000)
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        (folder / "both").write_bytes(content)
        os.utime(folder / "both", (1_700_000_000, 1_700_000_000))
        (folder / f"only-{folder.name}").write_bytes(folder.name.encode())
    with servers.xrootd_cluster(Loopback(), folders) as (port, ports):
        url = f"root://localhost:{port}/"
        # The manager queries its servers for a second before it reports that a file does not exist.
        def have_joined() -> bool:
            return all(run([HITHER, "cat", f"{url}/only-{name}", "--no-store"]).out == name for name in ("a", "b"))

        wait_until(have_joined, "the data servers of the manager", 240)
        yield url, content, ports


def test_a_manager_locates_files_and_a_replacement_for_a_dead_server(cluster):
    url, content, ports = cluster
    reading = subprocess.Popen([HITHER, "cat", f"{url}/both", "--no-store"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    got = [reading.stdout.read(1_000_000)]
    # It waits until the client reads what it has sent, long before the end.
    connected = subprocess.run(["ss", "-Htn", "state", "established"], capture_output=True, text=True, check=True).stdout
    used = [port for port in ports if f":{port} " in connected]
    assert used, connected
    servers.kill(used[0])
    got.append(reading.stdout.read())
    assert reading.wait() == 0, reading.stderr.read().decode()
    assert hashlib.sha256(b"".join(got)).digest() == hashlib.sha256(content).digest()
    assert run([HITHER, "cat", f"{url}/none", "--no-store"]).code == NOT_FOUND


def test_a_wrong_cached_location_is_replaced(cluster, tmp_path):
    url, content, ports = cluster
    store = ("--store", str(tmp_path / "store"))
    # Each file is first requested from the server of the previous one.
    for name in ("a", "b", "a", "b", "b", "b"):
        told = run([HITHER, "cat", f"{url}/only-{name}", *store])
        assert (told.code, told.out) == (0, name), told.err
    servers.kill(ports[1])
    told = run([HITHER, "cat", f"{url}/both", "--range", "0-99999", *store, "--json"])
    assert told.code == 0, told.err
    assert run([HITHER, "cat", f"{url}/only-a", *store]).out == "a"


def test_locate_lists_the_servers_of_a_file(cluster):
    url, _, ports = cluster

    def located():
        told = run([HITHER, "locate", "--json", f"{url}/both", f"{url}/only-a"])
        assert told.code == 0, told.err
        return told.json["files"] if len(told.json["files"][0]["servers"]) == len(ports) else None

    # A manager names the servers that have answered it within a second.
    both, one = wait_until(located, "the answers of both servers")
    assert sorted(int(server["server"].rsplit(":")[-1]) for server in both["servers"]) == sorted(ports)
    assert [int(server["server"].rsplit(":")[-1]) for server in one["servers"]] == ports[:1]
    assert run([HITHER, "locate", f"{url}/none"]).code == NOT_FOUND


def test_a_checksum_that_the_server_does_not_compute_is_computed_from_the_file(serve, small):
    url = f"root://127.0.0.1:{serve(more='xrootd.chksum max 2 adler32')}//{small.path.name}"
    for algorithm in ("adler32", "sha256"):
        told = run([HITHER, "checksum", "--algorithm", algorithm, url])
        local = run([HITHER, "checksum", "--algorithm", algorithm, small.path])
        assert (told.code, told.out.split()[0]) == (0, local.out.split()[0]), told.err
