"""Links to directories on servers that follow them when they remove a directory."""

import pytest
from needs import require

from bench.harness import servers
from bench.harness.links import Loopback


@pytest.fixture(params=["apache", "nginx"])
def url(request, tmp_path):
    """A server of `tree`: `mirror` with a file and a link to `other`, which also contains a file."""
    tree = tmp_path / "tree"
    for folder in ("mirror", "other"):
        (tree / folder).mkdir(parents=True)
        (tree / folder / "file").write_text(folder)
    (tree / "mirror/link").symlink_to("../other")
    # The workers of both servers run as another user.
    for folder in (tree, *tree.iterdir()):
        if folder.is_dir():
            folder.chmod(0o777)
    require("nginx" if request.param == "nginx" else "apache2")
    log = tmp_path / "access.log"
    started = (
        servers.apache(Loopback(), tree, log, webdav=True)
        if request.param == "apache"
        else servers.nginx(Loopback(), tree, log, servers.NGINX_WEBDAV)
    )
    with started as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("words", [["rm", "-r", "{url}/mirror/link"], ["rm", "-r", "{url}/mirror"]])
def test_a_removal_follows_no_link(hither, url, tmp_path, words):
    done = hither(*[word.format(url=url) for word in words], "--no-store")
    assert (tmp_path / "tree/other/file").read_text() == "other", done
    assert done.code == 0 or (tmp_path / "tree/mirror/link").is_symlink(), done


def test_a_sync_deletes_nothing_behind_a_link(hither, url, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source/file").write_text("mirror")
    done = hither("sync", "--delete", tmp_path / "source", f"{url}/mirror", "--no-store")
    assert done.code == 0, done
    assert (tmp_path / "tree/other/file").read_text() == "other", done
    assert (tmp_path / "tree/mirror/file").exists()
