"""uproot's own tests with their sample files read through hither, and with local ones.

The tests are those of uproot's source package (tools/setup-peers) that open a sample of
scikit-hep-testdata, which are looked for in ../shared/testdata/root; nginx serves them. Needs root:
the tests run in a network namespace, so that none asks a server of the world.
"""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.harness import servers, tables
from bench.harness.arguments import Arguments
from bench.harness.links import Link, Wan
from bench.harness.paths import ROOT, temporary_folder

LINK = Link("x", 0.3, None, "the next room")
SAMPLES = ROOT.parent / "shared" / "testdata" / "root"
NEEDS_A_PATH = re.compile(r"No such file or directory: '|file not found")
"""The messages of tests that open, copy or map the file itself."""
LEFT = {
    "test_default_source": "asserts which source uproot itself would take for a URL",
    "test_0182_complain_about_missing_files.py::test": "a pattern, for which uproot asks fsspec's own http",
}


def outcomes(where: Wan, server: str | None, folder: Path) -> dict:
    """The outcome of each test, with the files from `server`, or local ones."""
    tests = max((ROOT / "target" / "peers" / "sources").glob("uproot-*/tests"))
    files = [path for path in sorted(tests.glob("test_*.py")) if "skhep_testdata" in path.read_text()]
    work = Path(tempfile.mkdtemp(dir=folder))
    told = work / "outcomes.json"
    environment = os.environ | {"HITHER_SAMPLES": str(SAMPLES), "HITHER_OUTCOMES": str(told)}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    if server:
        environment["HITHER_SERVER"] = server
    command = [sys.executable, "-m", "pytest", "-p", "bench.peers.uproot_plugin", "-p", "no:cacheprovider", "-q"]
    command += ["-c", os.devnull, "--rootdir", str(tests.parent), "-W", "ignore", *map(str, files)]
    run = subprocess.run(where.client(command), cwd=work, env=environment, capture_output=True, text=True, check=False)
    if not told.exists():
        raise RuntimeError(run.stdout[-3000:] + run.stderr[-3000:])
    return json.loads(told.read_text())


def main() -> int:
    options = Arguments(__doc__, "python_api/uproot_suite").parse()
    with temporary_folder() as folder, Wan(LINK) as where:
        log = folder / "access.log"
        with servers.nginx(where, SAMPLES, log) as port:
            remote = outcomes(where, f"http://{where.server_host}:{port}", folder)
            requests = log.read_bytes().count(b"\n")
        local = outcomes(where, None, folder)
    counts = collections.Counter((local.get(name, ["-"])[0], remote.get(name, ["-"])[0]) for name in local | remote)
    rows, unexplained = [], 0
    for name in sorted(name for name in local if local[name][0] != remote.get(name, ["-"])[0]):
        why = remote.get(name, ["-", "it did not run"])[1]
        reason = (
            "needs a local path" if NEEDS_A_PATH.search(why) else next((LEFT[it] for it in LEFT if it in name), None)
        )
        unexplained += reason is None
        rows.append([name, reason or f"DIFFERS: {why[:120]}"])
    parts = [
        "# uproot's own tests over hither",
        "",
        f"{len(list(SAMPLES.iterdir()))} sample files by nginx, {requests} requests. Left out: tests of other protocols and servers.",
        "",
        *tables.markdown(
            ["local", "through hither", "tests"], [[*pair, str(n)] for pair, n in sorted(counts.items())], "llr"
        ),
        "",
        "## Different",
        "",
        *tables.markdown(["test", "why"], rows, "ll"),
    ]
    tables.save(options.output, parts)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
