"""`pelican://` URLs: a director, caches and origins of nginx and Apache; tokens, and queries that are not repeated."""

import base64
import hashlib
import http.client
import json
import os
import ssl
import zlib
from contextlib import ExitStack
from pathlib import Path

import pytest
from director import Director, Namespace
from federated import content, endpoints, running
from loopback_server import LoopbackServer, QuietHandler
from needs import require

from bench.harness import access_log, servers
from bench.harness.links import Loopback


class Federation:
    """A director of the namespaces /ns, with two caches and an origin, and /secret, with one cache that requires a
    token."""

    def __init__(self, folder: Path, stack: ExitStack):
        where = Loopback()
        self.folder = folder
        self.tls = servers.certificate(folder)
        self.folders = {name: folder / name for name in ("near", "far", "origin")}
        for path in self.folders.values():
            (path / "ns/d").mkdir(parents=True)
            for each in (path, path / "ns", path / "ns/d"):
                each.chmod(0o777)
        self.logs = {name: folder / f"{name}.log" for name in self.folders}
        self.ports = {
            "near": stack.enter_context(servers.nginx(where, self.folders["near"], self.logs["near"])),
            "far": stack.enter_context(servers.nginx(where, self.folders["far"], self.logs["far"])),
            "origin": stack.enter_context(servers.apache(where, self.folders["origin"], self.logs["origin"], webdav=True)),
        }
        self.guard = stack.enter_context(Guard())
        near, far, origin = (f"http://127.0.0.1:{self.ports[name]}" for name in ("near", "far", "origin"))
        guard = f"http://127.0.0.1:{self.guard.port}"
        self.director = stack.enter_context(
            Director(
                self.tls,
                Namespace("/ns", [near, far], [origin]),
                Namespace("/secret", [guard], [guard], needs_token=True),
            )
        )

    def url(self, path: str) -> str:
        return f"{self.director.base}{path}"

    def put(self, name: str, *places: str) -> bytes:
        for place in places or self.folders:
            path = self.folders[place] / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content(name))
            os.utime(path, (1_700_000_000, 1_700_000_000))
        return content(name)

    def requests(self, place: str) -> int:
        return len(access_log.read(self.logs[place], None))


class Guard(LoopbackServer):
    """A cache that requires a token, and has one file under every name."""

    CONTENT = b"secret" * 1000

    def __init__(self):
        self.tokens: list[str | None] = []
        outer = self

        class Handler(QuietHandler):
            def do_GET(self):
                token = self.headers.get("Authorization")
                outer.tokens.append(token)
                body = Guard.CONTENT if token == "Bearer good" else b""
                self.send_response(200 if body else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)


@pytest.fixture
def federation(tmp_path):
    require("nginx")
    require("apache2")
    require("openssl")
    with ExitStack() as stack:
        yield Federation(tmp_path, stack)


@pytest.fixture
def run(federation, hither):
    """Runs the command, which trusts the director, without its store."""
    return lambda *words: hither(*words, "--ca", federation.tls.authority, "--no-store")


def test_a_file_is_read_from_a_cache_of_its_namespace(federation, run):
    expected = federation.put("ns/f")
    read = run("cat", federation.url("/ns/f"))
    assert (read.code, read.out.encode()) == (0, expected), read.err
    assert federation.director.asked == ["GET /ns/f"]
    assert federation.director.described == 1
    missing = run("cat", federation.url("/other/f"))
    assert missing.code != 0
    assert "/other/f" in missing.err


