"""Dependencies: those of the crates are the table in ARCHITECTURE.md, and no other."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from rules.finding import Finding
from rules.rust import PURE_CRATES

# Crates for tests alone, which any crate may have among its dev-dependencies.
DEV_CRATES = {"hither-testkit", "hither-simulate", "hither-netem", "hither-wan"}


def dependency_table(markdown: str) -> dict[str, set[str]]:
    """Reads `| crate | may depend on | ... |`; remarks in brackets don't count, and `-` is nothing."""
    table: dict[str, set[str]] = {}
    inside = False
    for line in markdown.splitlines():
        cells = [re.sub(r"\([^)]*\)|`", "", cell).strip() for cell in line.strip().strip("|").split("|")]
        if not line.lstrip().startswith("|"):
            inside = False
        elif [cell.lower() for cell in cells[:2]] == ["crate", "may depend on"]:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            allowed = {name for name in re.split(r"[,\s]+", cells[1]) if name and name != "-"}
            for crate in re.split(r"[,\s]+", cells[0]):
                table[crate] = allowed
    return table


def short(package: str) -> str:
    """`hither-core` is `core` in the table; the library `hither` keeps its name."""
    return package.removeprefix("hither-")


def check_dependencies(metadata: dict, table: dict[str, set[str]]) -> Iterator[Finding]:
    if not table:
        yield Finding("ARCHITECTURE.md", 1, "no table `| crate | may depend on | must not contain |` found")
        return
    ours = {package["name"] for package in metadata["packages"]}
    for package in metadata["packages"]:
        if "/crates/" not in package.get("manifest_path", "/crates/"):
            continue  # programs of the benches use what they measure
        crate = short(package["name"])
        manifest = f"crates/{crate}/Cargo.toml"
        allowed = table.get(crate)
        if allowed is None:
            yield Finding("ARCHITECTURE.md", 1, f"the dependency table has no row for crate {crate}")
            continue
        for dependency in package["dependencies"]:
            name, kind = dependency["name"], dependency["kind"] or "normal"
            if crate in PURE_CRATES and kind == "normal" and name in {"tokio", "hyper", "socket2", "mio"}:
                yield Finding(manifest, 1, f"{crate} does no I/O and must not depend on {name}")
            if name not in ours or (kind == "dev" and name in DEV_CRATES):
                continue
            if short(name) not in allowed:
                listed = ", ".join(sorted(allowed)) or "no other crate"
                yield Finding(
                    manifest, 1, f"{crate} depends on {short(name)} ({kind}); the table in ARCHITECTURE.md allows {listed}"
                )


def cargo_metadata(root: Path) -> dict:
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    return json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)
