"""Files that servers stage from tape to disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hither import _core


class Staging:
    """Files whose staging from tape to disk was requested: :meth:`hither.Client.stage`.

    The state of a file is ``"waiting"``, ``"online"``, or ``"failed: "`` and the server's reason.
    Servers continue with a request when no client waits for it.

    Examples
    --------
    >>> def online(urls):
    ...     try:
    ...         return hither.default_client().stage(urls).wait(timeout=3600)
    ...     except NotImplementedError:
    ...         return "the server has no tape"
    >>> online(["http://127.0.0.1:8080/talk.root"])
    'the server has no tape'

    """

    def __init__(self, core: _core.Staging, urls: list[str]) -> None:
        """Keep the requests."""
        self._core = core
        self._urls = urls

    def __repr__(self) -> str:
        """Return the number of files."""
        return f"<hither.Staging of {len(self._urls)} files>"

    @property
    def requests(self) -> list[tuple[str, list[str]]]:
        """Id of each request at its server, and the URLs of its files.

        The id is empty for servers that have none.
        """
        return [(name, [self._urls[nth] for nth in files]) for name, files in self._core.requests()]

    def progress(self) -> dict[str, str]:
        """Return the current state of each file.

        Raises
        ------
        OSError
            Access is denied, or a server fails.

        """
        return self._by_url(self._core.progress().wait())

    async def progress_async(self) -> dict[str, str]:
        """Async version of :meth:`progress`."""
        return self._by_url(await self._core.progress())

    def wait(self, timeout: float | None = None) -> dict[str, str]:
        """Wait until each file is on disk or has failed; return the final states.

        Raises
        ------
        TimeoutError
            Some files were not on disk after ``timeout`` seconds.
        OSError
            Access is denied, or a server fails.

        """
        return self._by_url(self._core.wait(timeout).wait())

    async def wait_async(self, timeout: float | None = None) -> dict[str, str]:
        """Async version of :meth:`wait`."""
        return self._by_url(await self._core.wait(timeout))

    def _by_url(self, states: list[str]) -> dict[str, str]:
        return dict(zip(self._urls, states, strict=True))
