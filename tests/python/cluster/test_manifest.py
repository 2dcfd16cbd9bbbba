"""The leases of a cluster, in a model in which any message may be late or lost."""

import random
import zlib

import pytest

from hither.cluster._manifest import BLOCK_BYTES, FileState, LeaseSize, Manifest

SIZE = LeaseSize(2 * BLOCK_BYTES, 3)
LARGE = 2 * BLOCK_BYTES


def entry(path, size=1, kind="file"):
    return {"path": path, "kind": kind, "size": size, "modified": 1, "validator": None}


class Inode:
    """A file of the model: the version of each of its ranges, and the number of writes."""

    def __init__(self, content=()):
        self.content = dict(content)
        self.writes = 0

    def write(self, start, what):
        self.content[start] = what
        self.writes += 1


class Disk:
    """A file system with atomic steps: a directory must exist before files are created in it."""

    def __init__(self):
        self.directories = {""}
        self.files = {}

    def make_directory(self, path):
        if path in self.directories:
            raise FileExistsError(path)
        self._parent(path)
        self.directories.add(path)

    def create(self, path):
        self._parent(path)
        return self.files.setdefault(path, Inode())

    def rename(self, old, new):
        if old not in self.files:
            raise FileNotFoundError(old)
        self._parent(new)
        self.files[new] = self.files.pop(old)

    def remove_tree(self, path):
        """Yields between the steps of a removal, in which a late node may act."""
        while path in self.directories:
            inside = [it for it in self.files if it.startswith(f"{path}/")]
            for file in inside:
                self.files.pop(file, None)
                yield
            below = [it for it in self.directories if it.startswith(f"{path}/")]
            self.directories.difference_update(below)
            yield
            if not any(it.startswith(f"{path}/") for it in [*self.files, *self.directories]):
                self.directories.remove(path)

    def _parent(self, path):
        if path.rpartition("/")[0] not in self.directories:
            raise FileNotFoundError(path)


def carry_out(disk, document, fence, name):
    """Executes a lease like a mover, step by step."""
    disk.make_directory(f"{fence}/claim")
    yield
    work = document["kind"]
    if work == "files":
        for file in document["files"]:
            disk.create(f"{fence}/{file['path']}").write(0, file["path"])
            yield
        for file in document["files"]:
            disk.rename(f"{fence}/{file['path']}", file["path"])
            yield
        return {"failures": []}
    part = document["part"]
    if work == "begin":
        token = f"aside/{name}"
        disk.create(token)
        return {"token": token}
    if work == "range":
        inode = disk.files.get(part["token"])
        if inode is None:
            raise FileNotFoundError(part["token"])
        for start in range(document["start"], document["end"], BLOCK_BYTES):
            yield
            inode.write(start, part["file"]["path"])
        yield
        return {"crc32c": "00000000", "adler32": None}
    path, epoch = part["file"]["path"], document["epoch"]
    yield from take_over(disk, part["token"], path, epoch, fence, is_shared=document["is_shared"])
    return {"crc32c": "00000000"}


def take_over(disk, token, path, epoch, fence, *, is_shared):
    """Follows crates/hither/src/mover/take_over.rs."""

    def beside(path, epoch):
        return f"{path}.{zlib.crc32(token.encode())}.{epoch}"

    mine = beside(path, epoch)
    if not (yield from first_renamed(disk, [beside(path, earlier) for earlier in reversed(range(epoch))], mine)):
        taken = beside(token, epoch) if is_shared else mine
        earlier = [beside(token, earlier) for earlier in reversed(range(epoch))] if is_shared else []
        if not (yield from first_renamed(disk, [token, *earlier], taken)):
            if path in disk.files:
                return
            raise FileNotFoundError(token)
        if is_shared:
            yield from copied(disk, taken, f"{fence}/copy")
            disk.rename(f"{fence}/copy", mine)
    yield
    disk.rename(mine, path)


def first_renamed(disk, names, to):
    """Renames the first existing one of the names; returns true if there is one."""
    for name in names:
        if name in disk.files:
            disk.rename(name, to)
            return True
        yield
    return False


def copied(disk, old, new):
    yield
    source = disk.files.get(old)
    if source is None:
        raise FileNotFoundError(old)
    yield
    copy = disk.create(new)
    yield
    copy.content = dict(source.content)
    copy.writes += 1
    yield


