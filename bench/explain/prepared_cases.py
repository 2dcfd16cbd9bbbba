"""Runs the prepared cases, or those that are named, and writes bench/results/explain.md."""

import sys

from bench.explain.cases import CASES, Outcome, outcome
from bench.harness.paths import RESULTS
from bench.harness.tables import save

HEAD = """# What `hither explain` says of twelve prepared cases

`bench/explain/cases.py` has the cases, with the bottleneck of each named beforehand. The gain is checked where the change can be made: the job runs a second time with it.

| case | prepared bottleneck | named | of the job | inferred | predicted gain | gain |
|---|---|---|---|---|---|---|
"""


def row(it: Outcome) -> str:
    found = it.found
    share = f"{found['seconds']:.2f} of {found['job_seconds']:.2f} s"
    inferred = "yes" if found["inferred"] else "no"
    predicted = "-" if found["gain_seconds"] is None else f"{found['gain_seconds']:.2f} s"
    saved = "-" if it.saved is None else f"{it.saved:.2f} s"
    named = found["bottleneck"] if it.is_right else f"**{found['bottleneck']}**"
    return f"| {it.name} | {it.expected} | {named} | {share} | {inferred} | {predicted} | {saved} |\n"


def main() -> int:
    names = sys.argv[1:] or list(CASES)
    outcomes = []
    for name in names:
        found = outcome(name, with_change=True)
        print(row(found), end="", flush=True)
        if len(names) == 1 or not found.is_right:
            print(found.found)
        outcomes.append(found)
    right = sum(it.is_right for it in outcomes)
    checked = [it for it in outcomes if it.saved is not None and it.found["gain_seconds"] is not None]
    close = sum(abs(it.found["gain_seconds"] - it.saved) <= 0.25 * abs(it.saved) for it in checked)
    tail = f"\n{right} of {len(outcomes)} are right. Of {len(checked)} gains, {close} were predicted within 25 %.\n"
    print(tail)
    if names == list(CASES):
        save(RESULTS / "explain", [HEAD + "".join(map(row, outcomes)) + tail])
    return 0


if __name__ == "__main__":
    sys.exit(main())
