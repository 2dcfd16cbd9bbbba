"""Each failure has its own message and its own exit code."""

import signal
import subprocess
from pathlib import Path

import pytest
from cutting import Relay
from needs import sample

from bench.harness.paths import HITHER

USAGE, NOT_FOUND, CREDENTIALS, UNAVAILABLE, TIMEOUT, CORRUPT, UNSUPPORTED = 2, 3, 4, 5, 6, 7, 8
SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "testdata" / "root"


def draw(hither, url, *options, expression="rawtr"):
    return hither("draw", url, expression, *options, "--no-store")


def assert_failed(told, code, *words):
    assert told.code == code, f"exit code {told.code}: {told.err}"
    assert told.err.startswith("hither: "), told.err
    for word in words:
        assert word in told.err, told.err
    assert "panicked" not in told.err


@pytest.mark.parametrize(
    ("path", "code", "word"),
    [
        ("none.root", NOT_FOUND, "404"),
        ("forbidden/x.root", CREDENTIALS, "403"),
        ("login/x.root", CREDENTIALS, "401"),
        ("broken/x.root", UNAVAILABLE, "500"),
        ("busy/x.root", UNAVAILABLE, "503"),
    ],
)
def test_errors_of_the_server_are_explained(hither, site, path, code, word):
    told = draw(hither, site.url(path) + ":T")
    assert_failed(told, code, word, site.url(path))


def test_an_unresolvable_host_is_unavailable(hither):
    assert_failed(draw(hither, "http://no-such-host.invalid/x.root:T"), UNAVAILABLE, "no-such-host.invalid", "resolve")


def test_a_refused_connection_is_explained(hither):
    with Relay(None) as relay:
        port = relay.port
    told = draw(hither, f"http://127.0.0.1:{port}/x.root:T", "--connect-timeout", 1)
    assert_failed(told, UNAVAILABLE, f"127.0.0.1:{port}", "refused")


@pytest.mark.parametrize(
    "content",
    [b"", b"r", b"root", b"<html>not here</html>\n" * 100, bytes(100_000), b"root" + b"\xff" * 5000],
    ids=["empty", "one byte", "magic only", "html", "zeros", "magic and garbage"],
)
def test_other_content_is_not_a_root_file(hither, site, content):
    assert_failed(draw(hither, site.put("x.root", content) + ":T"), CORRUPT)


@pytest.mark.parametrize("part", [0.0001, 0.01, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_an_error(hither, site, small, part):
    content = small.path.read_bytes()
    told = draw(hither, site.put("cut.root", content[: int(len(content) * part)]) + ":T")
    assert_failed(told, CORRUPT)


def test_a_missing_tree_lists_the_existing_ones(hither, site, small):
    assert_failed(draw(hither, site.link_in(small) + ":Tree"), NOT_FOUND, "Tree", "`T`")


def test_a_colon_at_the_end_makes_a_name_with_colons_a_file(hither, site, small):
    site.put("scope:run7", small.path.read_bytes())
    assert_failed(draw(hither, site.url("scope:run7")), NOT_FOUND, site.url("scope"))
    assert draw(hither, site.url("scope:run7:")).code == 0
    assert draw(hither, site.url("scope:run7") + "?key=a:").code == 0


def test_an_rntuple_is_named_with_the_way_to_read_it(hither):
    path = sample(SAMPLES / "ntpl001_staff_rntuple_v1-0-0-0.root")
    assert_failed(hither("tree", path, "--no-store"), UNSUPPORTED, "no trees", "RNTuple Staff: read it from Python")
    for target in (path, f"{path}:Staff"):
        assert_failed(draw(hither, target), UNSUPPORTED, "`Staff` is an RNTuple; read it from Python")


@pytest.mark.parametrize(("wrong", "near"), [("rawt", "rawtr"), ("e33", "E33"), ("ecal_enrgy", "ecal_energy")])
def test_a_misspelt_branch_gets_suggestions(hither, site, small, wrong, near):
    assert_failed(draw(hither, site.link_in(small) + ":T", expression=wrong), NOT_FOUND, wrong, near)


@pytest.mark.parametrize("expression", ["rawtr+", "(rawtr", "rawtr rawtr", "nofunction(rawtr)", ""])
def test_an_invalid_expression_is_a_usage_error(hither, site, small, expression):
    assert_failed(draw(hither, site.link_in(small) + ":T", expression=expression), USAGE)


@pytest.mark.parametrize("url", ["http://", "gopher://host/x.root", "http://host:99999/x.root"])
def test_invalid_urls_are_errors(hither, url):
    told = draw(hither, url)
    assert told.code in (USAGE, 8), told.err
    assert told.err.startswith("hither: ")


def test_usage_errors(hither):
    for arguments in (["draw"], ["nonsense"], ["draw", "x", "y", "--bins", "0"], ["draw", "x", "y", "--range", "2:1"]):
        assert hither(*arguments).code == USAGE


def test_a_failure_is_an_object_with_json(hither, site):
    told = draw(hither, site.url("none.root") + ":T", "--json")
    error = told.json["error"]
    assert (told.code, error["exit_code"], error["kind"]) == (NOT_FOUND, NOT_FOUND, "not_found")
    assert "404" in error["message"]


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("after", [0, 10, 500, 9_000, 30_000, 60_000])
def test_a_connection_cut_each_time_is_an_error_at_every_stage(hither, site, small, after, reset):
    """While connecting, in the response header, in the file's head, in the metadata, in the data; each time again."""
    site.link_in(small)
    with Relay(site.port, lambda connection: after if connection == 0 else 0, reset=reset) as relay:
        told = draw(hither, f"http://127.0.0.1:{relay.port}/small.root:T", "--max-connections", 1)
        assert_failed(told, UNAVAILABLE)


@pytest.mark.parametrize("after", [500, 9_000, 30_000, 60_000])
def test_a_connection_cut_once_is_no_failure(hither, site, small, after):
    site.link_in(small)
    with Relay(site.port, lambda connection: after if connection == 0 else None) as relay:
        told = draw(hither, f"http://127.0.0.1:{relay.port}/small.root:T", "--max-connections", 2, "--json")
        assert told.code == 0, told.err
        assert told.json["selected"] == small.facts["entries"] * 17


def test_a_server_that_never_responds_times_out(hither):
    with Relay(None, stall=True) as relay:
        told = draw(hither, f"http://127.0.0.1:{relay.port}/x.root:T", "--stall-timeout", "0.5")
        assert_failed(told, TIMEOUT)


def test_an_interrupt_exits_with_130():
    with Relay(None, stall=True) as relay:
        command = [str(HITHER), "draw", f"http://127.0.0.1:{relay.port}/x.root:T", "x", "--no-store"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert relay.asked.wait(30), "no request came"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 130
    assert "interrupted" in errors