class Cluster:
    """A coordinator and its nodes. The next step is chosen at random."""

    def __init__(self, seed, manifest, disk, listed):
        self.chance = random.Random(seed)
        self.manifest = manifest
        self.listed = listed
        self.disk = disk
        self.tasks = {}
        """Tasks by name; those of leases that were taken back continue."""
        self.stopped = set()
        """Tasks that may continue at any time, or only when the job is over."""
        self.removing = {}
        self.results = []
        self.done = {}

    def run(self):
        for step in range(100_000):
            if self.manifest.is_over():
                return
            # Finally, nodes live long enough.
            self.step(patient=step > 5000)
        pytest.fail(f"the job does not end: {list(self.manifest._db.iterdump())}")

    def step(self, *, patient):
        weights = {self.grant: 15, self.work: 65, self.absorb: 5, self.remove_fences: 10}
        weights |= {} if patient else {self.take_back: 3, self.restart: 0.5}
        self.chance.choices(list(weights), weights.values())[0]()

    def work(self):
        running = [name for name in self.tasks if name not in self.stopped]
        if running:
            self.advance(self.chance.choice(running))
        if self.stopped and self.chance.random() < 0.01:
            self.stopped.discard(self.chance.choice(sorted(self.stopped)))

    def take_back(self):
        for lease in self.manifest.open_leases()[:1]:
            self.manifest.revoke(lease.name)
            if self.chance.random() < 0.7:
                self.stopped |= {lease.name, f"{lease.name} again"}

    def restart(self):
        # The coordinator is killed, and its successor knows only the manifest.
        self.removing.clear()
        self.manifest.begin_run()
        self.list()
        for lease in self.manifest.open_leases():
            if self.chance.random() < 0.5 or lease.name not in self.tasks:
                self.manifest.revoke(lease.name)

    def list(self):
        self.manifest.add(self.listed)
        self.manifest.drop_gone()
        self.manifest.end_listing()

    def grant(self):
        if len(self.manifest.open_leases()) >= 4:
            return
        lease = self.manifest.next(SIZE, large_first=self.chance.random() < 0.5)
        if lease is None:
            return
        fence = f"aside/{lease.name}"
        self.disk.make_directory(fence)
        document = self.manifest.work(lease, "aside/file-")
        self.tasks[lease.name] = carry_out(self.disk, document, fence, lease.name)
        if self.chance.random() < 0.1:
            # Dask runs the task twice.
            self.tasks[f"{lease.name} again"] = carry_out(self.disk, document, fence, lease.name)

    def advance(self, name):
        task = self.tasks[name]
        result = None
        try:
            next(task)
        except StopIteration as ended:
            result = ended.value
        except FileExistsError:
            # The fence is claimed by the other task, whose result may also arrive.
            del self.tasks[name]
            return
        except FileNotFoundError as error:
            result = {"error": ("Unavailable", str(error))}
        if result is not None:
            del self.tasks[name]
            self.results.append((name.partition(" ")[0], result))

    def absorb(self):
        if not self.results:
            return
        told = self.results.pop(self.chance.randrange(len(self.results)))
        if not self.manifest.absorb(*told):
            return
        for path, state in self.manifest._db.execute("SELECT path, state FROM files WHERE NOT is_directory"):
            if state == FileState.DONE and path not in self.done:
                inode = self.disk.files[path]
                self.done[path] = (inode, inode.writes)

    def remove_fences(self):
        for lease in self.manifest.open_leases("revoking"):
            removal = self.removing.setdefault(lease.name, self.disk.remove_tree(f"aside/{lease.name}"))
            if next(removal, "removed") == "removed":
                del self.removing[lease.name]
                self.manifest.fence_removed(lease.name)


@pytest.mark.parametrize("seed", range(200))
def test_no_late_node_changes_a_file_that_is_done(seed):
    disk = Disk()
    disk.make_directory("aside")
    manifest = Manifest(":memory:", large_bytes=LARGE)
    sizes = {f"small{n}": 1 for n in range(7)} | {f"large{n}": (2 + 3 * n) * BLOCK_BYTES + n for n in range(2)}
    cluster = Cluster(seed, manifest, disk, [entry(path, size) for path, size in sizes.items()])
    cluster.list()
    cluster.run()
    assert manifest.failures() == []
    for path, size in sizes.items():
        starts = range(0, size, BLOCK_BYTES)
        assert disk.files[path].content == dict.fromkeys(starts, path), path
    # Stopped nodes continue now.
    for name in list(cluster.tasks):
        while name in cluster.tasks:
            cluster.advance(name)
    for path, (inode, writes) in cluster.done.items():
        assert disk.files[path] is inode, f"{path} was renamed late"
        assert inode.writes == writes, f"{path} was written late"
    assert cluster.done.keys() == sizes.keys()


