"""Filesystem of fsspec over a client."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import hashlib
import os
import tempfile
import uuid
from datetime import datetime, timezone
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsspec.asyn import AsyncFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.implementations.local import make_path_posix
from fsspec.utils import isfilelike, stringify_path

from hither._client import Client, check_without_secrets
from hither._urls import PREFIXES, SCHEMES, below, is_encoded, split_query
from hither.exceptions import (
    AlreadyExistsError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
)
from hither.fsspec._calls import mirror_sync_methods, run_all, sync
from hither.fsspec._files import CompressedFile, FsspecFile, ObservedStat, UploadFile, UploadTransaction, has_suffix
from hither.fsspec._names import child, decoded, encoded, glob_matcher, has_query, is_pattern, normal, shown
from hither.fsspec._pairs import (
    LOCAL_END,
    CopyEnd,
    pairs_of_copy,
    pairs_of_move,
    refuse_folded,
    refuse_itself,
    refuse_outside,
)
from hither.fsspec._parquet import PARQUET_SUFFIXES, ParquetFile
from hither.fsspec._reads import Reads
from hither.fsspec._versions import KnownVersions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hither._core import Entry
    from hither._file import RemoteFile

__all__ = ["HitherFileSystem"]

_FSSPEC_OPTIONS = ("asynchronous", "loop", "batch_size", "use_listings_cache", "listings_expiry_time", "max_paths")


class HitherFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """Files of HTTP, WebDAV, XRootD and S3 servers as an fsspec filesystem.

    It can be pickled, and opens its own connections where it is unpickled. As with all asynchronous
    filesystems of fsspec, a forked child must make a new one; files that were opened before the
    fork keep working.

    Parameters
    ----------
    client
        Client to use; :func:`hither.default_client` by default.
    auto_mkdir
        Make missing directories when a file is written.
    options
        Options of a new client, as for :class:`hither.Client`, and options of fsspec.

    Raises
    ------
    TypeError
        An option is neither the client's nor fsspec's.
    ValueError
        An option is invalid, or a client and options for another client are given.

    Examples
    --------
    >>> from hither.fsspec import HitherFileSystem
    >>> fs = HitherFileSystem(anonymous=True)
    >>> fs.glob("http://127.0.0.1:8080/runs/*.root")
    ['http://127.0.0.1:8080/runs/run1.root', 'http://127.0.0.1:8080/runs/run2.root']
    >>> fs.cat_ranges(["http://127.0.0.1:8080/talk.root"] * 2, [0, 100], [4, 100])
    [b'root', b'']

    """

    mirror_sync_methods = False  # by fsspec, whose methods leave operations running when they are interrupted
    transaction_type = UploadTransaction
    protocol = tuple(f"{prefix}{scheme}" for prefix in (*PREFIXES, "") for scheme in SCHEMES)

    def __init__(self, *, client: Client | None = None, auto_mkdir: bool = True, **options: Any) -> None:  # noqa: ANN401
        """Check the options; nothing is connected yet."""
        ours = {name: options.pop(name) for name in list(options) if name not in _FSSPEC_OPTIONS}
        super().__init__(**options)
        if client is not None and ours:
            message = f"{', '.join(ours)} cannot be combined with client, which has its own options"
            raise ValueError(message)
        self._auto_mkdir = auto_mkdir
        self._versions = KnownVersions(Client(**ours) if ours else client)
        self._reads = Reads(self._versions)
        self._columns_read: dict[int, set[int]] = {}
        self._mkdir_lock: asyncio.Lock | None = None
        mirror_sync_methods(self)

    @property
    def client(self) -> Client:
        """Client that the files are read with."""
        return self._versions.client

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the options, none of which may be a secret."""
        check_without_secrets(self.storage_options)
        return tuple(super().__reduce__())

    # --- names ------------------------------------------------------------------------------------

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:  # noqa: ANN401
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return normal(str(stringify_path(path)))

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL with the scheme that fsspec maps to this filesystem."""
        return f"hither{self._strip_protocol(name)}"

    @classmethod
    def _parent(cls, path: str) -> str:
        path, query = split_query(cls._strip_protocol(path))
        scheme, _, rest = path.rstrip("/").partition("://")
        return normal(f"{scheme}://{rest.rpartition('/')[0] or rest}/{query}")

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:  # noqa: ANN401
        path = self._strip_protocol(path)
        return _info_of(path, await self._versions.stat(path))

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget what is cached of a path and everything below it; of all paths by default."""
        if path is not None:
            self._versions.forget(self._strip_protocol(path))
        else:
            self._versions.forget_all()

    async def _isdir(self, path: str) -> bool:
        try:
            return bool((await self._info(path))["type"] == "directory")
        except NotFoundError:
            return False

    async def _isfile(self, path: str) -> bool:
        try:
            return bool((await self._info(path))["type"] == "file")
        except NotFoundError:
            return False

    async def _walk(self, path: str, maxdepth: int | None = None, on_error: Any = None, **options: Any) -> Any:  # noqa: ANN401
        # The walks of subdirectories are given the options only.
        on_error = on_error or options.pop("on_error_below", _raise_unless_missing)
        options["on_error_below"] = on_error
        async for found in super()._walk(path, maxdepth=maxdepth, on_error=on_error, **options):
            yield found

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:  # noqa: ANN401, FBT001, FBT002
        path = self._strip_protocol(path)
        try:
            entries = await self.client.list_async(path)
        except (InvalidError, NotFoundError, UnsupportedError):
            # A file is listed as itself.
            found = await self._info(path)
            if found["type"] == "directory":
                raise
            return [found] if detail else [path]
        names = (split_query(entry.url)[0].rstrip("/").rsplit("/", 1)[-1] for entry in entries)
        found_by_name = {child(path, name): entry for name, entry in zip(names, entries, strict=True)}
        await self._versions.drop_others(found_by_name)
        listed = [_info_of(name, entry) for name, entry in found_by_name.items()]
        return listed if detail else [each["name"] for each in listed]

    async def _du(self, path: str, total: bool = True, maxdepth: int | None = None, **options: Any) -> Any:  # noqa: ANN401, FBT001, FBT002
        """Return the sum of the sizes of all files below ``path``, or the size of each by its path.

        Raises
        ------
        NotImplementedError
            The server does not state the sizes of all files, which are unknown and not 0.

        """
        sizes = await super()._du(path, total=False, maxdepth=maxdepth, **options)
        if not total:
            return sizes
        unknown = [name for name, size in sizes.items() if size is None]
        if unknown:
            known = sum(size for size in sizes.values() if size is not None)
            message = (
                f"{shown(path)}: the server does not tell the sizes of {len(unknown)} of {len(sizes)} files, as of "
                f"{shown(unknown[0])}; the others have {known} bytes: du(..., total=False) returns the size of each"
            )
            raise UnsupportedError(message)
        return sum(sizes.values())

    async def _glob(self, path: str, maxdepth: int | None = None, **options: Any) -> Any:  # noqa: ANN401
        literal = self._strip_protocol(path)
        if has_query(literal) and not {"*", "["} & set(literal):
            detail = options.get("detail", False)
            if not await self._exists(literal):
                return {} if detail else []
            return {literal: await self._info(literal)} if detail else [literal]
        if not is_encoded(literal) or not has_magic(literal):
            return await super()._glob(path, maxdepth=maxdepth, **options)
        # fsspec compares encoded names (`%20`): it finds all of that depth, to be matched here.
        detail = options.pop("detail", False)
        is_directory = path.endswith("/")
        names = literal.split("/")
        first = next(index for index, name in enumerate(names) if has_magic(name))
        names[first:] = [name if name == "**" else "*" for name in names[first:]]
        all_names = "/".join(names) + "/" * is_directory
        found = await super()._glob(all_names, maxdepth=maxdepth, detail=True, **options)
        matcher = glob_matcher(literal + "/" * is_directory)
        with_slash = is_directory or literal.endswith("/**")
        matching = {
            name: info
            for name, info in found.items()
            if matcher.match(decoded(name) + "/" * (with_slash and info["type"] == "directory"))
        }
        return matching if detail else list(matching)

    async def _exists_literally_async(self, path: str) -> bool:
        """Return whether a path with characters of patterns is the name of a file or directory."""
        if "?" in path and not has_query(path) and not path.startswith("s3://"):
            # The request would name only the part before it. Listings have such names encoded.
            return False
        try:
            await self._info(path)
        except (NotFoundError, InvalidError, UnsupportedError):
            return False
        return True

    def _exists_literally(self, path: str) -> bool:
        return bool(sync(self.loop, self._exists_literally_async, path))

    async def _expand_path(
        self,
        path: Any,  # noqa: ANN401
        recursive: bool = False,  # noqa: FBT001, FBT002
        maxdepth: int | None = None,
        assume_literal: bool = False,  # noqa: FBT001, FBT002
    ) -> list[str]:
        """Return the paths that a path, pattern or list stands for.

        A path that exists is that path. Only another one is a pattern.
        """
        given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        expanded: set[str] = set()
        for each in dict.fromkeys(self._strip_protocol(given)):
            literal = assume_literal or not has_magic(each) or await self._exists_literally_async(each)
            try:
                expanded.update(await super()._expand_path([each], recursive, maxdepth, assume_literal=literal))
            except FileNotFoundError as error:
                message = f"{shown(each)} does not exist and matches nothing"
                raise NotFoundError(message) from error
        return sorted(expanded)

    # --- reading ----------------------------------------------------------------------------------

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:  # noqa: ANN401
        path = self._strip_protocol(path)
        if start is None and end is None:
            return await self._reads.whole(path)
        (found,) = await self._reads.ranges(path, [(start, end)])
        return found

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: Sequence[int | None] | int | None,
        ends: Sequence[int | None] | int | None,
        max_gap: int | None = None,  # noqa: ARG002 (the client decides which gaps to join)
        batch_size: int | None = None,  # noqa: ARG002 (the client limits its connections)
        on_error: str = "return",
        **_: Any,  # noqa: ANN401
    ) -> list[Any]:
        if not isinstance(paths, list):
            message = f"paths is a {type(paths).__name__}, expected a list"
            raise TypeError(message)
        indices: dict[str, list[int]] = {}
        for at, path in enumerate(paths):
            indices.setdefault(self._strip_protocol(path), []).append(at)
        limits = list(zip(_one_per_range(starts, len(paths)), _one_per_range(ends, len(paths)), strict=True))
        reads = (self._reads.ranges(path, [limits[at] for at in of_path]) for path, of_path in indices.items())
        found: list[Any] = [None] * len(paths)
        for of_path, read in zip(indices.values(), await asyncio.gather(*reads, return_exceptions=True), strict=True):
            if isinstance(read, BaseException) and (on_error == "raise" or not isinstance(read, Exception)):
                raise read
            for nth, at in enumerate(of_path):
                found[at] = read if isinstance(read, Exception) else read[nth]
        return found

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,  # noqa: ARG002
        autocommit: bool = True,  # noqa: FBT001, FBT002
        cache_options: Mapping[str, Any] | None = None,  # noqa: ARG002
        **_: Any,  # noqa: ANN401
    ) -> RemoteFile | UploadFile:
        path = self._strip_protocol(path)
        if mode == "rb":
            known = self._versions.recent(path)
            if has_suffix(path, PARQUET_SUFFIXES):
                return ParquetFile(self, path, known, self._versions.open_file(path), self._columns_read)
            return FsspecFile(self, path, known)
        if mode not in ("wb", "xb"):
            message = f"mode {mode!r} is not supported, expected 'rb', or 'wb' or 'xb' to write a whole file"
            raise UnsupportedError(message)
        if mode == "xb" and self.exists(path):
            message = f"{shown(path)} already exists"
            raise AlreadyExistsError(message)
        return UploadFile(self, path, mode, autocommit=autocommit)

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: Mapping[str, Any] | None = None,
        compression: str | None = None,
        **options: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Open a file; see ``fsspec.spec.AbstractFileSystem.open``.

        Raises
        ------
        NotImplementedError
            The mode appends or updates.
        OSError
            The file does not exist, or exists and is opened with ``"xb"``.

        """
        compression = get_compression(path, compression)
        if compression is None or "r" in mode or "b" not in mode:
            return super().open(path, mode, block_size, cache_options, compression, **options)
        upload = super().open(path, mode, block_size, cache_options, **options)
        return CompressedFile(upload, compr[compression])

    async def _get(
        self,
        rpath: Any,  # noqa: ANN401
        lpath: Any,  # noqa: ANN401
        recursive: bool = False,  # noqa: FBT001, FBT002
        callback: Any = DEFAULT_CALLBACK,  # noqa: ANN401
        maxdepth: int | None = None,
        batch_size: int | None = None,
        **options: Any,  # noqa: ANN401
    ) -> list[Any]:
        lpath = make_path_posix(lpath) if not isinstance(lpath, list) else lpath
        pairs = await pairs_of_copy(rpath, self._end, lpath, LOCAL_END, recursive=recursive, maxdepth=maxdepth)
        if isinstance(lpath, str):
            refuse_outside(pairs, lpath)
        for _, target in pairs:
            await asyncio.to_thread(os.makedirs, os.path.dirname(target) or ".", exist_ok=True)  # noqa: PTH120
        return await self._copy_pairs(self._get_file, pairs, callback, batch_size, options)

    async def _put(
        self,
        lpath: Any,  # noqa: ANN401
        rpath: Any,  # noqa: ANN401
        recursive: bool = False,  # noqa: FBT001, FBT002
        callback: Any = DEFAULT_CALLBACK,  # noqa: ANN401
        batch_size: int | None = None,
        maxdepth: int | None = None,
        **options: Any,  # noqa: ANN401
    ) -> list[Any]:
        if not isinstance(lpath, list):
            lpath = make_path_posix(lpath) if isinstance(lpath, (str, os.PathLike)) else list(lpath)
        pairs = await pairs_of_copy(lpath, LOCAL_END, rpath, self._end, recursive=recursive, maxdepth=maxdepth)
        files = []
        for source, target in pairs:
            if await LOCAL_END.is_directory(source):
                await self._makedirs(target, exist_ok=True)
            else:
                files.append((source, target))
        return await self._copy_pairs(self._put_file, files, callback, batch_size, options)

    @property
    def _end(self) -> CopyEnd:
        return CopyEnd(self._expand_path, self._isdir, self._is_one_name)

    async def _is_one_name(self, folder: str, one: str, two: str) -> bool:
        """Return whether a server takes two names for one; a file is made there for a moment."""
        probe = below(folder, encoded(one) if is_encoded(folder) else one)
        try:
            await self.client.put_async(probe, b"")
        except NotFoundError:
            if self._parent(folder) == folder:
                raise
            return await self._is_one_name(self._parent(folder), one, two)
        try:
            return bool(await self._exists(below(folder, encoded(two) if is_encoded(folder) else two)))
        finally:
            await self.client.remove_async(probe)

    async def _copy_pairs(
        self,
        copy_file: Callable[..., Any],
        pairs: list[tuple[str, str]],
        callback: Any,  # noqa: ANN401
        batch_size: int | None,
        options: dict[str, Any],
    ) -> list[Any]:
        callback.set_size(len(pairs))
        copy_file = callback.branch_coro(copy_file)
        calls = [functools.partial(copy_file, source, target, **options) for source, target in pairs]
        return await run_all(calls, batch_size or self.batch_size, callback)

    async def _copy(
        self,
        path1: Any,  # noqa: ANN401
        path2: Any,  # noqa: ANN401
        recursive: bool = False,  # noqa: FBT001, FBT002
        on_error: str | None = None,
        maxdepth: int | None = None,
        batch_size: int | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        if isinstance(path1, str) and isinstance(path2, str):
            refuse_itself(self._strip_protocol(path1), self._strip_protocol(path2))
        pairs = await pairs_of_copy(path1, self._end, path2, self._end, recursive=recursive, maxdepth=maxdepth)
        calls = [functools.partial(self._cp_file, source, target, **options) for source, target in pairs]
        found = await run_all(calls, batch_size or self.batch_size, return_exceptions=True)
        errors = {pair[0]: error for pair, error in zip(pairs, found, strict=True) if isinstance(error, Exception)}
        missing = {path: error for path, error in errors.items() if isinstance(error, FileNotFoundError)}
        for path, error in errors.items():
            if path not in missing:
                raise error
        if not missing or on_error == "ignore":
            return
        if len(pairs) == 1:
            raise next(iter(missing.values()))
        message = f"{len(missing)} of {len(pairs)} files were not copied, because they are missing: {shown(missing)}"
        raise NotFoundError(message) from next(iter(missing.values()))

    async def _get_file(self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, **_: Any) -> None:  # noqa: ANN401
        rpath = self._strip_protocol(rpath)
        info = None
        with contextlib.suppress(OSError):
            # A server may refuse this and send the file.
            info = await self._info(rpath)
        listed = info["size"] if info is not None else None
        if isfilelike(lpath):
            await self._reads.download(rpath, lpath, listed, callback)
            return
        if info is not None and info["type"] == "directory":
            await asyncio.to_thread(os.makedirs, lpath, exist_ok=True)
            return
        # The file gets its name when it is complete. Until then it has one of those that the core
        # gives to partial files, which are short for names of any length.
        partial = os.path.join(os.path.dirname(lpath), f".hither-{uuid.uuid4().hex[:16]}.part")  # noqa: PTH118, PTH120
        try:
            with open(partial, "xb") as target:  # noqa: ASYNC230, PTH123
                await self._reads.download(rpath, target, listed, callback)
            await asyncio.to_thread(os.replace, partial, lpath)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)  # noqa: PTH108
            raise

    # --- writing ----------------------------------------------------------------------------------

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:  # noqa: ANN401
        if not isinstance(value, (bytes, bytearray, memoryview)):
            # The client takes a text for the name of a local file.
            message = f"the content of {shown(path)} is a {type(value).__name__}, expected bytes"
            raise TypeError(message)
        await self._write(self._strip_protocol(path), value, overwrite=mode != "create")

    async def _pipe(self, path: Any, value: Any = None, batch_size: int | None = None, **options: Any) -> None:  # noqa: ANN401
        contents = {path: value} if isinstance(path, str) else path
        calls = [functools.partial(self._pipe_file, name, content, **options) for name, content in contents.items()]
        await run_all(calls, batch_size or self.batch_size)

    async def _put_file(
        self,
        lpath: str,
        rpath: str,
        mode: str = "overwrite",
        callback: Any = DEFAULT_CALLBACK,  # noqa: ANN401
        **_: Any,  # noqa: ANN401
    ) -> None:
        rpath = self._strip_protocol(rpath)
        local = Path(lpath)
        if await asyncio.to_thread(local.is_dir):
            await self._makedirs(rpath, exist_ok=True)
            return
        size = (await asyncio.to_thread(local.stat)).st_size
        callback.set_size(size)
        await self._write(rpath, local, overwrite=mode != "create")
        callback.absolute_update(size)

    async def _write(self, path: str, content: bytes | Path, *, overwrite: bool) -> None:
        await self._with_parent(path, lambda: self.client.put_async(path, content, overwrite=overwrite))
        self._versions.forget(path)

    async def _with_parent(self, path: str, make: Callable[[], Any]) -> None:
        """Call ``make``; if the parent of ``path`` is missing, make it and call again."""
        try:
            await make()
        except NotFoundError:
            if not self._auto_mkdir:
                raise
            await self._makedirs(self._parent(path), exist_ok=True)
            await make()

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:  # noqa: ANN401, FBT001, FBT002
        path = self._strip_protocol(path)
        try:
            await self.client.make_directory_async(path)
        except NotFoundError:
            if not create_parents or self._parent(path) == path:
                raise
            await self._makedirs(path)
        self._versions.forget(path)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        # Of several requests that make the same directory, servers accept one.
        self._mkdir_lock = self._mkdir_lock or asyncio.Lock()
        async with self._mkdir_lock:
            await self._make_all(self._strip_protocol(path), exist_ok=exist_ok)

    async def _make_all(self, path: str, *, exist_ok: bool) -> None:
        try:
            await self.client.make_directory_async(path)
        except AlreadyExistsError:
            if not exist_ok or not await self._isdir(path):
                raise
        except NotFoundError:
            if self._parent(path) == path:
                raise
            await self._make_all(self._parent(path), exist_ok=True)
            await self._make_all(path, exist_ok=exist_ok)
        self._versions.forget(path)

    async def _rm_file(self, path: str, **_: Any) -> None:  # noqa: ANN401
        path = self._strip_protocol(path)
        await self.client.remove_async(path)
        self._versions.forget(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory.

        Raises
        ------
        OSError
            ``path`` is not a directory (``NotADirectoryError``), or does not exist.
        ValueError
            The directory is not empty.

        """
        sync(self.loop, self._rmdir, path)

    async def _rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        # A removal does not state the kind of what it removes, and what is cached may be old.
        if (await self.client.stat_async(path)).kind != "directory":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), shown(path))
        await self._rm_file(path)

    async def _rm(
        self,
        path: str | list[str],
        recursive: bool = False,  # noqa: FBT001, FBT002
        batch_size: int | None = None,  # noqa: ARG002
        maxdepth: int | None = None,
        **_: Any,  # noqa: ANN401
    ) -> None:
        if maxdepth is not None and recursive:
            # The files would have to be listed, which follows links on some servers.
            msg = "rm(recursive=True) has no maxdepth"
            raise NotImplementedError(msg)
        # A server removes a directory and its contents in one request.
        for each in await self._expand_path(path):
            await self.client.remove_async(each, recursive=recursive)
            self._versions.forget(each)

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:  # noqa: ANN401
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        refuse_itself(path1, path2)
        if (await self._info(path1))["type"] == "directory":
            await self._makedirs(path2, exist_ok=True)
            return
        with tempfile.TemporaryDirectory(prefix="hither-") as folder:
            between = Path(folder) / "file"
            await self._get_file(path1, str(between))
            await self._write(path2, between, overwrite=True)

    async def _mv_file(self, path1: str, path2: str) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        refuse_itself(path1, path2)
        await self._with_parent(path2, lambda: self.client.rename_async(path1, path2, overwrite=True))
        self._versions.forget(path1)
        self._versions.forget(path2)

    def modified(self, path: str) -> datetime:
        """Return the time of the last change of a file, according to its server.

        Raises
        ------
        NotImplementedError
            The server does not report it.

        """
        seconds = sync(self.loop, self._modified, self._strip_protocol(path))
        if seconds is None:
            message = f"the server does not report when {shown(path)} was changed"
            raise UnsupportedError(message)
        return datetime.fromtimestamp(seconds, tz=timezone.utc)

    async def _modified(self, path: str) -> float | None:
        entry = self._versions.recent(path)
        if entry is None or entry.modified is None:
            # The stat that was learned while reading a Parquet file lacks the time.
            entry = self._versions.remember(path, await self.client.stat_async(path))
            await self._versions.drop_others({path: entry})
        return entry.modified

    def created(self, path: str) -> datetime:
        """Raise an error: the protocols do not say when a file was created.

        Raises
        ------
        NotImplementedError
            Always.

        """
        message = f"servers do not report when {shown(path)} was created; modified() is the time of its last change"
        raise UnsupportedError(message)

    def ukey(self, path: str) -> str:
        """Return a text that is the same as long as the file at ``path`` does not change.

        It is made from name, size and entity tag, or the time of the last change if the server
        sends no tag. For a file of which none of these is known, it is another text each time.
        """
        info = self.info(path)
        if info["size"] is info["validator"] is info["mtime"] is None:
            return uuid.uuid4().hex
        # A tag is weak as long as a further change could have the same time.
        version = (info["name"], info["size"], (info["validator"] or "").removeprefix("W/") or info["mtime"])
        return hashlib.sha256(repr(version).encode()).hexdigest()

    def checksum(self, path: str) -> int:
        """Return :meth:`ukey` as a number; no byte of the file is read."""
        return int(self.ukey(path), 16)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **_: Any) -> None:  # noqa: ANN401, FBT001, FBT002
        """Rename files and directories; into ``path2`` if it is a directory or there are several.

        Raises
        ------
        ValueError
            Two of them would get one name, or one would be moved onto or into itself.
        NotImplementedError
            ``maxdepth`` is given: a directory is renamed with all its contents.

        """
        if maxdepth is not None:
            message = "maxdepth is not supported by mv, which renames whole directories"
            raise UnsupportedError(message)
        several = not isinstance(path1, str)
        sources: list[str] = []
        for each in [path1] if isinstance(path1, str) else path1:
            if not is_pattern(each) or self._exists_literally(self._strip_protocol(each)):
                sources.append(self._strip_protocol(each))
                continue
            several = True
            found = self.glob(each, detail=True)
            sources += [name for name, info in found.items() if recursive or info["type"] != "directory"]
        sources = list(dict.fromkeys(sources))
        if not sources:
            message = f"{shown(path1)} matches nothing that can be moved"
            raise NotFoundError(message)
        target = self._strip_protocol(path2 if isinstance(path2, str) else list(path2))
        inside = isinstance(path2, str) and (several or split_query(path2)[0].endswith("/") or self.isdir(path2))
        pairs = pairs_of_move(sources, target, inside=inside)
        sync(self.loop, refuse_folded, pairs, self._end)
        for source, target in pairs:
            self.mv_file(source, target)

    def mv_file(self, path1: str, path2: str) -> None:
        """Rename a file or directory on its server; replaces the target."""
        sync(self.loop, self._mv_file, path1, path2)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, NotFoundError):
        raise error


def _info_of(path: str, entry: Entry | ObservedStat) -> dict[str, Any]:
    kind = entry.kind if entry.kind in ("file", "directory") else "other"
    return {"name": path, "size": entry.size, "type": kind, "mtime": entry.modified, "validator": entry.validator}


def _one_per_range(limits: Any, count: int) -> Iterable[int | None]:  # noqa: ANN401
    """Return a limit for each of ``count`` ranges; a single limit applies to all."""
    return [limits] * count if limits is None or isinstance(limits, int) else limits
