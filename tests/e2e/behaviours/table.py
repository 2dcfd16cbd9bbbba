"""Behaviours of foreign servers as data: the files of the server, its responses, and the expected results of each verb.

This is the table of reading over HTTP; `storages/listings.py` has that of other storages, `changes/rows.py` the one of
changes.

A row is one behaviour. `test_behaviours.py` runs every verb against it and checks what must hold for any server: after
exit code 0 the bytes are those of the server, no file that the server holds is deleted at the target, and no good file
is replaced by other bytes. `codes` has the expected exit codes of verbs that must fail or succeed; `says` has a part of
the message of each verb that it names.

A bug report about a server becomes a row here.
"""

import gzip
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from behaviours.foreign_server import Exchange

DATA = bytes(range(256)) * 40
FILES: dict[str, bytes | None] = {"/": None, "/d/": None, "/d/a.dat": DATA, "/d/b.dat": DATA[::-1]}

FAILS = "fails"
"""Any exit code but 0."""
FINDING = ("cp -r", "sync")
EVERY = ("cp -r", "cp -r onto old files", "sync", "sync --delete", "check")
READING = (*EVERY, "check empty files")


def both(code: int | str, *verbs: str) -> dict[str, int | str]:
    return dict.fromkeys(verbs, code)


@dataclass(frozen=True)
class Behaviour:
    """The responses of a server, and the expected results."""

    name: str
    answers: Any
    """The responses: a function of an exchange, for `s3` the settings of its `Store`."""
    codes: Mapping[str, int | str] = field(default_factory=dict)
    says: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes | None] = field(default_factory=lambda: FILES)
    """The actual files of the server."""
    hidden: frozenset[str] | set[str] = frozenset()
    """Names of files that the server does not list, so that they cannot be copied."""
    verbs: tuple[str, ...] = READING
    storage: str = "webdav"
    """A kind of `storages/kinds.py`."""

    def __str__(self) -> str:
        return self.name if self.storage == "webdav" else f"{self.storage}: {self.name}"


def no_propfind(server: Exchange) -> bool:
    return server.command == "PROPFIND" and server.answer(405)


def is_listing(server: Exchange) -> bool:
    return server.command == "PROPFIND" and server.headers.get("Depth") == "1" and server.name.rstrip("/") == "/d"


def index(
    link: str = '<a href="{0}">{0}</a>',
    title: str = "Index of /d/",
    more: str = "",
    names: tuple[str, ...] = ("a.dat", "b.dat"),
) -> Callable[[Exchange], bool]:
    """An HTML index of `/d/` with such a link for each name; HEAD states the sizes."""
    body = "\n".join(link.format(name) for name in names)
    page = f"<html><head><title>{title}</title></head><body><pre>\n{body}\n</pre>{more}</body></html>"

    def answers(server: Exchange) -> bool:
        is_page = server.command in ("GET", "HEAD") and server.name == "/d/"
        return no_propfind(server) or (is_page and server.html(page))

    return answers


def also(*parts: Callable[[Exchange], bool]) -> Callable[[Exchange], bool]:
    return lambda server: any(part(server) for part in parts)


def of_file(*methods: str) -> Callable[[Exchange], bool]:
    return lambda server: server.command in methods and server.name == "/d/a.dat"


def on(when: Callable[[Exchange], bool], then: Callable[[Exchange], bool]) -> Callable[[Exchange], bool]:
    return lambda server: when(server) and then(server)


def listed_as(**changed: str | None) -> Callable[[Exchange], bool]:
    """PROPFIND states these properties of `/d/a.dat`."""

    def answers(server: Exchange) -> bool:
        if server.command != "PROPFIND" or server.name not in ("/d", "/d/", "/d/a.dat"):
            return False
        own = server.properties("/d/a.dat", **changed)
        if server.name == "/d/a.dat":
            return server.multistatus(own)
        others = [server.properties("/d/b.dat"), own] if server.headers.get("Depth") == "1" else []
        return server.multistatus("".join([server.properties("/d/"), *others]))

    return answers


def absolute_hrefs(server: Exchange) -> bool:
    """PROPFIND contains absolute URLs."""
    if not is_listing(server):
        return False
    listed = "".join(map(server.properties, ["/d/", "/d/a.dat", "/d/b.dat"]))
    return server.multistatus(listed.replace("<D:href>", f"<D:href>http://{server.headers['Host']}"))


def no_length(server: Exchange) -> bool:
    return server.answer(200, Content_Length=None)