def leased(manifest, **options):
    lease = manifest.next(SIZE, **options)
    return lease, manifest.work(lease, "aside/")


def test_a_lease_that_was_taken_back_waits_for_its_fence_and_has_the_next_epoch():
    manifest = Manifest(":memory:")
    manifest.add([entry("a"), entry("d", kind="directory")])
    lease, work = leased(manifest)
    assert (lease.name, [it["path"] for it in work["files"]], work["directories"]) == ("1.1", ["a"], ["d"])
    assert manifest.next(SIZE) is None
    assert manifest.revoke("1.1")
    assert not manifest.revoke("1.1")
    assert manifest.next(SIZE) is None, "its fence is there"
    manifest.fence_removed("1.1")
    assert manifest.next(SIZE).name == "1.2"
    assert not manifest.absorb("1.1", {"failures": []}), "a late result"
    assert manifest.absorb("1.2", {"failures": []})
    assert not manifest.is_over(), "the listing may bring more"
    manifest.end_listing()
    assert manifest.is_over()
    assert (manifest.totals().files_done, manifest.totals().bytes_done) == (1, 1)


def test_a_range_that_was_taken_back_makes_the_upload_a_shared_one():
    manifest = Manifest(":memory:", large_bytes=LARGE)
    manifest.add([entry("a", 3 * BLOCK_BYTES)])
    begin, _ = leased(manifest)
    assert manifest.next(SIZE) is None
    manifest.absorb(begin.name, {"token": "t"})
    sums = {"crc32c": "0", "adler32": None}
    first, work = leased(manifest)
    assert (work["start"], work["end"], work["part"]["token"]) == (0, 2 * BLOCK_BYTES, "t")
    last, work = leased(manifest)
    assert (work["start"], work["end"]) == (2 * BLOCK_BYTES, 3 * BLOCK_BYTES)
    manifest.revoke(first.name)
    manifest.absorb(last.name, sums)
    assert manifest.totals().bytes_done == BLOCK_BYTES
    manifest.fence_removed(first.name)
    manifest.absorb(manifest.next(SIZE).name, sums)
    finish, work = leased(manifest)
    assert (finish.kind, work["is_shared"], len(work["ranges"])) == ("finish", True, 2)
    manifest.absorb(finish.name, {"error": ("Corrupt", "a wrong checksum")})
    assert manifest.next(SIZE).kind == "begin", "all of it is copied again"


def test_no_range_is_dealt_out_of_a_file_that_failed_and_the_retry_begins_with_a_token():
    manifest = Manifest(":memory:", large_bytes=LARGE)
    listed = [entry("a", 8 * BLOCK_BYTES), entry("b", 4 * BLOCK_BYTES)]
    manifest.add(listed)
    manifest.end_listing()
    for begin, token in [(manifest.next(SIZE), "of a"), (manifest.next(SIZE), "of b")]:
        assert manifest.absorb(begin.name, {"token": token})
    refused = manifest.next(SIZE)
    assert (refused.kind, refused.file) == ("range", 1)
    manifest.absorb(refused.name, {"error": ("PermissionDenied", "refused")})
    ranges = []
    while (lease := manifest.next(SIZE)) is not None:
        ranges.append(lease.file)
    assert ranges == [2, 2], "those of the other file"
    manifest.begin_run()
    manifest.add(listed)
    again, work = leased(manifest)
    assert (again.kind, work["part"]["file"]["path"], work["part"]["token"]) == ("begin", "a", "")
    assert manifest.next(SIZE) is None, "its ranges wait for the token"
    manifest.absorb(again.name, {"token": "new"})
    for _ in range(4):
        lease, work = leased(manifest)
        assert (lease.kind, work["part"]["token"]) == ("range", "new")


