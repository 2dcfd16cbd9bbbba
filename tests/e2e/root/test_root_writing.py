"""Files that ROOT writes with the plug-in, and directories in gSystem."""

import re
from pathlib import Path

import pytest

WRITE = """
file = ROOT.TFile.Open(arguments["url"], arguments["option"])
histogram = ROOT.TH1F(arguments["name"], "", 10, 0, 10)
histogram.Fill(3, arguments["weight"])
histogram.Write()
file.Close()
answer(failed=bool(file.TestBit(ROOT.TFile.kWriteError)))
"""

READ = """
file = ROOT.TFile.Open(arguments["url"])
answer(found={key.GetName(): key.ReadObj().GetBinContent(4) for key in file.GetListOfKeys()})
"""


def test_what_is_written_can_be_read(root_plugin, served_small, xrootd):
    code = """
def write(option, name, weight):
    file = ROOT.TFile.Open(arguments["url"], option)
    histogram = ROOT.TH1F(name, "", 10, 0, 10)
    histogram.Fill(3, weight)
    histogram.Write()
    file.Close()
    return bool(file.TestBit(ROOT.TFile.kWriteError))
def read():
    file = ROOT.TFile.Open(arguments["url"])
    return {key.GetName(): key.ReadObj().GetBinContent(4) for key in file.GetListOfKeys()}
failed = [write("NEW", "first", 1), write("UPDATE", "second", 2)]
both = read()
failed.append(write("RECREATE", "third", 3))
try:
    write("CREATE", "fourth", 4)
except OSError:
    refused = True
answer(failed=failed, both=both, refused=refused, last=read())
"""
    for url in (served_small.url("new.root"), f"{xrootd}new.root"):
        done = root_plugin.run(code, url=url)
        assert done.answer == {
            "failed": [False] * 3,
            "both": {"first": 1, "second": 2},
            "refused": True,
            "last": {"third": 3},
        }
        assert "RECREATE replaces it" in done.err
    assert (served_small.folder / "new.root").read_bytes()[:4] == b"root"


def test_a_file_that_is_not_closed_is_written_when_root_ends(root_plugin, root_package, served_small, tmp_path):
    macro = tmp_path / "write.C"
    macro.write_text('void write(const char *url) { TFile::Open(url, "RECREATE"); TNamed("name", "title").Write(); }')
    url = served_small.url("open.root")
    done = root_plugin.command(str(root_package / "bin/root.exe"), "-l", "-b", "-q", f'{macro}("{url}")')
    assert done.code == 0, done.err
    assert (served_small.folder / "open.root").read_bytes()[:4] == b"root"


def test_what_cannot_be_put_is_kept_and_named(root_plugin, site, tmp_path):
    """This server accepts no uploads."""
    spool = tmp_path / "spool"
    spool.mkdir()
    done = root_plugin.run(
        WRITE,
        environment={"TMPDIR": str(spool)},
        url=site.url("forbidden/new.root"),
        option="RECREATE",
        name="h",
        weight=1,
    )
    assert done.answer["failed"]
    named = Path(re.search(r"what was to be written is in (\S+)", done.err)[1])
    assert named.parent == spool
    assert root_plugin.run(READ, url=str(named)).answer["found"] == {"h": 1}


def test_an_update_of_what_is_no_root_file_changes_nothing(root_plugin, served_small, tmp_path):
    url = served_small.file("notes.root", b"these are notes " * 100)
    code = """
try:
    ROOT.TFile.Open(arguments["url"], "UPDATE")
except OSError:
    answer(refused=True)
"""
    assert root_plugin.run(code, environment={"TMPDIR": str(tmp_path)}, url=url).answer["refused"]
    assert (served_small.folder / "notes.root").read_bytes() == b"these are notes " * 100
    assert list(tmp_path.glob("hither-*")) == []


