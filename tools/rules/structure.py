"""Structure: how files of a crate use each other, and that no two tests have one name.

The import graph has a node for each file of production code and an edge for each path that one file takes into another:
`use crate::a::B`, `super::B`, `a::b()` of a child. A re-export is followed to the file that defines the name, so a facade
(`pub use child::Name`) ties nothing together. A strongly connected component of that graph is a knot: none of its files
can be understood, tested or moved without the others.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rules.finding import Finding
from rules.rust import split_tests, without_comment

Segments = tuple[str, ...]

USE = re.compile(r"^[ \t]*(?P<visibility>pub(?:\([^)]*\))?\s+)?use\s+(?P<tree>[^;]+);", re.MULTILINE)
VISIBILITY = re.compile(r"(?<=\bpub)\(in [^)]*\)")
PATH = re.compile(r"(?<![\w:])((?:crate|super|self)(?:::\w+)+|[a-z_]\w*(?:::\w+)+)")


@dataclass
class Module:
    """One file of a crate: what it re-exports, and the paths that it takes into other files."""

    file: Path
    reexports: dict[str, Segments] = field(default_factory=dict)
    globs: list[Segments] = field(default_factory=list)
    paths: set[Segments] = field(default_factory=set)


def use_tree(tree: str) -> Iterator[tuple[Segments, str]]:
    """The paths of a `use`, each with the name that it brings."""
    tree = tree.strip()
    opening = tree.find("{")
    if opening < 0:
        path, _, alias = tree.partition(" as ")
        segments = tuple(part.strip() for part in path.split("::"))
        yield segments, alias.strip() or segments[-1]
        return
    prefix = tuple(part.strip() for part in tree[:opening].split("::") if part.strip())
    depth, start, inner = 0, 0, tree[opening + 1 : tree.rindex("}")]
    for index, letter in enumerate(inner + ","):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if part := inner[start:index].strip():
                for segments, name in use_tree(part):
                    if segments == ("self",):
                        yield prefix, prefix[-1] if name == "self" else name
                    else:
                        yield prefix + segments, name
            start = index + 1


def modules_of(source: Path) -> dict[Segments, Module]:
    """The files of a crate by module path, those of tests left out."""
    found: dict[Segments, Module] = {}
    for file in sorted(source.rglob("*.rs")):
        relative = file.relative_to(source).with_suffix("")
        if relative.parts[0] == "bin" or "tests" in relative.parts or relative.parts in (("main",),):
            continue
        found[() if relative.parts == ("lib",) else relative.parts] = Module(file)
    for here, module in found.items():
        production, _ = split_tests(module.file.read_text(encoding="utf-8"))
        # A visibility names a module, and uses nothing of it.
        text = VISIBILITY.sub("", "\n".join(without_comment(line) for _, line in production))
        for statement in USE.finditer(text):
            for segments, name in use_tree(statement["tree"]):
                target = absolute(segments, here, found)
                if target is None:
                    continue
                if statement["visibility"]:
                    if name == "*":
                        module.globs.append(target[:-1])
                    else:
                        module.reexports[name] = target
                else:
                    module.paths.add(target)
        for path in PATH.finditer(USE.sub("", text)):
            if (target := absolute(tuple(path[1].split("::")), here, found)) is not None:
                module.paths.add(target)
    return found


def absolute(segments: Segments, here: Segments, modules: dict[Segments, Module]) -> Segments | None:
    """The path from the root of the crate; none if it leads out of the crate."""
    match segments[0]:
        case "crate":
            return segments[1:]
        case "self":
            return here + segments[1:]
        case "super":
            up = next((n for n, part in enumerate(segments) if part != "super"), len(segments))
            return here[: max(len(here) - up, 0)] + segments[up:]
        case first if (*here, first) in modules:
            return here + segments
    return None


def defining(path: Segments, modules: dict[Segments, Module], depth: int = 0) -> Segments | None:
    """The module whose file defines what `path` names."""
    for length in range(len(path), -1, -1):
        if (module := modules.get(path[:length])) is None:
            continue
        rest = path[length:]
        if rest and depth < 8:
            if (target := module.reexports.get(rest[0])) is not None:
                return defining(target + rest[1:], modules, depth + 1)
        return path[:length]
    return None


def import_graph(source: Path) -> dict[Segments, set[Segments]]:
    modules = modules_of(source)
    graph: dict[Segments, set[Segments]] = {}
    for here, module in modules.items():
        targets = {defining(path, modules) for path in module.paths}
        graph[here] = {target for target in targets if target is not None and target != here}
    return graph


def cycles(graph: dict[Segments, set[Segments]]) -> list[list[Segments]]:
    """Strongly connected components of more than one file, the largest first (Tarjan's algorithm, without recursion)."""
    order: dict[Segments, int] = {}
    low: dict[Segments, int] = {}
    stack: list[Segments] = []
    found: list[list[Segments]] = []
    for root in graph:
        if root in order:
            continue
        work = [(root, iter(sorted(graph[root])))]
        order[root] = low[root] = len(order)
        stack.append(root)
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    component = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    if len(component) > 1:
                        found.append(sorted(component))
            elif target not in order:
                order[target] = low[target] = len(order)
                stack.append(target)
                work.append((target, iter(sorted(graph[target]))))
            elif target in stack:
                low[node] = min(low[node], order[target])
    return sorted(found, key=len, reverse=True)


def check_test_names(files: list[Path]) -> Iterator[Finding]:
    """`files` are relative to the repository. pytest imports a test module by its last name alone."""
    seen: dict[str, Path] = {}
    for file in files:
        if file.suffix == ".py" and file.name.startswith("test_") and seen.setdefault(file.name, file) != file:
            yield Finding(str(file), 1, f"{seen[file.name]} has the same last name: pytest would not collect both")