@pytest.mark.parametrize(
    "two",
    [("d/File", "d/file"), ("D", "d"), ("Ä", "a\u0308"), ("É", "é"), ("λογος", "λογοσ"), ("ss", "ß"), ("d/a", "d/a.")],
)
def test_names_that_may_be_one_wait_until_that_is_known(two):
    manifest = Manifest(":memory:")
    first, second = two
    below = [entry(f"{second}/below"), entry(f"{second}/deep/er")]
    waiting = [entry(second) | {"state": FileState.ALIKE}, *(it | {"state": FileState.BELOW_ALIKE} for it in below)]
    manifest.add([entry("a"), entry("d/File2"), entry(first), *waiting])
    given = leased(manifest)[1]["files"]
    assert [it["path"] for it in given] == ["a", "d/File2", first]
    assert manifest.next(SIZE) is None
    assert list(manifest.alike()) == [([first], [second])]
    manifest.refuse(second, "they are one")
    assert dict(manifest.failures()) == dict.fromkeys([second, *(it["path"] for it in below)], "they are one")
    assert manifest.totals().files_failed == 3
    manifest.release_alike()
    manifest.end_listing()
    # In the next run one is not listed any more, and another is not mistaken for the first.
    manifest.begin_run()
    assert not manifest.is_listed
    manifest.add([entry(first), waiting[0], waiting[1]])
    manifest.drop_gone()
    assert list(manifest.alike()) == [([first], [second]), ([], [f"{second}/below"])]
    manifest.release_alike()
    assert [it["path"] for it in leased(manifest)[1]["files"]] == [second, f"{second}/below"]
    assert manifest.next(SIZE) is None


def test_workers_that_may_have_leases_are_remembered(tmp_path):
    manifest = Manifest(tmp_path / "manifest")
    manifest.add_workers({"tcp://1": None, "tcp://2": None})
    manifest.add_workers({"tcp://1": "a"})
    manifest.add_workers({"tcp://1": None})
    assert Manifest(tmp_path / "manifest").workers() == {"tcp://1": "a", "tcp://2": None}


def test_a_destination_without_ranges_gets_large_files_whole():
    manifest = Manifest(":memory:", large_bytes=LARGE)
    manifest.add([entry("a", 3 * BLOCK_BYTES)])
    begin, _ = leased(manifest)
    manifest.absorb(begin.name, {"token": None})
    whole, work = leased(manifest)
    assert (whole.kind, [it["path"] for it in work["files"]]) == ("files", ["a"])


def test_failures_are_tried_again_unless_that_is_of_no_use():
    manifest = Manifest(":memory:")
    manifest.add([entry("a"), entry("b"), entry("c")])
    manifest.end_listing()
    lease = manifest.next(SIZE)
    manifest.absorb(lease.name, {"failures": [("a", "PermissionDenied", "no"), ("b", "Timeout", "slow")]})
    again, work = leased(manifest)
    assert [it["path"] for it in work["files"]] == ["b"]
    manifest.absorb(again.name, {"error": ("NoSpace", "full")})
    assert manifest.is_over()
    assert manifest.failures() == [("a", "no"), ("b", "full")]
    manifest.begin_run()
    manifest.add([entry("a"), entry("b"), entry("c")])
    assert [it["path"] for it in leased(manifest)[1]["files"]] == ["a", "b"]


def test_what_could_not_be_listed_has_failed_and_is_listed_again():
    manifest = Manifest(":memory:")
    manifest.add([entry("d", kind="directory"), entry("a")])
    manifest.add_unlisted("d", "forbidden")
    manifest.end_listing()
    lease = manifest.next(SIZE)
    manifest.absorb(lease.name, {"failures": [("a", "PermissionDenied", "no")]})
    assert manifest.is_over()
    assert (manifest.totals().files_failed, manifest.failures()) == (2, [("d", "forbidden"), ("a", "no")])
    assert manifest.failures(1) == [("d", "forbidden")]
    manifest.begin_run()
    assert not manifest.is_listed
    assert manifest.failures() == []


def done(manifest):
    """Copies all waiting files; returns their paths."""
    paths = []
    while (lease := manifest.next(SIZE)) is not None:
        paths += [it["path"] for it in manifest.work(lease, "aside/")["files"]]
        manifest.absorb(lease.name, {"failures": []})
    return paths


