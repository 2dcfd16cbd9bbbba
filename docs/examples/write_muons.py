"""Writes muons.root, the file of the README's first query: 20,000 simulated collisions in which two muons were seen.

Most pairs come from a Z boson, whose mass of 91 GeV shows as a peak; the others fall off smoothly. In one pair of eight both
muons have the same charge, which a Z cannot give, and those show no peak. The seed is fixed.
"""

from pathlib import Path

import numpy as np
import uproot

EVENTS = 20_000


def muons(random: np.random.Generator) -> dict[str, np.ndarray]:
    """Returns one number an event and column; masses and momenta in GeV."""
    same_charge = random.random(EVENTS) < 1 / 8
    background = same_charge | (random.random(EVENTS) < 0.3)
    peak = 91.19 + 1.25 * random.standard_cauchy(EVENTS) + 1.5 * random.standard_normal(EVENTS)
    falling = 40 + random.exponential(35, EVENTS)
    charge = np.where(same_charge, random.choice([-2, 2], EVENTS), 0)
    return {
        "mass": np.where(background, falling, np.clip(peak, 40, 200)).astype("f4"),
        "charge": charge.astype("i4"),
        "pt": random.exponential(18, EVENTS).astype("f4"),
    }


if __name__ == "__main__":
    with uproot.recreate(Path(__file__).with_name("muons.root")) as file:
        columns = muons(np.random.default_rng(1))
        file.mktree("events", {name: column.dtype for name, column in columns.items()}).extend(columns)
