"""No text of a server moves the cursor of a terminal, reorders text, or begins a line of its own in the output: names,
reasons and headers are escaped, on terminals as in pipes and logs. `--json` and `find -0` have the names as they are.
"""

import json
import os
import re
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from behaviours.foreign_server import Site, serving

FORGED = "hither: forged"
FORGED_CAUSE = f"  because: {FORGED}"
HOSTILE = f"\x1b]0;title\x07\x1b[31m\u009b1m\u202ereversed\u2028\x7f\r\n{FORGED}\n{FORGED_CAUSE}\n"
REASON = "".join(c for c in HOSTILE if c not in "\r\n")
FILES = {
    "/": None,
    "/d/": None,
    f"/d/{HOSTILE}": b"hello",
    f"/d/sub{HOSTILE}/": None,
    f"/d/sub{HOSTILE}/f{HOSTILE}": b"1",
    "/f": b"x" * 100,
}
LISTINGS = ["ls", "ls -l", "ls -R", "find", "du", "du --max-depth 3", "stat"]
TREES = ["check {d} {local}", "sync --dry-run {d} {new}", "sync --dry-run --delete {d} {local}", "cp -r {d} {new}"]
CHANGES = ["sync --delete {d} {local}", "rm -r {d}", "cp -r {local} {d}up/"]


def unsafe(text: str) -> list[str]:
    """Returns the lines that have characters that control a terminal, or that a server has begun."""
    lines = text.split("\n")
    moves = re.compile("[\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
    controls = [line for line in lines if any(unicodedata.category(c) == "Cc" and c != "\t" for c in line)]
    return controls + [line for line in lines if moves.search(line) or line.startswith((FORGED, FORGED_CAUSE))]


def served(behaviour=lambda _exchange: False):
    return serving(Site(dict(FILES), behaviour))


@pytest.fixture
def local(tmp_path):
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / HOSTILE).write_bytes(b"x")
    (folder / f"here{HOSTILE}").write_bytes(b"x")
    return folder


@pytest.mark.parametrize("verb", [f"{verb} {{d}}" for verb in LISTINGS] + TREES + CHANGES)
@pytest.mark.parametrize("flag", [None, "-vv", "--json"])
def test_names_of_a_server_are_escaped(hither, tmp_path, local, verb, flag):
    with served() as server:
        places = {"d": f"http://127.0.0.1:{server.port}/d/", "local": local, "new": tmp_path / "new"}
        words = [word.format(**places) for word in verb.split()]
        told = hither(*words, "--no-store", *([flag] if flag else []))
    shown = told.err if flag == "--json" else told.out + told.err
    assert unsafe(shown) == []
    if flag == "--json":
        assert json.loads(told.out)
    elif verb.split()[0] in {"ls", "check"} or "--dry-run" in verb:
        assert r"\u001b]0;title\u0007\u001b[31m\u009b1m\u202ereversed\u2028\u007f\r\nhither: forged\n" in shown


def test_names_are_exact_as_json_and_between_nuls(hither, local):
    found = hither("find", local, "--no-store", "--json").json["entries"]
    apart = hither("find", "-0", local, "--no-store").out
    names = {os.fspath(path) for path in [local, *local.iterdir()]}
    assert {entry["url"] for entry in found} == names
    assert {name for name in apart.split("\0") if name} == names
    shown = hither("find", local, "--no-store").out
    assert unsafe(shown) == []
    assert len(shown.splitlines()) == len(names)


def test_a_list_of_checksums_keeps_names_with_control_characters(hither, tmp_path, local):
    told = hither("checksum", "-a", "md5", *(os.fspath(path) for path in local.iterdir()), "--no-store")
    assert unsafe(told.out) == [] and len(told.out.splitlines()) == 2
    (tmp_path / "list").write_text(told.out)
    compared = hither("checksum", "--check", tmp_path / "list", "--no-store")
    assert compared.code == 0, compared.err
    assert unsafe(compared.out) == [] and len(compared.out.splitlines()) == 2


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 405, 409, 412, 416, 423, 429, 500, 501, 503, 507])
def test_reasons_of_a_server_are_escaped(hither, tmp_path, status):
    def refuses(exchange) -> bool:
        fields = {"Content_Type": "text/plain", "Retry_After": "0"}
        reason = REASON.encode().decode("latin-1")
        if status == 302:
            fields["Location"] = f"http://127.0.0.1:1/{reason}"
        if status == 401:
            fields["WWW_Authenticate"] = f'Bearer error="{reason}", error_description="{reason}"'
        return exchange.answer(status, HOSTILE.encode(), **fields)

    with served(refuses) as server:
        url = f"http://127.0.0.1:{server.port}/f"
        commands = [["cat", url], ["ls", f"{url}/"], ["cp", __file__, url], ["rm", url], ["stage", url], ["tree", url]]

        def run(words: list[str]):
            return hither(*words, "--no-store", "-v", "--stall-timeout", "1", "--connect-timeout", "1")

        with ThreadPoolExecutor(len(commands)) as pool:
            for words, told in zip(commands, pool.map(run, commands), strict=True):
                assert unsafe(told.out + told.err) == [], words


def test_tags_and_digests_of_a_server_are_escaped(hither):
    def tells(exchange) -> bool:
        reason = REASON.encode().decode("latin-1")
        return exchange.answer(200, b"x" * 10, ETag=f'"{reason}"', Digest=f"md5={reason}", Content_Type=reason)

    with served(tells) as server:
        url = f"http://127.0.0.1:{server.port}/f"
        for words in (["stat", url], ["checksum", url], ["cat", url], ["tree", url], ["cp", url, "-"]):
            told = hither(*words, "--no-store", "-vv", "--stall-timeout", "1")
            assert unsafe(told.out + told.err) == [], words


def test_a_notice_is_one_line_whatever_name_it_has(hither, tmp_path, local):
    os.mkfifo(local / f"pipe{HOSTILE}")
    told = hither("cp", "-r", local, tmp_path / "copied", "--no-store")
    assert unsafe(told.out + told.err) == []
    assert len([line for line in told.err.splitlines() if "pipe" in line]) == 1, told.err
