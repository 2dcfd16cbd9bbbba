"""`hither explain`: prepared bottlenecks, the log of a server, the timeline."""

import http.client
import re
import xml.etree.ElementTree as ET
from urllib.parse import urlsplit

import pytest
from needs import require, require_network_namespaces
from served import serving

from bench.explain.cases import CASES, outcome
from bench.harness.links import is_root
from bench.harness.paths import BLKIO


# The bottleneck is found from measured times: on a busy machine the machine itself would be the bottleneck.
@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_the_prepared_bottlenecks_are_named(name):
    require("nginx")
    require_network_namespaces()
    if not (is_root() and BLKIO.exists()):
        pytest.skip("slow disks need root and the blkio controller")
    found = outcome(name, with_change=False)
    assert found.is_right, found.found


def test_the_timeline_and_the_sentence_come_with_the_job(hither, site, tmp_path):
    url, image = site.put("file", bytes(100_000)), tmp_path / "timeline.svg"
    told = hither("explain", "cp", url, tmp_path / "copy", "--timeline", image, "--no-store", "--no-probe")
    assert told.code == 0, told.err
    assert "limits this job" in told.out.splitlines()[0]
    assert "To change: " in told.out
    assert (tmp_path / "copy").read_bytes() == bytes(100_000)
    assert ET.fromstring(image.read_text()).findall("{http://www.w3.org/2000/svg}rect")
    before = len(site.requests("/file"))
    told = hither("explain", "cat", url, "--no-store", "--no-probe", "--json")
    assert set(told.json["explanation"]) >= {"bottleneck", "sentence", "evidence", "change", "phases"}
    # Each byte once, and the first one also for the size; the time decides how many requests bring them.
    requests = site.requests("/file")[before:]
    ends = [map(int, request.ranges.removeprefix("bytes=").split("-")) for request in requests]
    assert sum(last - first + 1 for first, last in ends) == 100_000 + 1


def test_failures_are_those_of_the_job(hither, site, tmp_path):
    assert hither("explain", "cat", site.url("gone"), "--no-store").code == 3
    assert hither("explain", "cp", site.url("gone"), tmp_path / "copy", "--no-store").code == 3
    assert hither("explain", "serve", tmp_path / "gone").code == 1
    (tmp_path / "empty").touch()
    assert hither("explain", "serve", tmp_path / "empty").code == 2


def timings(url: str, *fields: dict) -> list:
    """The `Server-Timing` fields of requests on one connection."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    told = []
    for given in fields:
        connection.request("GET", urlsplit(url).path, headers=given)
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
        told.append(answer.headers["Server-Timing"])
    connection.close()
    return told


def test_a_server_tells_its_share_when_asked(tmp_path):
    with serving(tmp_path) as served:
        asked = {"Prefer": "respond-async, server-timing"}
        first, none, last = timings(served.file("file"), asked, {}, asked)
    number = r"\d+\.\d{3}"
    assert first == "connection;dur=0.000, disk;dur=0.000, client;dur=0.000"
    assert none is None
    assert re.fullmatch(f"connection;dur={number}, disk;dur={number}, client;dur={number}", last)
    assert last != first


def test_a_log_is_explained_with_its_sums(hither, tmp_path):
    with serving(tmp_path) as served:
        url = served.file("file")
        told = hither("explain", "cat", url, url, url, "--no-store", "--no-probe", "--json")
        assert told.code == 0, told.err
        served.stop()
    told = hither("explain", "serve", served.log, "--json")
    assert told.code == 0, told.err
    figures = {item["name"]: item["value"] for item in told.json["evidence"]}
    assert figures["requests"] == len(served.logged())
    assert figures["sent and received"] == sum(line["sent"] + line["received"] for line in served.logged())
