"""Explanations with text and picture, and progress bars."""

import io
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import ClassVar

import pytest
from needs import python_package, sample
from samples import SAMPLES
from serving import talkfile

import hither
from hither._reporting import progress_bar


@pytest.fixture(scope="module")
def path():
    path = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    talkfile.ensure(path, events=3000)
    return path


@pytest.fixture
def url(site, path):
    return site.put("small.root", path.read_bytes())


def labels(text):
    return [line[2:28].strip() for line in text.splitlines() if line.startswith("  ")]


def test_an_explanation_has_the_lines_of_the_command(url, client):
    told = hither.explain(url, "rawtr", "E33>5", path="T", client=client)
    command = [sys.executable, "-m", "hither", "explain", "draw", "--no-store", "--anonymous", f"{url}:T", "rawtr"]
    run = subprocess.run([*command, "--where", "E33>5"], capture_output=True, text=True, timeout=60, check=True)
    lines = labels(str(told))
    assert lines == labels(run.stdout)[-len(lines) :]
    theirs = json.loads(
        subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60, check=True).stdout
    )
    assert told.entries == theirs["entries"] == 3000
    for name in set(theirs["report"]) - {"reads"}:
        assert hasattr(told.report, name)


def test_an_explanation_counts_what_the_server_saw(site, url, client):
    told = hither.explain(url, ["rawtr", "E33"], "E33>5", path="T", client=client)
    assert (told.selected, told.entries, told.columns) == (2981, 3000, ("rawtr", "E33"))
    assert told.report.requests == len(site.requests)
    assert 0 < told.report.bytes_used <= told.report.bytes_payload
    assert sum(told.report.phases.values()) == pytest.approx(told.report.seconds)
    assert told.as_dict()["report"]["bytes_wasted"] == told.report.bytes_wasted


def test_trees_that_are_open_are_explained_too(path, client):
    with hither.open_tree(path, client=client) as tree:
        told = hither.explain(tree, filter_name="n*", entry_stop=100)
        assert told.columns == tuple(tree.keys(filter_name="n*"))
        assert (told.entries, told.selected) == (100, 100)
        with pytest.raises(KeyError, match="rawtr"):
            hither.explain(tree, "rawt")


def test_an_explanation_names_the_branches_that_uproot_read(client):
    python_package("uproot")
    found = []
    for path in sorted(sample(SAMPLES).glob("*.root")):
        trees = hither.open_root(path, client=client)
        found = [(path, name, key) for name in trees for key, it in trees[name].items() if it.info.unsupported]
        if found:
            break
    path, name, key = found[0]
    told = hither.explain(path, key, path=name, client=client)
    assert told.through_uproot == (key,)
    assert any("uproot" in notice for notice in told.report.notices)


def test_an_explanation_contains_no_secret(url, client):
    secret = url.replace("http://", "http://user:hidden@") + "?token=hidden"
    told = hither.explain(secret, "ntrack", path="T", client=client)
    assert "hidden" not in f"{told!r}{told}{told._repr_html_()}"


def svg_of(html):
    return ET.fromstring(re.search(r"<svg.*?</svg>", html, re.DOTALL)[0])


def test_the_picture_of_a_report_covers_its_whole_time(url, client):
    told = hither.explain(url, ["rawtr"], path="T", client=client)
    picture = svg_of(told._repr_html_())
    rows = [
        [float(it.get("width")) for it in row if it.tag.endswith("rect") and it.get("y") == "3"]
        for row in picture
        if row.tag.endswith("g")
    ]
    assert len(rows) == 3
    # Time and bytes fill the width between the margins.
    for row in (rows[0], rows[2]):
        assert sum(row) == pytest.approx(510, abs=26)
    assert "round trips" in "".join(picture.itertext())


def test_names_in_pictures_are_escaped(path, client):
    told = hither.explain(path, "ntrack", "ntrack<5", path="T", client=client)
    assert "ntrack&lt;5" in told._repr_html_()
    assert "ntrack<5" not in told._repr_html_()


def test_reports_without_a_read_draw_nothing():
    assert "<svg" not in hither.Report()._repr_html_()
    assert hither.Report().phases == {}
    # A connection may take longer than the phase that uses it.
    for from_store, phases in [(False, [1, 0, 2, 1]), (True, [2, 1, 0, 1])]:
        report = hither.Report(
            seconds=4, connect_seconds=3, open_seconds=1, data_seconds=2, metadata_from_store=from_store
        )
        assert list(report.phases.values()) == phases


class Bar:
    """The methods of tqdm that are used."""

    made: ClassVar[list] = []

    def __init__(self, desc, total, **_):
        self.desc, self.total, self.n, self.closed = desc, total, 0, False
        Bar.made.append(self)

    def update(self, more):
        assert more >= 0
        self.n += more

    def close(self):
        self.closed = True


@pytest.fixture
def bars(monkeypatch):
    Bar.made = []
    monkeypatch.setattr(progress_bar, "_bar", lambda what: Bar(what, 0))
    return Bar.made


def test_bars_count_the_bytes_that_arrive(url, client, bars):
    tree = hither.open_tree(url, "T", client=client)
    tree.arrays(["rawtr"])
    assert bars == []
    tree.arrays(["rawtr"], progress=True)
    steps = list(tree.iterate(["rawtr"], step_size=1000, progress=True))
    assert len(steps) == 3
    expected = tree["rawtr"].info.compressed_bytes
    for bar in bars:
        assert bar.desc == "small.root"
        assert bar.closed
        assert bar.n == bar.total > 0.9 * expected
    assert len(bars) == 2


def test_a_bar_that_cannot_be_drawn_is_lost_and_nothing_else(url, client, monkeypatch):
    python_package("tqdm")

    class Unread(io.StringIO):
        room = 0

        def write(self, text):
            self.room -= 1
            if self.room < 0:
                raise BrokenPipeError
            return len(text)

    tree = hither.open_tree(url, "T", client=client)
    for room in (0, 1):
        # At the beginning, or later.
        monkeypatch.setattr(Unread, "room", room)
        monkeypatch.setattr(sys, "stderr", Unread())
        assert len(tree.arrays(["rawtr"], progress=True)) == 3000
        monkeypatch.undo()


def test_a_bar_of_many_files_counts_them_all(site, path, client, bars):
    urls = [site.put(f"{at}.root", path.read_bytes()) for at in range(3)]
    files = hither.dataset(urls, "T", client=client)
    files.arrays(["ntrack"], progress=True)
    for _ in files.iterate(["ntrack"], step_size=1000, progress=True):
        pass
    hither.open_tree(urls[0], "T", client=client).arrays(["ntrack"], progress=True)
    whole, steps, one = (bar.n for bar in bars)
    assert whole == steps == 3 * one > 0
    assert all(bar.closed for bar in bars)


def test_a_bar_is_closed_when_an_iteration_is_left(url, client, bars):
    steps = hither.open_tree(url, "T", client=client).iterate(["rawtr"], step_size=10, progress=True)
    next(steps)
    steps.close()
    assert bars[0].closed


def test_bars_are_those_of_tqdm(path, client, capsys):
    python_package("tqdm")
    hither.open_tree(path, "T", client=client).arrays(["rawtr"], progress=True)
    assert "small.root" in capsys.readouterr().err


def test_without_tqdm_the_read_continues_with_a_warning(path, client, monkeypatch):
    for name in ("tqdm", "tqdm.auto"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.warns(UserWarning, match="pip install tqdm"):
        found = hither.open_tree(path, "T", client=client).arrays(["ntrack"], progress=True)
    assert len(found) == 3000
