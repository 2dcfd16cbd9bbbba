"""docs/reference/metrics.md has the names, types and help texts that a server exports."""

import os
import re
import urllib.request
from pathlib import Path

from served import PATIENCE, serving

PAGE = Path(__file__).parents[3] / "docs/reference/metrics.md"
HEAD = """# Metrics

<!-- Generated: HITHER_WRITE_REFERENCE=1 pytest tests/e2e/reference/test_metrics.py -->

`hither serve --metrics ADDR:PORT` exports these series at `/metrics`, in the text format of Prometheus. Names of files,
clients and users are in none of them. A histogram has the series `_bucket`, `_sum` and `_count`.

| metric | type | labels | meaning |
|---|---|---|---|
"""
METRIC = re.compile(r"^# HELP (\S+) (.+)\n# TYPE \1 (\w+)$", re.MULTILINE)


def page(text: str) -> str:
    """Returns the page for the exported metrics."""
    rows = []
    for name, meaning, kind in METRIC.findall(text):
        labels = set()
        for series in re.findall(rf"^{name}(?:_bucket|_sum|_count)?\{{(.*)\}} ", text, re.MULTILINE):
            labels |= set(re.findall(r'(\w+)="', series)) - {"le"}
        listed = ", ".join(f"`{label}`" for label in sorted(labels))
        rows.append(f"| `{name}` | {kind} | {listed} | {meaning} |\n")
    return HEAD + "".join(rows)


def test_the_page_has_what_a_server_exports(tmp_path):
    with serving(tmp_path, "--metrics", "127.0.0.1:0") as served:
        with urllib.request.urlopen(served.told["metrics"] + "metrics", timeout=PATIENCE) as response:
            exported = page(response.read().decode())
    if os.environ.get("HITHER_WRITE_REFERENCE"):
        PAGE.write_text(exported)
    assert exported.count("\n") > 25
    assert PAGE.read_text() == exported
