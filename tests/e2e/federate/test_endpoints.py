"""Endpoints of other kinds, and endpoints that stop responding: an object store, another federation, a stopped
server."""

import os
import signal
import subprocess
from contextlib import ExitStack

import pytest
from behaviours import foreign_server
from behaviours.foreign_server import Site
from behaviours.table import also, index
from federated import content, endpoints, running
from needs import missing, python_package, require
from test_federation import ask

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER

UNSUPPORTED = 8
LARGE = os.urandom(1 << 20) * 24


@pytest.fixture
def folders(tmp_path):
    """Two folders with one file each."""
    made = [tmp_path / name for name in ("one", "two")]
    for folder in made:
        folder.mkdir()
        (folder / f"of-{folder.name}").write_bytes(content(folder.name))
    return made


def test_an_object_store_is_listed_and_relayed(tmp_path, folders, hither, monkeypatch):
    if not (servers.BUILT_PEERS / "bin/s3s-fs").exists():
        missing("s3s-fs (tools/setup-peers)")
    require("nginx")
    where = Loopback()
    with servers.nginx(where, folders[0], webdav=True) as near, servers.s3s(where, folders[1]) as port:
        (folders[1] / "bucket/d").mkdir()
        (folders[1] / "bucket/d/object").write_bytes(content("object"))
        for variable, value in servers.s3_environment(port).items():
            monkeypatch.setenv(variable, value)
        text = endpoints({"near": near}) + '\n[[endpoints]]\nname = "store"\nurl = "s3://bucket"\n'
        with running(tmp_path, text, {}, {}) as federated:
            listed = hither("ls", "--json", federated.url(""))
            assert [it["url"].rstrip("/").rpartition("/")[2] for it in listed.json["entries"]] == ["d", "of-one"]
            status, _, body = ask(federated.url("d/object"))
            assert (status, body) == (200, content("object"))
            assert ask(federated.url("d/object"), headers={"Range": "bytes=5-9"})[2] == content("object")[5:10]
            assert hither("cat", federated.url("d/object")).out.encode() == content("object")
            assert ask(federated.url("of-one"))[0] == 302


def test_a_federation_of_federations_leads_to_the_servers(tmp_path, folders, hither):
    require("nginx")
    where = Loopback()
    (tmp_path / "inner").mkdir()
    (tmp_path / "outer").mkdir()
    (folders[1] / "sub").mkdir()
    with servers.nginx(where, folders[0], webdav=True) as one, servers.nginx(where, folders[1], webdav=True) as two:
        with running(tmp_path / "inner", endpoints({"two": two}), {}, {}) as inner:
            port = int(inner.base.rsplit(":", 1)[1].strip("/"))
            with running(tmp_path / "outer", endpoints({"one": one, "inner": port}), {}, {}) as outer:
                listed = hither("ls", "--json", outer.url(""))
                assert [it["url"].rstrip("/").rpartition("/")[2] for it in listed.json["entries"]] == ["of-one", "of-two", "sub"]
                for name in ("one", "two"):
                    assert hither("cat", outer.url(f"of-{name}")).out.encode() == content(name)
                assert ask(outer.url("of-two"))[1]["location"] == inner.url("of-two")
            # An endpoint of the inner federation that does not respond makes the outer listing incomplete.
            servers.kill(two)
            with running(tmp_path / "outer", endpoints({"one": one, "inner": port}), {}, {}) as outer:
                assert ask(outer.url("sub/"), "PROPFIND", {"Depth": "1"})[0] == 503


def test_a_read_goes_on_when_an_endpoint_falls_silent(tmp_path, folders):
    require("nginx")
    where = Loopback()
    for folder in folders:
        (folder / "large").write_bytes(LARGE)
        os.utime(folder / "large", (1_700_000_000, 1_700_000_000))
    slow = "limit_rate 2m;"
    with servers.nginx(where, folders[0], limits=slow) as near, servers.nginx(where, folders[1], limits=slow) as far:
        site = '[[sites]]\nname = "here"\nnetworks = ["127.0.0.0/8"]\n'
        text = site + endpoints({"near": near, "far": far}, near='site = "here"')
        with running(tmp_path, text, {}, {}, is_patient=False) as federated:
            command = [HITHER, "cat", "--no-store", "--stall-timeout", "2", federated.url("large")]
            reading = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE)
            begun = reading.stdout.read(1 << 20)
            # Its connections stay open, but nothing is sent over them any more.
            os.killpg(servers.PROCESSES[near].pid, signal.SIGSTOP)
            try:
                assert begun + reading.stdout.read() == LARGE
                assert reading.wait() == 0
            finally:
                os.killpg(servers.PROCESSES[near].pid, signal.SIGCONT)


def test_uproot_reads_through_the_federation(tmp_path, small):
    require("nginx")
    python_package("uproot")
    folder = tmp_path / "www"
    folder.mkdir()
    (folder / "small.root").write_bytes(small.path.read_bytes())
    with servers.nginx(Loopback(), folder) as port, running(tmp_path, endpoints({"one": port}), {}, {}) as federated:
        import uproot

        with uproot.open({federated.url("small.root"): "T"}) as remote, uproot.open({small.path: "T"}) as local:
            read, expected = (tree["E33"].array(library="np") for tree in (remote, local))
            assert len(read) == len(expected) == 3000
            assert all((one == other).all() for one, other in zip(read, expected, strict=True))


def test_root_reads_through_the_federation(tmp_path, small, root_plugin):
    require("nginx")
    folder = tmp_path / "www"
    folder.mkdir()
    (folder / "small.root").write_bytes(small.path.read_bytes())
    with servers.nginx(Loopback(), folder) as port, running(tmp_path, endpoints({"one": port}), {}, {}) as federated:
        code = 'file = ROOT.TFile.Open(arguments["url"])\nanswer(entries=file.Get("T").GetEntries())'
        assert root_plugin.run(code, url=federated.url("small.root")).answer == {"entries": 3000}


@pytest.mark.parametrize("has_other", [False, True])
def test_names_that_an_index_hides_are_not_deleted(hither, tmp_path, has_other):
    """`sync --delete` from a federation of an endpoint with HTML indexes, as from the endpoint itself."""
    root = '<html><head><title>Index of /</title></head><body><pre><a href="d/">d/</a></pre></body></html>'
    pages = also(
        index(names=("a.dat",)),
        lambda it: it.name == "/" and it.command in ("GET", "HEAD") and it.html(root),
        lambda it: it.name == "/d" and it.answer(301, Location="/d/"),
    )
    site = Site({"/": None, "/d/": None, "/d/a.dat": b"a", "/d/.zarray": b"b"}, pages)
    with ExitStack() as stack:
        ports = {"index": stack.enter_context(foreign_server.serving(site)).port}
        folders = {}
        if has_other:
            folders["hither"] = tmp_path / "hither"
            (folders["hither"] / "d").mkdir(parents=True)
            ports["hither"] = stack.enter_context(servers.hither(Loopback(), folders["hither"]))
        federated = stack.enter_context(running(tmp_path, endpoints(ports), folders, ports))
        for number, url in enumerate([f"http://127.0.0.1:{ports['index']}/d/", federated.url("d/")]):
            target = tmp_path / str(number)
            target.mkdir()
            (target / ".zarray").write_bytes(b"b")
            done = hither("sync", "--delete", "--no-store", url, target)
            assert (done.code, "may hide names" in done.err) == (UNSUPPORTED, True), done
            assert sorted(path.name for path in target.iterdir()) == [".zarray", "a.dat"]
            assert hither("sync", "--no-store", url, target).code == 0
