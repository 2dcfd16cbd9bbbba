"""An object store in this process with programmable keys, pages and responses."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

from command import run
from loopback_server import LoopbackServer, QuietHandler

from bench.harness.paths import HITHER

LISTED = "<Contents><Key>{}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>&quot;{}&quot;</ETag><Size>{}</Size></Contents>"
PREFIX = "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>"
BEGUN = b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"


@dataclass
class Store:
    """The objects of a bucket, and the treatment of requests, which `name_of` names."""

    objects: dict[str, bytes]
    untrue: str = ""
    """Requests with this name are confirmed and not executed."""
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """Responses to requests, by name."""
    before: dict[str, Callable[[dict[str, bytes]], object]] = field(default_factory=dict)
    """Changes by another client before a request with this name is executed, once."""
    has_conditions: bool = True
    fresh: Iterator[int] | None = None
    """Tokens of the pages of an endless list."""
    ignored: str = ""
    """A parameter that lists ignore."""
    pages: dict[str | None, str] | None = None
    """The pages of a list, by the token that requests it, instead of a list of the objects."""
    log: list[str] = field(default_factory=list)
    parts: dict[int, bytes] = field(default_factory=dict)


def tag(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def environment(port: int) -> dict[str, str]:
    """The variables with which the command uses the store at `port`."""
    return {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_REGION": "r",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }


@contextmanager
def serving(store: Store) -> Iterator[Callable]:
    """Serves a bucket, and yields the command."""
    with serving_objects(store) as port:
        words = [f"{name}={value}" for name, value in environment(port).items()]
        yield lambda *arguments: run(["env", *words, HITHER, *arguments])


@contextmanager
def serving_objects(store: Store) -> Iterator[int]:
    """Serves a bucket, and yields the port."""

    class Handler(QuietHandler):
        def handle_any(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path, _, query = self.path.partition("?")
            asked = parse_qs(query, keep_blank_values=True)
            key = unquote(path).removeprefix("/bucket").removeprefix("/")
            name = self.name_of(asked)
            store.log.append(name)
            if change := store.before.pop(name, None):
                change(store.objects)
            self.carry_out(name, key, asked, body, is_true=store.untrue != name)

        do_GET = do_HEAD = do_POST = do_DELETE = do_PUT = handle_any  # noqa: N815

        def name_of(self, asked):
            if "x-amz-copy-source" in self.headers:
                return "COPY"
            named = {"list-type": "LIST", "uploadId": "COMPLETE", "delete": "DELETE MANY"}
            if self.command == "GET" and "LIST PARTS" in store.answers:
                named = {"list-type": "LIST", "uploadId": "LIST PARTS"}
            if self.command == "PUT":
                part = f"PART {asked.get('partNumber', [''])[0]}"
                named = {"partNumber": part if part in store.answers else "PART"}
            if self.command == "DELETE":
                named = {"uploadId": "ABORT"}
            return next((name for parameter, name in named.items() if parameter in asked), self.command)

        def carry_out(self, name, key, asked, body, *, is_true):  # noqa: PLR0911
            objects = store.objects
            if name in store.answers:
                return self.answer(*store.answers[name])
            if name == "LIST":
                return self.answer(HTTPStatus.OK, self.page(asked).encode())
            if name == "DELETE MANY":
                return self.answer(HTTPStatus.OK, b"<DeleteResult/>")
            if name == "ABORT":
                return self.answer(HTTPStatus.NO_CONTENT, b"")
            if name == "POST":
                return self.answer(HTTPStatus.OK, BEGUN)
            if name == "PART":
                store.parts[int(asked["partNumber"][0])] = body
                return self.answer(HTTPStatus.OK, b"", tag(body))
            if name == "COMPLETE":
                content = b"".join(store.parts[number] for number in sorted(store.parts))
                if is_true:
                    objects[key] = content
                result = f"<CompleteMultipartUploadResult><ETag>&quot;{tag(content)}&quot;</ETag></CompleteMultipartUploadResult>"
                return self.answer(HTTPStatus.OK, result.encode())
            if name == "COPY":
                source = unquote(self.headers["x-amz-copy-source"]).removeprefix("/").removeprefix("bucket/")
                if self.differs("x-amz-copy-source-if-match", objects.get(source, b"")):
                    return self.answer(
                        HTTPStatus.PRECONDITION_FAILED, b"<Error><Code>PreconditionFailed</Code></Error>"
                    )
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
                    return self.answer(
                        HTTPStatus.PRECONDITION_FAILED, b"<Error><Code>PreconditionFailed</Code></Error>"
                    )
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
            if store.pages is not None:
                return store.pages[asked.get("continuation-token", [None])[0]]
            asked.pop(store.ignored, None)
            [prefix], [delimiter] = asked.get("prefix", [""]), asked.get("delimiter", [""])
            listed = []
            for key, content in sorted(store.objects.items()):
                if not key.startswith(prefix):
                    continue
                first, slash, _ = key.removeprefix(prefix).partition(delimiter or "\0")
                if slash:
                    listed.append(PREFIX.format(escape(prefix + first + slash)))
                else:
                    listed.append(LISTED.format(escape(key), tag(content), len(content)))
            more = f"<NextContinuationToken>{next(store.fresh)}</NextContinuationToken>" if store.fresh else ""
            return (
                f"<ListBucketResult><IsTruncated>{str(bool(store.fresh)).lower()}</IsTruncated>{more}"
                f"{''.join(dict.fromkeys(listed))}</ListBucketResult>"
            )

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
        yield server.port
