"""nginx, xrootd and a raw socket, started on demand at the server's end of a link and ended by process id.

nginx is Debian's, with stock limits on headers (that is what hither has to live with); only the number of requests
that one connection may carry is raised. Nothing here touches a service that the machine may run on its own.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from links import Loopback

HERE = Path(__file__).resolve().parent
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

NGINX = """\
{user}
worker_processes 1;
daemon off;
pid {work}/nginx.pid;
error_log {work}/error.log;
events {{ worker_connections 4096; }}
http {{
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    keepalive_timeout 300s;
    log_format ranges '$connection\\t$connection_requests\\t$request_method\\t$uri\\t$status\\t$bytes_sent\\t$http_range';
    access_log {access_log};
    {limits}
    client_body_temp_path {work}/body;
    proxy_temp_path {work}/proxy;
    fastcgi_temp_path {work}/fastcgi;
    uwsgi_temp_path {work}/uwsgi;
    scgi_temp_path {work}/scgi;
    server {{
        listen {host}:{port};
        root {root};
        {locations}
    }}
}}
"""

XROOTD = """\
xrd.port {port}
all.export /
oss.localroot {root}
all.adminpath {work}/admin
all.pidpath {work}/admin
xrootd.async off nosf
"""


def program(name: str) -> str | None:
    return shutil.which(name, path=PATH)


def free_port() -> int:
    """A port that nobody uses just now. In a namespace of its own any port is as good."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(where: Loopback, command: list[str], port: int, log: Path, host: str | None = None) -> Iterator[None]:
    """Runs a server at the server's end until the block ends; waits until it accepts connections."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            where.server(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        probe = [sys.executable, str(HERE / "wait_port.py"), host or where.server_host, str(port)]
        if subprocess.run(where.server(probe), check=False).returncode != 0 or process.poll() is not None:
            raise RuntimeError(f"{command[0]} did not come up:\n{log.read_text(errors='replace')[-2000:]}")
        yield
    finally:
        # The session is this process's own, so this ends the server and its workers and nobody else.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def nginx(
    where: Loopback, root: Path, access_log: Path | None = None, locations: str = "", limits: str = ""
) -> Iterator[int]:
    """Serves the files under `root`; yields the port. `limits` stands at the level of http, where it is empty for stock ones."""
    binary = program("nginx")
    if binary is None:
        raise RuntimeError("nginx is not installed (tools/setup-peers installs it, as root)")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-nginx-") as folder:
        work = Path(folder)
        config = work / "nginx.conf"
        config.write_text(
            NGINX.format(
                # As root the workers would become www-data, who may not read a build folder in somebody's home.
                user="user root;" if os.geteuid() == 0 else "",
                work=work,
                access_log=f"{access_log} ranges" if access_log else "off",
                host=where.server_host,
                port=port,
                root=root,
                locations=locations,
                limits=limits,
            )
        )
        command = [binary, "-p", folder, "-c", str(config), "-e", str(work / "error.log")]
        with running(where, command, port, work / "output.log"):
            yield port


@contextlib.contextmanager
def xrootd(where: Loopback, file: Path) -> Iterator[int]:
    """Serves one file as root://HOST:PORT//NAME; yields the port."""
    binary = program("xrootd")
    if binary is None:
        raise RuntimeError("xrootd is not installed (tools/setup-peers installs it, as root)")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-xrootd-") as folder:
        work = Path(folder)
        root = work / "data"
        root.mkdir()
        (work / "admin").mkdir()
        # xrootd refuses to run as root, and another user may not reach the build folder: give it the file itself.
        served = root / file.name
        try:
            os.link(file, served)
        except OSError:
            shutil.copyfile(file, served)
        config = work / "xrootd.cfg"
        config.write_text(XROOTD.format(port=port, root=root, work=work))
        user: list[str] = []
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for path in (work, root, work / "admin"):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
            user = ["-R", "nobody"]
        command = [binary, *user, "-c", str(config), "-l", str(work / "xrootd.log"), "-n", "bench"]
        with running(where, command, port, work / "output.log"):
            yield port


@contextlib.contextmanager
def raw(where: Loopback) -> Iterator[int]:
    """A socket that sends as many bytes as it is asked for: what the wire can do; yields the port."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-raw-") as folder:
        command = [sys.executable, str(HERE / "peers" / "raw_server.py"), where.server_host, str(port)]
        with running(where, command, port, Path(folder) / "output.log"):
            yield port
