"""The source package can be resolved with its lock file, as `pip install` of it requires."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from needs import missing

ROOT = Path(__file__).resolve().parents[2]
MATURIN = Path(sys.executable).with_name("maturin")


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_source_package_resolves_with_its_lock_file(tmp_path):
    if not MATURIN.exists():
        missing("maturin")
    # maturin omits crates that the package does not use, and changes the workspace accordingly.
    run(MATURIN, "sdist", "--out", tmp_path, cwd=ROOT)
    (archive,) = tmp_path.glob("hither-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    run(shutil.which("cargo"), "metadata", "--locked", "--format-version", "1", cwd=archive.with_name(archive.name[:-7]))
