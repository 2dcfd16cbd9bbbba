"""No output contains a secret of a URL, a command line or a configuration file, even if these are invalid."""

import itertools
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.harness.paths import HITHER
from bench.harness.servers import free_port

CANARY = "CANARYx"
# URLs that are never sent to a server.
BAD_URLS = [
    f"http://user:{CANARY}@host:bad/f",
    f"http://user:{CANARY}/x@[::1/f",
    f"http://user:x?{CANARY}@host/f",
    f"http://user:x#{CANARY}@host/f",
    f"http://user:{CANARY}@/f?authz={CANARY}",
    f"http://user:{CANARY}@127.0.0.1:1/a\tb?authz={CANARY}",
    f"https://user:{CANARY}@127.0.0.1:1/%2F?authz={CANARY}",
    f"http://127.0.0.1:bad/f?X-Amz-Signature={CANARY}#{CANARY}",
    f"davs://user:{CANARY}@host:bad/a[?authz={CANARY}",
    f"root://user:{CANARY}@127.0.0.1:bad//f?authz={CANARY}",
    f"pelican:///user:{CANARY}@host/f?authz={CANARY}",
    f"gopher://user:{CANARY}@host/f?authz={CANARY}",
    f"s3://user:{CANARY}@bucket/f",
]
VERBS = """
ls {url}|cat {url}|stat {url}|du {url}|find {url}|rm {url}|rm -rf {url}|mkdir {url}|mkdir -p {url}|mv {url} {url}x
mv {url} {folder}|mv {folder} {url}|cp {url} {folder}|cp -r {url} {folder}|cp -r {folder} {url}|cp {url} {url}|cp {url} -
cp --replica {url} http://127.0.0.1:1/f {folder}|cp --third-party {url} {folder}|sync {url} {folder}|sync {folder} {url}
check {url} {folder}|check {folder} {url}|checksum {url}|stage {url}|stage --status {url}|stage --release {url}
chmod 644 {url}|locate {url}|tree {url}|draw {url}:T x|draw {url} x|explain {url}|explain draw {url} x|profile {url}
profile network {url}|lots ls {url}|stat http://127.0.0.1:1/f --proxy {url}|{url}|ls --no-such={url}
""".replace("\n", "|").strip("|").split("|")


@pytest.fixture
def printed(tmp_path):
    """Runs the command with a minimal environment; returns all of its output."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(*words) -> str:
        command = [HITHER, *map(str, words)]
        told = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL, timeout=60
        )
        assert told.returncode not in (0, 101), (words, told.stderr)
        assert told.stdout + told.stderr, words
        return told.stdout + told.stderr

    return run


def test_no_verb_prints_the_secrets_of_a_bad_url(printed, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "f").write_bytes(b"x")

    def tried(case) -> tuple:
        verb, url = case
        words = [word.replace("{url}", url).replace("{folder}", str(folder)) for word in verb.split()]
        return case, printed(*words, "--json", "-v", "--no-store")

    cases = itertools.product(VERBS, BAD_URLS)
    with ThreadPoolExecutor(4) as pool:
        leaks = [case for case, text in pool.map(tried, cases) if CANARY in text]
    assert leaks == []


@pytest.mark.parametrize("scheme", ["http", "root"])
def test_no_verb_prints_the_secrets_of_a_url_whose_server_is_gone(printed, tmp_path, scheme):
    slash = "/" if scheme == "root" else ""
    base = f"{scheme}://user:{CANARY}@127.0.0.1:{free_port()}/{slash}"
    urls = (f"{base}f?authz={CANARY}", f"{base}a[1]?authz={CANARY}")
    verbs = ("ls", "cat", "stat", "rm", "find", "du", "checksum", "cp")

    def tried(case) -> tuple:
        verb, url = case
        into = [tmp_path / "copy"] if verb == "cp" else []
        return case, printed(verb, url, *into, "--json", "-v", "--no-store", "--stall-timeout", "1", "--connect-timeout", "1")

    # Each waits a second for the server to return.
    with ThreadPoolExecutor(len(verbs) * len(urls)) as pool:
        leaks = [case for case, text in pool.map(tried, itertools.product(verbs, urls)) if CANARY in text]
    assert leaks == []


@pytest.mark.parametrize(
    "text",
    [
        f"[headers]\nAuthorization = 'Bearer {CANARY}",
        f"headers = 'Authorization: Bearer {CANARY}'",
        f"max_connections = '{CANARY}'",
        f"proxy = 'http://user:{CANARY}@host:bad'",
        f"[credentials]\nshare = '{CANARY}'",
        f"[credentials]\ntoken_command = ['echo', '{CANARY}']",
        f"source_address = ['x'] '{CANARY}'",
        f"[[mirror]]\nprefix = 'http://h/'\nreplicas = '{CANARY}'",
    ],
)
def test_no_error_of_a_configuration_file_repeats_its_values(printed, tmp_path, text):
    file = tmp_path / "config.toml"
    file.write_text(text)
    for words in (["stat", "http://127.0.0.1:1/f"], ["serve", tmp_path], ["federate"], ["tune", "sweep", file]):
        told = printed(*words, "--config", file, "--json")
        assert CANARY not in told, (words, told)
    if "proxy" not in text:
        assert "line " in printed("stat", "http://127.0.0.1:1/f", "--config", file)


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        ("serve .", "[[replicas]]\npath = '/store'\nurls = ['gopher://user:{canary}@host/f?authz={canary}']"),
        ("federate", "[[endpoints]]\nname = 'one'\nurl = 'http://h/'\nredirects = ['http://user:{canary}@host/f']"),
        ("federate", "[[endpoints]]\nname = 'one'\nurl = 'http://h/'\nredirects = ['gopher://host/f?authz={canary}']"),
        ("federate", "[[endpoints]]\nname = 'one'\nurl = 'gopher://user:{canary}@host/f?authz={canary}'"),
        ("federate", "[[endpoints]]\nname = 'one'\nurl = 'http:/user:{canary}@host/f?authz={canary}'"),
    ],
)
def test_no_error_of_a_server_prints_the_secrets_of_its_urls(printed, tmp_path, verb, text):
    file = tmp_path / "config.toml"
    file.write_text(text.replace("{canary}", CANARY))
    told = printed(*verb.split(), "--config", file)
    assert ("replicas: " in told or "one" in told) and CANARY not in told, told
