"""Tokens over roots://, checked by xrootd's own plug-ins (ztn, SciTokens) against an issuer on this machine."""

import os
import shutil
from pathlib import Path

import pytest
from command import run
from needs import missing, require
from token_issuer import Issuer, Key

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER

CREDENTIALS = 4
AUDIENCE = "https://wlcg.cern.ch/jwt/v1/any"

ZTN = """
xrootd.seclib libXrdSec.so
sec.protocol ztn
sec.protbind * only ztn
"""
SCITOKENS = """
ofs.authorize 1
ofs.authlib libXrdAccSciTokens.so config={config}
"""


def installed(library: str) -> bool:
    return any(Path("/usr/lib").glob(f"**/{library}-5.so"))


@pytest.fixture
def issued(tmp_path, monkeypatch):
    """A server that requires tokens of an issuer, with the files `open/f` and `closed/f`: its port, the issuer, and the
    authority of both."""
    require("xrootd")
    if not installed("libXrdAccSciTokens"):
        missing("xrootd-scitokens-plugins")
    if os.geteuid() != 0:
        pytest.skip("needs root: the plug-in trusts the system's authorities only, and gets others in their place")
    folder = tmp_path / "served"
    for name in ("open", "closed"):
        (folder / name).mkdir(parents=True)
        (folder / name / "f").write_bytes(name.encode() * 100_000)
    tls = servers.certificate(tmp_path)
    with Issuer(Key(tmp_path, "1", "RS256"), audience=AUDIENCE, folder="", tls=tls) as issuer:
        config = tmp_path / "scitokens.cfg"
        config.write_text(
            f"[Global]\naudience = {AUDIENCE}\nonmissing = deny\n\n[Issuer test]\nissuer = {issuer.url}\nbase_path = /\n"
        )
        cache = tmp_path / "cache"
        cache.mkdir()
        for path in (tmp_path, cache):
            path.chmod(0o755)
        shutil.chown(cache, "nobody")
        monkeypatch.setattr(servers, "as_localhost", lambda command: trusting(tls.authority, cache, command))
        with servers.xrootd(Loopback(), folder, tls=tls, more=ZTN + SCITOKENS.format(config=config)) as port:
            yield port, issuer, tls.authority


def trusting(authority: Path, cache: Path, command: list[str]) -> list[str]:
    """The command on a machine that is called localhost and trusts only one authority."""
    script = (
        f'hostname localhost && mount --bind {authority} /etc/ssl/certs/ca-certificates.crt && exec env XDG_CACHE_HOME={cache} "$@"'
    )
    return ["unshare", "--uts", "--mount", "sh", "-c", script, "sh", *command]


@pytest.fixture
def cat(issued, tmp_path):
    """Reads a file with or without a token."""
    port, _, authority = issued
    home = tmp_path / "home"
    home.mkdir()

    def read(name: str, token: str | None, scheme: str = "roots", *options: str):
        clean = {"HOME": home, "XDG_RUNTIME_DIR": home, "XDG_CACHE_HOME": home, "SSL_CERT_FILE": authority}
        if token:
            clean["BEARER_TOKEN"] = token
        words = [f"{key}={value}" for key, value in clean.items()]
        unset = [word for key in ("BEARER_TOKEN", "BEARER_TOKEN_FILE") if key not in clean for word in ("-u", key)]
        return run(["env", *unset, *words, HITHER, "cat", *options, f"{scheme}://localhost:{port}//{name}"])

    return read


def test_a_token_opens_the_paths_of_its_scope(issued, cat):
    _, issuer, _ = issued
    for scheme in ("roots", "root"):
        told = cat("open/f", issuer.token(), scheme)
        assert (told.code, told.out) == (0, "open" * 100_000), told.err
    narrow = issuer.token(scope="storage.read:/open")
    assert cat("open/f", narrow).code == 0
    refused = cat("closed/f", narrow)
    assert refused.code == CREDENTIALS, refused.err
    assert "scope" in refused.err and "/open" in refused.err, refused.err


def test_an_error_explains_a_wrong_token(issued, cat):
    _, issuer, _ = issued
    none = cat("open/f", None)
    assert none.code == CREDENTIALS, none.err
    assert "ztn" in none.err and "provide a token" in none.err, none.err
    old = cat("open/f", issuer.token(exp=1_600_000_000))
    assert old.code == CREDENTIALS, old.err
    assert "expired" in old.err, old.err
    foreign = cat("open/f", issuer.token(iss="https://elsewhere.example"))
    assert foreign.code == CREDENTIALS, foreign.err
    assert "elsewhere.example" in foreign.err, foreign.err
    # The server checks it.
    other = cat("open/f", issuer.token(aud="https://elsewhere.example"))
    assert other.code == CREDENTIALS, other.err
    assert "aud" in other.err, other.err
