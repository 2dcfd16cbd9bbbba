"""Behaviours of object stores and of servers of `root://` when files are listed and read."""

from collections.abc import Callable
from dataclasses import replace

from behaviours.storages.root_server import ERROR, FS_ERROR, MORE, NOT_FOUND, OK, RootExchange
from behaviours.table import DATA, DELETING, EVERY, FAILS, FILES, FINDING, PAGE, Behaviour, both, on

LOST = {**both(FAILS, "ls", *FINDING, "check"), **DELETING}
LISTING = tuple(LOST)
"""The verbs that list."""
OBJECT = "<Contents><Key>{}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>&quot;{}&quot;</ETag>{}</Contents>"
SIZE = f"<Size>{len(DATA)}</Size>"


def page(name: str, end: str = "<IsTruncated>false</IsTruncated>", size: str = SIZE) -> str:
    return f"<ListBucketResult>{end}{OBJECT.format(f'd/{name}.dat', 1, size)}</ListBucketResult>"


def cut(token: str) -> str:
    return f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"


def whole(more: str) -> str:
    return page("a", f"<IsTruncated>false</IsTruncated>{more}")


def group(prefix: str) -> str:
    return f"<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>"


PAGES: dict[str, dict[str | None, str]] = {
    # The content of each page, by the token that requests it.
    "no token": {None: page("a", "<IsTruncated>true</IsTruncated>")},
    "an empty token": {None: page("a", cut(""))},
    "the same token": {None: page("a", cut("t")), "t": page("b", cut("t"))},
    "tokens in a circle": {None: page("a", cut("t")), "t": page("b", cut("u")), "u": page("c", cut("t"))},
    "an error": {None: page("a", cut("t")), "t": "<Error><Code>InternalError</Code></Error>"},
    "a login page": {None: page("a", cut("t")), "t": PAGE},
    "half a page": {None: page("a", cut("t")), "t": page("b")[:-9]},
    "in capitals": {None: page("a", "<IsTruncated>True</IsTruncated>")},
    "as a number": {None: page("a", "<IsTruncated>1</IsTruncated>")},
    "an attribute": {None: page("a", "<IsTruncated a='b'>true</IsTruncated>")},
    "a prefix": {None: page("a", "<s:IsTruncated xmlns:s='urn:s'>true</s:IsTruncated>")},
    "the marker of the first version": {None: page("a", "<NextMarker>a</NextMarker>")},
    "no word of an end": {None: page("a", "")},
    "after its end a second one": {None: page("a") + page("b")},
    "after its end the message of a failure": {None: page("a") + "out of memory"},
    "a key of another directory": {None: whole(OBJECT.format("d/sub/b.dat", 1, SIZE))},
    "a group of another directory": {None: whole(group("d/sub/e/"))},
    "a group that ends without a slash": {None: whole(group("d/sub"))},
    "the directory itself as a group": {None: whole(group("d/"))},
}
STORES = [
    Behaviour("a good store", {}, both(0, *EVERY), storage="s3"),
    *(
        Behaviour(f"pages: {name}", {"pages": pages}, LOST, verbs=LISTING, storage="s3")
        for name, pages in PAGES.items()
    ),
    Behaviour(
        "objects without sizes",
        {"pages": {None: page("a", size="")}},
        files={path: data for path, data in FILES.items() if path != "/d/b.dat"},
        storage="s3",
    ),
    Behaviour("a login page as a list", {"answers": {"LIST": (200, PAGE.encode())}}, LOST, verbs=LISTING, storage="s3"),
    *(
        Behaviour(f"GET: {name}", {"answers": {"GET": answer}}, both(FAILS, *FINDING), storage="s3")
        for name, answer in [
            ("a login page", (200, PAGE.encode())),
            ("less", (200, DATA[:900])),
            ("an error with the status 200", (200, b"<Error><Code>InternalError</Code></Error>")),
            ("204", (204, b"")),
        ]
    ),
]


def listing(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[RootExchange], bool]:
    """A listing with changed lines: two for each name, after those of the directory."""

    def answers(server: RootExchange) -> bool:
        if server.command != "dirlist":
            return False
        lines = server.do_dirlist().rstrip(b"\0").split(b"\n")
        return server.answer(OK, b"\n".join(change(lines)) + b"\0")

    return answers


def cut_listing(server: RootExchange) -> bool:
    """Sends a part of a listing, and breaks off."""
    if server.command != "dirlist":
        return False
    server.answer(MORE, b"\n".join(server.do_dirlist().split(b"\n")[:4]) + b"\n")
    return server.break_off()


def asked(*commands: str, name: str = "") -> Callable[[RootExchange], bool]:
    return lambda server: server.command in commands and name in server.name


def sends(body: Callable[[bytes], bytes], *commands: str) -> Callable[[RootExchange], bool]:
    """Sends a changed response."""

    def answers(server: RootExchange) -> bool:
        if server.command not in commands:
            return False
        status, response = server.carry_out()
        return server.answer(status, response if status == ERROR else body(response))

    return answers


ROOT = [
    Behaviour("a good server", lambda _: False, both(0, *EVERY)),
    Behaviour("a list breaks off", cut_listing, LOST, verbs=LISTING),
    Behaviour("a list is refused", on(asked("dirlist"), lambda it: it.refuse(FS_ERROR)), LOST, verbs=LISTING),
    Behaviour("names without metadata", listing(lambda lines: lines[2::2]), both(0, *EVERY)),
    Behaviour(
        "names without metadata, one of which is refused",
        lambda it: listing(lambda lines: lines[2::2])(it) or (asked("stat", name="a.dat")(it) and it.refuse(FS_ERROR)),
        {**both(FAILS, *FINDING), **DELETING},
    ),
    Behaviour("metadata of one name are missing", listing(lambda lines: lines[:-1]), LOST, verbs=LISTING),
    Behaviour("one name twice", listing(lambda lines: [*lines, *lines[2:4]])),
    Behaviour(
        "a list says 0",
        listing(lambda lines: [line.replace(b" %d " % len(DATA), b" 0 ") for line in lines]),
        both(0, *EVERY[:3]),
    ),
    Behaviour("reads send less", sends(lambda data: data[:900], "read"), both(0, *EVERY)),
    Behaviour("reads send nothing", sends(lambda _: b"", "read", "readv"), {"cp -r": FAILS}, verbs=("cp -r",)),
    Behaviour("reads are refused", on(asked("read", "readv"), lambda it: it.refuse(FS_ERROR)), both(FAILS, *FINDING)),
    Behaviour(
        "one file is gone", on(asked("open", name="a.dat"), lambda it: it.refuse(NOT_FOUND)), both(FAILS, *FINDING)
    ),
]
LISTINGS = [*STORES, *(replace(row, storage="root") for row in ROOT)]
