"""`hither cp` from mirrors, each on a link of its own rate, side by side with aria2c and davix.

Each mirror is a nginx behind a `hither-proxy`: 20 ms and its own rate. In turn all are good, one is
slow (a twentieth), one dies after a third of the time, one is corrupt in every mebibyte (with a
Metalink document that has checksums of pieces), and at last one does each of these beside a good
one. Measured is the rate of the copy as a share of the sum of what the good mirrors could bring,
the dead one until it died. The target is 0.9. A tool that ends with wrong bytes has failed.

davix (0.8.4) reads from one replica, also with `XStream` of its library, and goes to others when
that fails, for which the mirrors name the document in a Link header. It begins at the first mirror,
which is always good, and in a row of its own at the last one, which is not.

    python -m bench.replicas --runs 3 --size 128
"""

import contextlib
import hashlib
import os
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.content import numbered_blocks
from bench.harness.interleaved import rotated, say
from bench.harness.links import Link, Loopback, Proxied
from bench.harness.paths import HITHER, MEMORY, temporary_folder

RTT_MS = 20
MBIT = 120
SLOW_MBIT = 6
CAP_SECONDS = 240
TARGET = 0.9
PIECE = 1 << 20
LINK = """
types { application/metalink4+xml meta4; }
location = /data {
    if ($http_accept ~ metalink4) { add_header Link '</data.meta4>; rel="describedby"; type="application/metalink4+xml"'; }
}
"""
"""For davix, which asks when a read has failed."""


@dataclass(frozen=True)
class Case:
    """Mirrors by what they do."""

    name: str
    mirrors: tuple[str, ...]


CASES = [
    Case("all good", ("good", "good", "good")),
    Case("one slow", ("good", "good", "slow")),
    Case("one dies", ("good", "good", "dies")),
    Case("one corrupt", ("good", "good", "corrupt")),
    Case("one good, one each dies, is slow, is corrupt", ("good", "dies", "slow", "corrupt")),
]


@dataclass
class Run:
    case: str
    who: str
    seconds: float
    share: float
    note: str = ""


@dataclass
class Site:
    """The running mirrors of a case."""

    urls: list[str] = field(default_factory=list)
    document: Path = Path()
    dying: list[int] = field(default_factory=list)


@contextlib.contextmanager
def mirrors(case: Case, good: Path, corrupt: Path, folder: Path) -> Iterator[Site]:
    site = Site()
    with contextlib.ExitStack() as stack:
        for number, what in enumerate(case.mirrors):
            rate = SLOW_MBIT if what == "slow" else MBIT
            where = stack.enter_context(Proxied(Link(str(number), RTT_MS, rate, what)))
            port = stack.enter_context(
                servers.nginx(Loopback(), corrupt if what == "corrupt" else good, locations=LINK)
            )
            host, outer = where.reach(port)
            site.urls.append(f"http://{host}:{outer}/data")
            if what == "dies":
                site.dying.append(where.proxies[0].pid)
        site.document = folder / "data.meta4"
        text = document(good / "data", site.urls)
        for root in (folder, good, corrupt):
            (root / site.document.name).write_text(text)
        yield site


def document(path: Path, urls: list[str]) -> str:
    whole, pieces = hashlib.sha256(), []
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            whole.update(piece)
            pieces.append(f"<hash>{hashlib.sha256(piece).hexdigest()}</hash>")
    named = "".join(f"<url priority='1'>{url}</url>" for url in urls)
    return (
        "<?xml version='1.0' encoding='UTF-8'?><metalink xmlns='urn:ietf:params:xml:ns:metalink'>"
        f"<file name='data'><size>{path.stat().st_size}</size><hash type='sha-256'>{whole.hexdigest()}</hash>"
        f"<pieces length='{PIECE}' type='sha-256'>{''.join(pieces)}</pieces>{named}</file></metalink>"
    )


def commands(site: Site, folder: Path) -> dict[str, list]:
    known = {
        "hither": [HITHER, "cp", "--no-store", "--quiet", site.document, folder / "out"],
        "aria2c": [
            *("aria2c", "-q", "--file-allocation=none", "--allow-overwrite=true", "-x4", "-s16", "-k1M"),
            *("--check-integrity=true", "-d", folder, "-M", site.document),
        ],
        "davix-get": ["davix-get", "--metalink", "failover", site.urls[0], folder / "out"],
        "davix-get, last mirror": ["davix-get", "--metalink", "failover", site.urls[-1], folder / "out"],
    }
    return {name: command for name, command in known.items() if shutil.which(str(command[0]))}


