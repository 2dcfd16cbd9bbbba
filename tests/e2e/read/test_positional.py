"""A program that reads a tree basket by basket and waits for each, at 240 ms: round trips counted by the link."""

import json

import pytest
from needs import python_package

pytestmark = pytest.mark.netns

# The start time of the recorded job, in seconds since 1970, which has no effect.
START = 1_795_287_595


def baskets(path, *branches):
    """(offset, bytes) of the baskets of some branches of the tree, in the order in which a query reads them."""
    uproot = python_package("uproot")
    with uproot.open(path) as file:
        found = []
        for branch in (file["T"][name] for name in branches):
            count = branch.member("fWriteBasket")
            tables = (branch.member(name)[:count] for name in ("fBasketEntry", "fBasketSeek", "fBasketBytes"))
            found += zip(*(table.tolist() for table in tables), strict=True)
    return [(offset, size) for _, offset, size in sorted(found)]


@pytest.fixture(scope="module")
def job(hither, talk, tmp_path_factory):
    """The trace of a program that reads the baskets of the talk's query one by one, as xrootd's client records it."""
    folder = tmp_path_factory.mktemp("job")
    reads = baskets(talk.path, "rawtr", "E33")
    lines = [f'"1","Open","{START}.000000000","root://host//talk.root;0;0;0","{START}.000000000","[SUCCESS]",""']
    for number, (at, size) in enumerate(reads):
        when = f"{START}.{number:09}"
        lines.append(f'"1","Read","{when}","{at};{size};0","{when}","[SUCCESS]","{size}"')
    (folder / "job.csv").write_text("\n".join(lines) + "\n")
    made = hither("trace", "import", "--format", "xrdrecord", folder / "job.csv", "-o", folder / "job.trace")
    assert made.code == 0, made.err
    return folder / "job.trace", sum(size for _, size in reads), len(reads)


def replayed(hither, far, trace, store):
    far.where.reset()
    told = hither("trace", "replay", trace, far.url("talk.root"), "--json", "--store", store, where=far.where)
    assert told.code == 0, told.err
    return told.json["replay"], far.where.stats()


def test_a_job_waits_for_six_round_trips_at_first_and_three_afterwards(hither, far, talk, job, tmp_path):
    trace, needed, reads = job
    first, seen = replayed(hither, far, trace, tmp_path)
    assert (first["reads"], first["bytes"]) == (reads, needed)
    # Including trial requests and prefetches, and the tree's object.
    assert first["report"]["bytes_payload"] <= 1.1 * (needed + talk.facts["tree_bytes"])
    assert seen["round_trips"] <= 6
    second, seen = replayed(hither, far, trace, tmp_path)
    assert second["bytes"] == needed
    assert second["report"]["bytes_payload"] <= 1.1 * needed
    assert seen["round_trips"] <= 3


def test_learned_access_patterns_are_shown_and_exported(hither, far, job, tmp_path):
    here, there, package = tmp_path / "here", tmp_path / "there", tmp_path / "learned.json"
    replayed(hither, far, job[0], here)
    url = far.url("talk.root")

    def learned(store, *options):
        told = hither("tree", *options, url, "--store", store, where=far.where)
        assert told.code == 0, told.err
        return told

    (tree,) = learned(here, "--learned", "--json").json["trees"]
    assert [sorted(known["steady"]) for known in tree["learned"]["sets"]] == [["E33", "rawtr"]]
    learned(here, "--export", package)
    assert hither("tree", "--import", package, "--store", there).code == 0
    assert learned(there, "--learned").out == learned(here, "--learned").out
    damaged = json.loads(package.read_text())
    damaged["trees"][0]["sets"][0]["steady"] = ["\x1b[2J"]
    package.write_text(json.dumps(damaged))
    assert hither("tree", "--import", package, "--store", there).code == 7
    package.write_text("[]")
    assert hither("tree", "--import", package, "--store", there).code == 7
