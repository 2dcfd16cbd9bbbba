"""Limits: numbers of each crate, and of each other folder at the top, that may only fall. tools/limits.toml has today's."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rules.finding import Finding
from rules.rust import is_test_file, split_tests
from rules.structure import cycles, import_graph


@dataclass(frozen=True)
class Measured:
    """A number of a crate or folder, where it was found, and what it counts."""

    value: int
    path: str
    what: str


Numbers = dict[str, dict[str, Measured]]
Limits = dict[str, dict[str, int]]


def unit_of(path: Path) -> str:
    return path.parts[1] if path.parts[0] == "crates" else path.parts[0]


def measure(root: Path, files: list[Path], many_lines: int) -> Numbers:
    """The numbers of all units; `files` are relative to `root`. A file of more than `many_lines` is a long one."""
    sizes: dict[str, list[tuple[int, str]]] = defaultdict(list)
    folders: dict[str, Counter[str]] = defaultdict(Counter)
    for file in files:
        folders[unit_of(file)][str(file.parent)] += 1
        if file.suffix == ".rs" and not is_test_file(file):
            production, _ = split_tests((root / file).read_text(encoding="utf-8"))
            sizes[unit_of(file)].append((len(production), str(file)))
    numbers: Numbers = {}
    for unit, counts in folders.items():
        [(folder, count)] = counts.most_common(1)
        numbers[unit] = {"largest_folder": Measured(count, folder, "source files side by side: sort them into folders")}
    for unit, found in sizes.items():
        lines, largest = max(found)
        long = sorted(path for size, path in found if size > many_lines)
        what = f"files with more than {many_lines} lines of production code: {', '.join(long)}"
        numbers[unit]["largest_file"] = Measured(lines, largest, "lines of production code: divide the file by nouns")
        numbers[unit]["long_files"] = Measured(len(long), long[0] if long else largest, what)
    for source in sorted(root.glob("crates/*/src")):
        for component in cycles(import_graph(source))[:1]:
            names = ", ".join("::".join(module) or "lib" for module in component)
            path = source.relative_to(root)
            what = f"files use each other in a circle: {names}"
            numbers[unit_of(path)]["largest_circle"] = Measured(len(component), str(path), what)
    return numbers


def check_limits(numbers: Numbers, limits: Limits) -> Iterator[Finding]:
    """Finds numbers above their limit, and limits above their number."""
    for unit, measured in numbers.items():
        for name, it in measured.items():
            limit = limits.get(unit, {}).get(name, limits["default"][name])
            if it.value > limit:
                yield Finding(it.path, 1, f"{unit} may have at most {limit}, and has {it.value} {it.what}")
    after = lowered(numbers, limits)
    if fallen := [unit for unit in limits if limits[unit] != after.get(unit)]:
        message = f"numbers of {', '.join(fallen)} have fallen: run `tools/check --lower-limits`"
        yield Finding("tools/limits.toml", 1, message)


def lowered(numbers: Numbers, limits: Limits) -> Limits:
    """The limits, lowered to the numbers where those are lower; those of the default are left out."""
    result = {"default": limits["default"]}
    for unit, names in limits.items():
        values = {name: numbers[unit][name].value for name in names if name in numbers.get(unit, {})}
        kept = {name: min(names[name], value) for name, value in values.items() if value > limits["default"][name]}
        if unit != "default" and kept:
            result[unit] = kept
    return result


def rewritten(text: str, limits: Limits) -> str:
    """`text`, tools/limits.toml, with other limits and its own first comment."""
    tables = ["".join([f"[{unit}]\n", *(f"{name} = {limit}\n" for name, limit in names.items())]) for unit, names in limits.items()]
    return text[: text.index("[default]")] + "\n".join(tables)
