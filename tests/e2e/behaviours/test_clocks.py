"""Servers that keep no times and have other clocks: no change of a source is missed."""

import os
import time
from email.utils import formatdate

import pytest
from behaviours.foreign_server import Exchange, Site, serving

DIFFERENT = 12


def dated(ahead: float) -> type[Exchange]:
    """A server whose clock is `ahead` seconds ahead, and that sets the time of a file to the time of its upload."""
    written: dict[str, float] = {}

    class Dated(Exchange):
        def date_time_string(self, timestamp=None):
            return formatdate(timestamp or time.time() + ahead, usegmt=True)

        def answer_put(self):
            written[self.name] = time.time() + ahead
            return super().answer_put()

        def properties(self, path, **changed):
            date = formatdate(written.get(path, 0), usegmt=True)
            return super().properties(path, **{"getlastmodified": date, **changed})

        def answer_move(self):
            target = self.headers["Destination"].split("/", 3)[3]
            written["/" + target] = written.get(self.name, 0)
            return super().answer_move()

    return Dated


@pytest.mark.parametrize("ahead", [0, 300])
@pytest.mark.parametrize("command", [["sync"], ["cp", "-r", "--update"]])
def test_a_change_is_seen_where_the_clock_is_ahead(hither, tmp_path, command, ahead):
    folder = tmp_path / "source"
    folder.mkdir()
    file = folder / "a.dat"
    site = Site({"/": None, "/d/": None}, lambda _: False)
    with serving(site, dated(ahead)) as server:
        source = [f"{folder}/."] if command[0] == "cp" else [folder]
        run = [*command, *source, f"http://127.0.0.1:{server.port}/d/", "--no-store"]
        for content in (b"one", b"two"):
            file.write_bytes(content)
            done = hither(*run)
            assert (done.code, site.files["/d/a.dat"]) == (0, content), done


@pytest.mark.parametrize("ahead", [0, 300])
def test_check_finds_a_change_of_the_same_size_where_the_clock_is_ahead(hither, tmp_path, ahead):
    folder = tmp_path / "source"
    folder.mkdir()
    file = folder / "a.dat"
    file.write_bytes(b"one")
    site = Site({"/": None, "/d/": None}, lambda _: False)
    with serving(site, dated(ahead)) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
        assert hither("sync", folder, url, "--no-store").code == 0
        same = hither("check", folder, url, "--no-store")
        file.write_bytes(b"two")
        changed = hither("check", folder, url, "--no-store")
    assert (same.code, changed.code) == (0, DIFFERENT), (same, changed)
    assert "a.dat" in changed.out + changed.err


@pytest.mark.parametrize(("ahead", "age", "reads"), [(0, 10, 0), (-300, 310, 0), (300, 10, 0), (300, 0, 1)])
def test_only_what_may_have_changed_is_read(hither, tmp_path, ahead, age, reads):
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "a.dat").write_bytes(b"one")
    site = Site({"/": None, "/d/": None}, lambda _: False)
    with serving(site, dated(ahead)) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
        before = time.time()
        assert hither("sync", folder, url, "--no-store").code == 0
        touched = (time.time() if reads else before) - age
        os.utime(folder / "a.dat", (touched, touched))
        site.requests.clear()
        done = hither("sync", folder, url, "--no-store")
    assert done.code == 0, done
    assert [method for method, _ in site.requests].count("GET") == reads, site.requests
    assert not any(method == "PUT" for method, _ in site.requests), "equal files are not copied again"
