"""tools/commit-message rejects messages that do not state the change or the reason."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "commit-message"
BODY = "\n\nThe server reads it a second time otherwise.\n"


def run(*arguments, folder=None):
    return subprocess.run([sys.executable, TOOL, *arguments], cwd=folder, text=True, capture_output=True)


def faults(tmp_path, message):
    (tmp_path / "message").write_text(message)
    done = run(str(tmp_path / "message"))
    assert done.returncode == (1 if done.stderr else 0), done.stderr
    return [line.partition(": ")[2] for line in done.stderr.splitlines()]


@pytest.mark.parametrize(
    "message",
    [
        "core: fit the first response into one window" + BODY,
        "core, http: fit the first response into one window" + BODY,
        "python-package: drop Python 3.9" + BODY,
        "core: " + "x " * 32 + "yz" + BODY,
        "copy: fix the sum of a file whose last piece is empty" + BODY,
        "core: move the tuner into a folder\n",
        "cli: rename --verify-file to --verify\n",
        "tests: format with ruff\n",
        "bench: two nodes at 120 ms over TLS\n",
        "bench: rates of disks beside fio's\n",
    ],
)
def test_messages_that_say_what_changes_and_why_pass(tmp_path, message):
    assert faults(tmp_path, message) == []


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("core: " + "x " * 32 + "xyz", "has 73 columns"),
        ("fit the first response into one window", "is not `area: what changes`"),
        ("Core: fit the first response into one window", "is not `area: what changes`"),
        ("core,http: fit the first response into one window", "is not `area: what changes`"),
        ("core:fit the first response into one window", "is not `area: what changes`"),
        ("core: a shorter line", "does not say what changes"),
        ("core: shorten lines", "does not say what changes"),
        ("tests: fixes", "does not say what changes"),
        ("tests: Some small fixes", "does not say what changes"),
        ("core: misc changes", "does not say what changes"),
        ("core: wip", "does not say what changes"),
        ("core: review feedback", "does not say what changes"),
        ("core: tuner", "does not say what changes"),
        ("core: a room for the tuner", "does not begin with a verb"),
        ("bench: the simulator beside packets", "does not begin with a verb"),
        ("core: box the tuner; bench: compare it with packets", "names two changes"),
        ("core: box the tuner.", "ends with a full stop"),
        ("Merge branch 'nodes'", "rebase"),
    ],
)
def test_subjects_that_do_not_are_refused(tmp_path, subject, fault):
    [found] = faults(tmp_path, subject + BODY)
    assert fault in found


@pytest.mark.parametrize("subject", ["core: box the tuner", "bench: compare the tuner with packets"])
def test_a_change_needs_a_body(tmp_path, subject):
    assert faults(tmp_path, subject + "\n\n") == ["no body says why"]


def test_an_empty_line_divides_subject_and_body(tmp_path):
    assert faults(tmp_path, "core: box the tuner\nIt is large.\n") == ["no empty line follows the subject"]


def test_what_git_adds_for_the_editor_does_not_count(tmp_path):
    comments = "\n# Please enter the commit message\n# ------------------------ >8 ------------------------\ndiff --git a b\n"
    assert faults(tmp_path, "core: box the tuner\n" + comments) == ["no body says why"]
    assert faults(tmp_path, "core: box the tuner" + BODY + comments) == []


def git(folder, *arguments):
    name = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *name, *arguments], cwd=folder, text=True, capture_output=True)


def commit(folder, message):
    return git(folder, "commit", "--allow-empty", "-m", message)


def test_every_commit_of_a_range_is_checked(tmp_path):
    git(tmp_path, "init", "--initial-branch=main")
    for message in ("wip", "core: box the tuner" + BODY, "core: misc" + BODY, "core: unbox the tuner"):
        assert commit(tmp_path, message).returncode == 0
    done = run("--range", "HEAD~3..HEAD", folder=tmp_path)
    assert done.returncode == 1
    found = [line.partition(": ")[2] for line in done.stderr.splitlines()]
    assert found == ["`misc` does not say what changes", "no body says why"]
    assert run("--range", "HEAD~3..HEAD~2", folder=tmp_path).returncode == 0


def test_the_hook_of_the_repository_stops_a_commit(tmp_path):
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "config", "core.hooksPath", str(TOOL.parent / "hooks"))
    refused = commit(tmp_path, "core: wip")
    assert refused.returncode == 1
    assert "`wip` does not say what changes" in refused.stderr
    assert commit(tmp_path, "core: box the tuner" + BODY).returncode == 0
