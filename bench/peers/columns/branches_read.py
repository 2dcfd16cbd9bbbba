"""Reads branches of a tree in one of several ways, and sums their values.

    python -m bench.peers.columns.branches_read URL WAY TREE BRANCH,BRANCH,... WARM_UP_FILE

WAY is `tree` (hither.open_tree), `steps` (the same in ten steps), `hither` (uproot with hither's
source), or the name of one of uproot's sources. `*` stands for all branches. Imports and a first
read of a small local file are not timed.
"""

import json
import sys
import time

STEPS = 10


def total(columns: dict) -> tuple[int, float]:
    return sum(column.size for column in columns.values()), sum(
        float(column.sum(dtype="f8")) for column in columns.values()
    )


def with_hither(client, url: str, way: str, tree_name: str, branches: list[str] | None) -> tuple[int, float]:
    import hither

    tree = hither.open_tree(url, tree_name, client=client)
    if way == "tree":
        return total(tree.arrays(branches, library="np"))
    steps = tree.iterate(branches, step_size=-(-tree.num_entries // STEPS), library="np")
    sums = [total(step) for step in steps]
    return sum(values for values, _ in sums), sum(found for _, found in sums)


def with_uproot(options: dict, url: str, tree_name: str, branches: list[str] | None) -> tuple[int, float]:
    import uproot

    with uproot.open(url, **options) as file:
        return total(file[tree_name].arrays(branches, library="np"))


def main() -> None:
    url, way, tree, names, warm_up = sys.argv[1:6]
    branches = None if names == "*" else names.split(",")
    client = None
    if way in ("tree", "steps", "hither"):
        import hither

        client = hither.Client(store=False, anonymous=True)
    if way in ("tree", "steps"):
        with hither.Client(store=False, anonymous=True) as other:
            with_hither(other, warm_up, way, "T", ["rawtr"])
        started = time.monotonic()
        values, found = with_hither(client, url, way, tree, branches)
    else:
        import uproot

        if way == "hither":
            import hither.uproot

            options = {"handler": hither.uproot.Source, "client": client}
        else:
            options = {"handler": getattr(uproot, way)}
            import XRootD.client  # noqa: F401
        with_uproot({}, warm_up, "T", ["rawtr"])
        started = time.monotonic()
        values, found = with_uproot(options, url, tree, branches)
    seconds = time.monotonic() - started
    report = {**client.report.as_dict(), "seconds": seconds} if client else {"seconds": seconds}
    print(json.dumps({"selected": values, "mean": found / values, "report": report}))


if __name__ == "__main__":
    main()
