"""Real servers and a raw socket, started on demand at the server's end of a link and ended by process id.

All are Debian's, with their stock limits: that is what hither has to live with. (Only nginx may carry more requests on
one connection, so that contests between clients with few and with many requests are about the clients.) Nothing here
touches a service that the machine may run on its own. Every one yields its port, serves the files under `root`, and
writes what it was asked to `access_log` if that is given; access_log.py reads all of them.

| server | what is special |
|---|---|
| `nginx` | answers as many ranges as fit 8 KB of header; with `limits=ONE_RANGE` the whole file to more than one range |
| `apache` | the whole file to more than 200 ranges (MaxRanges); closes a connection after 100 requests |
| `caddy` | Go's file server: headers of 1 MB, so ten thousands of ranges |
| `lighttpd` | 8 KB for the whole header; merges ranges that touch |
| `xrootd` | root:// and http:// on one port; spoils an answer of more than 1,024 ranges; knows no entity tags |
| `hither` | our own, as it is built: 20,000 ranges, or as many in one QUERY |
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness.links import Loopback
from bench.harness.paths import BUILT_PEERS, HITHER, PEERS

HERE = Path(__file__).resolve().parent
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

NGINX = """\
{user}
worker_processes {workers};
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
        listen {host}:{port}{tls};
        root {root};
        {locations}
    }}
}}
"""

# For `limits` of nginx: a server that knows single ranges only, and sends the whole file to whoever asks for more.
ONE_RANGE = "max_ranges 1;"

# It writes, and shows a page for people; PROPFIND would need a module that Debian packs apart.
NGINX_WEBDAV = """
        dav_methods PUT DELETE MKCOL COPY MOVE;
        client_max_body_size 0;
        autoindex on;
"""

APACHE = """\
ServerRoot {work}
ServerName {host}
PidFile {work}/apache.pid
DefaultRuntimeDir {work}
Mutex file:{work}
ErrorLog {work}/error.log
Listen {host}:{port}
{modules}
TypesConfig /dev/null
LogFormat "%{{remote}}p\\t%k\\t%m\\t%U\\t%>s\\t%O\\t%{{Range}}i" ranges
CustomLog {access_log} ranges
Timeout 300
KeepAlive On
MaxKeepAliveRequests 100
KeepAliveTimeout 5
DocumentRoot {root}
<Directory />
    Options FollowSymLinks
    Require all granted
