"""A node's side of a copy by a cluster, without Dask."""

import fcntl
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

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


@pytest.mark.usefixtures("folder")
def test_a_task_ends_though_its_mover_is_given_no_share(monkeypatch):
    # Each mover ends without work, and the next one reports.
    monkeypatch.setattr(_node.MoverFolder, "ensure_mover", lambda it, _: (it.path / "status.json").write_text("{}"))
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(secede=None, get_worker=None))
    monkeypatch.setattr(_node, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(_node, "SHARELESS_SECONDS", 0.0)
    with pytest.raises(RuntimeError, match="no share"):
        _node.carry_out("a" * 16, "1.1", _node.packed({}), 1, [])
    monkeypatch.setattr(_node, "SHARELESS_SECONDS", 300.0)
    monkeypatch.setattr(_node.MoverFolder, "ensure_mover", lambda *_: _node.clean("a" * 16))
    with pytest.raises(RuntimeError, match="removed"):
        _node.carry_out("a" * 16, "1.1", _node.packed({}), 1, [])


def test_a_task_reports_once_more_when_its_lease_has_ended(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(secede=None))
    reports = []
    monkeypatch.setattr(_node, "_report", lambda _, event: reports.append(event))
    status = folder.path / "status.json"
    status.write_text("{}")

    def ended(*_):
        # As a mover does that was stopped, and finds the fence gone before the task looks again.
        status.write_text('{"leases": {"1.1": 7}}')
        os.utime(status, (9, 9))
        (folder.path / "results" / "1.1.json").write_text("{}")

    monkeypatch.setattr(_node.MoverFolder, "ensure_mover", ended)
    _node.carry_out("a" * 16, "1.1", _node.packed({}), 100, [])
    assert [(it["lease"], it["arrived"]) for it in reports] == [("1.1", 0), ("1.1", 7)]
    assert reports[1]["alive"] == 9.0


def test_a_mover_lives_if_it_writes_its_status_once_more(folder, monkeypatch):
    status = folder.path / "status.json"
    status.write_text("{}")
    monkeypatch.setattr(_node, "STATUS_SECONDS", 0)
    # As one that is stopped: it still holds its lock.
    monkeypatch.setattr(_node.MoverFolder, "ensure_mover", lambda *_: None)
    with pytest.raises(RuntimeError, match=f"the mover of {_node.node_name()} is silent"):
        _node.await_status("a" * 16, [])
    monkeypatch.setattr(_node.MoverFolder, "ensure_mover", lambda *_: os.utime(status, (9, 9)))
    _node.await_status("a" * 16, [])


def test_a_folder_of_another_user_is_refused(folder, monkeypatch):
    me = os.geteuid()
    monkeypatch.setattr(_node.os, "geteuid", lambda: me + 1)
    with pytest.raises(PermissionError, match="belongs to another user or is a link"):
        _node.private_folder(folder.path)


@pytest.mark.parametrize("part", ["", "hither", "inbox"])
def test_a_link_in_the_place_of_a_folder_is_refused(folder, tmp_path, part):
    planted = tmp_path / "hither" if part == "hither" else folder.path / part
    planted.rename(tmp_path / "elsewhere")
    planted.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="belongs to another user or is a link"):
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
