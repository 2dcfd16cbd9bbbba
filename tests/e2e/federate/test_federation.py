"""One name space over nginx, Apache, XRootD and `hither serve`: list, read and write through it."""

import json
import socket
import threading
import urllib.request

import pytest
from federated import NAMES, ask, content, endpoints, federating, running
from needs import require
from served import DEBIANS_PYTHON, PATIENCE, run
from token_issuer import Issuer, Key

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.waiting import wait_until


@pytest.fixture
def federation(tmp_path):
    for program in ("nginx", "apache2", "xrootd"):
        require(program)
    writable = {"hither": "write = true", "apache": "write = true"}
    with federating(tmp_path, 'write = true\n[federation]\ndeletes = "all"\n', **writable) as federated:
        for number in range(12):
            federated.put(f"d/f{number:02}", NAMES[number % 4], NAMES[(number + 1) % 4])
        for name in NAMES:
            federated.put(f"d/only-{name}", name)
        yield federated


ALL = sorted([f"f{number:02}" for number in range(12)] + [f"only-{name}" for name in NAMES])


def test_our_client_lists_the_union_and_reads_all_of_it(federation, hither, tmp_path):
    listed = hither("ls", "--json", federation.url("d/"))
    names = [entry["url"].rpartition("/")[2] for entry in listed.json["entries"]]
    assert names == ALL, listed.err
    copied = hither("cp", "-r", federation.url("d/"), tmp_path / "copy")
    assert copied.code == 0, copied.err
    files = {path.name: path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert files == {name: content(f"d/{name}") for name in ALL}
    stated = hither("stat", "--json", federation.url("d/only-nginx"))
    assert stated.code == 0 and stated.json["size"] == 100_000, stated.out + stated.err


def test_a_read_is_redirected_with_all_replicas_named(federation):
    ask(federation.url("d/"))
    status, fields, _ = ask(federation.url("d/f00"))
    ports = federation.ports
    both = {f"http://127.0.0.1:{ports[name]}/d/f00" for name in ("nginx", "apache")}
    assert status == 302
    assert fields["location"] in both
    links = ", ".join(fields.get_all("link"))
    assert all(f"<{url}>; rel=duplicate" in links for url in both)
    assert "describedby" in links
    status, fields, document = ask(federation.url("d/f00?metalink"))
    assert (status, fields["content-type"]) == (200, "application/metalink4+xml")
    assert all(url in document.decode() for url in both)
    assert b"<size>100000</size>" in document
    assert ask(federation.url("d/none"))[0] == 404


def test_curl_reads_and_writes_by_redirects(federation, tmp_path):
    out = tmp_path / "out"
    run("curl", "-sfL", "-o", out, federation.url("d/only-xrootd"))
    assert out.read_bytes() == content("d/only-xrootd")
    run("curl", "-sfL", "-T", out, federation.url("d/written"))
    assert any((federation.folders[name] / "d/written").exists() for name in ("apache", "hither"))
    assert run("curl", "-sfL", federation.url("d/written")) == out.read_text()
    run("curl", "-sf", "-X", "DELETE", federation.url("d/written"))
    assert not any((federation.folders[name] / "d/written").exists() for name in NAMES)
    assert ask(federation.url("d/written"))[0] == 404


def test_other_programs_list_read_and_write(federation, tmp_path):
    listed = run("davix-ls", federation.url("d/"))
    assert sorted(listed.split()) == ALL
    run("davix-get", federation.url("d/only-apache"), tmp_path / "davix")
    assert (tmp_path / "davix").read_bytes() == content("d/only-apache")
    run("davix-put", tmp_path / "davix", federation.url("d/by-davix"))
    assert run("davix-get", federation.url("d/by-davix")) == content("d/only-apache").decode()
    remote = f":webdav,url='{federation.base}':d"
    assert sorted(run("rclone", "lsf", remote).split()) == sorted([*ALL, "by-davix"])
    run("rclone", "copy", remote, tmp_path / "rclone", "--include", "only-*")
    copied = {path.name: path.read_bytes() for path in (tmp_path / "rclone").iterdir()}
    assert copied == {f"only-{name}": content(f"d/only-{name}") for name in NAMES}
    dav = federation.base.replace("http://", "dav://")
    assert sorted(run("gfal-ls", f"{dav}d/", **DEBIANS_PYTHON).split()) == sorted([*ALL, "by-davix"])
    run("gfal-copy", "-f", f"{dav}d/f05", f"file://{tmp_path}/gfal", **DEBIANS_PYTHON)
    assert (tmp_path / "gfal").read_bytes() == content("d/f05")


def test_our_client_writes_renames_and_removes(federation, hither, tmp_path):
    (tmp_path / "new").write_bytes(content("new"))
    done = hither("cp", tmp_path / "new", federation.url("d/new"))
    assert done.code == 0, done.err
    assert hither("cat", federation.url("d/new")).out.encode() == content("new")
    moved = hither("mv", federation.url("d/new"), federation.url("d/moved"))
    assert moved.code == 0, moved.err
    assert hither("cat", federation.url("d/moved")).out.encode() == content("new")
    removed = hither("rm", federation.url("d/moved"))
    assert removed.code == 0, removed.err
    assert hither("cat", federation.url("d/moved")).code != 0


def test_a_third_party_copy_is_redirected(federation):
    status, fields, _ = ask(federation.url("d/copied"), "COPY", {"Source": "https://else.example/f"})
    port = federation.ports
    assert status == 307
    assert fields["location"] in {f"http://127.0.0.1:{port[name]}/d/copied" for name in ("apache", "hither")}
    destination = {"Destination": "https://else.example/f"}
    status, fields, _ = ask(federation.url("d/only-hither"), "COPY", destination)
    assert (status, fields["location"]) == (307, f"http://127.0.0.1:{port['hither']}/d/only-hither")


def test_incomplete_listings_are_never_complete(federation, hither, tmp_path):
    copied = hither("sync", federation.url("d/"), tmp_path / "copy")
    assert copied.code == 0, copied.err
    servers.kill(federation.ports["apache"])
    # A directory that was listed before is cached for ten seconds, another one is not.
    for endpoint in ("nginx", "hither"):
        federation.put("other/f", endpoint)
    status, _fields, page = ask(federation.url("other/"))
    assert status == 503
    assert b"apache" in page
    assert b">f</a>" in page
    assert ask(federation.url("other/"), "PROPFIND", {"Depth": "1"})[0] == 503
    (tmp_path / "other").mkdir()
    (tmp_path / "other/precious").write_bytes(b"1")
    briefly = ("--stall-timeout", 1)
    synced = hither("sync", "--delete", *briefly, federation.url("other/"), tmp_path / "other")
    assert synced.code != 0
    assert (tmp_path / "other/precious").exists()
    assert hither("check", *briefly, federation.url("other/"), tmp_path / "other").code != 0
    # Files of healthy endpoints can still be read.
    assert hither("cat", federation.url("other/f")).out.encode() == content("other/f")


def test_a_dead_endpoint_is_seen_and_reads_go_on(federation, hither):
    servers.kill(federation.ports["nginx"])
    for number in (0, 3, 4, 7):
        read = hither("cat", federation.url(f"d/f{number:02}"))
        assert read.out.encode() == content(f"d/f{number:02}"), read.err
    with urllib.request.urlopen(federation.metrics + "metrics", timeout=PATIENCE) as response:
        metrics = response.read().decode()
    assert 'hither_endpoint_up{endpoint="nginx"} 0' in metrics
    assert 'hither_endpoint_up{endpoint="hither"} 1' in metrics
    with urllib.request.urlopen(federation.metrics + "status.json", timeout=PATIENCE) as response:
        status = json.load(response)
    assert [server["is_up"] for server in status["servers"]] == [False, True, True, True]


def test_a_reload_changes_the_endpoints(federation):
    assert ask(federation.url("d/only-nginx"))[0] == 302
    ports = {name: port for name, port in federation.ports.items() if name != "nginx"}
    federation.reload(endpoints(ports))
    wait_until(lambda: ask(federation.url("d/only-nginx"))[0] == 404, "the end of the endpoint")
    assert ask(federation.url("d/only-xrootd"))[0] == 302


def test_a_file_without_a_url_for_the_client_is_relayed(tmp_path, hither):
    require("xrootd")
    folder = tmp_path / "xrootd"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    (folder / "f").write_bytes(content("f"))
    with servers.xrootd(Loopback(), folder) as port:
        text = f'[[endpoints]]\nname = "x"\nurl = "root://127.0.0.1:{port}//"\n'
        with running(tmp_path, text, {"x": folder}, {"x": port}) as federated:
            status, fields, body = ask(federated.url("f"))
            assert (status, body) == (200, content("f"))
            assert f"<root://127.0.0.1:{port}//f>; rel=duplicate" in fields["link"]
            status, fields, _ = ask(federated.url("f"), headers={"Hither-Follows": "root"})
            assert (status, fields["location"]) == (302, f"root://127.0.0.1:{port}//f")
            assert ask(federated.url("f"), headers={"Range": "bytes=10-19"})[2] == content("f")[10:20]
            assert hither("cat", federated.url("f")).out.encode() == content("f")


def test_what_a_client_may_not_read_is_not_shown_from_the_cache_of_another(tmp_path):
    require("openssl")
    where = Loopback()
    folder = tmp_path / "www"
    for name in ("atlas/a", "cms/b"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(b"1")
    with servers.hither(where, folder, more=("--write",)) as port, Issuer(Key(tmp_path, "key")) as issuer:
        auth = f'[auth]\naudience = ["{issuer.audience}"]\n[[auth.issuers]]\nurl = "{issuer.url}"\n'
        text = "write = true\n" + auth + endpoints({"one": port}, one="write = true")
        with running(tmp_path, text, {"one": folder}, {"one": port}) as federated:

            def status(method: str, path: str, scope: str | None) -> int:
                token = {"Authorization": f"Bearer {issuer.token(scope)}"} if scope else {}
                return ask(federated.url(path), method, {"Depth": "1", **token})[0]

            everything, atlas = "storage.read:/", "storage.read:/atlas"
            assert [status("GET", path, everything) for path in ("cms/b", "cms/")] == [302, 200]
            assert status("PROPFIND", "cms/", everything) == 207
            for method, path in (("GET", "cms/b"), ("GET", "cms/"), ("PROPFIND", "cms/"), ("GET", "cms/none")):
                assert status(method, path, atlas) == 403, (method, path)
                assert status(method, path, None) == 401, (method, path)
            assert status("GET", "atlas/a", atlas) == 302
            listed = ask(federated.url(""), headers={"Authorization": f"Bearer {issuer.token(atlas)}"})
            assert listed[0] == 403 or b"cms" not in listed[2]
            assert [status("PUT", "atlas/n", scope) for scope in (atlas, "storage.create:/atlas")] == [403, 307]
            # The right to create does not include the right to replace.
            assert status("PUT", "atlas/a", "storage.create:/atlas") == 403
            assert status("PUT", "atlas/a", "storage.modify:/atlas") == 307


def test_a_file_costs_one_request_to_the_federation(federation, hither):
    assert hither("cat", federation.url("d/only-hither")).out.encode() == content("d/only-hither")
    asked = [line for line in federation.logged() if "/d/only-hither" in line["target"]]
    documents = [line for line in asked if line["target"].endswith("?metalink")]
    # In addition to the data, and only if the redirect came before all endpoints had responded, or one of them has the
    # file.
    assert len(documents) <= 1, asked
    assert [line["status"] for line in asked if line not in documents] == [302], asked


def test_a_copy_goes_on_when_an_endpoint_is_killed(federation, hither, tmp_path):
    names = [f"many/{number:03}" for number in range(500)]
    for name in names:
        federation.put(name, "nginx", "hither")
    killed = []

    def kill_when_it_runs() -> None:
        # The copy has begun once its folder exists.
        wait_until(lambda: killed or any((tmp_path / "copy").rglob("[0-9]*")), "the first file", every=0.001)
        servers.kill(federation.ports["nginx"])

    watcher = threading.Thread(target=kill_when_it_runs)
    watcher.start()
    copied = hither("cp", "-r", federation.url("many/"), tmp_path / "copy")
    killed.append(True)
    watcher.join()
    assert copied.code == 0, copied.err
    files = {path.name: path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert files == {name.rpartition("/")[2]: content(name) for name in names}


def test_a_silent_endpoint_delays_a_read_of_what_others_have_by_a_second(tmp_path):
    where = Loopback()
    folder = tmp_path / "www"
    folder.mkdir()
    (folder / "f").write_bytes(b"f")
    with socket.create_server(("127.0.0.1", 0)) as silent, servers.hither(where, folder) as port:
        ports = {"silent": silent.getsockname()[1], "one": port}
        text = "[federation]\ndeadline_seconds = 600.0\n" + endpoints(ports)
        with running(tmp_path, text, {}, ports, is_patient=False) as federated:
            # With this deadline a client that waited for the other endpoint would not end in time.
            assert ask(federated.url("f"))[0] == 302


def test_a_configuration_is_checked_before_it_is_used(tmp_path, hither):
    config = tmp_path / "federation.toml"
    config.write_text(endpoints({"a": 1}))
    checked = hither("federate", "--config", config, "--check-config")
    assert (checked.code, checked.out) == (0, "the configuration is valid\n")
    config.write_text(endpoints({"a": 1}, a='colour = "red"'))
    checked = hither("federate", "--config", config, "--check-config")
    assert checked.code == 2
    assert "colour" in checked.err
    missing = f'credentials = {{ token_file = "{tmp_path}/none" }}'
    for entry, said in [
        (missing, f"endpoints: a: credentials: cannot read the token file {tmp_path}/none"),
        ('site = "none"', 'endpoints: a: site: there is no [[sites]] called "none"'),
        ('prefixes = [{ path = "store" }]', 'endpoints: a: prefixes: path is "store"'),
    ]:
        config.write_text(endpoints({"a": 1}, a=entry))
        checked = hither("federate", "--config", config, "--check-config")
        assert checked.code in (2, 4)
        assert said in checked.err
    for url, said in [("dav.example/x", "has no scheme"), ("ftp://dav.example/x", 'scheme "ftp" is not supported')]:
        config.write_text(f'[[endpoints]]\nname = "a"\nurl = "{url}"\n')
        checked = hither("federate", "--config", config, "--check-config")
        assert checked.code in (2, 8)
        assert "endpoints: a: url: " in checked.err
        assert said in checked.err
    assert hither("federate").code == 2


@pytest.mark.parametrize("verb", ["serve", "federate"])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("write = true\nlisten = ['0.0.0.0:0']", "everybody who can reach 0.0.0.0:0 could change files"),
        ("listen = []", "listen is empty"),
        ("[limits]\nranges = 0", "limits.ranges is 0"),
        ("[tls]\ncertificate = '/none.pem'\nkey = '/none.pem'", "/none.pem"),
    ],
)
def test_a_check_refuses_what_the_start_refuses(tmp_path, hither, verb, settings, reason):
    (tmp_path / "www").mkdir()
    config = tmp_path / "config.toml"
    root, last = ("", endpoints({"a": 1})) if verb == "federate" else (f"root = '{tmp_path}/www'", "")
    config.write_text(f"{root}\n{settings}\n{last}")
    checked = hither(verb, "--config", config, "--check-config")
    started = hither(verb, "--config", config)
    assert (checked.code, checked.err) == (started.code, started.err)
    assert checked.code != 0 and reason in checked.err, checked.err
    assert {path.name for path in tmp_path.iterdir()} == {"config.toml", "www"}
