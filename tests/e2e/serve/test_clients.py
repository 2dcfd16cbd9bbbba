"""A running `hither serve`, in clear text and over TLS, with programs that read event data and grid programs.

Further tests with such programs are in test_serve.py (curl, davix, gfal2, rclone, litmus) and test_third_party.py.

Not tested because of errors of the client: XrdCl's plug-in 5.5.3 copies pieces of a vector read to uninitialised
addresses, cannot request listings over http, and reports success for `mkdir -p` without creating the directory.
"""

import json
import os
import subprocess
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from served import CONTENT, DEBIANS_PYTHON, PATIENCE, Served, run, serving
from needs import require

from bench.harness import servers
from bench.harness.contenders import peer
from bench.harness.paths import ROOT
from bench.reads import pieces


@dataclass
class Trusted:
    """A server, and the settings that make programs trust its certificate."""

    served: Served
    environment: dict[str, str]
    authority: Path | None

    def url(self, name: str) -> str:
        return self.served.url(name)

    def run(self, *command, **more) -> str:
        more["env"] = {**os.environ, **self.environment, **more.get("env", {})}
        return run(*command, **more)

    def logged(self) -> list[dict]:
        assert self.served.stop() == 0
        return self.served.logged()


@pytest.fixture(params=["http", "https"])
def site(request, tmp_path, small):
    flags, environment, authority = ["--write"], {}, None
    if request.param == "https":
        tls = servers.certificate(tmp_path)
        flags += ["--tls-cert", str(tls.certificate), "--tls-key", str(tls.key)]
        # Grid programs need a folder of authorities, named by the hash of their subjects.
        folder = tmp_path / "authorities"
        folder.mkdir()
        (folder / "authority.pem").write_bytes(tls.authority.read_bytes())
        subprocess.run(["openssl", "rehash", str(folder)], check=True)
        environment = {"X509_CERT_DIR": str(folder), "SSL_CERT_FILE": str(tls.authority)}
        authority = tls.authority
    with serving(tmp_path, *flags) as served:
        # Copied, not linked: the server does not follow links out of its tree.
        served.file("small.root", small.path.read_bytes())
        yield Trusted(served, environment, authority)


def query(site: Trusted, program: str, *arguments: str) -> dict:
    """Runs one of the benchmarks' programs that draw with a cut."""
    told = site.run(*peer(f"draw.{program}", site.url("small.root"), *arguments), cwd=ROOT)
    return json.loads(told)


def assert_right(answer: dict, facts: dict) -> None:
    assert answer["selected"] == facts["selected"]
    assert answer["mean"] == pytest.approx(facts["mean"], rel=1e-6)
    assert answer["stddev"] == pytest.approx(facts["stddev"], rel=1e-6)


@pytest.mark.parametrize("source", ["default", "HTTPSource"])
def test_uproot_reads_a_tree(site, small, source):
    """`default` is fsspec with aiohttp; HTTPSource requests many ranges at a time."""
    assert_right(query(site, "uproot_read", source, str(small.path)), small.facts)
    requests = [line for line in site.logged() if line["target"] == "/small.root"]
    assert {line["status"] for line in requests} <= {200, 206}
    assert all(line["complete"] for line in requests)
    if source == "HTTPSource":
        assert max(line.get("ranges") or 0 for line in requests) > 1, "its vector was not taken"


def test_root_reads_a_tree(site, small):
    """TFile::Open returns a TWebFile, which requests each vector of a TTreeCache in one request."""
    if find_spec("ROOT") is None:
        require("ROOT")
    assert_right(query(site, "root_draw"), small.facts)
    # It writes the whole URL into the request line.
    requests = [line for line in site.logged() if line["target"].endswith("/small.root")]
    assert {line["status"] for line in requests} <= {200, 206}
    assert max(line.get("ranges") or 0 for line in requests) > 1


def test_our_client_draws_with_one_query_for_all_ranges(site, small, hither):
    trust = ["--ca", site.authority] if site.authority else []
    answer = hither("draw", f"{site.url('small.root')}:T", "rawtr", "--where", "E33>5", "--json", "--no-store", *trust)
    assert answer.code == 0, answer.err
    told = answer.json
    assert (told["selected"], told["mean"]) == (small.facts["selected"], pytest.approx(small.facts["mean"]))
    assert "QUERY" in {line["method"] for line in site.logged()}


def test_davix_reads_vectors(site, small, tmp_path):
    program = pieces.davix_ranges()
    if program is None:
        require("davix's headers")
    wanted = [(at, 700) for at in range(5, small.path.stat().st_size - 700, 9000)]
    ranges, out = tmp_path / "ranges", tmp_path / "out"
    ranges.write_text("".join(f"{first} {length}\n" for first, length in wanted))
    folder = [site.environment["X509_CERT_DIR"]] if site.authority else []
    site.run(program, site.url("small.root"), ranges, out, *folder)
    content = small.path.read_bytes()
    assert out.read_bytes() == b"".join(content[first : first + length] for first, length in wanted)
    answers = [line for line in site.logged() if line["method"] == "GET"]
    assert all(line["status"] == 206 for line in answers)
    assert sum(line["ranges"] for line in answers) == len(wanted)
    assert len(answers) < 5, "not one request for each piece"