def part_of_unknown(server: Exchange) -> bool:
    """The requested part, including the end of the file, of a file of unknown size."""
    data = server.site.files[server.name] or b""
    asked = re.fullmatch(r"bytes=(\d*)-(\d*)", server.headers.get("Range", ""))
    if not asked:
        return server.stream(data)
    first = int(asked[1] or len(data) - int(asked[2]))
    last = min(int(asked[2]) if asked[1] and asked[2] else len(data), len(data) - 1)
    return server.answer(206, data[first : last + 1], Content_Range=f"bytes {first}-{last}/*")


UNKNOWN_SIZES = [
    *(
        Behaviour(name, answers, both(0, *EVERY[:3]), files={**FILES, "/d/a.dat": DATA * 9})
        for name, answers in [
            ("PROPFIND without getcontentlength", listed_as(getcontentlength=None)),
            ("PROPFIND with an empty getcontentlength", listed_as(getcontentlength="")),
            ("PROPFIND with a negative getcontentlength", listed_as(getcontentlength="-1")),
            ("PROPFIND says 0", listed_as(getcontentlength="0")),
            ("HEAD without a length", also(index(), on(of_file("HEAD"), no_length))),
            ("HEAD says 0", also(index(), on(of_file("HEAD"), lambda it: it.answer(200)))),
            (
                "no length anywhere",
                also(index(), on(of_file("HEAD"), no_length), on(of_file("GET"), lambda it: it.stream(DATA * 9))),
            ),
            (
                "no length, and ranges without it",
                also(index(), on(of_file("HEAD"), no_length), on(of_file("GET"), part_of_unknown)),
            ),
        ]
    ),
    *(
        Behaviour(f"empty files are empty: {name}", answers, both(0, *EVERY), files={**FILES, "/d/a.dat": b""})
        for name, answers in [
            ("200", on(of_file("GET"), lambda it: it.answer(200))),
            ("416", lambda _: False),
            (
                "416 without a size",
                on(of_file("GET"), lambda it: "Range" in it.headers and it.answer(416)),
            ),
        ]
    ),
    Behaviour(
        "PROPFIND says 0, and 416 is the response to all else",
        also(listed_as(getcontentlength="0"), on(of_file("GET", "HEAD"), lambda it: it.answer(416))),
        both(FAILS, *READING),
    ),
]


EPOCH = "Thu, 01 Jan 1970 00:00:00 GMT"
DELETING = {"sync --delete": FAILS}
CUT = f"/d/{'x' * 254}"
"""The longest name that XrdHttp lists. It cuts the others to it."""
HIDES = {"cp -r": "may hide names", "sync --delete": "may hide names"}


def refused(path: str, status: str) -> str:
    return f"<D:response><D:href>{path}</D:href><D:status>HTTP/1.1 {status}</D:status></D:response>"


def members(*extra: str, names: tuple[str, ...] = ("/d/b.dat",), own: bool = True) -> Callable[[Exchange], bool]:
    """A listing of `/d/` with these names and these additional responses."""

    def answers(server: Exchange) -> bool:
        listed = [*(["/d/"] if own else []), *names]
        return is_listing(server) and server.multistatus("".join([*map(server.properties, listed), *extra]))

    return answers


def with_next_page(answers: Callable[[Exchange], bool]) -> Callable[[Exchange], bool]:
    """Each response has a field that leads to a next page (RFC 8288)."""

    def changed(server: Exchange) -> bool:
        server.more_fields = {"Link": '</d/?page=2>; title="a, b"; rel="up next"'}
        return answers(server)

    return changed


INDEXES = [
    Behaviour(f"index: {name}", index(link, title, more), codes={**both(0, *FINDING, "check"), **DELETING}, says=HIDES)
    for name, link, title, more in [
        ("Apache, nginx", '<a href="{0}">{0}</a>', "Index of /d/", ""),
        ("Jetty", '<td><a href="/d/{0}">{0}&nbsp;</a></td>', "Directory: /d/", ""),
        ("Tomcat", '<a href="/d/{0}"><tt>{0}</tt></a>', "Directory Listing For [/d/]", ""),
        ("IIS", '17 <A HREF="/d/{0}">{0}</A><br>', "127.0.0.1 - /d/", ""),
        ("Caddy", '<a href="./{0}">{0}</a>', "/d/", '<a href="./?sort=name&order=desc">Name</a>'),
        ("single quotes", "<a href='{0}'>{0}</a>", "Index of /d", ""),
        ("no quotes", "<A HREF={0}>{0}</A>", "Index of /d", ""),
        ("spaces", '<a class=x href = "{0}">{0}</a>', "Index of /d", ""),
        (
            "comments and scripts",
            '<!-- <a href="x">x</a> --><a href="{0}">{0}</a>',
            "Index of /d",
            "<script>'<a href=y>'</script>",
        ),
    ]
]

