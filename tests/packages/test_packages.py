"""Every package of dist/, installed into an empty environment, runs a first query there.

`make packages-test` runs this after `make packages`. Wheel and source package are installed into new virtual
environments, the .deb and the .rpm into new minimal Debian systems, which need root, apt and mmdebstrap. The programs
that use the C library are compiled outside of these systems, with gcc and cmake, and run in them.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy
import pytest
import uproot

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
MAX_BINARY_BYTES = 25_000_000
# The first instructions of a function that keeps a frame pointer on x86-64: push %rbp; mov %rsp,%rbp.
FRAME = bytes.fromhex("554889e5")

pytestmark = pytest.mark.packages


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def package(pattern):
    """Return the one file of dist/ with this name."""
    found = list(DIST.glob(pattern))
    assert len(found) == 1, f"expected one {pattern} in dist/, found {found}: run `make packages`"
    return found[0]


@pytest.fixture(scope="session")
def small_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "small.root"
    with uproot.recreate(path) as file:
        file.mktree("T", {"x": "f8"}).extend({"x": numpy.arange(1000.0)})
    return path


@contextmanager
def served(command, folder):
    """Serve a folder with an installed `hither`; yield its URL."""
    words = [*command, "serve", "--listen", "127.0.0.1:0", "--json", folder]
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())["urls"][0]
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0


def check_first_query(command, folder):
    """Draw from a file that the installed server serves, with the installed client."""
    with served(command, folder) as url:
        drawn = run(*command, "draw", f"{url.rstrip('/')}/small.root:T", "x", "--where", "x>=400", "--json", "--no-store")
    assert json.loads(drawn)["selected"] == 600


def check_python(python, small_file):
    version = run(python, "-c", "import importlib.metadata as m; print(m.version('hither'))").strip()
    assert run(python, "-c", "import hither; print(hither.__version__)").strip() == version
    hither = python.parent / "hither"
    assert re.fullmatch(rf"hither {re.escape(version)}( \([0-9a-f]+ \d{{4}}-\d\d-\d\d\))?\n", run(hither, "--version"))
    check_first_query([hither], small_file.parent)
    script = "import hither, sys; print(hither.open_tree(sys.argv[1], 'T').arrays(['x'], 'x>=400', library='np')['x'].sum())"
    with served([hither], small_file.parent) as url:
        assert float(run(python, "-c", script, url.rstrip("/") + "/small.root")) == sum(range(400, 1000))


def new_python(folder):
    run(sys.executable, "-m", "venv", folder)
    return folder / "bin" / "python"


def test_the_wheel(tmp_path, small_file):
    wheel = package("hither-*.whl")
    shown = run(Path(sys.executable).with_name("auditwheel"), "show", wheel)
    assert '"manylinux_2_28_x86_64"' in shown or "aarch64" in wheel.name
    python = new_python(tmp_path)
    run(python, "-m", "pip", "install", "--quiet", wheel)
    check_python(python, small_file)
    if "x86_64" in wheel.name:
        (library,) = tmp_path.glob("lib/python*/site-packages/hither/_core*.so")
        assert library.read_bytes().count(FRAME) > 5_000, "the library is built without frame pointers"


def test_the_source_package(tmp_path, small_file):
    python = new_python(tmp_path / "venv")
    environment = os.environ | {"CARGO_TARGET_DIR": str(tmp_path / "target"), "CARGO_PROFILE_RELEASE_LTO": "off"}
    run(python, "-m", "pip", "install", "--quiet", package("hither-*.tar.gz"), env=environment, cwd=tmp_path)
    check_python(python, small_file)


@pytest.fixture(scope="session")
def minimal_system(tmp_path_factory):
    """A tar archive of a Debian system with only the essential packages and those that check the unit."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("installing a .deb or an .rpm into a new root directory needs root and Debian's apt")
    run("apt-get", "update")
    run("apt-get", "install", "-y", "--no-install-recommends", "mmdebstrap", "rpm")
    suite = re.search(r"VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())[1]
    archive = tmp_path_factory.mktemp("system") / "base.tar"
    run("mmdebstrap", "--variant=minbase", "--include=systemd,procps,man-db", suite, archive)
    return archive


@pytest.fixture
def system(tmp_path, minimal_system):
    """The root directory of a new system; the server finds its own program through /proc."""
    system = tmp_path / "system"
    system.mkdir()
    run("tar", "-xf", minimal_system, "-C", system)
    run("mount", "-t", "proc", "proc", system / "proc")
    yield system
    run("umount", system / "proc")


def check_glibc(binary):
    needed = re.findall(r"GLIBC_2\.(\d+)", run("readelf", "-V", binary))
    assert 2 < max(map(int, needed)) <= 28, f"{binary.name} needs another glibc than that of 2018: {sorted(set(needed))}"


def install_deb(system, file):
    shutil.copy(file, system / "tmp")
    run("chroot", system, "dpkg", "-i", f"/tmp/{file.name}")


def install_rpm(system, file):
    # The system's libraries come from Debian packages, which are missing in rpm's database.
    run("rpm", "--root", system, "--force-debian", "--nodeps", "-i", file)


def remove_deb(system):
    run("chroot", system, "dpkg", "--remove", "hither-dbgsym", "hither")


def remove_rpm(system):
    run("rpm", "--root", system, "--force-debian", "-e", "hither-debuginfo", "hither")


@pytest.mark.parametrize(
    ("names", "install", "remove", "zsh"),
    [
        (("hither_*.deb", "hither-dbgsym_*.deb"), install_deb, remove_deb, "vendor-completions"),
        (("hither-[0-9]*.rpm", "hither-debuginfo-*.rpm"), install_rpm, remove_rpm, "site-functions"),
    ],
    ids=["deb", "rpm"],
)
def test_the_system_packages(system, small_file, names, install, remove, zsh):
    for name in names:
        install(system, package(name))

    # The server reads the configuration of the package, as the user that the package creates.
    assert run("chroot", system, "getent", "passwd", "hither").endswith(":/var/lib/hither:/usr/sbin/nologin\n")
    shutil.copytree(small_file.parent, system / "srv/data")
    check_first_query(["chroot", system, "hither"], "/srv/data")
    # The unit names its man page, which systemd-analyze checks with `man`.
    run("chroot", system, "systemd-analyze", "verify", "hither-serve.service")

    for page in ("hither", "hither-draw", "hither-serve", "hither-trace-show"):
        assert ".SH NAME" in run("gzip", "-dc", system / f"usr/share/man/man1/{page}.1.gz")
    completions = "/usr/share/bash-completion/completions/hither"
    assert "hither" in run("chroot", system, "bash", "-c", f". {completions}; complete -p hither")
    assert (system / "usr/share/fish/vendor_completions.d/hither.fish").is_file()
    assert (system / "usr/share/zsh" / zsh / "_hither").is_file()

    binary = system / "usr/bin/hither"
    assert binary.stat().st_size <= MAX_BINARY_BYTES
    assert ".symtab" not in run("readelf", "-S", binary)
    check_glibc(binary)
    identity = re.search(r"Build ID: (\w\w)(\w+)", run("readelf", "-n", binary))
    debug = system / f"usr/lib/debug/.build-id/{identity[1]}/{identity[2]}.debug"
    assert ".debug_line" in run("readelf", "-S", "-W", debug)
    assert identity[0] in run("readelf", "-n", debug)

    (system / "etc/hither/serve.toml").write_text("# changed here\n")
    remove(system)
    assert not binary.exists()
    assert list((system / "etc/hither").iterdir()), "what was changed in the configuration is lost"


CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(read CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(Hither REQUIRED)
add_executable(read EXAMPLE)
target_link_libraries(read Hither::hither_static)
"""


def test_the_c_library(tmp_path, system):
    for name in ("hither_*.deb", "libhither-dev_*.deb"):
        install_deb(system, package(name))
    libraries = system / f"usr/lib/{platform.machine()}-linux-gnu"
    check_glibc(libraries / "libhither.so.1")
    names = re.findall(r" T (.*)", run("nm", "--dynamic", "--defined-only", libraries / "libhither.so.1"))
    assert names and all(name.startswith("hither_") for name in names), names

    # With the shared library, found by pkg-config.
    found = {"PKG_CONFIG_SYSROOT_DIR": str(system), "PKG_CONFIG_PATH": str(libraries / "pkgconfig")}
    found |= {f"PKG_CONFIG_ALLOW_SYSTEM_{kind}": "1" for kind in ("CFLAGS", "LIBS")}
    flags = run("pkg-config", "--cflags", "--libs", "hither", env=os.environ | found).split()
    run("gcc", "-D_GNU_SOURCE", ROOT / "crates/capi/examples/read.c", "-o", system / "srv/read-c", *flags)
    # With the static library, found by CMake.
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(CMAKE.replace("EXAMPLE", str(ROOT / "crates/capi/examples/read.cpp")))
    run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={system / 'usr'}")
    run("cmake", "--build", project / "build")

    (system / "srv/data").mkdir()
    (system / "srv/data/file").write_bytes(bytes(1_000_100))
    with served(["chroot", system, "hither"], "/srv/data") as url:
        url = f"{url.rstrip('/')}/file"
        assert run("chroot", system, "/srv/read-c", url).startswith("1000100 bytes\n")
        assert run(project / "build/read", url).startswith("1000100 bytes\n")
