"""A server that limits the rate of each connection: copies, reads and queries try additional connections."""

import os
import re
import signal
import subprocess

import pytest
from site_folder import Site
from needs import require

from bench.harness import servers
from bench.harness.links import Link, Loopback, Wan
from bench.harness.paths import HITHER

SIZE = 16_000_000
RATE = 300_000


@pytest.fixture
def limited(tmp_path):
    require("nginx")
    folder, log = tmp_path / "www", tmp_path / "access.log"
    folder.mkdir()
    where = Loopback()
    with servers.nginx(where, folder, log, limits=f"limit_rate {RATE};") as port:
        yield Site(where, port, folder, log)


def connections(site, name) -> int:
    """Counts the connections with requests for a file: the path alone justifies four."""
    return len({request.connection for request in site.requests(f"/{name}")})


def test_a_copy_takes_more_connections_where_each_is_limited(hither, limited, tmp_path):
    content = os.urandom(SIZE)
    url = limited.put("file", content)
    done = hither("cp", "--no-store", url, tmp_path / "copy")
    assert done.code == 0, done.err
    assert (tmp_path / "copy").read_bytes() == content
    assert connections(limited, "file") >= 16


def test_a_read_takes_more_connections_where_each_is_limited(hither, limited):
    content = bytes(range(32, 127)) * (SIZE // 95)
    url = limited.put("file", content)
    done = hither("cat", "--no-store", url)
    assert (done.code, done.out == content.decode()) == (0, True), done.err
    assert connections(limited, "file") >= 16


def test_a_query_takes_more_connections_where_each_is_limited(hither, limited, talk):
    url = limited.link_in(talk)
    done = hither("draw", f"{url}:T", "rawtr", "--where", "E33>5", "--no-store", "--json")
    assert done.code == 0, done.err
    assert connections(limited, talk.path.name) >= 16


def test_an_interrupted_copy_shows_its_decisions(limited):
    # So large that it cannot be copied in the test's time.
    url = limited.put("file", b"")
    os.truncate(limited.folder / "file", 1 << 40)
    command = [HITHER, "cp", "--no-store", "--explain-tuning", url, "/dev/null"]
    environment = {**os.environ, "HITHER_LOG": "hither_transfer=debug"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as copying:
        assert any("tuning begins" in line for line in copying.stderr)
        # The first change may be that of the rule, and a decision is recorded when the next one is executed.
        for _ in range(3):
            assert any("workers added" in line or "workers parked" in line for line in copying.stderr)
        copying.send_signal(signal.SIGINT)
        _, said = copying.communicate(timeout=120)
    assert copying.returncode == 130, said
    # Which decision comes first depends on the path, which looks long if a process was stopped.
    assert re.search(r"^ *[\d.]+ ?s  connections  \w+ ", said, re.MULTILINE) and "interrupted" in said, said


def test_a_copy_without_tuning_uses_all_of_its_connections_and_decides_nothing(hither, tmp_path):
    require("nginx")
    folder, log = tmp_path / "www", tmp_path / "access.log"
    folder.mkdir()
    with servers.nginx(Loopback(), folder, log, limits="limit_rate 2000000;") as port:
        site = Site(Loopback(), port, folder, log)
        content = os.urandom(30_000_000)
        words = ("--max-connections", 8, "--explain-tuning", "--no-store", "--json", site.put("file", content))
        done = hither("cp", "--no-tuning", *words, tmp_path / "copy")
    assert done.code == 0, done.err
    assert (tmp_path / "copy").read_bytes() == content
    # With the tuner it begins with four, and doubles them once it knows the first rate.
    assert done.json["tuning"] == []
    assert len({request.connection for request in site.requests("/file")}) == 8


@pytest.mark.netns
def test_more_files_at_a_time_are_uploaded_where_each_connection_is_limited(hither, netns, tmp_path):
    require("nginx")
    target = tmp_path / "www/copies"
    target.mkdir(parents=True)
    (tmp_path / "files").mkdir()
    content = os.urandom(9_000_000)
    for number in range(16):
        (tmp_path / f"files/{number:02}").write_bytes(number.to_bytes(1) + content)
    with (
        Wan(Link("q", 20, None, "another country", ("--rate-each", "24Mbit")), real_time=True) as where,
        servers.nginx(where, tmp_path / "www", webdav=True) as port,
    ):
        url = f"http://{where.server_host}:{port}/copies/"
        words = ("-r", "--no-store", "--json", "--explain-tuning", f"{tmp_path}/files/.", url)
        told = hither("cp", *words, where=where)
    assert told.code == 0, told.err
    for number in range(16):
        assert (target / f"{number:02}").read_bytes() == number.to_bytes(1) + content
    first = told.json["tuning"][0]
    assert (first["knob"], first["phase"], first["to"]) == ("uploads", "ladder", 2 * first["from"])
    assert max(decision["to"] for decision in told.json["tuning"]) >= 8, told.json["tuning"]