def best_seconds(case: Case, size: int, dies_at: float) -> float:
    """The time that the good mirrors need, and those that die until then."""
    bits = size * 8.0
    good, dying = (case.mirrors.count(what) * MBIT * 1e6 for what in ("good", "dies"))
    before = (good + dying) * dies_at
    return bits / (good + dying) if before >= bits else dies_at + (bits - before) / good


def run(case: Case, who: str, number: int, good: Path, corrupt: Path, folder: Path) -> Run:
    size = (good / "data").stat().st_size
    dies_at = size * 8 / (case.mirrors.count("good") * MBIT * 1e6) / 3
    with mirrors(case, good, corrupt, folder) as site:
        command = [str(word) for word in commands(site, folder)[who]]
        killers = [threading.Timer(dies_at, os.kill, (pid, signal.SIGKILL)) for pid in site.dying]
        started = time.monotonic()
        [killer.start() for killer in killers]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=CAP_SECONDS, check=False)
            note = "" if done.returncode == 0 else f"exit {done.returncode}: {(done.stderr or done.stdout)[-120:]}"
        except subprocess.TimeoutExpired:
            note = f"did not finish in {CAP_SECONDS} s"
        seconds = time.monotonic() - started
        [killer.cancel() for killer in killers]
    got = next((path for path in (folder / "out", folder / "data") if path.exists()), None)
    if not note and (got is None or digest(got) != digest(good / "data")):
        note = "wrong bytes"
    for left in folder.iterdir():
        if left.is_file():
            left.unlink()
    share = 0.0 if note else best_seconds(case, size, dies_at) / seconds
    result = Run(case.name, who, seconds, share, " ".join(note.split()))
    say(f"{case.name}, round {number}: {who} {seconds:.2f} s, {share:.2f} of the best {result.note}")
    return result


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def table(results: list[Run]) -> list[str]:
    lines = []
    for case in dict.fromkeys(run.case for run in results):
        rows = []
        for who in dict.fromkeys(run.who for run in results):
            runs = [run for run in results if (run.case, run.who) == (case, who)]
            if runs:
                seconds, share = (statistics.median(getattr(run, key) for run in runs) for key in ("seconds", "share"))
                rows.append([who, f"{seconds:.2f}", f"{share:.2f}", runs[-1].note])
        lines += ["", f"## {case}", "", *tables.markdown(["", "s", "share of the best", ""], rows, "lrrl")]
    ours = {run.case: [] for run in results}
    for run in results:
        if run.who == "hither":
            ours[run.case].append(run.share)
    missed = [case for case, shares in ours.items() if statistics.median(shares or [0]) < TARGET]
    verdict = "met" if not missed else f"MISSED in {'; '.join(missed)}"
    lines += ["", f"hither: at least {TARGET} of the best: {verdict}"]
    return lines


def main() -> None:
    parser = Arguments(__doc__, "replicas", quick="one run each")
    parser.add_argument("--size", type=int, default=128, help="of the file, in MiB (default %(default)s)")
    options = parser.parse(needs_root=False)
    results: list[Run] = []
    with temporary_folder(MEMORY) as folder:
        good, corrupt, out = (folder / name for name in ("good", "corrupt", "out"))
        for path in (good, corrupt, out):
            path.mkdir()
        with (good / "data").open("wb") as file:
            file.writelines(numbered_blocks(options.size, 1 << 20))
        content = bytearray((good / "data").read_bytes())
        for at in range(4711, len(content), 1 << 20):
            content[at] ^= 1
        (corrupt / "data").write_bytes(content)
        for case in CASES:
            for number in range(options.runs):
                order = rotated(list(commands(Site(["-"]), out)), number)
                results += [run(case, who, number, good, corrupt, out) for who in order]
    head = f"# {options.size} MiB from mirrors of {MBIT} Mbit/s ({SLOW_MBIT} the slow one), {RTT_MS} ms"
    tables.save(options.output, [head, *table(results)])
    tables.write_csv(options.output, [vars(run) for run in results])


if __name__ == "__main__":
    main()
