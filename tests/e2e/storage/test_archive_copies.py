"""`hither cp -a`: links, permissions, times and holes, as `cp -a` of coreutils keeps them."""

import os
import stat
import subprocess

from served import serving

from bench.harness.paths import HITHER

MIB = 1 << 20
THEN = 1_500_000_000_111_222_333


def tree_at(root):
    (root / "d/empty").mkdir(parents=True)
    (root / "closed").mkdir()
    for name, size, mode in [("small", 10, 0o751), ("d/large", 3 * MIB, 0o4640), ("closed/f", 5, 0o444), ("none", 0, 0o600)]:
        (root / name).write_bytes(os.urandom(size))
        (root / name).chmod(mode)
    with (root / "holes").open("wb") as holes:
        holes.truncate(40 * MIB)
        holes.seek(20 * MIB)
        holes.write(b"x")
    for name, target in {"to file": "small", "to directory": "d", "broken": "nowhere", "d/absolute": "/etc/passwd"}.items():
        (root / name).symlink_to(target)
    (root / "closed").chmod(0o550)
    (root / "d").chmod(0o2771)
    for number, path in enumerate(sorted([root, *root.rglob("*")], reverse=True)):
        os.utime(path, ns=(THEN + number, THEN + number), follow_symlinks=False)
    return root


def attributes(root):
    """Kind, permissions, time and content of a tree's root and of all entries in it."""
    found = {}
    for path in [root, *root.rglob("*")]:
        known = path.lstat()
        link = path.readlink() if path.is_symlink() else None
        content = path.read_bytes() if stat.S_ISREG(known.st_mode) else None
        found[path.relative_to(root)] = (known.st_mode, known.st_mtime_ns, link, content)
    return found


def masked(*command):
    """Runs a command whose new files are not accessible to other users."""
    told = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, umask=0o077)
    assert told.returncode == 0, told.stderr
    return told


def test_a_local_archive_is_that_of_cp(tmp_path):
    source = tree_at(tmp_path / "source")
    masked("cp", "-a", source, tmp_path / "expected")
    for _ in range(2):
        masked(HITHER, "cp", "-a", "--no-store", source, tmp_path / "copy")
        copy = tmp_path / "copy"
        assert attributes(copy) == attributes(tmp_path / "expected") == attributes(source)
        assert (copy / "holes").stat().st_blocks < 1000
        # Now the copy is made in the existing directory.
        (copy / "source").mkdir(exist_ok=True)
        copy.rename(tmp_path / "before")
        masked("chmod", "-R", "u+w", tmp_path / "before")
        masked("rm", "-r", tmp_path / "before")


def test_an_archive_replaces_what_differs_and_keeps_what_is_the_same(hither, tmp_path):
    source = tree_at(tmp_path / "source")
    copy = tmp_path / "copy"
    masked(HITHER, "cp", "-a", "--no-store", f"{source}/.", copy)
    (copy / "to file").unlink()
    (copy / "to file").symlink_to("elsewhere")
    (copy / "small").chmod(0o700)
    told = hither("cp", "-a", "--json", "--no-store", f"{source}/.", copy)
    assert told.code == 0, told.err
    assert told.json["files_skipped"] == 3, "the other links"
    assert attributes(copy) == attributes(source)
    (copy / "broken").unlink()
    (copy / "broken").mkdir()
    told = hither("cp", "-a", "--json", "--no-store", f"{source}/.", copy)
    assert told.code == 10 and [it["source"] for it in told.json["failures"]] == [f"{source}/broken"]


def test_a_link_that_is_named_is_copied_as_a_link(hither, tmp_path):
    source = tree_at(tmp_path / "source")
    for name in ("to file", "to directory", "broken"):
        assert hither("cp", "-a", "--no-store", source / name, tmp_path / name).code == 0
        assert (tmp_path / name).readlink() == (source / name).readlink()
    assert hither("cp", "--no-store", source / "to file", tmp_path / "plain").code == 0
    assert not (tmp_path / "plain").is_symlink()


def test_each_link_that_a_server_does_not_keep_has_a_line(hither, tmp_path):
    source = tmp_path / "source"
    (source / "d").mkdir(parents=True)
    (source / "f").write_bytes(b"content")
    for name, target in {"to file": "f", "to directory": "d", "broken": "nowhere"}.items():
        (source / name).symlink_to(target)
    (tmp_path / "www").mkdir()
    with serving(tmp_path, "--write") as served:
        told = hither("cp", "-a", "--json", "--no-store", source, served.url("up"))
        assert told.code == 0, told.err
        one = hither("cp", "-a", "--json", "--no-store", source / "to file", served.url("one"))
        assert one.json["notices"] == [f"{source}/to file: a link, copied as the file that it leads to"]
    assert (tmp_path / "www/up/to file").read_bytes() == (tmp_path / "www/one").read_bytes() == b"content"
    assert sorted(told.json["notices"]) == [
        f"{source}/broken: broken link, left out",
        f"{source}/to directory: a link to something else than a file, left out",
        f"{source}/to file: a link, copied as the file that it leads to",
    ]


def test_an_archive_from_a_server_has_its_permissions_and_times(tmp_path):
    (tmp_path / "www").mkdir()
    source = tree_at(tmp_path / "www/tree")
    # Links without a target, or out of the served directory, are errors: tests/e2e/serve/test_unservable_names.py.
    (source / "broken").unlink()
    (source / "d/absolute").unlink()
    with serving(tmp_path) as served:
        for _ in range(2):  # the second time the server is known
            masked(HITHER, "cp", "-a", "--store", tmp_path / "store", served.url("tree"), tmp_path / "copy")
            for name in ("small", "none", "closed/f"):
                then, now = (source / name).stat(), (tmp_path / "copy" / name).stat()
                assert int(then.st_mtime) == int(now.st_mtime), name
                assert (tmp_path / "copy" / name).read_bytes() == (source / name).read_bytes()
            masked("chmod", "-R", "u+w", tmp_path / "copy")
            masked("rm", "-r", tmp_path / "copy")
