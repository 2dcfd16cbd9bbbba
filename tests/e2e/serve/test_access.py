"""Authorization and reserved space of `hither serve`: with curl and an issuer of signed tokens."""

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from needs import require
from token_issuer import Issuer, Key, openssl, part

from bench.harness import servers
from bench.harness.paths import HITHER

require("curl")
require("openssl")

MIB = 1 << 20


@dataclass
class Answered:
    status: int
    headers: dict[str, str]
    body: str
    sent: int


class Served:
    """A running `hither serve` with a configuration."""

    def __init__(self, folder: Path, text: str):
        self.root = folder / "data"
        self.root.mkdir(exist_ok=True)
        self.config = folder / "serve.toml"
        self.config.write_text(f'root = "{self.root}"\nlisten = ["127.0.0.1:0"]\nwrite = true\n{servers.NO_FLOOR}{text}')
        self.start()

    def start(self) -> None:
        command = [HITHER, "serve", "--json", "--config", self.config]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["urls"][0].rstrip("/")

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.stop()

    def stop(self, *, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        self.process.wait(timeout=60)
        self.process.stdout.close()

    def curl(
        self, path: str, *arguments: str, token: str | None = None, given: bytes | None = None, check: bool = True
    ) -> Answered:
        shown = ["-H", f"Authorization: Bearer {token}"] if token else []
        body = ["--data-binary", "@-"] if given is not None else []
        # Otherwise curl sends the body after a second without a response.
        out = ["-s", "--expect100-timeout", "60", "-o", "-", "-D", "/dev/stderr", "-w", "%{stderr}\n%{http_code} %{size_upload}\n"]
        command = ["curl", *out, "-m", "60", *shown, *body, *arguments, self.url + path]
        done = subprocess.run(command, input=given, capture_output=True, check=check)
        *head, last = done.stderr.decode().strip().splitlines()
        fields = (line.partition(":") for line in head if ":" in line)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        status, sent = last.split()
        return Answered(int(status), headers, done.stdout.decode(), int(sent))

    def put(self, path: str, size: int, *arguments: str, token: str | None = None) -> Answered:
        return self.curl(path, "-X", "PUT", *arguments, token=token, given=bytes(size))


@pytest.fixture
def keys(tmp_path) -> tuple[Key, Key]:
    return Key(tmp_path, "first"), Key(tmp_path, "second", "RS256")


@pytest.fixture
def issuer(keys):
    with Issuer(keys[0]) as issuer:
        yield issuer


@pytest.fixture
def served(tmp_path, issuer):
    text = f"""
        [auth]
        audience = ["https://se.example"]
        anonymous = ["/public"]
        [[auth.issuers]]
        url = "{issuer.url}"
        base = ["/atlas"]
        [[auth.issuers.groups]]
        name = "/atlas/production"
        folder = "/atlas/production"
        allow = ["read", "create"]
        [lots]
        bytes = {1 << 40}
    """
    with Served(tmp_path, text) as served:
        for name in ["public/open", "atlas/data/x", "atlas/database", "atlas/production/p", "cms/x"]:
            path = served.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        yield served


def test_a_scope_opens_its_folder_only(served, issuer):
    token = issuer.token("storage.read:/data storage.create:/new")
    (served.root / "atlas" / "new").mkdir()
    for path, status in [
        ("/atlas/data/x", 200),
        ("//atlas///data/x", 200),
        ("/atlas/%64ata/x", 200),
        ("/atlas/database", 403),
        ("/data/x", 403),
        ("/cms/x", 403),
        ("/atlas/data/../database", 400),
        ("/atlas/data/%2e%2e/database", 400),
        ("/atlas/data%2f..%2fdatabase", 400),
        ("/public/open", 200),
    ]:
        assert served.curl(path, "--path-as-is", token=token).status == status, path
    assert served.put("/atlas/new/file", 10, token=token).status == 201
    again = served.put("/atlas/new/file", 11, token=token)
    assert (again.status, (served.root / "atlas/new/file").stat().st_size) == (403, 10)
    assert "storage.modify" in again.headers["www-authenticate"]
    assert served.curl("/atlas/new/file", "-X", "DELETE", token=token).status == 403
    assert len([path for path in issuer.asked if path == "/iam/jwk"]) == 1


def test_errors_name_the_claim_only_to_the_holder_of_a_signed_token(served, issuer, tmp_path):
    for claims, named in [
        ({"exp": int(time.time()) - 7200}, "exp: the token expired 2 h ago"),
        ({"nbf": int(time.time()) + 7200}, "nbf: "),
        ({"aud": "https://other.example"}, "aud: the token is meant for `https://other.example`"),
        ({"aud": None}, "aud: "),
    ]:
        answer = served.curl("/atlas/data/x", token=issuer.token("storage.read:/", **claims))
        assert (answer.status, answer.body.startswith(named)) == (401, True), answer
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    stranger = Key(tmp_path, "stranger")
    claims = issuer.claims("storage.read:/")
    hostile = [
        stranger.token(**claims),
        stranger.token({"kid": "first"}, **claims),
        stranger.token({"kid": "first", "jwk": stranger.public()}, **claims),
        issuer.token("storage.read:/", iss="https://elsewhere.example"),
        f"{part({'alg': 'none'})}.{part(claims)}.",
        issuer.token("storage.read:/")[:-4],
        "x" * 60_000,
    ]
    for token in hostile:
        answer = served.curl("/atlas/data/x", token=token)
        assert answer.status == 401, token
        assert answer.body == "the token is not valid here\n"
    nothing = served.curl("/atlas/data/x")
    assert (nothing.status, nothing.headers["www-authenticate"]) == (401, 'Bearer realm="hither"')
    assert served.curl("/no/such/file").status == 401, "what exists is not told either"


def test_groups_grant_access_without_a_scope(served, issuer):
    member = issuer.token("openid", **{"wlcg.groups": ["/atlas", "/atlas/production"]})
    assert served.curl("/atlas/production/p", token=member).status == 200
    assert served.curl("/atlas/data/x", token=member).status == 403
    less = issuer.token("storage.read:/data", **{"wlcg.groups": ["/atlas/production"]})
    assert served.curl("/atlas/production/p", token=less).status == 403


def test_known_keys_stay_valid_when_their_issuer_dies(served, issuer):
    before = issuer.token("storage.read:/data")
    assert served.curl("/atlas/data/x", token=before).status == 200
    issuer.die()
    for token in [before, issuer.token("read:/data")]:
        assert served.curl("/atlas/data/x", token=token).status == 200
    unknown = Key(served.config.parent, "unknown")
    assert served.curl("/atlas/data/x", token=issuer.token("read:/", unknown)).status == 401


def test_rsa_and_ecdsa_keys_are_accepted(tmp_path, keys):
    with Issuer(*keys) as issuer:
        auth = f'[auth]\naudience = ["https://se.example"]\n[[auth.issuers]]\nurl = "{issuer.url}"\n'
        with Served(tmp_path, auth) as served:
            (served.root / "x").write_text("x")
            for key in keys:
                assert served.curl("/x", token=issuer.token("read:/", key)).status == 200, key.algorithm


def signed(folder: Path, name: str, subject: str, by: str, extensions: str = "basicConstraints=CA:FALSE\n") -> None:
    """A certificate and its key in one file, followed by the certificates of `by`."""
    at = {kind: str(folder / f"{name}.{kind}") for kind in ["key", "csr", "crt", "ext", "pem"]}
    openssl("genpkey", "-quiet", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", at["key"])
    openssl("req", "-new", "-key", at["key"], "-subj", subject, "-out", at["csr"])
    Path(at["ext"]).write_text(extensions)
    issuer = ["-CA", str(folder / f"{by}.crt"), "-CAkey", str(folder / f"{by}.key"), "-CAcreateserial"]
    openssl("x509", "-req", "-in", at["csr"], "-days", "2", *issuer, "-extfile", at["ext"], "-out", at["crt"])
    chain = folder / f"{by}.pem"
    above = chain.read_text() if chain.exists() else ""
    Path(at["pem"]).write_text(Path(at["crt"]).read_text() + Path(at["key"]).read_text() + above)


def test_certificates_and_proxies_have_the_name_of_their_user(tmp_path):
    tls = servers.certificate(tmp_path)
    for authority in ["ca", "evil"]:
        key = str(tmp_path / f"{authority}.key")
        openssl("genpkey", "-quiet", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
        certificate = str(tmp_path / f"{authority}.crt")
        openssl("req", "-x509", "-key", key, "-subj", f"/O=Grid/CN={authority}", "-days", "2", "-out", certificate)
    proxy = "proxyCertInfo=critical,language:id-ppl-inheritAll\n"
    signed(tmp_path, "alice", "/O=Grid/CN=alice", "ca")
    signed(tmp_path, "proxy", "/O=Grid/CN=alice/CN=1234", "alice", proxy)
    signed(tmp_path, "second", "/O=Grid/CN=alice/CN=1234/CN=5678", "proxy", proxy)
    signed(tmp_path, "bob", "/O=Grid/CN=bob", "ca")
    signed(tmp_path, "forged", "/O=Grid/CN=alice/CN=1234", "bob", proxy)
    signed(tmp_path, "unmarked", "/O=Grid/CN=alice/CN=1234", "alice")
    signed(tmp_path, "mallory", "/O=Grid/CN=alice", "evil")
    text = f"""
        [tls]
        certificate = "{tls.certificate}"
        key = "{tls.key}"
        [auth]
        authorities = "{tmp_path / "ca.crt"}"
        [[auth.certificates]]
        subject = "O=Grid, CN=alice"
        folder = "/alice"
        allow = ["read"]
    """
    with Served(tmp_path, text) as served:
        (served.root / "alice").mkdir()
        (served.root / "alice" / "x").write_text("x")

        def status(name: str | None, path: str = "/alice/x") -> int:
            shown = ["--cert", str(tmp_path / f"{name}.pem")] if name else []
            return served.curl(path, "-k", *shown, check=False).status

        assert [status(name) for name in ["alice", "proxy", "second"]] == [200, 200, 200]
        assert status("proxy", "/bob") == 403
        assert (status("bob"), status(None)) == (403, 401)
        # These get no connection.
        assert [status(name) for name in ["forged", "unmarked", "mallory"]] == [0, 0, 0]


# `openssl ca` keeps a database of signed and revoked certificates.
BOOKS = """\
[ca]
default_ca = books
[books]
database = {folder}/index.txt
crlnumber = {folder}/crlnumber
crl_extensions = list
default_md = sha256
default_crl_days = 2
[list]
authorityKeyIdentifier = keyid
"""

POLICY = """\
access_id_CA   X509   '/O=Grid/CN=ca'
pos_rights     globus CA:sign
cond_subjects  globus '"/O=Grid/*"'
"""


def test_revoked_certificates_and_names_outside_of_the_policy_are_refused(tmp_path):
    tls = servers.certificate(tmp_path)
    key, certificate, authorities = tmp_path / "ca.key", tmp_path / "ca.crt", tmp_path / "authorities"
    openssl("genpkey", "-quiet", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(key))
    openssl("req", "-x509", "-key", str(key), "-subj", "/O=Grid/CN=ca", "-days", "2", "-out", str(certificate))
    authorities.mkdir()
    (authorities / "5168735f.0").write_text(certificate.read_text())
    signed(tmp_path, "alice", "/O=Grid/CN=alice", "ca")
    signed(tmp_path, "bob", "/O=Grid/CN=bob", "ca")
    signed(tmp_path, "comma", "/O=Grid, CN=bob", "ca")
    signed(tmp_path, "stranger", "/O=Elsewhere/CN=bob", "ca")
    rights = "".join(
        f'[[auth.certificates]]\nsubject = "{name}"\nfolder = "/"\nallow = ["read"]\n'
        for name in ["O=Grid, CN=alice", "O=Grid, CN=bob", "O=Elsewhere, CN=bob"]
    )
    tables = f'[tls]\ncertificate = "{tls.certificate}"\nkey = "{tls.key}"\n[auth]\nauthorities = "{authorities}"\n'
    with Served(tmp_path, tables + rights) as served:
        (served.root / "x").write_text("x")

        def statuses() -> dict[str, int]:
            names = ["alice", "bob", "comma", "stranger"]
            shown = {name: ["--cert", str(tmp_path / f"{name}.pem")] for name in names}
            return {name: served.curl("/x", "-k", *shown[name], check=False).status for name in names}

        assert statuses() == {"alice": 200, "bob": 200, "comma": 403, "stranger": 200}
        (tmp_path / "index.txt").touch()
        (tmp_path / "crlnumber").write_text("01\n")
        (tmp_path / "books").write_text(BOOKS.format(folder=tmp_path))
        books = ["-config", str(tmp_path / "books"), "-cert", str(certificate), "-keyfile", str(key)]
        openssl("ca", *books, "-revoke", str(tmp_path / "alice.crt"))
        openssl("ca", *books, "-gencrl", "-out", str(authorities / "5168735f.r0"))
        (authorities / "5168735f.signing_policy").write_text(POLICY)
        served.stop()
        served.start()
        # A refused connection has no status. The policy does not allow the name with the comma either.
        assert statuses() == {"alice": 0, "bob": 200, "comma": 0, "stranger": 0}
        command = ["openssl", "s_client", "-ign_eof", "-connect", served.url.removeprefix("https://")]
        command += ["-cert", str(tmp_path / "alice.pem"), "-key", str(tmp_path / "alice.key")]
        told = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        assert "alert certificate revoked" in told.stderr, told.stderr
    (tmp_path / "server.key").chmod(0o644)
    started = subprocess.run([HITHER, "serve", "--config", served.config], capture_output=True, text=True, check=False)
    assert started.returncode != 0
    assert "chmod 600" in started.stderr, started.stderr


def test_what_would_be_open_to_everybody_has_to_be_said(tmp_path):
    config = tmp_path / "serve.toml"
    issuer = '[auth]\n[[auth.issuers]]\nurl = "https://iam.example"\n'
    for text, named in [("write = true\n", "anonymous_write"), (issuer, "clear_text")]:
        config.write_text(f'root = "{tmp_path}"\nlisten = ["0.0.0.0:0"]\n{text}')
        told = subprocess.run([HITHER, "serve", "--config", config], capture_output=True, text=True, check=False)
        assert (told.returncode, told.stdout) == (2, ""), told
        assert named in told.stderr, told.stderr


API = "/.well-known/hither/lots"


def lot(served: Served, token: str, path: str, size: int, lease: int = 600) -> Answered:
    wanted = {"path": path, "bytes": size, "lease_seconds": lease}
    return served.curl(API, "-X", "POST", token=token, given=json.dumps(wanted).encode())


def test_a_lot_reserves_limits_and_releases_space(served, issuer):
    token = issuer.token("storage.read:/ storage.modify:/")
    made = lot(served, token, "/atlas/lot", 8 * MIB)
    assert made.status == 201, made
    (served.root / "atlas" / "lot").mkdir()
    own = json.loads(made.body)
    assert made.headers["location"] == f"{API}/{own['id']}"
    assert own["used_bytes"] == 0
    assert sum(path.stat().st_blocks for path in served.root.glob(".hither-*/reserve")) * 512 >= 8 * MIB
    assert lot(served, token, "/atlas/lot/inner", MIB).status == 409
    assert lot(served, token, "/cms", MIB).status == 403

    assert served.put("/atlas/lot/a", 5 * MIB, token=token).status == 201
    over = served.put("/atlas/lot/b", 4 * MIB, "-H", "Expect: 100-continue", token=token)
    assert (over.status, over.sent) == (507, 0), over
    assert "bytes are left" in over.body
    chunked = served.put("/atlas/lot/b", 4 * MIB, "-H", "Transfer-Encoding: chunked", token=token)
    assert chunked.status == 507
    assert not (served.root / "atlas/lot/b").exists()
    assert served.put("/atlas/lot/b", 3 * MIB, token=token).status == 201
    copied = served.curl("/atlas/data/x", "-X", "COPY", "-H", "Destination: /atlas/lot/c", token=token)
    assert copied.status == 507
    moved = served.curl("/atlas/lot/a", "-X", "MOVE", "-H", "Destination: /atlas/lot/d", token=token)
    assert moved.status == 201
    assert served.curl("/atlas/lot/d", "-X", "DELETE", token=token).status == 204

    def told() -> dict:
        return json.loads(served.curl(f"{API}/{own['id']}", token=token).body)

    assert told()["used_bytes"] == 3 * MIB
    asked = b'<propfind xmlns="DAV:"><prop><quota-available-bytes/><quota-used-bytes/></prop></propfind>'
    found = served.curl("/atlas/lot/", "-X", "PROPFIND", "-H", "Depth: 0", token=token, given=asked)
    assert f"quota-available-bytes>{5 * MIB}<" in found.body, found.body
    assert f"quota-used-bytes>{3 * MIB}<" in found.body

    stranger = issuer.token("storage.read:/ storage.modify:/", sub="bob")
    assert json.loads(served.curl(API, token=stranger).body) == []
    assert served.curl(f"{API}/{own['id']}", "-X", "DELETE", token=stranger).status == 404
    longer = served.curl(f"{API}/{own['id']}", "-X", "PATCH", token=token, given=b'{"bytes": 16777216}')
    assert (longer.status, json.loads(longer.body)["bytes"]) == (200, 16 * MIB)

    served.stop(kill=True)
    (served.root / "atlas/lot/behind").write_bytes(bytes(4096))
    served.start()
    again = told()
    assert (again["bytes"], again["used_bytes"]) == (16 * MIB, 3 * MIB + 4096)
    assert served.curl(f"{API}/{own['id']}", "-X", "DELETE", token=token).status == 204
    assert json.loads(served.curl(API, token=token).body) == []
    assert sum(path.stat().st_size for path in served.root.glob(".hither-*/reserve")) == 0
    assert served.put("/atlas/lot/free", 20 * MIB, token=token).status == 201


def test_invalid_lots_are_errors(served, issuer):
    token = issuer.token("storage.modify:/")
    for body in [b"", b"[]", b"{}", b'{"path": "/atlas", "bytes": -1, "lease_seconds": 5}', b"[" * 10_000]:
        assert served.curl(API, "-X", "POST", token=token, given=body).status == 400, body[:50]
    assert lot(served, token, "/atlas/../cms", MIB).status == 400
    assert lot(served, token, "/atlas/x", 0).status == 400
    assert lot(served, token, "/atlas/x", 1 << 62).status == 507
    assert served.curl(API, "-X", "PATCH", token=token, given=b"{}").status == 405
    assert served.curl(f"{API}/none", token=token).status == 404
    assert served.curl(API).status == 401