</Directory>
{tls}
{dav}
"""
APACHE_MODULES = ("mpm_event", "authz_core", "mime", "ssl", "dav", "dav_fs")

CADDY = """\
{{
    admin off
    auto_https off
    storage file_system {work}/storage
}}
{scheme}://{host}:{port} {{
    root * {root}
    file_server
    {tls}
    {log}
}}
"""

LIGHTTPD = """\
server.bind = "{host}"
server.port = {port}
server.document-root = "{root}"
server.errorlog = "{work}/error.log"
server.modules = ( "mod_accesslog" )
accesslog.filename = "{access_log}"
accesslog.format = "%{{remote}}p\\t%k\\t%m\\t%U\\t%s\\t%O\\t%{{Range}}i"
"""

XROOTD = """\
xrd.port {port}
xrd.protocol http:{port} libXrdHttp.so
all.export /
oss.localroot {root}
all.adminpath {work}/admin
all.pidpath {work}/admin
xrootd.async off nosf
{trace}
"""


# The least time that it waits for servers to join and to answer where a file is.
XROOTD_CLUSTER = """\
{role}
xrd.port {port}
all.manager localhost:{meeting}
all.export /
cms.delay startup 1 servers 1 lookup 1 suspend 1
cms.space min 1m 2m
all.adminpath {work}/admin
all.pidpath {work}/admin
"""


@dataclass(frozen=True)
class Tls:
    """A certificate made for one run, and the authority that signed it, which clients are to be told."""

    authority: Path
    certificate: Path
    key: Path


def certificate(folder: Path, *hosts: str, named: bool = False) -> Tls:
    """Makes an authority and a certificate for `hosts` (addresses; `localhost` is always in it) with openssl. With `named`
    they are in it as names, too, for clients that look for nothing else."""
    tls = Tls(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    authority_key, request, extensions = folder / "authority.key", folder / "server.csr", folder / "extensions"
    names = ",".join(["DNS:localhost", *(f"IP:{host}" for host in dict.fromkeys(["127.0.0.1", *hosts]))])
    names += "".join(f",DNS:{host}" for host in hosts) if named else ""
    extensions.write_text(f"basicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName={names}\n")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

    def openssl(*arguments: str | Path) -> None:
        done = subprocess.run(["openssl", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr}")

    authority = ["-x509", "-days", "30", "-subj", "/CN=hither test authority", "-addext", "keyUsage=critical,keyCertSign"]
    openssl("req", *curve, *authority, "-keyout", authority_key, "-out", tls.authority)
    openssl("req", *curve, "-subj", "/CN=localhost", "-keyout", tls.key, "-out", request)
    signing = ["-CA", tls.authority, "-CAkey", authority_key, "-CAcreateserial", "-days", "30", "-extfile", extensions]
    openssl("x509", "-req", "-in", request, *signing, "-out", tls.certificate)
    return tls


TINYPROXY = """\
Listen {host}
Port {port}
PidFile "{work}/tinyproxy.pid"
LogFile "{log}"
LogLevel Connect
MaxClients 100
{options}
"""


PROCESSES: dict[int, subprocess.Popen] = {}
"""What runs at each port."""


def kill(port: int) -> None:
    """Ends a server as a machine that fails: no connection in order. (The kernel does answer for it, with resets.)"""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(PROCESSES[port].pid, signal.SIGKILL)


def program(name: str) -> str | None:
    return shutil.which(name, path=PATH)


def needed(name: str, package: str) -> str:
    binary = program(name)
    if binary is None:
        raise RuntimeError(f"{name} is not installed (tools/setup-peers installs it, Debian's {package}, as root)")
    return binary


def as_nobody(command: list[str]) -> list[str]:
    """For servers that refuse to be root, or step down by themselves: another user, who may still reach our folders."""
    if os.geteuid() != 0:
        return command
    may = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *may, *command]


def as_localhost(command: list[str]) -> list[str]:
    """For servers that do not start on a machine whose name has no address: that is their name for it, then."""
    if os.geteuid() != 0:
        return command
    return ["unshare", "--uts", "sh", "-c", 'hostname localhost && exec "$@"', "sh", *command]


def free_port() -> int:
    """A port that nobody uses just now. In a namespace of its own any port is as good."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(where: Loopback, command: list[str], port: int | None, log: Path, host: str | None = None) -> Iterator[None]:
    """Runs a server at the server's end until the block ends; waits until it accepts connections, if it has a port."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            where.server(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        if port is not None:
            probe = [sys.executable, str(HERE / "wait_port.py"), host or where.server_host, str(port)]
            if subprocess.run(where.server(probe), check=False).returncode != 0 or process.poll() is not None:
                raise RuntimeError(f"{' '.join(command)} did not come up:\n{log.read_text(errors='replace')[-2000:]}")
            PROCESSES[port] = process
        yield
    finally:
        if port is not None:
            PROCESSES.pop(port, None)
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
    where: Loopback,
    root: Path,
    access_log: Path | None = None,
    locations: str = "",
    limits: str = "",
    tls: Tls | None = None,
    webdav: bool = False,
    http2: bool = False,
    workers: int | str = 1,
) -> Iterator[int]:
    """`limits` stands at the level of http, where it is empty for stock ones. `webdav` is what stock nginx has of that. With
    `http2` it offers that over TLS."""
    binary = needed("nginx", "nginx")
    port = free_port()
    if tls:
        limits += f"\n    ssl_certificate {tls.certificate}; ssl_certificate_key {tls.key};"
        # Version 1.3 is not among the defaults of Debian's nginx, but it is in Debian's configuration of it.
        limits += "\n    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:tls:1m;"
    if webdav:
        locations += NGINX_WEBDAV
    with tempfile.TemporaryDirectory(prefix="hither-nginx-") as folder:
        work = Path(folder)
        config = work / "nginx.conf"
        config.write_text(
            NGINX.format(
                # As root the workers would become www-data, who may not read a build folder in somebody's home.
                user="user root;" if os.geteuid() == 0 else "",
                workers=workers,
                work=work,
                access_log=f"{access_log} ranges" if access_log else "off",
                host=where.server_host,
                port=port,
                tls=(" ssl" if tls else "") + (" http2" if http2 else ""),
                root=root,
                locations=locations,
                limits=limits,
            )
        )
        command = [binary, "-p", folder, "-c", str(config), "-e", str(work / "error.log")]
        with running(where, command, port, work / "output.log"):
            yield port


@contextlib.contextmanager
def apache(
    where: Loopback, root: Path, access_log: Path | None = None, tls: Tls | None = None, webdav: bool = False
) -> Iterator[int]:
    """`webdav` makes everything writable, by mod_dav."""
    binary = needed("apache2", "apache2-bin")
    port = free_port()
    modules = [f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in APACHE_MODULES]
    with tempfile.TemporaryDirectory(prefix="hither-apache-") as folder:
        work = Path(folder)
        config = work / "apache.conf"
        config.write_text(
            APACHE.format(
                work=work,
                host=where.server_host,
                port=port,
                root=root,
                modules="\n".join(modules),
                access_log=access_log or "/dev/null",
                tls=f"SSLEngine on\nSSLCertificateFile {tls.certificate}\nSSLCertificateKeyFile {tls.key}" if tls else "",
                dav=f"DavLockDB {work}/locks\n<Location />\n    Dav On\n</Location>" if webdav else "",
            )
        )
        command = as_nobody([binary, "-f", str(config), "-DFOREGROUND"])
        with running(where, command, port, work / "output.log"):
            yield port


@contextlib.contextmanager
def caddy(where: Loopback, root: Path, access_log: Path | None = None, tls: Tls | None = None) -> Iterator[int]:
    """Logs in JSON."""
    binary = needed("caddy", "caddy")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-caddy-") as folder:
        work = Path(folder)
        config = work / "Caddyfile"
        config.write_text(
            CADDY.format(
                work=work,
                scheme="https" if tls else "http",
                host=where.server_host,
                port=port,
                root=root,
                tls=f"tls {tls.certificate} {tls.key}" if tls else "",
                log=f"log {{\n        output file {access_log}\n    }}" if access_log else "",
            )
        )
        # It writes into its user's home otherwise.
        home = ["env", f"HOME={work}", f"XDG_CONFIG_HOME={work}", f"XDG_DATA_HOME={work}"]
        command = [*home, binary, "run", "--config", str(config), "--adapter", "caddyfile"]
        with running(where, command, port, work / "output.log"):
            yield port


@contextlib.contextmanager
def lighttpd(where: Loopback, root: Path, access_log: Path | None = None) -> Iterator[int]:
    binary = needed("lighttpd", "lighttpd")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-lighttpd-") as folder:
        work = Path(folder)
        config = work / "lighttpd.conf"
        log = access_log or work / "access.log"
        config.write_text(LIGHTTPD.format(work=work, host=where.server_host, port=port, root=root, access_log=log))
        with running(where, [binary, "-D", "-f", str(config)], port, work / "output.log"):
            yield port


@contextlib.contextmanager
def xrootd(
    where: Loopback, root: Path, access_log: Path | None = None, tls: Tls | None = None, more: str = "", https: bool = False
) -> Iterator[int]:
    """Serves root://HOST:PORT//NAME and http://HOST:PORT/NAME, writable. Its log is a trace of the HTTP part. With `tls` it is
    roots:// only, or with `https` too http is https; `more` are further lines of its configuration."""
    binary = needed("xrootd", "xrootd-server")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-xrootd-") as folder:
        work = Path(folder)
        (work / "admin").mkdir(mode=0o777)
        config = work / "xrootd.cfg"
        trace = "http.trace all" if access_log else ""
        if tls:
            key = work / "key.pem"
            shutil.copy(tls.key, key)
            key.chmod(0o400)
            if os.geteuid() == 0:
                shutil.chown(key, "nobody")
            more += f"xrd.tls {tls.certificate} {key}\nxrd.tlsca noverify\n" + ("" if https else "xrootd.tls all\n")
        config.write_text(XROOTD.format(port=port, root=root.resolve(), work=work, trace=trace) + more)
        # Without a name of an instance: the log goes where it is told, not into a folder of that name.
        # Else the log goes to the output, which is shown if the server does not start.
        log = ["-l", str(access_log)] if access_log else []
        command = as_localhost(as_nobody([binary, "-c", str(config), *log]))
        with running(where, command, port, work / "output.log"):
            yield port


