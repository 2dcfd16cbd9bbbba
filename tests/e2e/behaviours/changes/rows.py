"""Behaviours of servers when files are written, renamed and removed: what they do, and how they respond."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from behaviours.foreign_server import Exchange
from behaviours.storages.root_server import ERROR, FS_ERROR, RootExchange
from behaviours.table import FAILS, PAGE, READING, Behaviour, both

UPLOADS = ("cp", "cp onto old", "cp large", "cp -r", "sync", "sync --delete")
REMOVALS = ("rm", "rm -r")
MOVES = ("mv", "mv onto old")
CHANGES = (*UPLOADS, *REMOVALS, *MOVES, "mkdir")
ALL = ("PUT", "MOVE", "DELETE", "MKCOL")
METHODS = {
    # The verbs that need one of these requests.
    ALL: tuple(verb for verb in CHANGES if verb != "sync"),
    ("MOVE",): ("cp", "cp onto old", "cp large", "cp -r", *MOVES),
    ("DELETE",): (*REMOVALS, "sync --delete"),
    ("MKCOL",): ("cp -r", "mkdir"),
}
WAITED = ("rm", "mv", "mkdir")
"""The verbs for behaviours after which a client tries again for seconds."""
Answers = Callable[[Any], bool]


def says(status: int, body: str = "", **fields: object) -> Answers:
    kind = "text/html" if body else "text/plain"
    return lambda server: server.answer(status, body.encode(), Content_Type=kind, **fields)


def leads_to_login(status: int, host: str = "") -> Answers:
    """A redirect to a page, at this host or at the server's own."""

    def answers(server: Exchange) -> bool:
        base = f"http://{host}:{server.server.server_port}" if host else ""
        return server.answer(status, Location=f"{base}/login")

    return answers


def instead(then: Answers, *methods: str) -> Answers:
    """Changes are not carried out."""

    def answers(server: Exchange) -> bool:
        if server.name == "/login":
            return server.html(PAGE)
        return server.command in methods and then(server)

    return answers


def after(then: Answers, *methods: str) -> Answers:
    """Changes are carried out, and this is the response to those that succeed."""

    def answers(server: Exchange) -> bool:
        if server.name == "/login":
            return server.html(PAGE)
        if server.command not in methods:
            return False
        return then(server) if server.carried_out() else server.answer(server.status)

    return answers


def once(then: Answers) -> Answers:
    """The first request of each kind."""
    return lambda server: [command for command, _ in server.site.requests].count(server.command) == 1 and then(server)


def stores(content: Callable[[bytes], bytes]) -> Answers:
    """Files are stored in part, and confirmed."""

    def answers(server: Exchange) -> bool:
        if server.command == "PUT":
            server.content = content(server.content)
        return False

    return answers


def no_sizes(size: str | None) -> Answers:
    """Listings state this size for all files, and HEAD none."""

    def answers(server: Exchange) -> bool:
        if server.command != "PROPFIND":
            return False
        properties = server.properties
        server.properties = lambda path: properties(path, getcontentlength=size)  # type: ignore[method-assign]
        return False

    return answers


def as_index(server: Exchange) -> bool:
    """Directories are listed by HTML pages alone."""
    if server.command == "PROPFIND":
        return server.answer(405)
    if server.command not in ("GET", "HEAD"):
        return False
    if f"{server.name}/" in server.site.files:
        return server.answer(301, Location=f"{server.name}/")
    if not server.name.endswith("/") or server.name not in server.site.files:
        return False
    names = [path[len(server.name) :] for path in server.site.within(server.name)]
    links = "\n".join(f'<a href="{name}">{name}</a>' for name in names)
    return server.html(f"<html><title>Index of {server.name}</title>{links}</html>")


def removes_a_part(server: Exchange) -> bool:
    """A directory keeps a file, whose removal is refused."""
    if server.command != "DELETE" or not server.name.endswith(("t", "t/")):
        return False
    kept = "/d/t/a.dat"
    data = server.site.files[kept]
    server.carried_out()
    server.site.files.update({"/d/t/": None, kept: data})
    return server.multistatus(
        f"<D:response><D:href>{kept}</D:href><D:status>HTTP/1.1 423 Locked</D:status></D:response>"
    )