def begun_again(manifest, *entries, unlisted=()):
    """Begins the next run with this listing; returns the copied paths."""
    manifest.begin_run()
    assert not manifest.is_over()
    for path in unlisted:
        manifest.add_unlisted(path, "forbidden")
    manifest.add(entries)
    manifest.drop_gone()
    manifest.release_alike()
    manifest.end_listing()
    return done(manifest)


UNKNOWN = {"size": None, "modified": None, "validator": None}


@pytest.mark.parametrize(
    ("then", "now", "is_copied"),
    [
        ({}, {}, False),
        ({}, {"size": 2}, True),
        ({}, {"modified": 2}, True),
        ({"validator": "1"}, {"validator": "2"}, True),
        ({"validator": 'W/"1"'}, {"validator": '"1"'}, True),
        ({"validator": "1", "modified": None}, {"validator": "1", "modified": None}, False),
        ({"validator": "1"}, {}, False),
        ({"modified": None}, {"modified": None}, False),
        ({"size": None}, {"size": None}, True),
        ({"kind": "directory", **UNKNOWN}, {"kind": "directory", **UNKNOWN, "modified": 2}, False),
        ({"kind": "directory", **UNKNOWN}, {}, True),
    ],
)
def test_what_is_done_stays_done_if_the_source_has_it_as_it_was(then, now, is_copied):
    manifest = Manifest(":memory:")
    manifest.add([entry("a") | then])
    done(manifest)
    assert begun_again(manifest, entry("a") | now) == ["a"] * is_copied
    assert begun_again(manifest, entry("a") | {"size": 3}) == ["a"]


def test_the_next_run_forgets_what_the_source_does_not_have_any_more():
    manifest = Manifest(":memory:")
    paths = ["a", "d.dat", "d/a", "d/deep/a", "da", "gone"]
    manifest.add([entry("d", kind="directory"), entry("d/deep", kind="directory"), *map(entry, paths)])
    done(manifest)
    manifest.add([entry("failed")])
    manifest.absorb(manifest.next(SIZE).name, {"error": ("NoSpace", "full")})
    # The directory has not been listed, so its contents are unknown.
    listed = [entry("d", kind="directory"), entry("a"), entry("new")]
    assert begun_again(manifest, *listed, unlisted=["d"]) == ["new"]
    totals = manifest.totals()
    assert (totals.files_found, totals.files_done, totals.files_failed) == (4, 4, 1)
    assert manifest.failures() == [("d", "forbidden")]
    assert begun_again(manifest, unlisted=["."]) == []
    assert manifest.totals().files_done == 4
    assert begun_again(manifest, entry("a")) == []
    assert (manifest.totals().files_found, manifest.totals().files_failed) == (1, 0)


def test_what_changes_while_it_is_leased_is_copied_again_after_its_lease():
    manifest = Manifest(":memory:", large_bytes=LARGE)
    manifest.add([entry("a"), entry("b"), entry("gone")])
    batch = manifest.next(SIZE)
    manifest.add([entry("large", LARGE)])
    begin = manifest.next(SIZE)
    manifest.absorb(begin.name, {"token": "t"})
    span, _ = leased(manifest)
    assert begun_again(manifest, entry("a"), entry("b", 2), entry("large", LARGE + 1)) == []
    # Another run is interrupted before the end of these leases.
    assert begun_again(manifest, entry("a"), entry("b", 3), entry("large", LARGE + 2)) == []
    assert manifest.open_leases() == [batch, span]
    manifest.absorb(batch.name, {"failures": [("gone", "NotFound", "it is gone")]})
    assert manifest.failures() == []
    assert manifest.error_kind() is None
    lease, work = leased(manifest)
    assert [(it["path"], it["size"]) for it in work["files"]] == [("b", 3)]
    manifest.absorb(lease.name, {"failures": []})
    manifest.absorb(span.name, {"error": ("Changed", "it has changed")})
    again, work = leased(manifest)
    assert (again.kind, work["part"]["token"], work["part"]["file"]["size"]) == ("begin", "", LARGE + 2)


