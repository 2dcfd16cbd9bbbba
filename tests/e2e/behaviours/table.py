"""Behaviours of servers that are not ours, as data: what the server holds, how it answers, and what each verb must do.

A row is one behaviour. `test_behaviours.py` runs every verb against it and checks what holds whatever the server does:
an end with exit code 0 means bytes that the server holds, nothing that the server holds is deleted at the target, and
nothing good is replaced by anything else. `codes` says how verbs end, for what must fail or must not; `says` is a part
of the message that each verb which is named there prints.

A bug report about a server becomes a row here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from behaviours.foreign_server import Exchange

DATA = bytes(range(256)) * 40
FILES: dict[str, bytes | None] = {"/": None, "/d/": None, "/d/a.dat": DATA, "/d/b.dat": DATA[::-1]}

FAILS = "fails"
"""Any exit code but 0."""


@dataclass(frozen=True)
class Behaviour:
    """How a server answers, and what must come of it."""

    name: str
    answers: Callable[[Exchange], bool]
    codes: Mapping[str, int | str] = field(default_factory=dict)
    says: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes | None] = field(default_factory=lambda: FILES)
    """The files that the server holds in truth."""


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
    """An HTML index of `/d/` with such a link for each name; HEAD tells the sizes."""
    body = "\n".join(link.format(name) for name in names)
    page = f"<html><head><title>{title}</title></head><body><pre>\n{body}\n</pre>{more}</body></html>"

    def answers(server: Exchange) -> bool:
        return no_propfind(server) or (server.command == "GET" and server.name == "/d/" and server.html(page))

    return answers


def also(*parts: Callable[[Exchange], bool]) -> Callable[[Exchange], bool]:
    return lambda server: any(part(server) for part in parts)


def of_file(*methods: str) -> Callable[[Exchange], bool]:
    return lambda server: server.command in methods and server.name == "/d/a.dat"


def on(when: Callable[[Exchange], bool], then: Callable[[Exchange], bool]) -> Callable[[Exchange], bool]:
    return lambda server: when(server) and then(server)


def listed_as(**changed: str | None) -> Callable[[Exchange], bool]:
    """PROPFIND tells these properties of `/d/a.dat`."""

    def answers(server: Exchange) -> bool:
        if server.command != "PROPFIND" or server.name not in ("/d", "/d/", "/d/a.dat"):
            return False
        own = server.properties("/d/a.dat", **changed)
        if server.name == "/d/a.dat":
            return server.multistatus(own)
        others = [server.properties("/d/b.dat"), own] if server.headers.get("Depth") == "1" else []
        return server.multistatus("".join([server.properties("/d/"), *others]))

    return answers


UNKNOWN_SIZES = [
    Behaviour("PROPFIND without getcontentlength", listed_as(getcontentlength=None)),
    Behaviour("PROPFIND with an empty getcontentlength", listed_as(getcontentlength="")),
    Behaviour("PROPFIND with a negative getcontentlength", listed_as(getcontentlength="-1")),
    Behaviour("PROPFIND says 0", listed_as(getcontentlength="0")),
    Behaviour(
        "HEAD without a length", also(index(), on(of_file("HEAD"), lambda it: it.answer(200, Content_Length=None)))
    ),
    Behaviour("HEAD says 0", also(index(), on(of_file("HEAD"), lambda it: it.answer(200)))),
    Behaviour(
        "no length anywhere",
        also(
            index(),
            on(of_file("HEAD"), lambda it: it.answer(200, Content_Length=None)),
            on(of_file("GET"), lambda it: it.stream(DATA)),
        ),
    ),
    Behaviour("empty files are empty", lambda _: False, files={**FILES, "/d/a.dat": b""}),
]

BEHAVIOURS = [*UNKNOWN_SIZES]