CLAIMS = {
    "200": says(200),
    "200 and a page": says(200, PAGE),
    "201 and a page": says(201, PAGE),
    "202": says(202),
    "500": says(500),
    "an empty 207": lambda server: server.multistatus(""),
    **{f"login page: {status}": leads_to_login(status) for status in (302, 303, 307)},
    "login page elsewhere: 302": leads_to_login(302, "localhost"),
}
OF_ONE_METHOD = ("200", "202", "login page: 303")
"""Claims that are also made in response to one method alone."""
WEBDAV = [
    Behaviour("a good server", lambda _: False, both(0, *CHANGES), verbs=CHANGES),
    *(
        Behaviour(f"not done, {name}: {', '.join(methods)}", instead(then, *methods), both(FAILS, *verbs), verbs=verbs)
        for methods, verbs in METHODS.items()
        for name, then in CLAIMS.items()
        if methods == ALL or name in OF_ONE_METHOD
    ),
    *(
        Behaviour(f"done, {name}", after(CLAIMS[name], *ALL), both(0, *METHODS[ALL]), verbs=METHODS[ALL])
        for name in ("200", "202", "201 and a page", "login page: 303")
    ),
    Behaviour("done, 500", after(says(500), *ALL), verbs=METHODS[ALL]),
    Behaviour("not done, no response", instead(Exchange.break_off, *ALL), both(FAILS, *WAITED), verbs=WAITED),
    Behaviour("done, no response", after(Exchange.break_off, *ALL), both(0, *WAITED), verbs=WAITED),
    Behaviour("the first is not done, no response", once(instead(Exchange.break_off, *ALL)), verbs=CHANGES),
    Behaviour(
        "the first is done, no response", once(after(Exchange.break_off, *ALL)), both(0, *CHANGES), verbs=CHANGES
    ),
    Behaviour("half of each file", stores(lambda data: data[: len(data) // 2]), both(FAILS, *UPLOADS), verbs=UPLOADS),
    Behaviour("nothing of each file", stores(lambda _: b""), both(FAILS, *UPLOADS), verbs=UPLOADS),
    Behaviour("PROPFIND says 0", no_sizes("0"), verbs=(*UPLOADS, *MOVES)),
    Behaviour("PROPFIND without getcontentlength", no_sizes(None), verbs=(*UPLOADS, *MOVES)),
    Behaviour("an HTML index", as_index, both(0, *CHANGES), verbs=CHANGES),
    Behaviour("207: a member stays", removes_a_part, {"rm -r": FAILS}, verbs=("rm -r",)),
]

ERRORS = {
    "an error": (200, b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"),
    "an error without a code": (200, b"<Error><Message>no</Message></Error>"),
    "nothing": (200, b""),
    "accepted": (202, b""),
    "another document": (200, b"<ListBucketResult/>"),
    "a login page": (200, PAGE.encode()),
}
REQUESTS = {
    "PUT": ("cp", "cp onto old", "cp -r", "sync"),
    "PART": ("cp large",),
    "COMPLETE": ("cp large",),
    "COPY": MOVES,
    "DELETE": (*REMOVALS, *MOVES, "sync --delete"),
}
S3 = [
    Behaviour(
        "a good store", {}, both(0, *UPLOADS, *REMOVALS, *MOVES), verbs=(*UPLOADS, *REMOVALS, *MOVES), storage="s3"
    ),
    *(
        Behaviour(
            f"not done, confirmed: {name}",
            {"untrue": name},
            both(FAILS, *verbs),
            {} if name == "PUT" else both("may show changes late", *verbs),
            verbs=verbs,
            storage="s3",
        )
        for name, verbs in REQUESTS.items()
        if name != "PART"
    ),
    *(
        Behaviour(f"{name}: {what}", {"answers": {name: answer}}, both(FAILS, *verbs), verbs=verbs, storage="s3")
        for name, verbs in REQUESTS.items()
        for what, answer in ERRORS.items()
    ),
]

NAMES = ("mv", "rm", "rmdir", "mkdir")


def at_root(then: Answers, *commands: str, is_done: bool = False) -> Answers:
    def answers(server: RootExchange) -> bool:
        if server.command not in commands:
            return False
        if is_done and server.carry_out()[0] == ERROR:
            return False
        return then(server)

    return answers


def writes_half(server: RootExchange) -> bool:
    if server.command == "write":
        server.content = server.content[: len(server.content) // 2]
    return False


NO_SPACE = 3009
ROOT = [
    Behaviour("a good server", lambda _: False, both(0, *CHANGES)),
    *(
        Behaviour(f"not done, {name}", at_root(then, *NAMES), both(FAILS, *CHANGES))
        for name, then in {
            "refused": lambda it: it.refuse(FS_ERROR),
            "a redirect to the server itself": lambda it: it.redirect(it.server.server_port),
            "an unknown status": lambda it: it.answer(4999),
        }.items()
    ),
    Behaviour("not done, no response", at_root(RootExchange.break_off, *NAMES), both(FAILS, *WAITED), verbs=WAITED),
    Behaviour("done, an error", at_root(lambda it: it.refuse(FS_ERROR), *NAMES, is_done=True), both(0, *CHANGES)),
    Behaviour("done, no response", at_root(RootExchange.break_off, *NAMES, is_done=True), both(0, *CHANGES)),
    Behaviour("the first is not done, no response", once(at_root(RootExchange.break_off, *NAMES))),
    Behaviour("half of each file", writes_half, both(FAILS, *UPLOADS), verbs=UPLOADS),
    Behaviour(
        "writes are refused", at_root(lambda it: it.refuse(NO_SPACE), "write"), both(FAILS, *UPLOADS), verbs=UPLOADS
    ),
    Behaviour(
        "the file is refused when it is closed",
        at_root(lambda it: it.refuse(NO_SPACE), "close"),
        both(FAILS, *UPLOADS),
        verbs=UPLOADS,
    ),
    Behaviour(
        "the first write breaks off", once(at_root(RootExchange.break_off, "write")), both(0, *UPLOADS), verbs=UPLOADS
    ),
    Behaviour(
        "the first close breaks off", once(at_root(RootExchange.break_off, "close")), both(0, *UPLOADS), verbs=UPLOADS
    ),
]
ROWS = [
    *WEBDAV,
    *S3,
    *(replace(row, storage="root", verbs=CHANGES if row.verbs == READING else row.verbs) for row in ROOT),
]
