"""The documentation site builds without a warning, and all of its internal links have targets."""

import importlib.util
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from needs import missing

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in {"href", "src"} and value and "://" not in value and not value.startswith(("mailto:", "data:")):
                self.links.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    if importlib.util.find_spec("sphinx") is None:
        missing("sphinx")
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", ROOT / "docs", target]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return target


def test_every_link_of_the_site_leads_somewhere(site):
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) > 30
    broken = []
    followed = 0
    for path, page in pages.items():
        for link in page.links:
            address, anchor = urldefrag(unquote(link))
            target = (path.parent / address.split("?")[0]).resolve() if address else path
            followed += 1
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert followed > 1000
    assert not broken, "\n".join(sorted(broken))
