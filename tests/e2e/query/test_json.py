"""The structure of `--json` output, which scripts rely on."""

import json
import subprocess

from bench.harness.paths import HITHER

REPORT = {
    "seconds": float,
    "requests": int,
    "round_trips": int,
    "connections": int,
    "bytes_requested": int,
    "bytes_received": int,
    "bytes_used": int,
}


def assert_report(report):
    for name, kind in REPORT.items():
        assert isinstance(report[name], kind), name
        assert report[name] >= 0, name


def test_draw(hither, site, small):
    answer = hither("draw", site.link_in(small) + ":T", "rawtr", "--where", "E33>5", "--no-store", "--json").json
    assert isinstance(answer["entries"], int)
    assert isinstance(answer["selected"], int)
    assert isinstance(answer["mean"], float)
    assert isinstance(answer["stddev"], float)
    histogram = answer["histogram"]
    assert len(histogram["counts"]) == histogram["bins"] == 100
    assert sum(histogram["counts"]) + histogram["underflow"] + histogram["overflow"] == answer["selected"]
    assert_report(answer["report"])


def test_explain_has_the_same_report(hither, site, small):
    answer = hither("explain", "draw", site.link_in(small) + ":T", "rawtr", "--no-store", "--json").json
    assert_report(answer["report"])


def test_draw_of_nothing_selected(hither, site, small):
    told = hither("draw", site.link_in(small) + ":T", "rawtr", "--where", "E33>1e9", "--no-store", "--json")
    assert told.code == 0, told.err
    assert told.json["selected"] == 0


def test_tree(hither, site, small):
    answer = hither("tree", site.link_in(small), "--no-store", "--json").json
    (tree,) = answer["trees"]
    assert (tree["path"], tree["entries"]) == ("T", small.facts["entries"])
    assert len(tree["branches"]) == 152
    assert sum(branch["baskets"] for branch in tree["branches"]) == small.facts["baskets"]
    query = [b for b in tree["branches"] if b["name"] in ("rawtr", "E33")]
    assert sum(branch["compressed_bytes"] for branch in query) == small.facts["query_bytes"]


def test_stat(hither, site, small):
    answer = hither("stat", site.link_in(small), "--no-store", "--json").json
    assert answer["size"] == small.facts["bytes"]


def test_cat_is_bytes(site, small):
    content = small.path.read_bytes()
    url = site.link_in(small)
    for option, expected in (("0-3", content[:4]), ("-50", content[-50:]), ("1000-", content[1000:])):
        told = subprocess.run([HITHER, "cat", f"--range={option}", url, "--no-store"], stdout=subprocess.PIPE, check=True)
        assert told.stdout == expected
    whole = subprocess.run([HITHER, "cat", url, "--no-store"], stdout=subprocess.PIPE, check=True).stdout
    assert whole == content


def test_output_is_one_object_and_nothing_else(hither, site, small):
    told = hither("draw", site.link_in(small) + ":T", "rawtr", "--no-store", "--json")
    assert isinstance(json.loads(told.out), dict)
