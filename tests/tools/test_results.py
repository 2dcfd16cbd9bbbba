"""Pages of results: the output of the harness, the kept runs, and the pages that tools/check reports as old."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bench import mice
from bench.harness import tables

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from rules import results  # noqa: E402


def test_a_page_has_commit_date_command_and_load_and_keeps_what_was_written_by_hand(tmp_path):
    page = tmp_path / "page.md"
    tables.save(tmp_path / "page", ["# Title", "", "| first |"])
    page.write_text(f"before\n{page.read_text()}after\n")
    tables.save(tmp_path / "page", ["# Another title", "", "| second |"])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "first" not in text
    assert "# Title" not in text
    found = results.MEASURED.search(text)
    assert found["commit"] == tables.START.commit.split()[0]
    assert bool(found["dirty"]) == tables.START.commit.endswith("(dirty)")
    for part in ("# Another title", "| second |", f"{tables.START.time:%Y-%m-%d %H:%M}", shlex.join(sys.orig_argv[1:]), "load", " cores"):
        assert part in text, part


def test_rows_keep_the_commit_that_they_were_measured_at(tmp_path):
    (tmp_path / "runs.csv").write_text("who,seconds,commit\na,1,0123abcd\nb,2,\n")
    tables.add_rows(tmp_path / "runs", "# Runs", [{"who": "c", "seconds": 3, "note": "new"}])
    assert tables.read_csv(tmp_path / "runs") == [
        {"who": "a", "seconds": "1", "commit": "0123abcd", "note": ""},
        {"who": "b", "seconds": "2", "commit": "unknown", "note": ""},
        {"who": "c", "seconds": "3", "commit": tables.START.commit, "note": "new"},
    ]


def test_shares_of_a_floor_that_a_contender_beats_are_not_shown():
    def page(ours):
        times = {"hither": ours, "raw TCP x 4": 2.0, "raw TCP x 16": 1.0, "curl": 0.1}
        notes = {"curl": "did not finish"}
        runs = [mice.Run("near", "down", who, 1.0, took, 0.0, None, notes.get(who, "")) for who, took in times.items()]
        lines = mice.table(runs)
        return [line.split(" | ")[5] for line in lines if line.startswith(("| hither", "| raw", "| curl"))], lines[-1]

    shares, last = page(1.25)
    assert (shares, "No floor" in last) == (["0.80", "0.50", "1.00", "-"], False)
    shares, last = page(0.9)
    assert (shares, "No floor: hither took less time" in last) == (["-"] * 4, True)


@pytest.fixture
def repository(tmp_path):
    def git(*words):
        identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        command = ["git", "-C", tmp_path, *identity, *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    git("init", "--quiet")
    (tmp_path / "crates/server").mkdir(parents=True)
    (tmp_path / "bench/results/server").mkdir(parents=True)

    def committed(path):
        (tmp_path / path).write_text(f"{path}, {git('rev-list', '--all', '--count')}\n")
        git("add", ".")
        git("commit", "--quiet", "--message", path)
        return git("rev-parse", "--short=8", "HEAD")

    return tmp_path, committed


def test_pages_older_than_their_code_and_of_unknown_commit_are_named(repository):
    root, committed = repository
    page = root / "bench/results/server/fsync.md"
    first = committed("crates/server/lib.rs")

    def warnings(line):
        page.write_text(f"# Title\n\n{line}\n")
        return list(results.check_results(root))

    assert warnings(f"Measured at commit {first}, today") == []
    committed("other")
    assert warnings(f"Measured at commit {first}, today") == []
    committed("crates/server/lib.rs")
    (old,) = warnings(f"Measured at commit {first}, today")
    assert old.endswith(f"has changed since these were measured: server/fsync.md ({first})")
    for line in ("", f"Measured at commit {first} (dirty), today", "Measured at commit 0123abcd, today"):
        (unknown,) = warnings(line)
        assert unknown.endswith("at an unknown commit: server/fsync.md")


def test_each_page_speaks_of_code_that_exists():
    root = Path(__file__).resolve().parents[2]
    for paths in results.CODE.values():
        for path in paths:
            assert (root / path).exists(), path
    names = [str(page.relative_to(root / results.RESULTS)) for page in (root / results.RESULTS).rglob("*.md")]
    for pattern in results.CODE:
        assert any(results.fnmatch(name, pattern) for name in names), pattern
