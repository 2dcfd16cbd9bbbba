"""Replicas in a federation: listings without some endpoints, and conflicts that are reported and never mixed."""

import os
import re
import urllib.request
import zlib
from contextlib import contextmanager, ExitStack
from pathlib import Path

import pytest
from federated import ask, content, endpoints, running
from served import PATIENCE

from bench.harness import servers
from bench.harness.links import Loopback

NAMES = ("one", "copy", "other")
PREFIXES = {
    "one": 'prefixes = [{ path = "/data" }]',
    "copy": 'prefixes = [{ path = "/data" }]',
    "other": 'prefixes = [{ path = "/else" }]',
}
COPY = {**PREFIXES, "copy": 'prefixes = [{ path = "/data", copy_of = ["one"] }]'}


@contextmanager
def three_of_ours(folder: Path, keys: dict[str, str]):
    """Runs a federation over three servers; two have `/data`, and the third has only `/else`."""
    with ExitStack() as stack:
        folders = {name: folder / name for name in NAMES}
        for path in folders.values():
            path.mkdir()
        ports = {name: stack.enter_context(servers.hither(Loopback(), path)) for name, path in folders.items()}
        yield stack.enter_context(running(folder, endpoints(ports, **keys), folders, ports))


@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "undeclared"])
def test_a_listing_does_without_an_endpoint_only_if_it_is_declared_a_copy(tmp_path, hither, is_declared):
    with three_of_ours(tmp_path, COPY if is_declared else PREFIXES) as federated:
        for name in ("d/a", "d/b"):
            federated.put(name, "one", "copy")
        federated.put("f", "other")
        servers.kill(federated.ports["copy"])
        target = tmp_path / "target"
        target.mkdir()
        (target / "gone").write_bytes(b"1")
        # A client repeats a request that gets 503 until it gives up.
        briefly = () if is_declared else ("--stall-timeout", 1)
        synced = hither("sync", "--delete", *briefly, federated.url("data/d/"), target)
        status, _, body = ask(federated.url("data/d/"), "PROPFIND", {"Depth": "1"})
        if is_declared:
            assert (status, synced.code) == (207, 0), synced.err
            assert {path.name: path.read_bytes() for path in target.iterdir()} == {
                name: content(f"d/{name}") for name in "ab"
            }
        else:
            assert (status, [path.name for path in target.iterdir()]) == (503, ["gone"])
            assert synced.code != 0
            assert b"not answered: copy; " in body
            assert b"`copy_of`" in body
        assert ask(federated.url("else/"), "PROPFIND", {"Depth": "1"})[0] == 207


def test_bytes_are_credited_to_the_endpoints_that_sent_them(tmp_path, hither):
    with three_of_ours(tmp_path, PREFIXES) as federated:
        for name in ("one", "copy"):
            path = federated.folders[name] / "f"
            path.write_bytes(bytes(20 << 20))
            os.utime(path, (1_700_000_000, 1_700_000_000))
        copied = hither("cp", "--json", federated.url("data/f"), tmp_path / "f", "--no-store")
        assert copied.code == 0, copied.err
        sources = {source["server"]: source["bytes"] for source in copied.json["sources"]}
        assert sources.pop(federated.base.rstrip("/")) == 0
        assert sum(sources.values()) >= 20 << 20
        endpoints = {f"http://127.0.0.1:{federated.ports[name]}" for name in ("one", "copy")}
        assert sources.keys() <= endpoints


def test_replicas_that_are_known_to_differ_are_named_and_not_mixed(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HITHER_LOG", "hither_federate=warn")
    with three_of_ours(tmp_path, PREFIXES) as federated:
        federated.put("d/f", "one", "copy")
        (federated.folders["copy"] / "d/f").write_bytes(bytes(len(content("d/f"))))
        urls = {name: f"http://127.0.0.1:{port}/d/f" for name, port in federated.ports.items()}
        for _ in range(2):
            document = ask(federated.url("data/d/f?metalink"))[2].decode()
            assert f'<hash type="adler32">{zlib.adler32(content("d/f")):08x}</hash>' in document
            assert (urls["one"] in document, urls["copy"] in document) == (True, False)
            status, fields, _ = ask(federated.url("data/d/f"))
            assert (status, fields["location"]) == (302, urls["one"])
            assert urls["copy"] not in ", ".join(fields.get_all("link"))
            listed = ask(federated.url("data/d/"), "PROPFIND", {"Depth": "1"})[2].decode()
            assert re.findall(r'<x:differing xmlns:x="urn:hither:federation">(\w+)<', listed) == ["copy"]
        with urllib.request.urlopen(federated.metrics + "metrics", timeout=PATIENCE) as response:
            assert 'hither_endpoint_conflicts_total{endpoint="copy"} 1\n' in response.read().decode()
        logged = capfd.readouterr().err
        assert logged.count("data/d/f: copy shows another") == 1, logged