COLON = {"/": None, "/d/": None, "/d/run_2026-01-01T12:00:00.dat": DATA}
INCOMPLETE = [
    Behaviour(
        "index: colons",
        index('<a href="./{0}">{0}</a>', names=("run_2026-01-01T12:00:00.dat",)),
        codes=both(0, *FINDING),
        files=COLON,
    ),
    Behaviour(
        "index: hidden names",
        index(),
        codes={**both(0, *FINDING), **DELETING},
        says=HIDES,
        files={**FILES, "/d/.zarray": DATA},
        hidden={".zarray"},
    ),
    *(
        Behaviour(f"index: {name}", index(more=more, names=("a.dat",)), codes={**both(FAILS, *FINDING), **DELETING})
        for name, more in [
            ("?page=2", '<a href="?page=2">2</a>'),
            ("next page", '<a href="/list/2">Next</a>'),
            ("rel=next", '<a rel="next" href="/list/2">2</a>'),
            ("a slash in a name", '<a href="b%2Fdat">b/dat</a>'),
            ("an unknown entity", '<a href="b&eacute;.dat">b</a>'),
            ("another host", '<a href="http://backend.example/d/b.dat">b</a>'),
        ]
    ),
    Behaviour("index: no links", index("<td>{0}</td>"), codes={**both(FAILS, *FINDING), **DELETING}, says={}),
    Behaviour("index: a page that is none", index(title="Welcome"), codes={**both(FAILS, *FINDING), **DELETING}),
    *(
        Behaviour(
            f"{name}: a field leads to a next page",
            with_next_page(answers),
            codes={**both(FAILS, *FINDING), **DELETING},
        )
        for name, answers in [("index", index(names=("a.dat",))), ("207", members(names=("/d/a.dat",)))]
    ),
    *(
        Behaviour(
            f"index: PROPFIND answered with {status}",
            also(on(lambda it: it.command == "PROPFIND", lambda it, status=status: it.answer(status)), index()),
            codes=both(0, *FINDING),
        )
        for status in (200, 204, 400, 403, 404, 406, 415, 422, 500)
    ),
    *(
        Behaviour(
            f"207: a member is {status}",
            members(refused("/d/a.dat", status)),
            codes={**both(FAILS, *FINDING), **DELETING},
        )
        for status in ("403 Forbidden", "404 Not Found", "500 Internal Server Error", "507 Insufficient Storage")
    ),
    *(
        Behaviour(
            f"207: the directory is {status}",
            members(refused("/d/", status)),
            codes={**both(FAILS, *FINDING), **DELETING},
        )
        for status in ("507 Insufficient Storage", "403 Forbidden", "404 Not Found")
    ),
    *(
        Behaviour(
            f"207: the properties of the directory are {status}",
            lambda it, status=status: (
                is_listing(it)
                and it.multistatus(it.properties("/d/").replace("200 OK", status) + it.properties("/d/b.dat"))
            ),
            codes={**both(FAILS, *FINDING), **DELETING},
        )
        for status in ("507 Insufficient Storage", "500 Internal Server Error")
    ),
    Behaviour(
        "207: two names that are one",
        members(refused("/d/%61.dat", "200 OK"), names=("/d/a.dat", "/d/b.dat")),
        codes={**both(FAILS, *FINDING), **DELETING},
        says=both("would be one name", *FINDING),
    ),
    Behaviour(
        "207: one name with two sizes",
        members(refused("/d/a.dat", "200 OK"), names=("/d/a.dat", "/d/b.dat")),
        codes={**both(FAILS, *FINDING), **DELETING},
        says=both("would be one name", *FINDING),
    ),
    Behaviour(
        "207: two names that are one where they are cut",
        members(names=("/d/a.dat", "/d/b.dat", CUT, CUT)),
        codes={**both(FAILS, *FINDING), **DELETING},
        says=both("would be one name", *FINDING),
        files={**FILES, CUT: DATA, f"{CUT}x": DATA},
    ),
    Behaviour("207: one name twice", members(names=("/d/a.dat", "/d/a.dat", "/d/b.dat")), codes=both(0, *EVERY)),
    Behaviour("207: empty", members(names=(), own=False), codes={**both(FAILS, *FINDING), **DELETING}),
    Behaviour(
        "207: two names with one status",
        members(refused("/d/a.dat", "200 OK").replace("</D:href>", "</D:href><D:href>/d/b.dat</D:href>"), names=()),
        codes=both(0, *FINDING),
    ),
    Behaviour(
        "207: two names are refused in one response",
        members(
            refused("/d/a.dat", "403 Forbidden").replace("</D:href>", "</D:href><D:href>/d/b.dat</D:href>"), names=()
        ),
        codes={**both(FAILS, *FINDING), **DELETING},
    ),
    *(
        Behaviour(
            f"207: after its end comes {what}",
            members(f"</D:multistatus>{more}"),
            codes={**both(FAILS, *FINDING), **DELETING},
            says=both("outside its root element", *FINDING),
        )
        for what, more in [
            ("a second document", f'<D:multistatus xmlns:D="DAV:">{refused("/d/a.dat", "200 OK")}'),
            ("the message of a failure", "\nFatal error: Allowed memory size of 134217728 bytes exhausted<D:x>"),
        ]
    ),
    *(
        Behaviour(
            f"207: {what}",
            members(entry),
            codes={**both(FAILS, *FINDING), **DELETING},
            says=both("may belong to an entry", *FINDING),
        )
        for what, entry in [
            ("an entry without a namespace", '<response xmlns=""><href>/d/a.dat</href></response>'),
            ("an entry in another namespace", '<response xmlns="DAV"><href>/d/a.dat</href></response>'),
            ("an entry with a prefix that is not declared", "<d:response><d:href>/d/a.dat</d:href></d:response>"),
            ("an entry in another element", f"<group>{refused('/d/a.dat', '200 OK')}</group>"),
        ]
    ),
    Behaviour(
        "207: elements that name nothing",
        members(
            "<D:responsedescription>both of them</D:responsedescription><x><y/></x>", names=("/d/a.dat", "/d/b.dat")
        ),
        codes=both(0, *EVERY),
    ),
    Behaviour(
        "207: without the directory",
        members(names=("/d/b.dat",), own=False),
        codes={**both(FAILS, *FINDING), **DELETING},
    ),
    Behaviour(
        "one HEAD is refused", also(index(), on(of_file("HEAD"), lambda it: it.answer(403))), codes=both(0, *FINDING)
    ),
    Behaviour(
        "one file is refused",
        also(index(), on(of_file("HEAD", "GET"), lambda it: it.answer(403))),
        codes=both(FAILS, *FINDING),
    ),
    Behaviour(
        "one file is gone",
        also(index(), on(of_file("HEAD", "GET"), lambda it: it.answer(404))),
        codes=both(FAILS, *FINDING),
    ),
    Behaviour("absolute hrefs", absolute_hrefs, codes=both(0, *FINDING, "sync --delete")),
]

