"""uproot's own tests of remote files, with hither instead of its HTTP sources.

They are run from uproot's source package, which tools/setup-peers fetches. `uproot_remote.py` has
the list of excluded tests and the reasons. The tests read the sample files; if those are missing,
coffea's file with the same number of entries replaces one of them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from samples import SAMPLES, coffea_samples, source_of
from serving import serving

FILES = (
    "test_0001_source_class.py",
    "test_0006_notify_when_downloaded.py",
    "test_0007_single_chunk_interface.py",
    "test_0066_fix_http_fallback_freeze.py",
    "test_0088_read_with_http.py",
    "test_0220_contiguous_byte_ranges_in_http.py",
    "test_0302_pickle.py",
    "test_0692_fsspec_reading.py",
    "test_1154_classof_using_relative_path.py",
    "test_1653_http_source_multipart_batching.py",
)
STAND_IN = ("uproot-issue121.root", "nano_dy.root")
FEWEST = 20


def test_uproots_own_tests_of_remote_files_pass_with_hither(tmp_path):
    tests = source_of("uproot") / "tests"
    folder = tmp_path / "samples"
    folder.mkdir()
    for path in SAMPLES.glob("uproot-*.root"):
        (folder / path.name).symlink_to(path)
    name, other = STAND_IN
    if not (folder / name).exists():
        (folder / name).symlink_to(coffea_samples() / other)
    command = [sys.executable, "-m", "pytest", "-p", "uproot_remote", "-p", "no:cacheprovider", "-q", "-rfEs"]
    command += ["-c", os.devnull, "--rootdir", str(tests.parent), "-W", "ignore"]
    command += [str(tests / file) for file in FILES]
    with serving("nginx", folder) as url:
        here = str(Path(__file__).parent)
        environment = os.environ | {"HITHER_SAMPLES": str(folder), "HITHER_SERVER": url, "PYTHONPATH": here}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    passed = re.search(r"counts: \{'passed': (\d+)", run.stdout)
    assert passed, run.stdout
    print(run.stdout[-2000:], file=sys.stderr)
    assert int(passed[1]) >= FEWEST, run.stdout
