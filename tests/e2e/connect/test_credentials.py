"""Tokens, passwords and certificates reach their servers, and no one else."""

import subprocess
from pathlib import Path

import pytest
from command import run
from site_folder import Site
from needs import require
from token_server import TokenServer, good, token

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER

UNAUTHENTICATED = 4
QUERY = ("rawtr", "--where", "E33>5", "--json")


@pytest.fixture
def as_user(tmp_path):
    """Runs the command with a separate environment without other credentials."""
    home = tmp_path / "home"
    home.mkdir()

    def hither(*arguments, **environment):
        clean = {"HOME": home, "XDG_RUNTIME_DIR": home, "XDG_CACHE_HOME": home / "cache"} | environment
        words = [f"{name}={value}" for name, value in clean.items()]
        names = "BEARER_TOKEN", "BEARER_TOKEN_FILE", "X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY"
        unset = [word for name in names if name not in environment for word in ("-u", name)]
        return run(["env", *unset, *words, HITHER, *arguments])

    hither.home = home
    return hither


@pytest.fixture
def server(small):
    with TokenServer(small.path) as started:
        yield started


def private(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def seen_in(folder: Path, *secrets: str) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [f"{secret} in {path}" for path in files for secret in secrets if secret.encode() in path.read_bytes()]


def test_a_token_from_the_environment_is_sent(as_user, server, small):
    told = as_user("draw", server.url() + ":T", *QUERY, BEARER_TOKEN=good())
    assert told.code == 0, told.err
    assert told.json["selected"] == small.facts["selected"]
    assert {status for status, _ in server.log} == {206}


def test_a_token_replaced_during_a_job_costs_no_read(as_user, server, small, tmp_path):
    old, new = good(jti="old"), good(jti="new")
    file = private(tmp_path / "token", old)
    expected = [old]

    def accepts(number, header):
        # Revoked after a few requests, when the new token already exists.
        if number == 4:
            # Not in place: the command may read it at any time.
            private(tmp_path / "next", new).replace(file)
            expected[0] = new
        return header == f"Bearer {expected[0]}"

    server.accepts = accepts
    told = as_user("draw", server.url() + ":T", *QUERY, "--max-connections", 4, "--token-file", file)
    assert told.code == 0, told.err
    assert told.json["selected"] == small.facts["selected"]
    sent = [header for _, header in server.log]
    assert f"Bearer {old}" in sent and f"Bearer {new}" in sent
    # At most one refusal for each request that was in flight.
    assert 1 <= sum(status == 401 for status, _ in server.log) <= 4


def test_a_token_command_runs_once(as_user, server, tmp_path):
    ran = tmp_path / "ran"
    script = tmp_path / "give-token"
    script.write_text(f"#!/bin/sh\necho x >> {ran}\necho {good()}\n")
    script.chmod(0o755)
    told = as_user("draw", server.url() + ":T", *QUERY, "--token-command", script)
    assert told.code == 0, told.err
    assert ran.read_text() == "x\n"


@pytest.mark.parametrize(
    "claims, words",
    [
        ({"scope": "storage.read:/user"}, ["allows reading below `/user` only", "`/data/small.root`"]),
        ({"scope": "storage.create:/data"}, ["does not allow reading", "storage.read:`/data/small.root`"]),
        ({"exp": 1_500_000_000}, ["it expired", "days ago (exp)"]),
    ],
)
def test_an_error_names_the_wrong_claim(as_user, server, claims, words):
    told = as_user("stat", server.url(), "--json", BEARER_TOKEN=good(**claims))
    assert told.code == UNAUTHENTICATED
    for word in ["subject `alice`, issuer `https://iam.example`", "BEARER_TOKEN", *words]:
        assert word in told.err + told.out, told.err + told.out


def test_without_a_token_the_error_lists_where_it_was_searched(as_user, server):
    told = as_user("stat", server.url())
    assert told.code == UNAUTHENTICATED
    for word in ["none was found in BEARER_TOKEN, BEARER_TOKEN_FILE,", f"{as_user.home}/bt_u", "/tmp/bt_u", "Bearer realm"]:
        assert word in told.err, told.err


def test_a_token_follows_only_allowed_redirects(as_user, server, small):
    with TokenServer(small.path) as pool:
        server.redirect = pool.url()
        told = as_user("stat", server.url(), BEARER_TOKEN=good())
        assert told.code == UNAUTHENTICATED
        assert "the redirect led to" in told.err, told.err
        assert {header for _, header in pool.log} == {None}
        told = as_user("stat", server.url(), "--share-credentials", "127.0.0.1", BEARER_TOKEN=good())
        assert told.code == 0, told.err


def test_a_header_field_goes_where_credentials_may_go(as_user, server, small):
    field = ("--header", f"Authorization: Bearer {good()}")
    told = as_user("draw", server.url() + ":T", *QUERY, *field)
    assert told.code == 0, told.err
    assert told.json["selected"] == small.facts["selected"]
    assert not told.json["report"]["metadata_from_store"]
    assert not as_user("draw", server.url() + ":T", *QUERY, BEARER_TOKEN=good()).json["report"]["metadata_from_store"]
    assert as_user("draw", server.url() + ":T", *QUERY, *field).json["report"]["metadata_from_store"]
    with TokenServer(small.path) as pool:
        server.redirect = pool.url()
        assert as_user("stat", server.url(), *field).code == UNAUTHENTICATED
        assert {header for _, header in pool.log} == {None}
        told = as_user("stat", server.url(), *field, "--share-credentials", "127.0.0.1")
        assert told.code == 0, told.err


def test_a_header_field_that_belongs_to_the_request_is_refused(as_user, server):
    told = as_user("stat", server.url(), "--header", "Range: bytes=0-1")
    assert told.code == 2
    assert "hither sets this field itself" in told.err
    assert server.log == []


def test_a_token_file_that_others_can_read_is_an_error(as_user, server, tmp_path):
    file = private(tmp_path / "token", good())
    file.chmod(0o644)
    told = as_user("stat", server.url(), "--token-file", file)
    assert told.code == UNAUTHENTICATED
    assert "chmod 600" in told.err, told.err
    assert server.log == []


def test_no_output_contains_a_secret(as_user, server, tmp_path):
    secret, wrong = good(jti="hush"), token(sub="eve", exp=1, scope="")
    store = tmp_path / "store"
    options = ("--store", store, "--json")
    url = server.url()
    asked = url.replace("http://", "http://me:hushpassword@")
    runs = [
        as_user("draw", url + ":T", "rawtr", *options, BEARER_TOKEN=secret),
        as_user("explain", "draw", url + ":T", "rawtr", *options, BEARER_TOKEN=secret),
        as_user("tree", url + "?authz=hushquery", *options, BEARER_TOKEN=secret),
        as_user("stat", url, *options, BEARER_TOKEN=wrong),
        as_user("stat", asked, *options),
        as_user("tree", asked + "?authz=hushquery", *options),
        as_user("stat", asked.replace("127.0.0.1", "[::1"), *options),
        as_user("cat", url, "--user", "me", HITHER_PASSWORD="hushpassword"),
    ]
    assert [told.code for told in runs] == [0, 0, 0, 4, 4, 4, 2, 4], [told.err for told in runs]
    secrets = (secret, wrong, "hushpassword", "hushquery", "bWU6aHVzaHBhc3N3b3Jk")
    for told in runs:
        assert not [word for word in secrets if word in told.out + told.err], told.out + told.err
    assert any(path.is_file() for path in store.rglob("*"))
    assert seen_in(store, *secrets) + seen_in(as_user.home, *secrets) == []


def test_the_cache_of_one_identity_is_not_used_for_another(as_user, server, tmp_path):
    def remembered(subject):
        told = as_user(
            "draw", server.url() + ":T", *QUERY, "--store", tmp_path / "store", BEARER_TOKEN=good(sub=subject)
        )
        assert told.code == 0, told.err
        return told.json["report"]["metadata_from_store"]

    assert not remembered("alice")
    assert not remembered("bob")
    # The same user with another token: what was learned is still used.
    assert remembered("alice")


@pytest.fixture
def protected(tmp_path, small):
    """nginx that requires a password."""
    require("nginx")
    folder = tmp_path / "www"
    folder.mkdir()
    users = tmp_path / "users"
    users.write_text("me:{PLAIN}hush hush\n")
    where = Loopback()
    limits = f"auth_basic site; auth_basic_user_file {users};"
    with servers.nginx(where, folder, folder / "access.log", limits=limits) as port:
        site = Site(where, port, folder, folder / "access.log")
        yield site.link_in(small)


def test_passwords_come_from_the_url_the_environment_and_netrc(as_user, protected, small):
    in_url = protected.replace("http://", "http://me:hush%20hush@")
    told = as_user("draw", in_url + ":T", *QUERY)
    assert told.code == 0, told.err
    assert told.json["selected"] == small.facts["selected"]
    told = as_user("stat", protected, "--user", "me", HITHER_PASSWORD="hush hush")
    assert told.code == 0, told.err
    private(as_user.home / ".netrc", 'machine 127.0.0.1 login me password "hush hush"\n')
    told = as_user("stat", protected)
    assert told.code == 0, told.err
    told = as_user("stat", protected, "--anonymous")
    assert told.code == UNAUTHENTICATED


def test_a_wrong_and_a_missing_password_have_different_errors(as_user, protected):
    told = as_user("stat", protected, "--user", "me", HITHER_PASSWORD="wrong")
    assert told.code == UNAUTHENTICATED
    assert "the password of user `me`" in told.err, told.err
    told = as_user("stat", protected)
    assert told.code == UNAUTHENTICATED
    assert "credentials are required" in told.err and 'Basic realm="site"' in told.err, told.err


@pytest.fixture
def certified(tmp_path, small):
    """nginx over TLS that requires a client certificate: its URL, the folder with the authority, and its server."""
    require("nginx")
    folder = tmp_path / "www"
    folder.mkdir()
    work = tmp_path / "tls"
    work.mkdir()
    tls = servers.certificate(work)
    subprocess.run(
        "umask 077; openssl req -newkey rsa:2048 -nodes -keyout user.key -out user.csr -subj /O=test/CN=alice &&"
        " openssl x509 -req -in user.csr -CA authority.pem -CAkey authority.key -set_serial 7 -days 2 -out user.pem &&"
        " cat user.pem user.key > both.pem",
        shell=True, cwd=work, check=True, capture_output=True,
    )  # fmt: skip
    where = Loopback()
    limits = f"ssl_verify_client on; ssl_client_certificate {tls.authority};"
    with servers.nginx(where, folder, folder / "access.log", limits=limits, tls=tls) as port:
        site = Site(where, port, folder, folder / "access.log")
        yield site.link_in(small).replace("http://", "https://"), work, tls


def test_a_client_certificate_is_sent(as_user, certified, small):
    url, work, tls = certified
    told = as_user(
        "draw", url + ":T", *QUERY, "--ca", tls.authority, "--cert", work / "user.pem", "--key", work / "user.key"
    )
    assert told.code == 0, told.err
    assert told.json["selected"] == small.facts["selected"]
    # As a proxy certificate, from the environment, with the authority in a folder.
    authorities = work / "authorities"
    authorities.mkdir()
    (authorities / "0a1b2c3d.0").write_bytes(Path(tls.authority).read_bytes())
    told = as_user("stat", url, X509_USER_PROXY=work / "both.pem", X509_CERT_DIR=authorities)
    assert told.code == 0, told.err


def test_an_unusable_client_certificate_is_explained(as_user, certified):
    url, work, tls = certified
    told = as_user("cat", "--range", "0-3", url, "--ca", tls.authority)
    assert told.code == UNAUTHENTICATED
    assert "requires a client certificate" in told.err, told.err
    (work / "user.key").chmod(0o644)
    told = as_user("stat", url, "--ca", tls.authority, "--cert", work / "user.pem", "--key", work / "user.key")
    assert told.code == UNAUTHENTICATED
    assert "chmod 600" in told.err, told.err
    subprocess.run(
        ["openssl", "rsa", "-aes128", "-passout", "pass:x", "-in", "user.key", "-out", "locked.key"],
        cwd=work, check=True, capture_output=True,
    )  # fmt: skip
    told = as_user("stat", url, "--ca", tls.authority, "--cert", work / "user.pem", "--key", work / "locked.key")
    assert told.code == UNAUTHENTICATED
    assert "is encrypted" in told.err, told.err