PAGE = "<html><title>Sign in</title><form></form></html>"


def login_page(status: int) -> Callable[[Exchange], bool]:
    """Responds to requests for files with a login page, directly or after a redirect."""

    def answers(server: Exchange) -> bool:
        if server.name == "/login":
            return server.html(PAGE)
        if server.command not in ("GET", "HEAD") or server.name.endswith("/"):
            return False
        return server.html(PAGE) if status == 200 else server.answer(status, Location="/login")

    return answers


def part_as_whole(server: Exchange) -> bool:
    """The requested part with its position, but with the status of the whole file, like `rclone serve s3`."""
    asked = re.fullmatch(r"bytes=(\d+)-(\d+)", server.headers.get("Range", ""))
    data = server.site.files.get(server.name)
    if server.command != "GET" or not (asked and data):
        return False
    first, end = int(asked[1]), min(int(asked[2]) + 1, len(data))
    return server.answer(200, data[first:end], Content_Range=f"bytes {first}-{end - 1}/{len(data)}")


def replied(server: Exchange) -> tuple[int, bytes, str] | None:
    """The first byte, the data and the `Content-Range` of a requested range."""
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", server.headers.get("Range", ""))
    data = server.site.files.get(server.name)
    if server.command != "GET" or not (asked and data):
        return None
    first = int(asked[1])
    data, size = data[first : int(asked[2] or len(data)) + 1], len(data)
    return first, data, f"bytes {first}-{first + len(data) - 1}/{size}"


