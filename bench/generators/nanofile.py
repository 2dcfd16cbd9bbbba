"""Generates files like CMS's NanoAOD, one for each codec: 1,000 branches, jagged, 500 MB.

25 collections of 19 variables each, with a counter; 425 trigger flags, a byte each; 75 variables of
the event. Floats have 8 to 12 bits of mantissa. Baskets and clusters are ROOT's own choice. Needs
ROOT. nano-CODEC.json beside nano-CODEC.root holds the facts.

A job reads 30 branches (`COLUMNS`).
"""

import argparse
import subprocess
import sys
from pathlib import Path

from bench.generators.generate_once import generate_once, recipe
from bench.harness.paths import DATA
from bench.harness.pyroot import import_root

SCRIPT = Path(__file__).with_suffix(".cxx")
TREE = "Events"
ENTRIES = 190_000
# ROOT's compression settings: a hundred times the codec, plus the level that ROOT recommends for
# it.
CODECS = {"zstd": 505, "zlib": 101, "lzma": 207}

COLLECTIONS = {
    "Muon": 1.5, "Electron": 1.2, "Jet": 5, "FatJet": 0.8, "SubJet": 1, "Tau": 1, "Photon": 1.5, "GenPart": 12,
    "GenJet": 4, "IsoTrack": 1, "SV": 1.5, "TrigObj": 5, "SoftActivityJet": 4, "CorrT1METJet": 3, "GenVisTau": 0.3,
    "GenDressedLepton": 0.6, "LowPtElectron": 0.5, "OtherPV": 2, "PSWeight": 3, "LHEPart": 4, "FsrPhoton": 0.2,
    "boostedTau": 0.3, "PPSLocalTrack": 0.5, "Proton": 0.3, "SubGenJet": 1,
}  # fmt: skip
# The variables of a collection beside its kinematics: ROOT's types of leaves.
KINEMATICS = ("pt", "eta", "phi", "mass")
VARIABLES = ("F", "F", "F", "F", "F", "F", "F", "F", "I", "I", "I", "b", "b", "O", "O")

COLUMNS = [
    "event_f0", "event_f1", "event_f2", "event_i0", "HLT_0", "HLT_1", "HLT_2", "HLT_3",
    *(f"Muon_{name}" for name in (*KINEMATICS, "v8", "v13")),
    *(f"Electron_{name}" for name in (*KINEMATICS, "v8")),
    *(f"Jet_{name}" for name in (*KINEMATICS, "v0", "v1", "v8", "v11")),
    *(f"GenPart_{name}" for name in ("pt", "eta", "v8")),
]  # fmt: skip


def columns() -> list[str]:
    """All branches, in the form that nanofile.cxx takes."""
    found = [f"event_f{n}/F" for n in range(50)] + [f"event_i{n}/I" for n in range(25)]
    for name, mean in COLLECTIONS.items():
        found.append(f"n{name}/{mean}")
        found += [f"{name}_{variable}/F" for variable in KINEMATICS]
        found += [f"{name}_v{n}/{kind}" for n, kind in enumerate(VARIABLES)]
    found.append("n/0")
    return found + [f"HLT_{n}/O" for n in range(1001 - len(found))]


def path(codec: str, entries: int = ENTRIES) -> Path:
    """The path of the file."""
    return DATA / (f"nano-{codec}.root" if entries == ENTRIES else f"nano-{codec}-{entries}.root")


def ensure(codec: str, entries: int = ENTRIES) -> Path:
    """Writes the file unless it exists."""

    def write_apart(part: Path) -> dict:
        # In a process of its own, because ROOT cannot forget what it has compiled.
        command = [sys.executable, "-m", "bench.generators.nanofile", "--part", part, codec, "--entries", entries]
        subprocess.run([str(word) for word in command], check=True)
        return {"entries": entries, "branches": len(columns()) - 1}

    output = path(codec, entries)
    generate_once(output, recipe(SCRIPT, repr(columns()), entries=entries, codec=CODECS[codec]), write_apart)
    return output


def write(part: str, codec: str, entries: int) -> None:
    """Writes the file with ROOT."""
    ROOT = import_root()
    if ROOT is None:
        raise RuntimeError("files like NanoAOD are written by ROOT, which is not installed (tools/setup-peers)")
    ROOT.gInterpreter.Declare(SCRIPT.read_text())
    if ROOT.nanofile.write(part, entries, CODECS[codec], ROOT.std.vector["std::string"](columns())) != 0:
        raise RuntimeError(f"ROOT cannot write {part}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("codecs", nargs="*", default=list(CODECS))
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--part", help="write only this file")
    options = parser.parse_args()
    for codec in options.codecs:
        if options.part:
            write(options.part, codec, options.entries)
        else:
            print(ensure(codec, options.entries))


if __name__ == "__main__":
    main()
