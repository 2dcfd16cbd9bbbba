"""The oldest compiler that is supported: the pinned one, as no older one is tested."""

import tomllib
from collections.abc import Iterator

from rules.finding import Finding


def check_compiler(manifest: str, toolchain: str) -> Iterator[Finding]:
    """Compares `rust-version` of Cargo.toml with the channel of rust-toolchain.toml; 1.95 and 1.95.0 are one version."""
    oldest = tomllib.loads(manifest)["workspace"]["package"]["rust-version"]
    pinned = tomllib.loads(toolchain)["toolchain"]["channel"]
    if pinned not in {oldest, f"{oldest}.0"}:
        message = f"rust-version is {oldest}, and rust-toolchain.toml pins {pinned}: they have to be equal"
        yield Finding("Cargo.toml", 1, message)
