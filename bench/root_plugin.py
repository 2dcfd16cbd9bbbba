"""ROOT over hither's plug-in beside ROOT's own clients.

- The talk's query by TTree::Draw over the talk's links, from TFile::Open to the histogram.
- RDataFrame over 100 files at 100 ms, with and without implicit threads.

Each contender runs as a first process, without a store. Needs root, ROOT, g++ and libhither
(`make release`). Results: `results/root-plugin.md`; `--add` keeps the runs that are there, so that
parts can be measured one after the other.

    python -m bench.root_plugin [--links ABCDEFG] [--runs N] [--only draw,frame] [--add]
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from subprocess import run

from bench.generators import talkfile
from bench.harness import interleaved, servers, tables
from bench.harness.arguments import Arguments
from bench.harness.contenders import Query, Run, peer, root_draw, serving
from bench.harness.interleaved import Entrant, Rounds
from bench.harness.links import Link, Wan, ends_of
from bench.harness.paths import HITHER, temporary_folder

CACHE = 10_000_000
FILES = 100
THREADS = 8
FRAME_LINK = Link("M", 100, None, "many files")
PLUGIN, NATIVE = "plug-in", "native"


@contextmanager
def plugin_home() -> Iterator[dict[str, str]]:
    """Builds the plug-in for a user of its own; yields the variables of that user's processes."""
    package = find_spec("ROOT")
    if package is None:
        sys.exit("root_plugin: ROOT is not installed (tools/setup-peers installs it)")
    with temporary_folder() as home:
        variables = {"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "XDG_CONFIG_HOME": str(home / "config")}
        (home / "config/hither").mkdir(parents=True)
        (home / "config/hither/config.toml").write_text('store = ""\n')
        script = Path(package.submodule_search_locations[0]) / "bin/root-config"
        command = [HITHER, "root-setup", "--root-config", script]
        run(command, env={**os.environ, **variables}, check=True, stdout=sys.stderr)
        yield variables


def with_variables(variables: dict[str, str], command: list | None) -> list | None:
    return command and ["env", *(f"{name}={value}" for name, value in variables.items()), *command]


def draw(rounds: Rounds, links: list[Link], plugin: dict[str, str]) -> None:
    query = Query.of_the_talk()
    for link in links:
        with ends_of(link) as where, serving(where, query.file) as at:
            entrants = []
            for protocol, scheme in (("root", "root://"), ("http", "http")):
                command = root_draw(protocol, CACHE)(at, query)
                entrants.append(Entrant(f"{PLUGIN} {scheme}", with_variables(plugin, command), query.disagreement))
                entrants.append(Entrant(f"{NATIVE} {scheme}", command, query.disagreement))
            rounds.play(where, title(link), "draw", entrants)


def title(link: Link) -> str:
    return f"{link.letter}: {link.label}"


def frame(rounds: Rounds, plugin: dict[str, str]) -> None:
    small = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    facts = talkfile.ensure(small, events=3000)
    check = partial(Run.disagreement, values=FILES * facts["selected"], mean=facts["mean"])
    with temporary_folder() as folder, Wan(FRAME_LINK) as where:
        for number in range(FILES):
            (folder / f"{number}.root").symlink_to(small)
        with servers.xrootd(where, folder) as port, servers.nginx(where, folder) as web:
            host = where.server_host
            urls = {"root://": f"root://{host}:{port}//{{}}.root", "http": f"http://{host}:{web}/{{}}.root"}
            entrants = []
            for threads, name in ((THREADS, f", {THREADS} threads"), (0, "")):
                commands = {
                    scheme: peer("draw.root_frame", "--files", FILES, "--threads", threads, url)
                    for scheme, url in urls.items()
                }
                entrants += [
                    *(
                        Entrant(f"{PLUGIN} {scheme}{name}", with_variables(plugin, command), check)
                        for scheme, command in commands.items()
                    ),
                    Entrant(f"{NATIVE} root://{name}", commands["root://"], check),
                ]
            rounds.play(where, title(FRAME_LINK), "frame", entrants)


def earlier_runs(output: Path) -> list[Run]:
    """The runs of OUTPUT.csv."""
    kinds = {field.name: str(field.type) for field in fields(Run)}
    convert = {"int": int, "float": float, "bool": lambda text: text == "True"}

    def value(name: str, text: str) -> object:
        kind = kinds[name].removesuffix(" | None")
        return convert.get(kind, str)(text) if text else ("" if kind == "str" and "None" not in kinds[name] else None)

    return [Run(**{name: value(name, text) for name, text in row.items()}) for row in tables.read_csv(output)]


def targets(rounds: Rounds) -> Iterator[str]:
    """The lines about times and ratios."""
    for link in dict.fromkeys(r.link for r in rounds.runs if r.server == "draw"):
        for scheme in ("root://", "http"):
            ratio = rounds.ratio(link, "draw", f"{PLUGIN} {scheme}", f"{NATIVE} {scheme}")
            yield interleaved.ratio_line(f"{link}, draw over {scheme}, plug-in / native", ratio, 1)
        if link.startswith("G") and (seconds := rounds.median(link, "draw", f"{PLUGIN} http")):
            yield interleaved.target_line(f"{link}, draw over http: {seconds:.2f} s, at most 2.3 s", seconds <= 2.3)
    for link in dict.fromkeys(r.link for r in rounds.runs if r.server == "frame"):
        for name in ("", f", {THREADS} threads"):
            ratio = rounds.ratio(link, "frame", f"{PLUGIN} root://{name}", f"{NATIVE} root://{name}")
            yield interleaved.ratio_line(f"{link}, {FILES} files over root://{name}, plug-in / native", ratio, 0.5)


def main() -> int:
    parser = Arguments(__doc__, "root_plugin", output="root-plugin", links="ABCDEFG", quick_links="AG")
    parser.add_argument("--only", default="draw,frame", help="parts, comma separated")
    parser.add_argument("--add", action="store_true", help="keep the runs of an earlier call")
    options = parser.parse()
    rounds = Rounds(options.runs, timeout=200)
    if options.add:
        rounds.runs += earlier_runs(options.output)
    with interleaved.until_interrupted(), plugin_home() as plugin:
        if "draw" in options.only:
            draw(rounds, options.links, plugin)
        if "frame" in options.only:
            frame(rounds, plugin)
    notes = [
        "`draw` is the talk's query, `rawtr` where `E33>5`, by TTree::Draw with a TTreeCache of 10 MB: 7 MB of 275 MB, from",
        f"TFile::Open to the histogram. `frame` is RDataFrame over {FILES} files of 3 MB, 0.07 MB of each: number and mean of the same",
        "values. http is nginx, root:// is xrootd. Equal answers are checked. `native` is ROOT's own client.",
    ]
    return interleaved.write(rounds, options.output, "The plug-in for ROOT", notes, targets(rounds))


if __name__ == "__main__":
    sys.exit(main())