@contextlib.contextmanager
def hither(where: Loopback, root: Path, access_log: Path | None = None, tls: Tls | None = None) -> Iterator[int]:
    """`hither serve`, for reading. Its log is not one that access_log.py reads."""
    if not HITHER.exists():
        raise RuntimeError(f"{HITHER} is not built")
    port = free_port()
    command = [str(HITHER), "serve", str(root), "--listen", f"{where.server_host}:{port}"]
    command += ["--access-log", str(access_log)] if access_log else []
    command += ["--tls-cert", str(tls.certificate), "--tls-key", str(tls.key)] if tls else []
    with tempfile.TemporaryDirectory(prefix="hither-serve-") as folder:
        with running(where, command, port, Path(folder) / "output.log"):
            yield port


@contextlib.contextmanager
def xrootd_cluster(where: Loopback, roots: list[Path]) -> Iterator[tuple[int, list[int]]]:
    """A manager, and a data server for each of `roots`: yields its port and theirs. A file is found wherever it is, some
    seconds after the start; `kill` ends a data server."""
    needed("cmsd", "xrootd-server")
    meeting = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-cluster-") as folder, contextlib.ExitStack() as stack:
        work = Path(folder)
        (work / "admin").mkdir(mode=0o777)
        (work / "admin").chmod(0o777)

        def start(program_name: str, name: str, port: int | None, role: str) -> None:
            config = work / f"{name}-{program_name}.cfg"
            config.write_text(XROOTD_CLUSTER.format(port=port or "any", meeting=meeting, work=work, role=role))
            command = as_nobody([needed(program_name, "xrootd-server"), "-n", name, "-c", str(config)])
            command = as_localhost(command)
            stack.enter_context(running(where, command, port, work / f"{name}-{program_name}.log"))

        manager, ports = free_port(), [free_port() for _ in roots]
        start("cmsd", "manager", meeting, "all.role manager")
        start("xrootd", "manager", manager, "all.role manager")
        for number, (root, port) in enumerate(zip(roots, ports, strict=True)):
            role = f"all.role server\noss.localroot {root.resolve()}"
            start("xrootd", f"server{number}", port, role)
            # Its companion, which speaks to the manager.
            start("cmsd", f"server{number}", None, role)
        yield manager, ports