def test_no_spool_file_is_left(root_plugin, served_small, tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()
    arguments = {"url": served_small.url("new.root"), "option": "RECREATE", "name": "h", "weight": 1}
    assert not root_plugin.run(WRITE, environment={"TMPDIR": str(spool)}, **arguments).answer["failed"]
    assert list(spool.iterdir()) == []


def test_directories_are_listed_and_changed(root_plugin, served_small, xrootd):
    code = """
base, system = arguments["base"], ROOT.gSystem
assert system.MakeDirectory(base + "d") == 0
copied = ROOT.TFile.Cp(base + "small.root", base + "d/copy.root", False)
directory, names = system.OpenDirectory(base + "d"), []
while name := system.GetDirEntry(directory):
    names.append(str(name))
system.FreeDirectory(directory)
info = ROOT.FileStat_t()
found = system.GetPathInfo(base + "d/copy.root", info)
size, is_file = info.fSize, bool(ROOT.R_ISREG(info.fMode))
is_directory = system.GetPathInfo(base + "d", info) == 0 and bool(ROOT.R_ISDIR(info.fMode))
unlinked = [system.Unlink(base + "d/copy.root"), system.Unlink(base + "d")]
gone = [bool(system.AccessPathName(base + name)) for name in ("d/copy.root", "d", "small.root")]
answer(copied=copied, names=names, found=found, size=size, file=is_file, directory=is_directory, unlinked=unlinked, gone=gone)
"""
    size = (served_small.folder / "small.root").stat().st_size
    for base in (served_small.base, xrootd):
        done = root_plugin.run(code, base=base)
        assert done.answer == {
            "copied": True,
            "names": ["copy.root"],
            "found": 0,
            "size": size,
            "file": True,
            "directory": True,
            "unlinked": [0, 0],
            "gone": [True, True, False],
        }, done.err


FULL = """
import resource
def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
file = ROOT.TFile.Open(arguments["url"], arguments["option"])
file.SetCompressionLevel(0)
big = ROOT.TH1F("big", "", 1_000_000, 0, 1)  # more than the cache of writes holds
limit(100_000)
big.Write()
after = arguments["after"]
if after != "the same":
    limit(resource.RLIM_INFINITY)
if after == "space again":
    file.ResetBit(ROOT.TFile.kWriteError)
    file.SetWritable(True)
    ROOT.TNamed("small", "").Write()
if after == "recovery":
    file.ResetBit(ROOT.TFile.kWriteError)
    file.SetWritable(True)
    file.Recover()
if after == "destructor":
    file.__destruct__()
    answer(failed=True)
else:
    file.Close()
    answer(failed=bool(file.TestBit(ROOT.TFile.kWriteError)))
"""


@pytest.mark.parametrize("after", ["the same", "space again", "recovery", "destructor"])
@pytest.mark.parametrize("option", ["NEW", "RECREATE", "UPDATE"])
def test_what_could_not_be_written_to_the_spool_file_is_not_sent(root_plugin, served_small, tmp_path, option, after):
    name = "small.root" if option != "NEW" else f"{after}.root"
    before = {path.name: path.read_bytes() for path in served_small.folder.iterdir()}
    url = served_small.url(name)
    done = root_plugin.run(FULL, environment={"TMPDIR": str(tmp_path)}, url=url, option=option, after=after)
    assert done.answer["failed"], done.err
    assert {path.name: path.read_bytes() for path in served_small.folder.iterdir()} == before
    named = re.search(r"is not written, because not all of it .* spool file (\S+) \(write: \w[^)]+\)", done.err)
    assert named, done.err
    assert Path(named[1]).parent == tmp_path


TWO_WRITERS = """
def begin(option, name):
    file = ROOT.TFile.Open(arguments["url"], option)
    histogram = ROOT.TH1F(name, "", 10, 0, 10)
    histogram.Fill(3)
    histogram.Write()
    return file
def end(file):
    file.Close()
    return bool(file.TestBit(ROOT.TFile.kWriteError))
def keys():
    file = ROOT.TFile.Open(arguments["url"])
    return sorted(key.GetName() for key in file.GetListOfKeys())
"""


def test_of_two_updates_the_second_is_refused(root_plugin, served_small, xrootd, tmp_path):
    code = """
failed = [end(begin("NEW", "first"))]
writers = [begin("UPDATE", name) for name in ("from_a", "from_b")]
failed += [end(writer) for writer in writers]
both = keys()
failed.append(end(begin("UPDATE", "from_b")))
answer(failed=failed, both=both, last=keys())
"""
    for number, url in enumerate((served_small.url("shared.root"), f"{xrootd}shared.root")):
        spool = tmp_path / f"spool{number}"
        spool.mkdir()
        done = root_plugin.run(TWO_WRITERS + code, environment={"TMPDIR": str(spool)}, url=url)
        assert done.answer == {
            "failed": [False, False, True, False],
            "both": ["first", "from_a"],
            "last": ["first", "from_a", "from_b"],
        }, done.err
        assert "has changed since it was read" in done.err
        kept = Path(re.search(r"what was to be written is in (\S+)", done.err)[1])
        assert root_plugin.run(READ, url=str(kept)).answer["found"] == {"first": 1, "from_b": 1}


@pytest.mark.parametrize("option", ["NEW", "CREATE", "UPDATE"])
def test_a_file_that_was_made_meanwhile_is_not_replaced(root_plugin, served_small, xrootd, option):
    code = """
writers = [begin(arguments["option"], name) for name in ("from_a", "from_b")]
answer(failed=[end(writer) for writer in writers], keys=keys())
"""
    for url in (served_small.url("shared.root"), f"{xrootd}shared.root"):
        done = root_plugin.run(TWO_WRITERS + code, url=url, option=option)
        assert done.answer == {"failed": [False, True], "keys": ["from_a"]}, done.err
        assert "exists already" in done.err


def test_a_file_that_is_opened_anew_is_the_present_one(root_plugin, served_small, xrootd):
    code = """
def now(file):
    return sorted(key.GetName() for key in file.GetListOfKeys())
end(begin("NEW", "first"))
file = ROOT.TFile.Open(arguments["url"])
seen = [now(file)]
end(begin("RECREATE", "second"))
changed = [file.ReOpen("UPDATE")]
seen.append(now(file))
file.cd()
ROOT.TNamed("third", "").Write()
changed.append(file.ReOpen("READ"))
seen.append(now(file))
file.Close()
end(begin("RECREATE", "fourth"))
answer(seen=seen, changed=changed, last=keys())
"""
    for url in (served_small.url("shared.root"), f"{xrootd}shared.root"):
        done = root_plugin.run(TWO_WRITERS + code, url=url)
        assert done.answer == {
            "seen": [["first"], ["second"], ["second", "third"]],
            "changed": [0, 0],
            "last": ["fourth"],
        }, done.err
