"""fsspec filesystem for HTTP, WebDAV, XRootD and S3 servers.

``fsspec.open("hitherhttps://host/path")`` finds it by its scheme: ``hither`` in front of ``https``,
``http``, ``root``, ``roots`` or ``s3``. (``hither+https`` is the same, for libraries that take a
``+`` in a scheme.) :class:`HitherFileSystem` can be given wherever a filesystem is taken, with
plain ``https://`` or ``root://`` URLs as paths, and :func:`install` makes it the filesystem of
plain URLs. Paths are URLs throughout: write characters that URLs do not have as ``%20``, except for
XRootD and S3, whose paths are literal.

All ranges of a file in one call of :meth:`~HitherFileSystem.cat_ranges` (which uproot, zarr and
kerchunk use) are one vector read. Opened files read through the client's cache, which reads ahead.
Over HTTP, writing, moving and removing need WebDAV; listing needs WebDAV or a page of links.
"""

from hither.fsspec._filesystem import HitherFileSystem
from hither.fsspec._install import install, uninstall

__all__ = ["HitherFileSystem", "install", "uninstall"]
