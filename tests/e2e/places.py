"""Folders of this machine and of real servers, each with its URL."""

from contextlib import contextmanager
from pathlib import Path

from needs import missing, require

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import BUILT_PEERS


class Place:
    """A folder and its URL."""

    def __init__(self, folder: Path, base: str, kind: str):
        self.folder, self.base, self.kind = folder, base, kind

    def url(self, name: str) -> str:
        return f"{self.base}/{name}"

    def put(self, name: str, content: bytes = b"x") -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return self.url(name)

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))


@contextmanager
def serving(kind: str, folder: Path):
    if kind == "local":
        yield str(folder)
        return
    start = {
        "apache": lambda: servers.apache(Loopback(), folder, webdav=True),
        "nginx": lambda: servers.nginx(Loopback(), folder, webdav=True),
        "nginx/dav": lambda: servers.nginx(Loopback(), folder.parent / "none", locations=below_dav(folder)),
        "rclone": lambda: servers.rclone(Loopback(), folder),
        "xrootd": lambda: servers.xrootd(Loopback(), folder),
        "root": lambda: servers.xrootd(Loopback(), folder),
    }[kind]
    require({"apache": "apache2", "root": "xrootd", "nginx/dav": "nginx"}.get(kind, kind))
    with start() as port:
        path = "/dav" if kind == "nginx/dav" else ""
        yield f"root://127.0.0.1:{port}/" if kind == "root" else f"http://127.0.0.1:{port}{path}"


def below_dav(folder: Path) -> str:
    """A location of nginx: `/dav` does not exist, and `folder` is at `/dav/`."""
    return f"location /dav/ {{ alias {folder}/; {servers.NGINX_WEBDAV} }}"


@contextmanager
def s3_bucket(folder: Path, monkeypatch):
    """Yields the folder of s3://bucket, which the command reaches with settings from the environment."""
    if not (BUILT_PEERS / "bin" / "s3s-fs").exists():
        missing("s3s-fs")
    with servers.s3s(Loopback(), folder) as port:
        for variable, value in servers.s3_environment(port).items():
            monkeypatch.setenv(variable, value)
        yield folder / "bucket"
