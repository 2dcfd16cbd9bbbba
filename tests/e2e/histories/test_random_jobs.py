"""The model of what a command may do to data, with real programs: results with exit code 0 are correct, no file that
the source has is deleted, a good file is replaced only by a whole file of the source, and every job ends.

The jobs of one run are `HITHER_MODEL_FIRST` and the following ones. The faults are those of a network and a machine:
connections are cut within a request or a response, the command or a server is killed. Wrong responses of servers are
tested in process, with far more jobs (`crates/hither/tests/model`).
"""

import os
import random
import re
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from needs import missing, require
from random_jobs import COPY_AGE, OLD_AGE, SOURCE_AGE, TRANSFERS, End, Files, Job, Site, drawn

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER
from bench.harness.waiting import wait_until

DEADLINE = 120
FIRST = int(os.environ.get("HITHER_MODEL_FIRST", "0"))
JOBS = 60
PLAIN = ("local", "root", "s3")
"""Ends whose URLs contain unencoded names."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for program in ("nginx", "apache2", "xrootd"):
        require(program)
    if not (servers.BUILT_PEERS / "bin" / "s3s-fs").exists():
        missing("s3s-fs")
    with ExitStack() as stack:
        yield Site(tmp_path_factory.mktemp("site"), stack)


def is_partial(name: str) -> bool:
    return re.fullmatch(r"\.hither-[0-9a-f]{16}\.part", name.rpartition("/")[2]) is not None


def whole(files: Files) -> Files:
    return {name: data for name, data in files.items() if not is_partial(name)}


def words(job: Job, source: End, target: End) -> list[str]:
    """The words of the command line."""
    first = next(iter(job.before))

    def at(end: End, name: str) -> str:
        return f"{end.url}/{name if end.kind in PLAIN else quote(name)}".rstrip("/")

    match job.verb:
        case "cp":
            places = [at(source, first), at(target, first)]
        case "put":
            places = ["-", at(target, first)]
        case "cp -r":
            places = [f"{source.url}/.", f"{target.url}/"]
        case "cat":
            places = [at(source, first)]
        case "rm":
            places = [at(target, first)]
        case "rm -r":
            places = [at(target, first.partition("/")[0])]
        case "mv":
            places = [at(target, first), at(target, "moved")]
        case _:
            places = [source.url, target.url]
    return [*{"put": "cp"}.get(job.verb, job.verb).split(), *job.options, *places]


def carried_out(job: Job, source: End, target: End, folder: Path, kill: bool) -> tuple[int, bytes, str]:
    """Runs the command to its end, which may be a failure; returns its exit code and its output."""
    command = [str(HITHER), *words(job, source, target)]
    if "--no-store" not in command:
        command += ["--store", str(folder / "store")]
    (folder / "in").write_bytes(next(iter(job.before.values())) if job.verb == "put" else b"")
    with (folder / "in").open() as given, (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        variables = {**os.environ, **source.variables, **target.variables}
        process = subprocess.Popen(command, stdin=given, stdout=out, stderr=err, env=variables)
        try:
            if kill and job.kill:
                after = job.kill[1]
                relays = [*source.relays, *target.relays]
                wait_until(
                    lambda: process.poll() is not None or sum(it.passed + it.taken for it in relays) > after,
                    f"{after} bytes or the end of {command}",
                    DEADLINE,
                    every=0.001,
                )
                end_early(job, process, target)
            process.wait(DEADLINE)
        except (TimeoutError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
            raise AssertionError(f"the job does not end: {command}\n{(folder / 'err').read_text()}") from None
    return process.returncode, (folder / "out").read_bytes(), (folder / "err").read_text()


def end_early(job: Job, process: subprocess.Popen, target: End) -> None:
    """Kills the command, or kills and restarts the servers of the target."""
    if job.kill[0] == "command":
        process.send_signal(random.Random(job.number).choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
    else:
        for port in target.ports:
            servers.restart(Loopback(), port)


def check_transfer(job: Job, before: Files, after: Files, code: int, told: object) -> None:
    """Checks the target after a copy or a synchronization."""
    deletes, keeps = job.verb == "sync --delete", "-n" in job.options or "-u" in job.options
    selected = job.before if job.verb not in ("cp", "put") else dict([next(iter(job.before.items()))])
    for name, data in before.items():
        if name in after:
            assert after[name] in (data, selected.get(name)), f"{name} was replaced by no file of the source; {told}"
        else:
            assert deletes and name not in selected, f"{name} was removed; {told}"
    for name, data in after.items():
        assert name in before or data == selected.get(name), f"{name} is not a file of the source; {told}"
    if code == 0:
        for name, data in selected.items():
            assert after.get(name) == data or (keeps and name in before), f"{name} was not copied; {told}"
        assert not deletes or set(after) == set(selected), f"names that the source does not have; {told}"


def check_change(job: Job, before: Files, after: Files, code: int, told: object) -> None:
    """Checks the files after `rm` and `mv`."""
    first = next(iter(job.before))
    top = first.partition("/")[0]
    named = {name for name in before if name == first or (job.verb == "rm -r" and name.partition("/")[0] == top)}
    moved = {"moved": before[first]} if job.verb == "mv" else {}
    for name, data in before.items():
        assert name in named or after.get(name) == data, f"{name} has changed; {told}"
        is_moved = job.verb == "mv" and after.get("moved") == data
        assert code == 0 or name not in named or job.verb != "mv" or after.get(name) == data or is_moved, told
    for name, data in after.items():
        assert before.get(name, moved.get(name)) == data, f"{name} is new; {told}"
    if code == 0:
        assert after == {name: data for name, data in before.items() if name not in named} | moved, told


def may_be_refused(job: Job) -> bool:
    """Returns true if the servers do not support the job, or the target must not be replaced."""
    hides_names = job.verb == "sync --delete" and job.source == "nginx"
    return hides_names or "--third-party" in job.options or (job.verb == "put" and "-n" in job.options)


def try_job(site: Site, job: Job, folder: Path) -> int:
    """Runs a job, and again without faults; returns the exit code of the first run."""
    codes = []
    folder.mkdir()
    with ExitStack() as stack:
        source, target = site.end(job, "from", stack), site.end(job, "to", stack)
        rng = random.Random(job.number)

        def anywhere(end: End):
            return lambda _: rng.choice([[0], [1], [0, 1]]) if len(end.folders) > 1 else [0]

        if job.verb in ("cp", "put"):
            target.make_directories(job.before)
        source.write(job.before, lambda _: SOURCE_AGE, anywhere(source))
        same = {name for name, data in job.target_before.items() if job.before.get(name) == data}
        one = lambda _: [rng.randrange(len(target.folders))]  # noqa: E731
        target.write(job.target_before, lambda name: COPY_AGE if name in same else OLD_AGE, one)
        for run in range(2):
            before = whole(target.files())
            code, out, err = carried_out(job, source, target, folder, kill=run == 0)
            codes.append(code)
            after = whole(target.files())
            told = f"exit code {code}, run {run}\n{err}"
            assert "panicked" not in err, told
            assert source.files() == job.before or source is target, f"the source has changed; {told}"
            if job.verb in TRANSFERS:
                check_transfer(job, before, after, code, told)
                # An interrupted job can be repeated.
                assert run == 0 or code == 0 or may_be_refused(job), f"without faults it fails; {told}"
            elif job.verb in ("rm", "rm -r", "mv"):
                check_change(job, before, after, code, told)
                break
            else:
                assert after == before, told
                if code == 0 and job.verb == "cat":
                    assert out == next(iter(job.before.values())), told
                if code == 0 and job.verb == "check":
                    assert job.before == before, told
            source.heal()
            target.heal()
    return codes[0]


def try_jobs(site: Site, folder: Path, first: int) -> None:
    first_codes, failures = [], []
    for number in range(first, first + JOBS):
        job = drawn(number)
        try:
            first_codes.append(try_job(site, job, folder / f"{number}"))
        except AssertionError as error:
            why, _, _ = str(error).partition("\nassert ")
            failures.append(f"{job}\n{why}")
    if failures:
        pytest.fail(f"{len(failures)} jobs break the model:\n" + "\n".join(failures), pytrace=False)
    assert 0 < first_codes.count(0) < JOBS, "one of the ends is rare, so nothing is shown"


def test_random_jobs_keep_to_the_model(site, tmp_path):
    try_jobs(site, tmp_path, FIRST)


# Soak: over a thousand jobs, fifteen minutes.
@pytest.mark.soak
@pytest.mark.parametrize("part", range(1, 18))
def test_many_random_jobs_keep_to_the_model(site, tmp_path, part):
    try_jobs(site, tmp_path, FIRST + part * JOBS)
