"""A bucket whose keys are no names of files, or that answers strangely: what cannot be used fails alone, and nothing else."""

from contextlib import contextmanager
from http import HTTPStatus
from itertools import count
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

import pytest
from command import run
from loopback_server import LoopbackServer, QuietHandler

from bench.harness.paths import HITHER

OBJECT = """<Contents><Key>{}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>"1"</ETag><Size>1</Size></Contents>"""
NOT_FOUND = 3
PREFIX = "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>"


@contextmanager
def bucket(keys: dict, document: str | None = None, fresh=None, ignored: str = ""):
    """Serves a bucket, and gives the command.

    `document` answers DeleteObjects, pages without end have the tokens of `fresh`, and the store ignores one parameter.
    """

    class Handler(QuietHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path, _, query = self.path.partition("?")
            asked = parse_qs(query)
            asked.pop(ignored, None)
            key = unquote(path).removeprefix("/bucket").removeprefix("/")
            if "list-type" in asked:
                return self.answer(HTTPStatus.OK, self.page(asked).encode())
            if self.command == "POST":
                return self.answer(HTTPStatus.OK, (document or "<DeleteResult/>").encode())
            if self.command == "DELETE":
                keys.pop(key, None)
                return self.answer(HTTPStatus.NO_CONTENT, b"")
            if key not in keys:
                return self.answer(HTTPStatus.NOT_FOUND, b"<Error><Code>NoSuchKey</Code></Error>")
            return self.answer(HTTPStatus.OK, keys[key])

        do_HEAD = do_POST = do_DELETE = do_GET  # noqa: N815

        def do_PUT(self):
            copied = self.headers["x-amz-copy-source"]
            keys[unquote(self.path).removeprefix("/bucket/")] = keys[unquote(copied).removeprefix("/bucket/")]
            self.answer(HTTPStatus.OK, b'<CopyObjectResult><ETag>"1"</ETag></CopyObjectResult>')

        def page(self, asked):
            [prefix], [delimiter] = asked.get("prefix", [""]), asked.get("delimiter", [None])
            listed = []
            for key in sorted(key for key in keys if key.startswith(prefix)):
                first, slash, _ = key.removeprefix(prefix).partition(delimiter or "\0")
                listed.append(PREFIX.format(escape(prefix + first + slash)) if slash else OBJECT.format(escape(key)))
            more = f"<NextContinuationToken>{next(fresh)}</NextContinuationToken>" if fresh else ""
            return (
                f"<ListBucketResult><IsTruncated>{str(bool(fresh)).lower()}</IsTruncated>{more}"
                f"{''.join(dict.fromkeys(listed))}</ListBucketResult>"
            )

        def answer(self, status, body):
            self.send_response(status)
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT")
            if status != HTTPStatus.NO_CONTENT:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    with LoopbackServer(Handler) as server:
        keys_of_store = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "r"}
        words = {**keys_of_store, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}"}
        yield lambda *arguments: run(["env", *(f"{name}={value}" for name, value in words.items()), HITHER, *arguments])


@pytest.mark.parametrize("bad", ["tab\tx", "tab\tx/below", "/slash", "two//slashes", "./a", "../a"])
def test_a_key_that_is_no_name_fails_alone(tmp_path, bad):
    with bucket({"d/good": b"1", f"d/{bad}": b"2", "d/more/good": b"3"}) as hither:
        done = hither("cp", "-r", "s3://bucket/d", tmp_path / "d", "--no-store")
        kept = tmp_path / "kept"
        kept.mkdir()
        (kept / "other").write_bytes(b"o")
        mirrored = hither("sync", "--delete", "s3://bucket/d", kept, "--no-store")
    assert done.code != 0
    assert "check the endpoint" not in done.err, done.err
    assert (tmp_path / "d/good").read_bytes() == b"1"
    assert (tmp_path / "d/more/good").read_bytes() == b"3"
    assert mirrored.code != 0
    assert (kept / "other").exists()


def test_a_list_without_end_ends():
    with bucket({f"d/{number}": b"" for number in range(10)}, fresh=count()) as hither:
        done = hither("ls", "s3://bucket/d", "--no-store")
        assert done.code != 0
        assert "nothing new" in done.err, done.err
    with bucket({}, fresh=count()) as hither:
        assert "nothing new" in hither("ls", "s3://bucket/d", "--no-store").err


def test_a_folder_is_removed_with_the_objects_that_stand_for_folders():
    keys = {"d/": b"", "d/x/": b"", "d/x/f": b"1", "d/y/": b"", "d/tab\tx": b"2", "d//a": b"3", "e": b""}
    with bucket(keys) as hither:
        done = hither("rm", "-r", "s3://bucket/d", "--no-store")
    assert (done.code, list(keys)) == (0, ["e"]), done.err


def test_a_folder_object_alone_is_an_empty_directory():
    with bucket({"d/": b"", "e/x/": b""}) as hither:
        for verb, shown in {"find": ["s3://bucket/d"], "ls": [], "du": ["0\ts3://bucket/d"]}.items():
            done = hither(verb, "s3://bucket/d", "--no-store")
            assert (done.code, done.out.splitlines()) == (0, shown), done.err
        assert hither("ls", "-R", "s3://bucket/e", "--no-store").code == 0
        assert hither("ls", "s3://bucket/none", "--no-store").code == NOT_FOUND


def test_a_key_that_a_url_cannot_name_is_left_and_said():
    keys = {"d/f": b"1", "d/../e": b"2", "e": b""}
    with bucket(keys) as hither:
        done = hither("rm", "-r", "s3://bucket/d", "--no-store")
    assert done.code != 0
    assert {"d/../e", "e"} <= keys.keys()


def test_what_a_store_lists_beside_a_folder_is_not_removed(tmp_path):
    keys = {"d/f": b"1", "e": b"2"}
    with bucket(keys, ignored="prefix") as hither:
        done = hither("rm", "-r", "s3://bucket/d", "--no-store")
        assert hither("cp", "-r", "s3://bucket/d", tmp_path, "--no-store").code != 0
    assert (done.code != 0, list(keys)) == (True, ["d/f", "e"])


DELETIONS = {
    "of another key": "<DeleteResult><Deleted><Key>other</Key></Deleted></DeleteResult>",
    "of none": "<DeleteResult/>",
    "another document": "<html/>",
}


@pytest.mark.parametrize("document", DELETIONS.values(), ids=DELETIONS)
def test_what_is_said_to_be_removed_is_removed(document):
    keys = {"a": b"1", "b": b"2"}
    with bucket(keys, document) as hither:
        removed = hither("rm", "s3://bucket/a", "--no-store")
        assert (removed.code == 0) == ("a" not in keys), removed.err
        moved = hither("mv", "s3://bucket/b", "s3://bucket/c", "--no-store")
        assert (moved.code == 0) == ("b" not in keys), moved.err
