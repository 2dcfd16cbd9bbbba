"""fsspec filesystem for HTTP, WebDAV and XRootD servers.

``fsspec.open("hither+https://host/path")`` finds it by its scheme. :class:`HitherFileSystem` can
be given wherever a filesystem is taken, with plain ``https://`` or ``root://`` URLs as paths. Paths
are URLs throughout: write characters that URLs do not have as ``%20``, except for XRootD, whose
paths are literal.

All ranges of a file in one call of :meth:`~HitherFileSystem.cat_ranges` (which uproot, zarr and
kerchunk use) are one vector read. Opened files read through the client's cache, which reads ahead.
Over HTTP, writing, moving and removing need WebDAV; listing needs WebDAV or a page of links.
"""

from hither.fsspec._filesystem import HitherFileSystem

__all__ = ["HitherFileSystem"]
