"""Objects of S3 behave like other files: stored metadata, disk cache, mirrors, clear errors."""

import contextlib
import http.server
import os
import subprocess
import sys
import threading

import pytest
from needs import missing
from serving import Loopback, servers, talkfile

import hither

OTHERS = {"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"}


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in OTHERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    key, secret = servers.S3_KEY
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)


# The other store needs Go and minutes to build.
@pytest.fixture(params=["s3s", pytest.param("versitygw", marks=pytest.mark.soak)])
def store(request, tmp_path, monkeypatch):
    """The folder of a store with the bucket `s3://bucket`."""
    if not (servers.BUILT_PEERS / "bin" / {"s3s": "s3s-fs"}.get(request.param, request.param)).exists():
        missing(request.param)
    folder = tmp_path / "store"
    folder.mkdir()
    with servers.S3_STORES[request.param](Loopback(), folder) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        yield folder


@pytest.mark.parametrize(
    "store", ["s3s", *(pytest.param(name, marks=pytest.mark.soak) for name in ("versitygw", "rclone"))], indirect=True
)
def test_an_object_that_came_to_the_store_as_a_file_is_read(store, content):
    (store / "bucket").mkdir(exist_ok=True)
    (store / "bucket/file").write_bytes(content)
    os.utime(store / "bucket/file", (1_700_000_000, 1_700_000_000))
    with hither.Client(store=False) as client, client.open("s3://bucket/file") as file:
        for start in (0, len(content) // 2, len(content) - 100):
            assert bytes(file.read_at(start, 100)) == content[start : start + 100]


READS = """
import hither
with hither.Client(store="kept", disk_cache="1 GB") as client, client.open("s3://bucket/d/a file") as file:
    print(len(file.read_at(1 << 18, 1 << 19)), client.report.bytes_received)
"""


@pytest.mark.usefixtures("store")
def test_a_second_process_reads_an_object_from_the_disk(content, tmp_path):
    with hither.Client(store=False) as client:
        client.put("s3://bucket/d/a file", content)
    read = [
        subprocess.run([sys.executable, "-c", READS], cwd=tmp_path, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    first, second = (tuple(map(int, done.stdout.split())) for done in read)
    assert first[0] == second[0] == 1 << 19
    assert first[1] >= 1 << 19
    # One block, whose response confirms that the object is unchanged.
    assert second[1] < 200_000


@pytest.mark.usefixtures("store")
def test_the_second_query_of_a_tree_knows_where_its_baskets_are(tmp_path):
    sample = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    talkfile.ensure(sample, events=3000)
    with hither.Client(store=False) as client:
        client.put("s3://bucket/talk.root", sample)
    reports = []
    for _ in range(2):
        with hither.Client(store=tmp_path / "kept") as client:
            tree = hither.open_tree("s3://bucket/talk.root", "T", client=client)
            assert len(tree.arrays(["E33", "njet"], library="np")["njet"]) == 3000
            assert tree.report.metadata_from_store == bool(reports)
            # All bytes that were sent: the report of a tree begins with `arrays`, after the
            # opening.
            reports.append(client.report)
    first, second = reports
    assert second.bytes_received < first.bytes_received, reports
    assert first.requests <= 70, reports


@pytest.mark.usefixtures("store")
def test_mirrors_of_a_bucket_are_read_where_an_object_is_missing(site, content):
    site.put("copies/run/file", content)
    mirrors = {"s3://bucket/": [site.url("copies/")]}
    with hither.Client(store=False, mirrors=mirrors) as client, client.open("s3://bucket/run/file") as file:
        assert file.read_at(10, 1000) == content[10:1010]
    assert site.requests


@pytest.mark.usefixtures("store")
def test_exceptions_tell_a_missing_object_from_a_missing_bucket_and_a_wrong_key(content, monkeypatch):
    with hither.Client(store=False) as client:
        client.put("s3://bucket/file", content)
        for url in ("s3://bucket/none", "s3://nobucket/none"):
            with pytest.raises(FileNotFoundError):
                client.open(url).read_at(0, 1)
            with pytest.raises(FileNotFoundError):
                client.stat(url)
        with pytest.raises(FileNotFoundError, match="no bucket of this name"):
            client.list("s3://nobucket/")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with hither.Client(store=False) as client:
        for ask in (lambda: client.stat("s3://bucket/file"), lambda: client.open("s3://bucket/file").read_at(0, 1)):
            with pytest.raises(PermissionError, match="access key does not allow"):
                ask()
        with pytest.raises(PermissionError, match="SignatureDoesNotMatch"):
            client.list("s3://bucket/")
    with hither.Client(store=False, anonymous=True) as client, pytest.raises(PermissionError, match="no key was sent"):
        client.open("s3://bucket/file").read_at(0, 1)


@pytest.mark.usefixtures("store")
def test_profiles_have_keys_and_endpoints(content, monkeypatch, tmp_path):
    key, secret = servers.S3_KEY
    endpoint = cleared(monkeypatch)
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "config").write_text(f"[profile lab]\nendpoint_url = {endpoint}\n[profile role]\nrole_arn = arn:x\n")
    keys = folder / "credentials"
    keys.write_text(f"[lab]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")
    keys.chmod(0o600)
    monkeypatch.setenv("AWS_PROFILE", "lab")
    with hither.Client(store=False) as client:
        client.put("s3://bucket/file", content)
        assert client.stat("s3://bucket/file").size == len(content)
        keys.chmod(0o644)
        with pytest.raises(ValueError, match="chmod 600"):
            client.stat("s3://bucket/file")
    keys.chmod(0o600)
    for profile, message in {"role": "role_arn", "none": r"\.aws/credentials"}.items():
        monkeypatch.setenv("AWS_PROFILE", profile)
        with hither.Client(store=False) as client, pytest.raises(ValueError, match=message):
            client.stat("s3://bucket/file")


def cleared(monkeypatch):
    """Clears the variables; returns the endpoint."""
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    return endpoint


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """Amazon's response for a bucket in another region."""

    def answer(self):
        self.server.fields.append(self.headers)
        self.send_response(301)
        self.send_header("x-amz-bucket-region", "eu-north-1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.answer()

    def do_HEAD(self):
        self.answer()

    def do_PUT(self):
        self.answer()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def elsewhere():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        server.fields = []
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_bucket_of_another_region_is_named_and_gets_no_token(monkeypatch):
    with elsewhere() as server, hither.Client(store=False, token="hush") as client:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        requests = (
            lambda: client.open("s3://bucket/file").read_at(0, 1),
            lambda: client.stat("s3://bucket/file"),
            lambda: client.list("s3://bucket/"),
            lambda: client.put("s3://bucket/file", b"1"),
        )
        for request in requests:
            with pytest.raises(ValueError, match="AWS_REGION") as error:
                request()
            assert "eu-north-1" in str(error.value)
        assert len(server.fields) >= len(requests)
        for fields in server.fields:
            assert fields.get("Authorization", "AWS4-HMAC-SHA256").startswith("AWS4-HMAC-SHA256"), fields
