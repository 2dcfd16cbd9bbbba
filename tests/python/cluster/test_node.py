"""A node's side of a copy by a cluster, without Dask."""

import fcntl
import os
import signal
import subprocess
import zlib

import pytest

from bench.harness.waiting import wait_until
from hither.cluster import _node


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return _node.MoverFolder("a" * 16)


def test_a_mover_starts_though_somebody_looks_for_one_meanwhile(folder, monkeypatch):
    started = []
    start = subprocess.Popen

    def disturbed(*arguments, **options):
        with (folder.path / "lock").open("ab") as lock:
            if not started:
                fcntl.flock(lock, fcntl.LOCK_EX)
            started.append(start(*arguments, **options))
            if len(started) == 1:
                assert started[0].wait(60) == 0
        return started[-1]

    monkeypatch.setattr(_node.subprocess, "Popen", disturbed)
    folder.ensure_mover()
    # It looks itself meanwhile, and may so keep another mover from starting.
    assert all(mover.wait(60) == 0 for mover in started[:-1])
    assert len(started) > 1
    started[-1].kill()
    started[-1].wait()
    # The remains of a lease that was killed do not keep the job's directory.
    (folder.path / "running" / "1.1.json").touch()
    assert _node.clean("a" * 16) == _node.node_name()


def test_a_mover_that_is_stopped_in_a_lease_is_no_end_of_the_job(folder, monkeypatch):
    monkeypatch.setattr(_node, "END_SECONDS", 0)
    folder.ensure_mover()
    # A mover holds its lock before it has removed the leases of the mover before it.
    process = int(wait_until(lambda: folder.status().get("process"), "the mover's status"))
    (folder.path / "running" / "1.1.json").touch()
    assert _node.clean("a" * 16) is None
    (folder.path / "running" / "1.1.json").unlink()
    assert _node.clean("a" * 16) == _node.node_name()
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: not folder._is_locked(), "its end")


def test_a_folder_of_another_user_is_refused(folder, monkeypatch):
    me = os.geteuid()
    monkeypatch.setattr(_node.os, "geteuid", lambda: me + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        _node.private_folder(folder.path)


@pytest.mark.parametrize("part", ["", "hither", "inbox"])
def test_links_of_the_user_in_the_place_of_a_folder_are_followed(folder, tmp_path, part):
    planted = tmp_path / "hither" if part == "hither" else folder.path / part
    elsewhere = tmp_path / "elsewhere"
    planted.rename(elsewhere)
    planted.symlink_to(tmp_path / "second")
    (tmp_path / "second").symlink_to("elsewhere")
    _node.MoverFolder("a" * 16).give("1.1", zlib.compress(b"{}"))
    assert [path.name for path in elsewhere.rglob("1.1.json")] == ["1.1.json"]
    elsewhere.chmod(0o770)
    with pytest.raises(PermissionError, match="others can write to"):
        _node.MoverFolder("a" * 16)
    elsewhere.chmod(0o700)
    for link in (tmp_path / "second", planted):
        if os.geteuid() == 0:  # only root can make a link of another user
            os.lchown(link, 65534, -1)
            with pytest.raises(PermissionError, match="belongs to another user"):
                _node.MoverFolder("a" * 16)


def test_folders_are_private_whatever_the_mask_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before = os.umask(0)
    try:
        (tmp_path / "hither").mkdir()
        folder = _node.MoverFolder("a" * 16)
    finally:
        os.umask(before)
    paths = [folder.path / "inbox", folder.path, *folder.path.parents[:4]]
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o700}
