"""Every key of `--json` is in docs/reference/json-output.md with its type, and every key on that page is printed."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from needs import require
from root_program import fake_root, setup
from served import serving

from bench.harness import servers
from bench.harness.links import Loopback

PAGE = Path(__file__).parents[3] / "docs/reference/json-output.md"
PLAIN = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "null": type(None),
}
SECTION = re.compile(r"^(##+) `?([^`\n]+)`?$", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
RECORD = """"0x1","Open","1.0","root://h//f;0;0;0","2.0","[SUCCESS] ",""
"0x1","Read","2.5","0;100;0","2.6","[SUCCESS] ","100"
"""


def tables() -> dict[str, dict[str, str]]:
    """Returns the types of the keys of each section."""
    parts = SECTION.split(PAGE.read_text())[1:]
    return {
        name: dict(row[:2] for row in ROW.findall(text)) for name, text in zip(parts[1::3], parts[2::3], strict=True)
    }


class Page:
    """The page, and the keys that were printed so far."""

    def __init__(self):
        self.tables = tables()
        self.seen = set()

    def check(self, value, kind: str, where: str) -> None:
        if value is not None and kind.removesuffix(" or null") in self.tables:
            self.check_object(value, kind.removesuffix(" or null"), where)
        elif " or " in kind:
            fits = [one for one in kind.split(" or ") if one in PLAIN and isinstance(value, PLAIN[one])]
            assert fits, f"{where} is {value!r}, expected {kind}"
        elif kind.startswith("array of "):
            assert isinstance(value, list), f"{where} is {value!r}, expected {kind}"
            for item in value:
                self.check(item, kind.removeprefix("array of "), where)
        elif kind in PLAIN:
            assert isinstance(value, PLAIN[kind]), f"{where} is {value!r}, expected {kind}"
            assert kind == "boolean" or not isinstance(value, bool), f"{where} is {value!r}, expected {kind}"
        else:
            pytest.fail(f"{where} has the unknown type {kind}")

    def check_object(self, value, section: str, where: str) -> None:
        keys = self.tables[section]
        assert isinstance(value, dict), f"{where} is {value!r}, expected {section}"
        required = {key for key, kind in keys.items() if not kind.endswith(", optional")}
        assert required <= set(value) <= set(keys), f"{where} has the keys {sorted(value)}, {section} {sorted(keys)}"
        for key, inner in value.items():
            self.seen.add((section, key))
            self.check(inner, keys[key].removesuffix(", optional"), f"{where}.{key}")


@pytest.fixture
def page():
    return Page()


def test_every_key_is_documented_and_every_documented_key_is_printed(page, hither, small, tmp_path):
    require("xrootd")
    store = ("--store", tmp_path / "store")
    trace = tmp_path / "t.trace"
    record = tmp_path / "record.csv"
    record.write_text(RECORD)
    learned = tmp_path / "learned.json"

    def printed(section, *words, code=0, shape=None):
        told = hither(*section.split()[1:], *words, *store, "--json")
        assert told.code == code, told.err
        output = told.err if section == "hither cat" else told.out
        page.check_object(json.loads(output), shape or section, section)
        return json.loads(output)

    lots = tmp_path / "lots.toml"
    lots.write_text("[lots]\nbytes = 100000000\n")
    with serving(tmp_path, "--write", "--metrics", "127.0.0.1:0", "--config", lots) as served:
        served.file("small.root", small.path.read_bytes())
        tree, gone = served.url("small.root") + ":T", served.url("gone")
        text = served.file("a.txt", b"text")
        printed("hither draw", tree, "rawtr", "--trace", trace)
        printed("hither draw", gone, "x", code=3, shape="error")
        printed("hither explain draw", tree, "rawtr", "--no-probe")
        printed("hither explain cat", text, "--no-probe")
        served.file("log", b'{"time": "2026-01-01T00:00:00Z", "peer": "h:1", "status": 200, "received": 0, "sent": 1, '
            b'"head_ms": 1, "ms": 2, "disk_ms": 1, "client_ms": 0, "tls": false}\n')
        printed("hither explain serve", tmp_path / "www" / "log", shape="Diagnosis")
        printed("hither tree", tree)
        schema = printed("hither tree --learned", tree)["trees"][0]["learned"]["schema"]
        sets = [{"steady": ["rawtr"], "now_and_then": ["E33"]}]
        learned.write_text(json.dumps({"hither_learned": 1, "trees": [{"schema": schema, "tree": "T", "sets": sets}]}))
        printed("hither tree --import", learned)
        assert printed("hither tree --learned", tree)["trees"][0]["learned"]["sets"] == sets
        printed("hither ls", served.base)
        printed("hither stat", text, shape="StatEntry")
        printed("hither stat", text, gone, code=3)
        printed("hither mkdir", served.url("folder"))
        printed("hither cp", text, served.url("folder/b.txt"), "--checksum", "adler32", "--explain-tuning")
        printed("hither cp", text, tmp_path / "replicated.txt", "--replica", gone, "--source-address", "127.0.0.2")
        printed("hither cp", gone, tmp_path / "gone", code=3)
        mirror, other = tmp_path / "mirror", tmp_path / "other"
        other.mkdir()
        (other / "alone").write_bytes(b"")
        printed("hither sync", "--dry-run", served.url("folder"), mirror)
        printed("hither sync", served.url("folder"), mirror, "--explain-tuning")
        printed("hither check", mirror, other, code=12)
        (other / "b.txt").mkdir()
        printed("hither sync", mirror, other, code=10)
        printed("hither mv", served.url("folder/b.txt"), served.url("folder/c.txt"))
        printed("hither checksum", text)
        printed("hither find", served.base)
        printed("hither du", served.base)
        (tmp_path / "sums").write_text(f"00000001  {text}\n")
        printed("hither checksum", "--check", tmp_path / "sums", code=7)
        printed("hither rm", served.url("folder/c.txt"))
        printed("hither lots", "reserve", served.url("lot"), "--bytes", "1M", "--lease", "1h")
        printed("hither trace show", trace)
        printed("hither simulate", trace)
        printed("hither trace replay", trace)
        printed("hither trace import", "--format", "xrdrecord", record, "-o", tmp_path / "i.trace")
        local = tmp_path / "local.txt"
        local.write_bytes(b"text")
        printed("hither cat", local)
        page.check_object(served.told, "hither serve", "hither serve")
        port = served.base.rstrip("/").rpartition(":")[2]
        # Ends after these bytes.
        printed("hither profile network", served.url("small.root"), "--seconds", "60", "--bytes", "4M")
        connected = f"exec 3<>/dev/tcp/127.0.0.1/{port}; echo connected; while :; do :; done"
        with subprocess.Popen(["bash", "-c", connected], stdout=subprocess.PIPE, text=True) as busy:
            try:
                assert busy.stdout.readline() == "connected\n"
                options = ("--seconds", "1.5", "--bytes", "1M", "--pid", busy.pid)
                printed("hither profile", *options)
            finally:
                busy.kill()
        experiment = tmp_path / "experiment.toml"
        server = f'[[server]]\nname = "here"\nurl = "{served.base}"\npid = {served.process.pid}\n'
        experiment.write_text(f'bytes = 1000\nruns = 1\n[axes]\nfile_size = [1000]\n{server}')
        printed("hither tune sweep", "--dry-run", experiment)
        printed("hither tune sweep", experiment)
    root = fake_root(tmp_path / "root")
    for words in (root.arguments, ["--remove"]):
        told = setup(tmp_path, "--json", *words, **root.environment)
        page.check_object(json.loads(told.stdout), "hither root-setup", "hither root-setup")
    printed("hither profile storage", "--seconds", "1", "--size", "16M", tmp_path)
    folder = tmp_path / "xrootd"
    folder.mkdir()
    folder.chmod(0o777)
    with servers.xrootd(Loopback(), folder) as port:
        url = f"root://localhost:{port}//a.txt"
        source = tmp_path / "a.txt"
        source.write_bytes(b"text")
        printed("hither cp", source, url)
        printed("hither locate", url)
        printed("hither stage", url)
        printed("hither stage", "--status", url)
        printed("hither chmod", "640", url)
        printed("hither stat", "--attributes", url, shape="StatEntry")
    documented = {(section, key) for section, keys in page.tables.items() for key in keys}
    assert page.seen == documented