def test_xrdcl_uploads_and_downloads_through_its_plug_in(site, small, tmp_path):
    if not Path("/etc/xrootd/client.plugins.d/xrdcl-http-plugin.conf").exists():
        require("xrootd-client-http-plugins")
    # Without this variable xrdcp does not look for a plug-in.
    allowed = {"env": {"XRDCP_ALLOW_HTTP": "1"}}
    site.run("xrdcp", "-f", site.url("small.root"), tmp_path / "got", **allowed)
    assert (tmp_path / "got").read_bytes() == small.path.read_bytes()
    site.run("xrdcp", "-f", tmp_path / "got", site.url("put"), **allowed)
    assert (site.served.folder / "put").read_bytes() == small.path.read_bytes()
    server = site.url("").rstrip("/")
    assert f"Size:   {small.path.stat().st_size}" in site.run("xrdfs", server, "stat", "/put", **allowed)
    site.run("xrdfs", server, "mv", "/put", "/moved", **allowed)
    site.run("xrdfs", server, "rm", "/moved", **allowed)
    assert sorted(path.name for path in site.served.folder.iterdir()) == ["small.root"]


def test_davix_changes_the_namespace(site, tmp_path):
    trust = ["--capath", site.environment["X509_CERT_DIR"]] if site.authority else []
    (tmp_path / "source").write_bytes(CONTENT)
    site.run("davix-mkdir", *trust, site.url("d"))
    site.run("davix-put", *trust, tmp_path / "source", site.url("d/%C3%A4%20b"))
    assert (site.served.folder / "d" / "ä b").read_bytes() == CONTENT
    # It shows names as encoded in the response.
    assert site.run("davix-ls", *trust, site.url("d/")).split() == ["%C3%A4%20b"]
    site.run("davix-get", *trust, site.url("d/%C3%A4%20b"), tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == CONTENT
    # Its exit code is 255 or 0, independent of the result (davix 0.8.4).
    moving = ["davix-mv", *trust, site.url("d/%C3%A4%20b"), site.url("d/moved")]
    subprocess.run(moving, check=False, timeout=PATIENCE, capture_output=True)
    assert (site.served.folder / "d" / "moved").read_bytes() == CONTENT
    site.run("davix-rm", *trust, site.url("d/moved"))
    assert list((site.served.folder / "d").iterdir()) == []


def test_gfal_changes_the_namespace(site, tmp_path):
    (tmp_path / "source").write_bytes(CONTENT)
    base = site.url("").replace("http", "dav", 1)

    def gfal(name: str, *arguments: str) -> str:
        return site.run(f"gfal-{name}", *arguments, **DEBIANS_PYTHON)

    gfal("mkdir", "-p", f"{base}a/b")
    gfal("copy", f"file://{tmp_path}/source", f"{base}a/b/c")
    gfal("copy", "-f", f"file://{tmp_path}/source", f"{base}a/b/c")
    assert gfal("ls", f"{base}a/b").split() == ["c"]
    assert f"Size: {len(CONTENT)}" in gfal("stat", f"{base}a/b/c")
    for name, value in [("ADLER32", f"{zlib.adler32(CONTENT):08x}"), ("MD5", "c35cc7d8d91728a0cb052831bc4ef372")]:
        assert value in gfal("sum", f"{base}a/b/c", name)
    gfal("rename", f"{base}a/b/c", f"{base}a/b/d")
    gfal("copy", f"{base}a/b/d", f"file://{tmp_path}/got")
    assert (tmp_path / "got").read_bytes() == CONTENT
    gfal("rm", "-r", f"{base}a")
    assert not (site.served.folder / "a").exists()


def test_rclone_moves_trees(site, tmp_path):
    for name in ("a", "d/ü", "d/e/%41"):
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 1000)
    trust = ["--ca-cert", site.authority] if site.authority else []
    remote = f":webdav,url='{site.url('')}',vendor=other:tree"
    rclone = ["rclone", "--config", "/dev/null", *trust]
    site.run(*rclone, "copy", tmp_path / "source", remote)
    site.run(*rclone, "check", "--download", tmp_path / "source", remote)
    site.run(*rclone, "moveto", f"{remote}/d", f"{remote}/moved")
    assert (site.served.folder / "tree" / "moved" / "e" / "%41").exists()
    site.run(*rclone, "purge", remote)
    assert sorted(path.name for path in site.served.folder.iterdir()) == ["small.root"]