@contextlib.contextmanager
def rclone(where: Loopback, root: Path) -> Iterator[int]:
    """`rclone serve webdav`."""
    binary = needed("rclone", "rclone")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-rclone-") as folder:
        # What changes behind its back is seen at once.
        config = ["--config", f"{folder}/rclone.conf", "--cache-dir", folder, "--dir-cache-time", "0"]
        command = [binary, "serve", "webdav", str(root), "--addr", f"{where.server_host}:{port}", *config]
        with running(where, command, port, Path(folder) / "output.log"):
            yield port


S3_KEY = ("hither", "not-much-of-a-secret")


@contextlib.contextmanager
def s3s(where: Loopback, root: Path) -> Iterator[int]:
    """A store that speaks S3 and has one bucket, `bucket`; `S3_KEY` opens it."""
    binary = BUILT_PEERS / "bin" / "s3s-fs"
    if not binary.exists():
        raise RuntimeError("s3s-fs is not installed (tools/setup-peers installs it)")
    port = free_port()
    (root / "bucket").mkdir(exist_ok=True)
    key, secret = S3_KEY
    options = ["--host", where.server_host, "--port", str(port), "--access-key", key, "--secret-key", secret]
    with tempfile.TemporaryDirectory(prefix="hither-s3s-") as folder:
        with running(where, [str(binary), *options, str(root)], port, Path(folder) / "output.log"):
            yield port


@contextlib.contextmanager
def raw(where: Loopback) -> Iterator[int]:
    """A socket that sends as many bytes as it is asked for: what the wire can do; yields the port."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-raw-") as folder:
        command = [sys.executable, str(PEERS / "bytes" / "raw_server.py"), where.server_host, str(port)]
        with running(where, command, port, Path(folder) / "output.log"):
            yield port


@contextlib.contextmanager
def tinyproxy(where: Loopback, log: Path, options: str = "") -> Iterator[int]:
    """A proxy; yields the port. Its log names every host that it was asked for."""
    binary = needed("tinyproxy", "tinyproxy")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-tinyproxy-") as folder:
        work = Path(folder)
        config = work / "tinyproxy.conf"
        config.write_text(TINYPROXY.format(host=where.server_host, port=port, work=work, log=log, options=options))
        with running(where, [binary, "-d", "-c", str(config)], port, work / "output.log"):
            yield port