def test_what_the_destination_has_lost_is_copied_again():
    manifest = Manifest(":memory:")
    listed = [entry("d", kind="directory"), *map(entry, ["a", "d/a", "d/b", "d/deep/a", "d0", "d/ä😀"])]
    manifest.add(listed)
    done(manifest)
    assert manifest.done_directories() == []
    assert begun_again(manifest, *listed) == []
    assert manifest.done_directories() == ["", "d", "d/deep"]
    assert manifest.done_in("") == {"a": (False, 1), "d": (True, 1), "d0": (False, 1)}
    assert manifest.done_in("d").keys() == {"a", "b", "ä😀"}
    manifest.copy_again(["d/b"])
    assert manifest.done_in("d").keys() == {"a", "ä😀"}
    assert done(manifest) == ["d/b"]


def test_what_was_done_waits_for_its_name_and_stays_done():
    manifest = Manifest(":memory:")
    manifest.add([entry("run")])
    done(manifest)
    # The other file was created meanwhile, and is listed first.
    listed = [entry("Run"), entry("run") | {"state": FileState.ALIKE}]
    for is_interrupted in (True, False):
        manifest.begin_run()
        manifest.add(listed)
        manifest.drop_gone()
        assert list(manifest.alike()) == [(["Run"], ["run"])], is_interrupted
    manifest.release_alike()
    manifest.end_listing()
    assert done(manifest) == ["Run"]
    assert manifest.totals().files_done == 2


def test_numbers_that_do_not_fit_are_kept_or_unknown():
    manifest = Manifest(":memory:")
    times = {"a": 0, "b": (1 << 63) - 1, "c": 1 << 63, "d": (1 << 64) - 1, "e": None}
    listed = [entry(path) | {"modified": modified} for path, modified in times.items()]
    manifest.add(listed)
    taken = {}
    while (lease := manifest.next(SIZE)) is not None:
        taken |= {it["path"]: it["modified"] for it in manifest.work(lease, "aside/")["files"]}
        manifest.absorb(lease.name, {"failures": []})
    assert taken == times
    assert begun_again(manifest, *listed) == []
    assert begun_again(manifest, *(it | {"size": 1 << 63} for it in listed)) == list(times)
    manifest = Manifest(":memory:")
    manifest.add([entry("a", (1 << 63) - 1), entry("b", (1 << 63) - 1), entry("c", 1 << 64)])
    assert (manifest.totals().files_found, manifest.totals().bytes_found) == (3, 1 << 64)


def test_a_manifest_of_an_older_version_goes_on(tmp_path):
    manifest = Manifest(tmp_path / "manifest")
    manifest.add([entry("a")])
    done(manifest)
    manifest._db.execute("ALTER TABLE files DROP COLUMN origin")
    manifest.close()
    assert begun_again(Manifest(tmp_path / "manifest"), entry("a"), entry("b")) == ["b"]


def test_a_manifest_goes_on_where_it_was(tmp_path):
    manifest = Manifest(tmp_path / "manifest")
    manifest.add([entry("a")])
    assert manifest.fact("job", "first") == "first"
    lease = manifest.next(SIZE)
    manifest.close()
    manifest = Manifest(tmp_path / "manifest")
    manifest.add([entry("a"), entry("b")])
    assert manifest.fact("job", "second") == "first"
    assert manifest.open_leases() == [lease]
    assert [it["path"] for it in leased(manifest)[1]["files"]] == ["b"]


def test_where_a_name_is_stored_as_another_the_next_run_copies_its_directory_again():
    manifest = Manifest(":memory:")
    listed = [entry("d") | {"kind": "directory"}, entry("d/plain"), entry("d/x@y"), entry("e/ä"), entry("e/plain")]
    manifest.add(listed)
    manifest.end_listing()
    assert done(manifest) == [it["path"] for it in listed[1:]]
    assert manifest.unseen(9) == {"d": ["x@y"], "e": ["ä"]}
    assert manifest.unseen(1) == {"d": ["x@y"]}
    manifest.looked_at("d", [("x@y", "it is another name", True)])
    manifest.looked_at("e", [("ä", "it is gone", False)])
    assert (manifest.unseen(9), manifest.error_kind()) == ({}, "invalid")
    assert dict(manifest.failures()) == {"d/x@y": "it is another name", "e/ä": "it is gone"}
    assert manifest.totals().files_done == 2
    assert begun_again(manifest, *listed) == ["d/plain", "d/x@y", "e/ä"]
    assert manifest.unseen(9) == {"d": ["x@y"], "e": ["ä"]}
