"""Expressions, cuts, shapes of leaves and codecs: hither's results equal those of ROOT's Draw."""

import json
import math
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from needs import missing

ORACLE = Path(__file__).with_name("root_oracle.py")
CODECS = {"zlib": 101, "lzma": 207, "lz4": 404, "zstd": 505, "none": 0}

if find_spec("ROOT") is None:
    missing("ROOT")

TALK_QUERIES = [
    ("rawtr", "", 50, 0, 25),
    ("rawtr", "E33>5", 50, 0, 25),
    ("E33", "rawtr>2 && E33<20", 40, 0, 20),
    ("rawtr+2*E33", "E44>0", 60, 0, 60),
    ("sqrt(rawtr)", "rawtr>0", 30, 0, 6),
    ("ntrack", "", 64, 0, 64),
    ("vertex_x-vertex_y", "ntrack>5", 40, -10, 10),
    ("ecal_energy", "ecal_status==0", 40, 0, 40),
    ("rawtr", "ntrack>10", 50, 0, 25),
    ("weight", "abs(weight)>0.5", 50, -4, 4),
    ("time", "", 20, 0, 10000),
    ("run", "!(event%2)", 4, 0, 4),
]

SHAPE_QUERIES = [
    ("n", "", 10, 0, 10),
    ("jagged", "", 50, 0, 125),
    ("jagged", "jagged>50", 50, 0, 125),
    ("jagged", "n>4 && number<50", 50, 0, 125),
    ("matrix", "", 40, -10, 15),
    ("matrix", "matrix>0", 40, -10, 15),
    ("number", "flag", 50, 0, 100),
    ("small", "small>-50", 40, -100, 100),
    ("large", "", 40, 0, 1e12),
    ("byte", "byte<128 || flag", 64, 0, 256),
    ("jagged*number", "", 50, 0, 12500),
]


@dataclass
class Answered:
    """A file, and what ROOT answers to questions about its tree."""

    path: Path
    tree: str
    questions: list[tuple]
    answers: list[dict]


@pytest.fixture(scope="module")
def answered(small, tmp_path_factory) -> dict[str, Answered]:
    """The talk's file, and one of each codec with all shapes of leaves, answered by one process of ROOT."""
    folder = tmp_path_factory.mktemp("shapes")
    files = {codec: folder / f"{codec}.root" for codec in CODECS}
    tasks = {"talk": (small.path, "T", TALK_QUERIES)}
    for codec, path in files.items():
        tasks[codec] = (path, "shapes", SHAPE_QUERIES if codec == "zlib" else SHAPE_QUERIES[:5])
    questions = {"write": {str(path): CODECS[codec] for codec, path in files.items()}, "draw": list(tasks.values())}
    told = subprocess.run(
        [sys.executable, str(ORACLE)], input=json.dumps(questions, default=str), stdout=subprocess.PIPE, text=True, check=True
    )
    answers = json.loads(told.stdout)
    return {name: Answered(*task, answer) for (name, task), answer in zip(tasks.items(), answers, strict=True)}


def compare(hither, site, asked: Answered):
    (site.folder / asked.path.name).symlink_to(asked.path)
    url = site.url(asked.path.name)
    for question, expected in zip(asked.questions, asked.answers, strict=True):
        expression, cut, bins, lo, hi = question
        options = ["--where", cut] if cut else []
        told = hither(
            "draw", f"{url}:{asked.tree}", expression, *options, "--bins", bins, "--range", f"{lo}:{hi}", "--no-store", "--json"
        )
        assert told.code == 0, f"{question}: {told.err}"
        drawn = told.json["histogram"]
        assert drawn["selected"] == expected["selected"], question
        for field in ("counts", "underflow", "overflow"):
            assert drawn[field] == expected[field], (question, field)
        for field in ("mean", "stddev"):
            assert math.isclose(drawn[field], expected[field], rel_tol=1e-12, abs_tol=1e-15), (question, field)


def test_expressions_match_root(hither, site, answered):
    compare(hither, site, answered["talk"])


@pytest.mark.parametrize("codec", CODECS)
def test_every_leaf_shape_and_codec_matches_root(hither, site, answered, codec):
    compare(hither, site, answered[codec])
