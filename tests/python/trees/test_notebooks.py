"""Representations for notebooks and terminals, in which all text is escaped."""

import io
from html.parser import HTMLParser

import pytest
from needs import python_package

import hither

uproot = python_package("uproot")
NAME = "a<b>&amp;"


class Cells(HTMLParser):
    """The text of the cells of a table, and the names of all elements."""

    def __init__(self, page):
        super().__init__()
        self.cells, self.elements = [], set()
        self.feed(page)

    def handle_starttag(self, tag, _attributes):
        self.elements.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, text):
        if self.cells:
            self.cells[-1] += text


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "<i>.root"
    with uproot.recreate(path) as file:
        file.mktree("T", {NAME: "f8", "a_rather_long_name_of_a_branch": "i4"}).extend(
            {NAME: [1.0, 2.0], "a_rather_long_name_of_a_branch": [1, 2]}
        )
        file.mktree("d/other", {"x": "f8"}).extend({"x": [1.0]})
    return path


def test_a_tree_is_shown_as_by_uproot(path, client, capsys):
    tree = hither.open_tree(path, "T", client=client)
    tree.show()
    ours = capsys.readouterr().out.splitlines()
    theirs = io.StringIO()
    uproot.open(f"{path}:T").show(stream=theirs)
    assert [line.split("|")[:2] for line in ours if "-+-" not in line] == [
        line.split("|")[:2] for line in theirs.getvalue().splitlines() if "-+-" not in line
    ]
    assert ours[0] == "name                 | typename                 | compressed"
    assert ours[1].startswith("---------------------+-")
    wide = io.StringIO()
    tree.show(filter_name="a_*", name_width=30, stream=wide)
    assert [line.split(" ")[0] for line in wide.getvalue().splitlines()[2:]] == ["a_rather_long_name_of_a_branch"]


def test_trees_and_files_are_tables_in_notebooks(path, client):
    tree = hither.open_tree(path, "T", client=client)
    page = Cells(tree._repr_html_())
    assert page.elements == {"div", "table", "tr", "th", "td"}
    assert page.cells[3:5] == [NAME, "double"]
    assert "2 entries" in tree._repr_html_()
    file = hither.open_root(path, client=client)
    page = Cells(file._repr_html_())
    assert page.elements == {"div", "table", "tr", "th", "td"}
    assert page.cells[1:] == ["T", "d/other"]


def test_a_file_shows_its_report_without_a_request(site, client, content):
    url = site.put("f", content)
    with client.open(url + "?authz=hush") as file:
        assert site.requests == []
        assert "round trips" in file._repr_html_()
        assert site.requests == []
        file.read(10)
        assert "bytes fetched" in file._repr_html_()
        assert "hush" not in file._repr_html_()
    assert "closed" in file._repr_html_()


def test_many_branches_are_counted(client, tmp_path):
    path = tmp_path / "many.root"
    with uproot.recreate(path) as file:
        file.mktree("T", {f"b{nth}": "f8" for nth in range(250)}).extend({f"b{nth}": [1.0] for nth in range(250)})
    page = hither.open_tree(path, "T", client=client)._repr_html_()
    assert page.count("<tr>") == 201
    assert "and 50 more" in page


def test_a_name_shows_no_secret(client):
    shown = repr(hither.open_root("http://me:hush@127.0.0.1:1/f?authz=hush", client=client))
    assert shown == "<hither.RootFile 'http://127.0.0.1:1/f'>"


def test_the_package_says_its_version():
    from importlib.metadata import version

    assert hither.__version__ == version("hither")
