"""A store that confirms what it has not done, and one whose objects change meanwhile: nothing is believed, nothing is lost."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

import pytest
from command import run
from loopback_server import LoopbackServer, QuietHandler

from bench.harness.paths import HITHER

LISTED = "<Contents><Key>{}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>&quot;{}&quot;</ETag><Size>{}</Size></Contents>"
LARGE = bytes(range(256)) * (6 << 12)
"""More than one part."""
ERROR = b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"


@dataclass
class Store:
    """The objects of a bucket, and how the store treats requests."""

    objects: dict[str, bytes]
    untrue: str = ""
    """Requests with this name are confirmed and not carried out."""
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """Other responses to those."""
    before: dict[str, Callable[[dict[str, bytes]], object]] = field(default_factory=dict)
    """Changes by another client before a request with this name is carried out, once."""
    has_conditions: bool = True
    log: list[str] = field(default_factory=list)
    parts: dict[int, bytes] = field(default_factory=dict)


def tag(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@contextmanager
def serving(store: Store) -> Iterator[Callable]:
    """Serves a bucket, and gives the command."""

    class Handler(QuietHandler):
        def handle_any(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path, _, query = self.path.partition("?")
            asked = parse_qs(query, keep_blank_values=True)
            key = unquote(path).removeprefix("/bucket").removeprefix("/")
            name = self.command
            if "x-amz-copy-source" in self.headers:
                name = "COPY"
            elif self.command == "POST" and "uploadId" in asked:
                name = "COMPLETE"
            if "list-type" in asked:
                name = "LIST"
            store.log.append(name)
            if change := store.before.pop(name, None):
                change(store.objects)
            self.carry_out(name, key, asked, body, is_true=store.untrue != name)

        do_GET = do_HEAD = do_POST = do_DELETE = do_PUT = handle_any  # noqa: N815

        def carry_out(self, name, key, asked, body, *, is_true):  # noqa: PLR0911
            objects = store.objects
            if name in store.answers:
                return self.answer(*store.answers[name])
            if name == "LIST":
                return self.answer(HTTPStatus.OK, self.page(asked).encode())
            if name == "POST":
                return self.answer(
                    HTTPStatus.OK,
                    b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>",
                )
            if name == "PUT" and "partNumber" in asked:
                store.parts[int(asked["partNumber"][0])] = body
                return self.answer(HTTPStatus.OK, b"", tag(body))
            if name == "COMPLETE":
                content = b"".join(store.parts[number] for number in sorted(store.parts))
                if is_true:
                    objects[key] = content
                result = f"<CompleteMultipartUploadResult><ETag>&quot;{tag(content)}&quot;</ETag></CompleteMultipartUploadResult>"
                return self.answer(HTTPStatus.OK, result.encode())
            if name == "COPY":
                source = unquote(self.headers["x-amz-copy-source"]).removeprefix("bucket/")
                if self.differs("x-amz-copy-source-if-match", objects.get(source, b"")):
                    return self.answer(HTTPStatus.PRECONDITION_FAILED, b"<Error><Code>PreconditionFailed</Code></Error>")
                if is_true:
                    objects[key] = objects[source]
                result = f"<CopyObjectResult><ETag>&quot;{tag(objects[source])}&quot;</ETag></CopyObjectResult>"
                return self.answer(HTTPStatus.OK, result.encode())
            if name == "PUT":
                if is_true:
                    objects[key] = body
                return self.answer(HTTPStatus.OK, b"", tag(body))
            if name == "DELETE":
                if self.differs("If-Match", objects.get(key, b"")):
                    return self.answer(HTTPStatus.PRECONDITION_FAILED, b"<Error><Code>PreconditionFailed</Code></Error>")
                if is_true:
                    objects.pop(key, None)
                return self.answer(HTTPStatus.NO_CONTENT, b"")
            if key not in objects:
                return self.answer(HTTPStatus.NOT_FOUND, b"<Error><Code>NoSuchKey</Code></Error>")
            return self.answer(HTTPStatus.OK, objects[key], tag(objects[key]))

        def differs(self, condition, content):
            wanted = self.headers.get(condition)
            return store.has_conditions and wanted is not None and wanted != f'"{tag(content)}"'

        def page(self, asked):
            [prefix] = asked.get("prefix", [""])
            found = [(key, content) for key, content in store.objects.items() if key.startswith(prefix)]
            listed = "".join(LISTED.format(escape(key), tag(content), len(content)) for key, content in sorted(found))
            return f"<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>"

        def answer(self, status, body, etag=""):
            self.send_response(status)
            if etag:
                self.send_header("ETag", f'"{etag}"')
                self.send_header("Last-Modified", formatdate(1_700_000_000, usegmt=True))
            if status != HTTPStatus.NO_CONTENT:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    with LoopbackServer(Handler) as server:
        words = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "r"}
        words["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{server.port}"
        yield lambda *arguments: run(["env", *(f"{name}={value}" for name, value in words.items()), HITHER, *arguments])


OLD = {"d/a": b"old", "d/b": b"two"}


@pytest.mark.parametrize(
    ("untrue", "objects", "verb"),
    [
        ("PUT", {}, ["cp", "new", "s3://bucket/d/a"]),
        ("PUT", OLD, ["cp", "new", "s3://bucket/d/a"]),
        ("COMPLETE", {}, ["cp", "large", "s3://bucket/d/a"]),
        ("COMPLETE", {"d/a": LARGE[::-1]}, ["cp", "large", "s3://bucket/d/a"]),
        ("COPY", OLD, ["mv", "s3://bucket/d/a", "s3://bucket/d/c"]),
        ("COPY", OLD, ["mv", "s3://bucket/d/a", "s3://bucket/d/b"]),
        ("DELETE", OLD, ["mv", "s3://bucket/d/a", "s3://bucket/d/c"]),
        ("DELETE", OLD, ["rm", "s3://bucket/d/a"]),
        ("DELETE", OLD, ["rm", "-r", "s3://bucket/d"]),
    ],
)
def test_a_confirmed_change_that_a_look_contradicts_is_an_error(tmp_path, untrue, objects, verb):
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "large").write_bytes(LARGE)
    store = Store(dict(objects), untrue=untrue)
    verb = [str(tmp_path / word) if word in ("new", "large") else word for word in verb]
    with serving(store) as hither:
        done = hither(*verb, "--no-store")
    assert done.code != 0, store.log
    assert "may show changes late" in done.err, done.err
    if untrue != "DELETE" or verb[0] == "rm":
        assert store.objects == objects
    assert store.log.count(untrue) == (len(objects) if "-r" in verb else 1), store.log


CLAIMS = {
    "an error": (200, ERROR),
    "no code": (200, b"<Error><Message>no</Message></Error>"),
    "nothing": (200, b""),
    "accepted": (202, b""),
    "another document": (200, b"<ListBucketResult/>"),
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS.keys())
@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("COPY", ["mv", "s3://bucket/d/a", "s3://bucket/d/c"]),
        ("COMPLETE", ["cp", "large", "s3://bucket/d/c"]),
        ("DELETE", ["rm", "s3://bucket/d/a"]),
    ],
)
def test_a_success_without_the_document_of_one_is_not_believed(tmp_path, claim, name, verb):
    (tmp_path / "large").write_bytes(LARGE)
    store = Store(dict(OLD), answers={name: claim})
    with serving(store) as hither:
        done = hither(*(str(tmp_path / "large") if word == "large" else word for word in verb), "--no-store")
    assert done.code != 0, done.err
    assert store.objects == OLD
    assert store.log.count(name) == 1, store.log


@pytest.mark.parametrize("has_conditions", [True, False])
@pytest.mark.parametrize("moment", ["COPY", "DELETE"])
def test_a_rename_removes_only_the_version_that_it_has_copied(has_conditions, moment):
    store = Store(
        dict(OLD), before={moment: lambda objects: objects.update({"d/a": b"newer"})}, has_conditions=has_conditions
    )
    with serving(store) as hither:
        done = hither("mv", "s3://bucket/d/a", "s3://bucket/d/c", "--no-store")
    if moment == "DELETE" and not has_conditions:
        # No look shows a change between it and the request.
        assert (done.code, store.objects) == (0, {"d/b": b"two", "d/c": b"old"})
        return
    assert done.code != 0
    assert "changed" in done.err, done.err
    assert store.objects["d/a"] == b"newer"


def test_a_rename_takes_seven_requests():
    store = Store(dict(OLD))
    with serving(store) as hither:
        done = hither("mv", "s3://bucket/d/a", "s3://bucket/d/c", "--no-store")
    assert (done.code, store.objects) == (0, {"d/b": b"two", "d/c": b"old"}), done.err
    # The command has looked for directories before.
    assert store.log == ["HEAD", "LIST", "HEAD", "HEAD", "COPY", "HEAD", "HEAD", "DELETE", "HEAD"]


def test_a_tree_is_looked_at_by_lists(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    for number in range(20):
        (folder / f"file{number}").write_bytes(b"%d" % number)
    store = Store({})
    with serving(store) as hither:
        assert hither("cp", "-r", folder, "s3://bucket/d", "--no-store").code == 0
        assert len(store.objects) == 20
        heads = store.log.count("HEAD")
        store.log.clear()
        assert hither("rm", "-r", "s3://bucket/d", "--no-store").code == 0
    assert store.objects == {}
    assert heads <= 4, heads
    assert (store.log.count("LIST"), store.log.count("DELETE")) == (2, 20), store.log
