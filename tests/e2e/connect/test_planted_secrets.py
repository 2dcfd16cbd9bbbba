"""Nothing that a command prints or keeps has a secret: every verb runs with planted ones against a server that repeats
what it gets, and all output, the log, traces, the store and journals are searched for them.
"""

import base64
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from behaviours.foreign_server import Site, serving

from bench.harness.paths import HITHER

PASSWORD, QUERY, TOKEN, FIELD, PROXY, KEY = (
    f"CANARY{name}" for name in ("password", "query", "token", "field", "proxy", "s3key")
)
SECRETS = [PASSWORD, QUERY, TOKEN, FIELD, PROXY, KEY]
ENCODED = [base64.b64encode(f"me:{word}".encode()).decode() for word in (PASSWORD, PROXY)]
CONFIG = f"""
[headers]
X-Site-Secret = "{FIELD}"
[credentials]
token_command = "echo {TOKEN}"
"""
PROFILE = f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {KEY}\naws_session_token = {KEY}\n"
VERBS = """
ls {d}|ls -lR {d}|find {d}|du {d}|stat {f}|cat {f}|cat --range 0-9 {f}|cp {f} {new}|cp -r {d} {new}|cp {local}/f {d}up
cp -r {local} {d}up|cp {f} -|cp --replica {f} {f} {new}|cp {f} {gone}|cp --third-party pull {f} {d}g|sync {d} {new}
sync {local} {d}copy|sync --delete --dry-run {d} {local}|check {d} {local}|checksum {f}|mkdir {d}new/|mv {d}old {d}older|rm {d}out
rm -r {d}sub/|stage {f}|stage --status {f}|locate {f}|chmod 644 {f}|tree {f}|tree --learned {f}|draw {f}:T x|draw {f} x
explain cat {f}|explain cp {f} {new}|explain draw {f} x|lots show {d}|lots reserve --bytes 1M --lease 1h {d}|profile network {f}
""".replace("\n", "|").strip("|").split("|")
FORMS = ["http://me:{password}@127.0.0.1:{port}/{path}", "http://127.0.0.1:{port}/{path}?authz={query}", "s3://bucket/{path}"]


def repeats(status: int | None):
    """Responds with a status, and what the request had in body, header and `Location`; normally without a status."""

    def behaves(exchange) -> bool:
        if status is None:
            return False
        given = exchange.headers.get("Authorization", "")
        decoded = base64.b64decode(given.split()[1]).decode() if given.startswith("Basic ") else given
        field = exchange.headers.get("X-Site-Secret")
        heard = f"{exchange.command} {exchange.path} {dict(exchange.headers)} {decoded}"
        fields = {"Content_Type": "text/plain", "Retry_After": "0", "ETag": f'"{TOKEN}"'}
        if status == 302:
            fields["Location"] = f"http://me:{PASSWORD}@127.0.0.1:1/f?authz={QUERY}#{TOKEN}"
        if status == 401:
            fields["WWW_Authenticate"] = f'Bearer error="invalid_token", error_description="{decoded} {field}"'
        return exchange.answer(status, heard.encode(), **fields)

    return behaves


def planted(folder: Path, port: int) -> dict[str, str]:
    """Returns the environment of the command, with secrets in all of its sources."""
    home = folder / "home"
    (home / ".aws").mkdir(parents=True)
    files = {"config.toml": CONFIG, ".aws/credentials": PROFILE, "token": TOKEN}
    for name, text in files.items():
        (home / name).write_text(text)
        (home / name).chmod(0o600)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_STATE_HOME": str(folder / "state"),
        "HITHER_PASSWORD": PASSWORD,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "r",
        "http_proxy": f"http://me:{PROXY}@127.0.0.1:{port}",
        "no_proxy": "127.0.0.1",
        "TMPDIR": str(folder),
    }


def leaks(text: bytes) -> list[str]:
    return [secret for secret in [*SECRETS, *ENCODED] if secret.encode() in text]


@pytest.mark.parametrize("form", FORMS, ids=["password", "query", "s3"])
@pytest.mark.parametrize("status", [None, 302, 401, 500])
def test_no_verb_prints_or_keeps_a_secret(tmp_path, status, form):
    files = {"/": None, "/d/": None, "/d/f": b"x" * 100, "/d/sub/": None, "/bucket/d/f": b"x" * 100}
    files |= {f"/d/{name}": b"y" for name in ("g", "old", "out")}
    local = tmp_path / "local"
    local.mkdir()
    (local / "f").write_bytes(b"x" * 100)
    with serving(Site(files, repeats(status))) as server:
        environment = planted(tmp_path, server.port)
        shown = {"password": PASSWORD, "query": QUERY, "port": server.port}
        at = {name: form.format(**shown, path=path) for name, path in {"d": "d/", "f": "d/f", "gone": "none/f"}.items()}

        def shows(case: tuple[int, str]) -> list[tuple[str, str]]:
            number, verb = case
            places = {**at, "local": local, "new": tmp_path / f"new{number}"}
            words = [word.format(**places) for word in verb.split()]
            options = [
                *("--config", tmp_path / "home/config.toml", "--credentials-over-http", "-vv", "--json"),
                *("--stall-timeout", "1", "--connect-timeout", "1", "--trace", tmp_path / f"trace{number}"),
            ]
            command = [HITHER, *words, *map(str, options)]
            told = subprocess.run(
                command, env=environment, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=100
            )
            assert b"unexpected argument" not in told.stderr, (verb, told.stderr)
            return [(verb, secret) for secret in leaks(told.stdout + told.stderr)]

        with ThreadPoolExecutor(8) as pool:
            found = [leak for shown in pool.map(shows, enumerate(VERBS)) for leak in shown]
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and tmp_path / "home" not in path.parents]
    found += [(path, secret) for path in kept for secret in leaks(os.fsencode(path) + path.read_bytes())]
    assert found == []
