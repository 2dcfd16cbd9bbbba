"""Sources of ``get``, ``put``, ``copy`` and ``mv`` with their targets, by the rules of fsspec."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import cache
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize
from uuid import uuid4

from fsspec.implementations.local import LocalFileSystem, trailing_sep
from fsspec.utils import other_paths, stringify_path

from hither._urls import is_encoded, split_query, without_prefix
from hither.exceptions import InvalidError
from hither.fsspec._names import canonical, child, decoded, encoded, is_pattern, plain, shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Pairs = list[tuple[str, str]]


_HOST = 2
"""Index of the host among the parts of a URL that slashes divide."""


@dataclass(frozen=True)
class CopyEnd:
    """The filesystem at one end of a copy."""

    expand: Callable[..., Awaitable[list[str]]]
    """Return the paths that names and patterns stand for."""
    is_directory: Callable[[str], Awaitable[bool]]
    is_one_name: Callable[[str, str, str], Awaitable[bool]]
    """Return whether two names coincide in a directory, or in its nearest existing parent."""


async def pairs_of_copy(
    sources: Any,  # noqa: ANN401
    source_end: CopyEnd,
    target: Any,  # noqa: ANN401
    target_end: CopyEnd,
    *,
    recursive: bool,
    maxdepth: int | None,
) -> Pairs:
    """Return each source with its target.

    Raises
    ------
    ValueError
        Two sources have one target.
    OSError
        A directory cannot be listed, or nothing is found.

    """
    if isinstance(sources, list) and isinstance(target, list):
        pairs = list(zip(sources, target, strict=True))
        _refuse_shared_targets(pairs)
        await refuse_folded(pairs, target_end)
        return pairs
    single = isinstance(sources, (str, os.PathLike))
    given = [str(stringify_path(each)) for each in ([sources] if single else sources)]
    found = await source_end.expand(given, recursive=recursive, maxdepth=maxdepth)
    if single and (not recursive or maxdepth is not None):
        # Without recursion, fsspec skips directories.
        found = [path for path in found if not trailing_sep(path) and not await source_end.is_directory(path)]
        if not found:
            return []
    inside = False
    if single and isinstance(target, str):
        if is_pattern(given[0]) and without_prefix(given[0]).rstrip("/") not in found:
            inside = len(found) == 1
        else:
            ends = [trailing_sep(split_query(path)[0]) for path in (given[0], target)]
            inside = not ends[0] and (ends[1] or await target_end.is_directory(target))
    if isinstance(target, list) and len(target) != len(found):
        message = f"there are {len(target)} targets for {len(found)} sources"
        raise InvalidError(message)
    names = [decoded(path) for path in found]
    query = ""
    if isinstance(target, str):
        target, query = split_query(target)
        names = [encoded(name) for name in names] if is_encoded(target) else names
    targets = other_paths(names, target, exists=inside, flatten=not single)
    pairs = [(source, name + query) for source, name in zip(found, targets, strict=True)]
    _refuse_shared_targets(pairs)
    await refuse_folded(pairs, target_end)
    return pairs


def pairs_of_move(sources: list[str], target: str | list[str], *, inside: bool) -> Pairs:
    """Return each source with its new name: in the directory ``target``, if it is ``inside``.

    Raises
    ------
    ValueError
        Two sources have one target, or one would be moved onto or into itself.

    """
    if isinstance(target, str):
        names = [split_query(source)[0].rsplit("/", 1)[-1] for source in sources]
        target = [child(target, name) if inside else target for name in names]
    pairs = list(zip(sources, target, strict=True))
    _refuse_shared_targets(pairs)
    for pair in pairs:
        refuse_itself(*pair)
    return pairs


def refuse_outside(pairs: Pairs, folder: str) -> None:
    """Raise an error if a local target is not in ``folder``, or behind a link in it."""
    named = os.path.abspath(folder)  # noqa: PTH100
    inside = os.path.realpath(named)
    resolved = cache(os.path.realpath)
    for source, target in pairs:
        path = os.path.abspath(target)  # noqa: PTH100
        directory = str(resolved(os.path.dirname(path)))  # noqa: PTH120
        if path != named and os.path.commonpath([inside, directory]) != inside:
            place = os.path.join(directory, os.path.basename(path))  # noqa: PTH118, PTH119
            message = f"{shown(source)} would be written to {place}, which is not in {folder}"
            raise InvalidError(message)


def refuse_itself(source: str, target: str) -> None:
    """Raise an error if a file or directory would be moved or copied onto or into itself."""
    if f"{canonical(target)}/".startswith(f"{canonical(source)}/"):
        message = f"{shown(source)} cannot be moved or copied onto or into itself ({shown(target)})"
        raise InvalidError(message)


def _refuse_shared_targets(pairs: Pairs) -> None:
    """Raise an error if two sources have one target, or one source is the target of another."""
    source_of: dict[str, str] = {}
    sources = {plain(canonical(str(source))): source for source, _ in pairs}
    for source, target in pairs:
        name = plain(canonical(str(target)))
        other = source_of.setdefault(name, source)
        if other is not source:
            message = f"{shown(other)} and {shown(source)} would get one name, {shown(target)}"
            raise InvalidError(message)
        other = sources.get(name, source)
        if other is not source:
            message = f"{shown(source)} would replace {shown(other)}, which is to be moved or copied, too"
            raise InvalidError(message)


async def refuse_folded(pairs: Pairs, target_end: CopyEnd) -> None:
    """Raise an error if names that differ in case, or form of Unicode, coincide at the target."""
    met: dict[str, tuple[str, str]] = {}
    for source, given in pairs:
        target = canonical(str(given))
        name = plain(target)
        folded = normalize("NFC", name.casefold())
        other, its_name = met.setdefault(folded, (source, name))
        if its_name == name:
            continue
        names = zip(its_name.split("/"), name.split("/"), strict=True)
        depth, one, two = next((depth, *each) for depth, each in enumerate(names) if each[0] != each[1])
        if is_encoded(target) and depth <= _HOST:
            continue
        folder, query = split_query(target)
        folder = "/".join(folder.split("/")[:depth]) + query
        if await target_end.is_one_name(folder, *_alike(one, two)):
            message = (
                f"{shown(other)} and {shown(source)} would get one name: the destination makes no difference "
                f"between {one!r} and {two!r}"
            )
            raise InvalidError(message)


def _alike(one: str, two: str) -> tuple[str, str]:
    """Return two short names that differ in the same way as two names."""
    base = f"hither-{uuid4().hex}-"
    if normalize("NFC", one) == normalize("NFC", two):
        return base + "\u00e9", base + "e\u0301"
    return (base + "a", base + "A") if one.casefold() == two.casefold() else (base + "\u00e9", base + "E\u0301")


class _LocalTree(LocalFileSystem):  # type: ignore[misc]
    """The local filesystem; a directory that cannot be listed is an error."""

    def walk(self, path: str, maxdepth: int | None = None, topdown: bool = True, **options: Any) -> Any:  # noqa: ANN401, FBT001, FBT002
        options["on_error"] = "raise"
        return super().walk(path, maxdepth, topdown, **options)


def _expand_local(paths: list[str], *, recursive: bool, maxdepth: int | None) -> list[str]:
    """Return the local paths that names and patterns stand for; existing paths are not patterns."""
    tree = _LocalTree(skip_instance_cache=True)
    expanded: set[str] = set()
    for each in paths:
        path = tree._strip_protocol(each)  # noqa: SLF001
        literal = not has_magic(path) or os.path.lexists(path)
        for found in tree.expand_path([path], recursive, maxdepth, assume_literal=literal):
            if recursive and found != path and os.path.islink(found) and os.path.isdir(found):  # noqa: PTH112, PTH114
                message = f"{found} is a link to a directory, which is not followed; upload its target by name"
                raise InvalidError(message)
            expanded.add(found)
    return sorted(expanded)


async def _expand(paths: list[str], **how: Any) -> list[str]:  # noqa: ANN401
    return await asyncio.to_thread(_expand_local, paths, **how)


async def _is_directory(path: str) -> bool:
    return await asyncio.to_thread(os.path.isdir, path)


def _is_one_local_name(folder: str, one: str, two: str) -> bool:
    place = Path(folder or "/").absolute()
    while not place.exists():
        place = place.parent
    probe = place / one
    probe.touch()
    try:
        return (place / two).exists()
    finally:
        probe.unlink()


async def _is_one_name(folder: str, one: str, two: str) -> bool:
    return await asyncio.to_thread(_is_one_local_name, folder, one, two)


LOCAL_END = CopyEnd(_expand, _is_directory, _is_one_name)
"""This machine."""
