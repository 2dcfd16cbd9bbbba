"""fsspec filesystem: files on HTTP, WebDAV and XRootD servers for everything that takes a filesystem.

``fsspec.open("hither+https://host/path")`` finds :class:`HitherFileSystem` by itself.
"""

from hither.fsspec._filesystem import HitherFileSystem

__all__ = ["HitherFileSystem"]