def in_parts(*changes: Callable[[bytes], bytes]) -> Callable[[Exchange], bool]:
    """The requested range in a part for each of `changes`, which changes the data under the same label."""

    def answers(server: Exchange) -> bool:
        if not (found := replied(server)):
            return False
        head = f"--B\r\nContent-Range: {found[2]}\r\n\r\n".encode()
        body = b"".join(head + change(found[1]) + b"\r\n" for change in changes) + b"--B--\r\n"
        return server.answer(206, body, Content_Type="multipart/byteranges; boundary=B")

    return answers


def in_chunks(change: Callable[[bytes], bytes], every: int = 1) -> Callable[[Exchange], bool]:
    """The requested range in a chunk, without a length. Some responses have changed data under the same label."""

    def answers(server: Exchange) -> bool:
        if not (found := replied(server)):
            return False
        number = sum(command == "GET" for command, _ in server.site.requests)
        data = change(found[1]) if number % every == 0 else found[1]
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)
        fields = {"Content_Length": None, "Transfer_Encoding": "chunked", "Content_Range": found[2]}
        return server.answer(206, body, **fields)

    return answers


def whole(data: bytes) -> bytes:
    return data


def busy(_: bytes) -> bytes:
    return b"<html>busy</html>"


SECOND_ANSWERS = [
    *(
        Behaviour(f"login page: {status}", login_page(status), codes=both(FAILS, *FINDING))
        for status in (200, 302, 303, 307)
    ),
    Behaviour(
        "login page, unknown sizes",
        also(listed_as(getcontentlength=None), login_page(200)),
        codes=both(FAILS, *FINDING),
    ),
    Behaviour(
        "login page, empty files", login_page(200), codes=both(FAILS, *FINDING), files={**FILES, "/d/a.dat": b""}
    ),
    Behaviour(
        "login page, large files",
        login_page(200),
        codes=both(FAILS, *FINDING),
        files={**FILES, "/d/a.dat": DATA * 600},
    ),
    Behaviour(
        "GET without a length breaks off",
        also(index(), on(of_file("GET"), lambda it: it.stream(DATA, whole=False))),
        codes=both(FAILS, *FINDING),
    ),
    Behaviour("GET sends less", on(of_file("GET"), lambda it: it.answer(200, DATA[:900])), codes=both(FAILS, *FINDING)),
    Behaviour(
        "206 with another length",
        on(
            of_file("GET"),
            lambda it: it.answer(206, b"<html>busy</html>", Content_Range=f"bytes 0-{len(DATA) - 1}/{len(DATA)}"),
        ),
        codes=both(FAILS, *FINDING),
    ),
    *(
        Behaviour(f"206 {name}", answers, codes=both(code, *FINDING), files={**FILES, "/d/a.dat": DATA * 100})
        for name, answers, code in [
            ("in one part", in_parts(whole), 0),
            ("in a part without its last nine bytes", in_parts(lambda data: data[:-9]), FAILS),
            ("with a page in a part", in_parts(busy), FAILS),
            ("in two parts that differ", in_parts(lambda data: bytes(len(data)), whole), FAILS),
            ("in chunks", in_chunks(whole), 0),
            ("in chunks with another length", in_chunks(busy), FAILS),
            ("in chunks, sometimes with another length", in_chunks(busy, every=3), 0),
        ]
    ),
    Behaviour(
        "a part with the status 200",
        part_as_whole,
        codes=both(0, *EVERY),
        files={**FILES, "/d/a.dat": DATA * 600},
    ),
    Behaviour(
        "a coding nobody asked for",
        on(of_file("GET"), lambda it: it.answer(200, gzip.compress(DATA), Content_Encoding="gzip")),
        codes=both(FAILS, *FINDING),
    ),
    Behaviour(
        "HTML files are files", lambda _: False, codes=both(0, *FINDING), files={**FILES, "/d/a.html": PAGE.encode()}
    ),
]

TIMES = [
    Behaviour(
        "a time before 1970, which nginx states as 1970",
        listed_as(getlastmodified=EPOCH),
        codes=both(0, *EVERY),
        says=both("compared by size alone", "sync --delete", "check"),
    ),
]

BEHAVIOURS = [*TIMES, *UNKNOWN_SIZES, *INDEXES, *INCOMPLETE, *SECOND_ANSWERS]
