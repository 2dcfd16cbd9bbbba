"""Calls of the filesystem that, when interrupted, cancel all operations that they started."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from typing import TYPE_CHECKING, Any

import fsspec.asyn
from fsspec.callbacks import NoOpCallback

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


def sync(loop: asyncio.AbstractEventLoop, function: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:  # noqa: ANN401
    """Run a coroutine function on ``loop`` and wait for it, as ``fsspec.asyn.sync`` does.

    An exception that interrupts the waiting thread, such as ``KeyboardInterrupt`` or a timeout,
    cancels the call and is raised when the call has ended.
    """
    tasks: list[asyncio.Task[Any] | None] = []
    interrupted = threading.Event()
    ended = threading.Event()

    @functools.wraps(function)
    async def run(*args: Any, **options: Any) -> Any:  # noqa: ANN401
        try:
            tasks.append(asyncio.current_task())
            if interrupted.is_set():
                raise asyncio.CancelledError
            return await function(*args, **options)
        finally:
            ended.set()

    def cancel() -> None:
        if tasks and tasks[0] is not None and not ended.is_set():
            tasks[0].cancel()

    try:
        return fsspec.asyn.sync(loop, run, *args, **options)
    except BaseException:
        # A call that is refused because of the loop has not begun, and none is running.
        if not ended.is_set() and loop is not None and loop.is_running() and not _is_current(loop):
            interrupted.set()
            loop.call_soon_threadsafe(cancel)
            # A call that has not begun may never be: fsspec is interrupted before it passes it to
            # the loop. If it begins later, it ends at once.
            if tasks:
                ended.wait()
        raise


def _is_current(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def mirror_sync_methods(filesystem: Any) -> None:  # noqa: ANN401
    """Derive methods from coroutine methods as fsspec does, but run them by :func:`sync`."""
    fsspec.asyn.mirror_sync_methods(filesystem)
    for name, method in list(vars(filesystem).items()):
        function = getattr(method, "__wrapped__", None)
        if inspect.iscoroutinefunction(function):
            setattr(filesystem, name, _waiting(filesystem, function, method))


def _waiting(filesystem: Any, function: Callable[..., Any], like: Callable[..., Any]) -> Callable[..., Any]:  # noqa: ANN401
    @functools.wraps(like)
    def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401
        return sync(filesystem.loop, function, *args, **options)

    return call


async def run_all(
    calls: Sequence[Callable[[], Awaitable[Any]]],
    batch_size: int | None = None,
    callback: Any = None,  # noqa: ANN401
    *,
    return_exceptions: bool = False,
) -> list[Any]:
    """Make calls, ``batch_size`` at a time, and return their results.

    After an exception, and when this is cancelled, no other call begins; running ones are cancelled
    and awaited before the exception is raised. With ``return_exceptions``, exceptions of the calls
    are results instead.
    """
    if batch_size is None:
        batch_size = fsspec.asyn._get_batch_size()  # noqa: SLF001
    if batch_size != -1 and batch_size <= 0:
        message = f"batch_size is {batch_size}, expected a positive number, or -1 for no limit"
        raise ValueError(message)
    callback = callback or NoOpCallback()
    results: list[Any] = [None] * len(calls)
    waiting = iter(enumerate(calls))

    async def work() -> None:
        for at, call in waiting:
            try:
                results[at] = await call()
            except Exception as error:  # noqa: PERF203
                if not return_exceptions:
                    raise
                results[at] = error
            finally:
                callback.relative_update(1)

    count = len(calls) if batch_size == -1 else min(batch_size, len(calls))
    workers = [asyncio.ensure_future(work()) for _ in range(count)]
    if workers:
        await _wait_for_all(workers)
    return results


async def _wait_for_all(workers: list[asyncio.Task[None]]) -> None:
    """Wait until all end; after an exception, or when this is cancelled, cancel the others once."""
    try:
        # `gather` would cancel them, too: a second time, they would not end what they clean up.
        await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for worker in workers:
            worker.cancel()
        ends = await asyncio.gather(*workers, return_exceptions=True)
    errors = [end for end in ends if isinstance(end, BaseException)]
    for error in sorted(errors, key=lambda error: isinstance(error, asyncio.CancelledError)):
        raise error
