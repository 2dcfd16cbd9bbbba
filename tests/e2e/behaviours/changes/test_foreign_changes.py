"""Every verb that changes a server against every behaviour: with exit code 0 the change was made, and in any case no
good file is lost, shortened or replaced by other bytes."""

import pytest
from behaviours.changes.rows import ROWS, UPLOADS
from behaviours.storages.kinds import served
from behaviours.table import FAILS, Behaviour

OLD = b"what was there before"
KEPT = b"what no job concerns"
NEW = {"a.dat": bytes(range(250)) * 12, "sub/b.dat": bytes(range(256)) * 2}
LARGE = bytes(range(256)) * (6 << 12)
"""More than one part of an upload to a bucket."""
TREE = {"t/": None, "t/a.dat": OLD, "t/only-there.dat": OLD}
FEW = 3
BEFORE: dict[str, dict[str, bytes | None]] = {
    # The files in `/d/`.
    "cp onto old": {"a.dat": OLD},
    "cp -r": TREE,
    "sync": TREE,
    "sync --delete": TREE,
    "rm": {"a.dat": OLD},
    "rm -r": {"t/": None, "t/a.dat": OLD, "t/s/": None, "t/s/b.dat": OLD},
    "mv": {"a.dat": OLD},
    "mv onto old": {"a.dat": OLD, "b.dat": b"other"},
}


def cases():
    for row in ROWS:
        for verb in row.verbs:
            # Soak: the verbs that ask for little that others do not.
            is_long = len(row.verbs) > FEW and verb in ("cp", "cp -r", "sync", "rm", "mv")
            yield pytest.param(row, verb, marks=pytest.mark.soak if is_long else ())


@pytest.mark.parametrize(("behaviour", "verb"), cases(), ids=str)
def test_what_ends_well_was_done(hither, tmp_path, monkeypatch, behaviour: Behaviour, verb: str):
    tree = tmp_path / "tree"
    for name, data in {**NEW, "../large.dat": LARGE}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(data)
    old = BEFORE.get(verb, {})
    files = {"/": None, "/d/": None, "/d/kept.dat": KEPT, **{f"/d/{name}": data for name, data in old.items()}}
    with served(behaviour.storage, files, behaviour.answers, monkeypatch) as server:
        url = server.url
        done = hither(
            *{
                "cp": ["cp", tree / "a.dat", f"{url}a.dat"],
                "cp onto old": ["cp", tree / "a.dat", f"{url}a.dat"],
                "cp large": ["cp", tmp_path / "large.dat", f"{url}large.dat"],
                "cp -r": ["cp", "-r", f"{tree}/.", f"{url}t"],
                "sync": ["sync", tree, f"{url}t"],
                "sync --delete": ["sync", "--delete", tree, f"{url}t"],
                "rm": ["rm", f"{url}a.dat"],
                "rm -r": ["rm", "-r", f"{url}t"],
                "mv": ["mv", f"{url}a.dat", f"{url}new.dat"],
                "mv onto old": ["mv", f"{url}a.dat", f"{url}b.dat"],
                "mkdir": ["mkdir", f"{url}e"],
            }[verb],
            "--no-store",
        )
        asked = server.requests()
        after = {path.removeprefix("/d/"): data for path, data in server.files().items()}
    assert after.pop("kept.dat") == KEPT, done
    expected = behaviour.codes.get(verb)
    assert expected is None or (done.code != 0 if expected == FAILS else done.code == expected), done
    assert behaviour.says.get(verb, "") in done.out + done.err, done

    whole = {
        "cp large": {"large.dat": LARGE},
        "mv": {"new.dat": OLD},
        "mv onto old": {"b.dat": OLD},
        "mkdir": {"e/": None},
    }
    single = {"a.dat": NEW["a.dat"]}
    trees = {f"t/{name}": data for name, data in NEW.items()}
    new = whole.get(verb) or ({} if verb in ("rm", "rm -r") else trees if "t/" in old else single)
    gone = {
        "rm": {"a.dat"},
        "rm -r": set(old),
        "mv": {"a.dat"},
        "mv onto old": {"a.dat"},
        "sync --delete": {"t/only-there.dat"},
    }.get(verb, set())
    held = {name: data for name, data in after.items() if data is not None and ".hither-" not in name}
    for name, data in held.items():
        # A new file of a tree gets its name before it is seen: the error names it.
        is_told = done.code != 0 and name not in old and name.startswith("t/")
        assert is_told or data in (old.get(name), new.get(name)), f"{name}: {len(data)} bytes; {done}"
    lost = {name for name, data in old.items() if data is not None and name not in held} - gone
    assert not lost, f"good files are gone; {done}"
    assert not verb.startswith("mv") or OLD in held.values(), f"the file is gone; {done}"
    if done.code == 0:
        assert {name: after.get(name, b"") for name in new} == new, done
        assert not gone & set(after), done
    if behaviour.storage == "s3":
        assert max(map(asked.count, ("COPY", "COMPLETE"))) <= 1, f"what may have been done is not repeated; {asked}"
    if verb in UPLOADS and done.code == 0:
        assert not [name for name in after if ".hither-" in name], f"partial files are left; {done}"
