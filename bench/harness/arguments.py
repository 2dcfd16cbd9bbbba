"""Command-line options that benchmarks share."""

import argparse
from pathlib import Path

from bench.harness.links import LINKS, Link, is_root
from bench.harness.paths import RESULTS


class Arguments(argparse.ArgumentParser):
    """The options `--runs`, `--quick`, `--output`, and `--links` for the talk's links.

    `name` is the module's place in the package, `reads/pieces`, and by default that of its results.
    `quick` says what `--quick` does; it sets `--runs` to 1, and `--links` to `quick_links` if there
    are any.
    """

    def __init__(
        self,
        doc: str,
        name: str,
        *,
        output: str | None = None,
        runs: int = 3,
        quick: str = "run everything once",
        links: str = "",
        quick_links: str = "",
    ):
        output = name if output is None else output
        super().__init__(prog=f"python -m bench.{name.replace('/', '.')}", description=doc.partition("\n")[0])
        self.takes_links, self.quick_links = bool(links), quick_links
        self.add_argument("--runs", type=int, default=runs, help="runs of each contender (default %(default)s)")
        self.add_argument("--quick", action="store_true", help=quick)
        self.add_argument(
            "--output", type=Path, default=RESULTS / output, help=f"without suffix (default bench/results/{output})"
        )
        if links:
            default = "A" if "A" in links and not is_root() else links
            self.add_argument("--links", default=default, help="letters of the talk's links (default %(default)s)")

    def parse(self, needs_root: bool = True) -> argparse.Namespace:
        """Parses the options; `links` becomes a list. Ends the program if root is missing."""
        options = self.parse_args()
        if options.quick:
            options.runs = 1
        if self.takes_links:
            letters = self.quick_links if options.quick and self.quick_links else options.links
            if unknown := set(letters) - set(LINKS):
                self.error(f"unknown links {', '.join(sorted(unknown))}; they are {', '.join(LINKS)}")
            options.links: list[Link] = [LINKS[letter] for letter in letters]
            needs_root = any(not link.is_loopback for link in options.links)
        if needs_root and not is_root():
            self.error("emulated links need root (network namespaces)")
        return options
