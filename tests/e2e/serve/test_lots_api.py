"""The API of lots conforms to its description, tested with requests that schemathesis generates."""

import subprocess
from pathlib import Path

from needs import missing
from test_access import Served
from token_issuer import Issuer, Key

ROOT = Path(__file__).resolve().parents[3]
SCHEMATHESIS = ROOT / "target/peers/schemathesis/bin/schemathesis"
# Status 507 is not a failure of the server.
CONFIG = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "507"]
"""


def test_the_api_matches_its_description(hither, tmp_path):
    if not SCHEMATHESIS.exists():
        missing("schemathesis")
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    with Issuer(Key(tmp_path, "first")) as issuer:
        text = f'[auth]\naudience = ["https://se.example"]\n[[auth.issuers]]\nurl = "{issuer.url}"\nbase = ["/"]\n'
        with Served(tmp_path, text + "[lots]\nbytes = 100000000\ncount = 20\n") as served:
            token = issuer.token("storage.create:/ storage.modify:/ storage.read:/")
            command = [SCHEMATHESIS, "--no-color", "--config-file", tmp_path / "schemathesis.toml", "run"]
            command += ["--url", served.url, "-H", f"Authorization: Bearer {token}", "--checks", "all"]
            command += ["-n", "25", "--seed", "7", "--suppress-health-check", "all", "--generation-deterministic"]
            command += ["--continue-on-failure", ROOT / "docs/openapi-lots.yaml"]
            done = subprocess.run(
                [str(word) for word in command], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
            )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