def test_the_director_is_asked_once_for_the_files_of_a_namespace(federation, run, tmp_path):
    names = [f"ns/d/{number:02}" for number in range(20)]
    for name in names:
        federation.put(name)
    copied = run("cp", "-r", federation.url("/ns/d/"), tmp_path / "copy")
    assert copied.code == 0, copied.err
    files = {path.name: path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert files == {name.rpartition("/")[2]: content(name) for name in names}
    methods = [line.split()[0] for line in federation.director.asked]
    # Listings are sent to origins, reads to caches; files that are opened together are requested together.
    assert methods.count("PROPFIND") == 1
    assert methods.count("GET") < len(names) / 2, federation.director.asked
    assert federation.director.described == 1


def test_listings_and_metadata_are_those_of_the_origin(federation, run):
    federation.put("ns/d/a", "origin")
    federation.put("ns/d/b", "origin")
    listed = run("ls", "--json", federation.url("/ns/d/"))
    assert listed.code == 0, listed.err
    assert [entry["url"] for entry in listed.json["entries"]] == [federation.url(f"/ns/d/{name}") for name in "ab"]
    told = run("stat", "--json", federation.url("/ns/d/a"))
    assert told.json["size"] == 100_000


def test_a_file_is_written_to_the_origin(federation, run, tmp_path):
    for size in (1_000, 3_000_000):
        source = tmp_path / f"f{size}"
        source.write_bytes(os.urandom(size))
        copied = run("cp", source, federation.url("/ns/d/new"))
        assert copied.code == 0, copied.err
        assert (federation.folders["origin"] / "ns/d/new").read_bytes() == source.read_bytes()
        # No other name is left.
        assert [path.name for path in (federation.folders["origin"] / "ns/d").iterdir()] == ["new"]
    renamed = run("mv", federation.url("/ns/d/new"), federation.url("/ns/d/newer"))
    assert renamed.code != 0
    assert "renames nothing" in renamed.err
    assert run("rm", federation.url("/ns/d/new")).code == 0
    assert not (federation.folders["origin"] / "ns/d/new").exists()


def test_a_cache_that_is_down_is_passed_over(federation, run):
    expected = federation.put("ns/f")
    servers.kill(federation.ports["near"])
    read = run("cat", federation.url("/ns/f"))
    assert (read.code, read.out.encode()) == (0, expected), read.err


def test_a_cache_without_the_file_is_passed_over(federation, run):
    expected = federation.put("ns/f", "far")
    read = run("cat", federation.url("/ns/f"))
    assert (read.code, read.out.encode()) == (0, expected), read.err


def test_the_query_chooses_the_servers(federation, run):
    expected = federation.put("ns/f", "origin")
    read = run("cat", federation.url("/ns/f?directread"))
    assert (read.code, read.out.encode()) == (0, expected), read.err


def test_a_token_goes_to_the_servers_of_a_namespace_that_needs_one(federation, run, tmp_path):
    token = tmp_path / "token"
    token.write_text("good")
    token.chmod(0o600)
    read = run("cat", federation.url("/secret/f"), "--token-file", token)
    assert (read.code, read.out.encode()) == (0, Guard.CONTENT), read.err
    assert set(federation.guard.tokens) == {"Bearer good"}
    federation.put("ns/f")
    public = run("cat", federation.url("/ns/f"), "--token-file", token)
    assert public.code == 0, public.err
    for place in ("near", "far"):
        assert "good" not in federation.logs[place].read_text()


def test_a_missing_token_is_explained_by_its_issuer(federation, run):
    refused = run("cat", federation.url("/secret/f"))
    assert refused.code != 0
    assert "https://issuer.example" in refused.err
    assert federation.guard.tokens[0] is None


def test_our_federation_answers_as_a_director(tmp_path, hither):
    require("nginx")
    require("openssl")
    where, tls = Loopback(), servers.certificate(tmp_path)
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        (folder / "both").mkdir(parents=True)
        (folder / "both/f").write_bytes(content("f"))
        os.utime(folder / "both/f", (1_700_000_000, 1_700_000_000))
    (folders[0] / "alone").mkdir()
    for name in "ab":
        (folders[0] / f"alone/{name}").write_bytes(content(name))
    with servers.nginx(where, folders[0], webdav=True) as one, servers.nginx(where, folders[1], webdav=True) as two, ExitStack() as stack:
        rules = 'prefixes = [{{ path = "/both", target = "/both" }}{}]'
        alone = rules.format(', { path = "/alone", target = "/alone" }, { path = "/other", target = "/alone" }')
        text = f'[tls]\ncertificate = "{tls.certificate}"\nkey = "{tls.key}"\n'
        text += endpoints({"one": one, "two": two}, one=alone, two=rules.format(""))
        federated = stack.enter_context(running(tmp_path, text, {}, {}))
        port = int(federated.base.rsplit(":", 1)[1].strip("/"))

        def ask(path: str, agent: str, method: str = "GET", **fields: str):
            context = ssl.create_default_context(cafile=tls.authority)
            connection = http.client.HTTPSConnection("localhost", port, context=context)
            connection.request(method, path, headers={"User-Agent": agent, **fields})
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            return answer.status, answer, body

        here = f"https://localhost:{port}"
        described = json.loads(ask("/.well-known/pelican-configuration", "anybody")[2])
        assert described == {"director_endpoint": here, "discovery_endpoint": here}
        assert ask("/both/", "anybody")[0] == 200
        status, answer, _ = ask("/both/f", "pelican-client/7.20")
        assert (status, answer.getheader("Server").split("/")[0]) == (307, "pelican")
        # A single field, which names only replicas, and no comma within a link.
        (links,) = answer.headers.get_all("Link")
        assert sorted(link.split(">")[0].strip(" <") for link in links.split(",")) == sorted(
            f"http://127.0.0.1:{each}/both/f" for each in (one, two)
        )
        assert answer.getheader("Location") in links
        namespaces = {"/both/f": "/both/f", "/alone/a": "/alone", "/other/a": "/other/a"}
        for path, namespace in namespaces.items():
            told = ask(path, "pelican-client/7.20")[1].getheader("X-Pelican-Namespace")
            assert told == f"namespace={namespace}, require-token=false, collections-url={here}"
        # Pelican's client expects URLs that end with the path. This URL does, and is redirected like the others.
        status, answer, _ = ask("/other/a?directread", "pelican-client/7.20")
        assert (status, answer.getheader("Link")) == (307, None)
        assert answer.getheader("Location").startswith(f"{here}/other/a?directread&")
        status, answer, _ = ask(answer.getheader("Location").removeprefix(here), "pelican-client/7.20")
        assert (status, answer.getheader("Location")) == (302, f"http://127.0.0.1:{one}/alone/a")
        assert ask("/both/f", "curl/8")[0] == 302
        assert ask("/both/f", "curl/8")[1].getheader("X-Pelican-Namespace") is None
        for path in ("/both", "/both/"):
            status, answer, _ = ask(path, "pelican-client/7.20")
            assert (status, answer.getheader("Location")) == (307, f"{here}/both")
            assert f"collections-url={here}" in answer.getheader("X-Pelican-Namespace")
        assert ask("/both/", "pelican-client/7.20", "PROPFIND", Depth="1")[1].getheader("X-Pelican-Namespace")
        for path, expected in (("both/f", "f"), ("alone/a", "a"), ("other/b", "b")):
            read = hither("cat", f"pelican://localhost:{port}/{path}", "--ca", tls.authority, "--no-store")
            assert read.out.encode() == content(expected), read.err
        together = [f"pelican://localhost:{port}/alone/{name}" for name in "ab"]
        assert hither("cat", *together, "--ca", tls.authority, "--no-store").code == 0
        logged = [line for line in federated.logged() if line["peer"] and line["target"].startswith("/alone/")]
        # The second file is not looked up in a directory that only one endpoint has.
        assert {line["target"].split("?")[0] for line in logged} == {"/alone/a"}


def test_checksums_are_told_with_redirects_and_in_metalink(tmp_path):
    with ExitStack() as stack:
        folder = tmp_path / "www"
        folder.mkdir()
        (folder / "f").write_bytes(content("f"))
        served = stack.enter_context(servers.hither(Loopback(), folder))
        federated = stack.enter_context(running(tmp_path, endpoints({"one": served}), {}, {}))
        port = int(federated.base.rsplit(":", 1)[1].strip("/"))

        def ask(path: str, **fields: str):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in fields.items()})
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            return answer, body

        checksum = f"{zlib.adler32(content('f')):08x}"
        assert f'<hash type="adler32">{checksum}</hash>' in ask("/f?metalink")[1].decode()
        answer, _ = ask("/f", Want_Digest="adler32")
        assert (answer.status, answer.getheader("Digest")) == (302, f"adler32={checksum}")
        digest = base64.b64encode(hashlib.sha256(content("f")).digest()).decode()
        answer, _ = ask("/f", Want_Repr_Digest="sha-256=1")
        assert (answer.status, answer.getheader("Repr-Digest")) == (302, f"sha-256=:{digest}:")
        assert ask("/f")[0].getheader("Digest") is None
