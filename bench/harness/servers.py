"""Real servers and a raw socket, started at the server's end of a link and ended by process id.

All are Debian's packages with stock limits, which hither meets in practice. (Only nginx takes more
requests on one connection than by default, so that comparisons of clients with few and with many
requests are about the clients.) Nothing here touches a service that the machine runs on its own.
Each yields its port, serves the files under `root`, and logs requests to `access_log` if that is
given; access_log.py reads all of these logs.

| server | its behaviour |
|---|---|
| `nginx` | takes ranges up to 8 KB of header; the whole file for several with `limits=ONE_RANGE` |
| `apache` | sends the whole file for more than 200 ranges; closes a connection after 100 requests |
| `caddy` | Go's file server: headers of 1 MB, which hold tens of thousands of ranges |
| `lighttpd` | 8 KB for the whole header; merges adjacent ranges |
| `xrootd` | root:// and http:// on one port; answers over 1,024 ranges wrongly; no entity tags |
| `gridftp` | a process for each client, a data connection for each stream |
| `hither` | `hither serve`, as built: 20,000 ranges, or as many in one QUERY |
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from bench.harness import access_log
from bench.harness.links import Loopback
from bench.harness.paths import BENCH, BUILT_PEERS, HITHER, PEERS
from bench.harness.waiting import wait_until

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

# For `limits` of nginx: sends the whole file if more than one range is requested.
ONE_RANGE = "max_ranges 1;"

# Writable, with HTML listings; PROPFIND needs a module that Debian packages separately.
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
{rules}
"""
APACHE_MODULES = ("mpm_event", "authz_core", "mime", "ssl", "dav", "dav_fs", "rewrite")

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


# The shortest waits for servers to join and for the answer to a locate request.
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
    """A certificate made for one run, and its authority, which clients have to trust."""

    authority: Path
    certificate: Path
    key: Path


def certificate(folder: Path, *hosts: str, named: bool = False) -> Tls:
    """Makes an authority and a certificate for `localhost` and the addresses `hosts` with openssl.

    With `named` they are included as names, too, for clients that check only those.
    """
    tls = Tls(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    authority_key, request, extensions = folder / "authority.key", folder / "server.csr", folder / "extensions"
    names = ",".join(["DNS:localhost", *(f"IP:{host}" for host in dict.fromkeys(["127.0.0.1", *hosts]))])
    names += "".join(f",DNS:{host}" for host in hosts) if named else ""
    extensions.write_text(f"basicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName={names}\n")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

    def openssl(*arguments: str | Path) -> None:
        command = ["openssl", *map(str, arguments)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr}")

    authority = [
        "-x509",
        "-days",
        "30",
        "-subj",
        "/CN=hither test authority",
        "-addext",
        "keyUsage=critical,keyCertSign",
    ]
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
"""The process at each port."""


def kill(port: int) -> None:
    """Kills a server without closing its connections; the kernel resets them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(PROCESSES[port].pid, signal.SIGKILL)


@contextlib.contextmanager
def stopped(port: int) -> Iterator[None]:
    """Stops all processes of a server for a block; its connections stay open."""
    os.killpg(PROCESSES[port].pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(PROCESSES[port].pid, signal.SIGCONT)


def restart(where: Loopback, port: int) -> None:
    """Kills a server if it still runs, and starts it again with the same command."""
    kill(port)
    PROCESSES[port].wait()
    # Its workers may end later, and listen until then.
    wait_until(lambda: is_free(port), f"the end of the server at port {port}")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    PROCESSES[port] = subprocess.Popen(PROCESSES[port].args, start_new_session=True, **quiet)
    if why := why_not_started(where, PROCESSES[port], where.server_host, port):
        raise RuntimeError(f"{PROCESSES[port].args} {why}")


def why_not_started(where: Loopback, process: subprocess.Popen[bytes], host: str, port: int) -> str | None:
    """Waits until a server's port accepts connections.

    Returns what is known of the server if it does not within some seconds.
    """
    probe = [sys.executable, str(BENCH / "harness" / "waiting.py"), host, str(port)]
    with subprocess.Popen(where.server(probe)) as probing:
        wait_until(lambda: probing.poll() is not None or process.poll() is not None, f"a connection to {host}:{port}")
        probing.terminate()
    if process.poll() is not None:
        return f"ended with {process.returncode}"
    if probing.returncode == 0:
        return None
    tasks = Path(f"/proc/{process.pid}/task")
    calls = [
        f"{task.name}: {(task / 'wchan').read_text()} {(task / 'syscall').read_text()}" for task in tasks.iterdir()
    ]
    return "did not accept connections; its threads and the system calls that they are in:\n" + "".join(calls)


ASK = f"""
import socket, sys
try:
    with socket.create_connection(sys.argv[1:], 60) as asking:
        asking.sendall(b"HEAD {access_log.SETTLE} HTTP/1.0\\r\\n\\r\\n")
        asking.recv(1)
except ConnectionError:
    pass
"""


def settle(where: Loopback, port: int) -> None:
    """Waits until nginx has logged the requests that it has answered.

    It writes the line of a request after the response. Its worker does one thing after the other,
    so those lines are there when it has answered a request that comes later, or has ended. The
    line of that request may be written at any time: :mod:`access_log` leaves it out.
    """
    subprocess.run(where.server([sys.executable, "-c", ASK, where.server_host, str(port)]), check=True)


def program(name: str) -> str | None:
    return shutil.which(name, path=PATH)


def needed(name: str, package: str) -> str:
    binary = program(name)
    if binary is None:
        raise RuntimeError(f"{name} is not installed (tools/setup-peers installs it, Debian's {package}, as root)")
    return binary


def as_nobody(command: list[str]) -> list[str]:
    """Runs a server that refuses to be root as another user, who may still reach our folders."""
    if os.geteuid() != 0:
        return command
    may = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *may, *command]


def as_localhost(command: list[str]) -> list[str]:
    """Runs a server with the host name `localhost`: some need a name that has an address."""
    if os.geteuid() != 0:
        return command
    return ["unshare", "--uts", "sh", "-c", 'hostname localhost && exec "$@"', "sh", *command]


# Below the ports that the kernel gives to connections: a range for each worker of pytest or slot of
# nextest, in which processes begin apart.
PORT_RANGE = 2_000
PORTS = itertools.count(37 * os.getpid())


def is_free(port: int) -> bool:
    """Returns true if nobody listens on a port."""
    with socket.socket() as probe:
        # As servers do, which may follow one another on a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port that nobody listens on, and that no other call returns soon."""
    worker = os.environ.get("PYTEST_XDIST_WORKER") or os.environ.get("NEXTEST_TEST_GLOBAL_SLOT") or "0"
    worker = int(worker.removeprefix("gw")) % 10
    for number in itertools.islice(PORTS, PORT_RANGE):
        port = 10_000 + worker * PORT_RANGE + number % PORT_RANGE
        if is_free(port):
            return port
    raise RuntimeError(f"no free port among {PORT_RANGE} of worker {worker}")


@contextlib.contextmanager
def running(
    where: Loopback, command: list[str], port: int | None, log: Path, host: str | None = None
) -> Iterator[None]:
    """Runs a server at the server's end; the block begins when `port` accepts connections."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            where.server(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        if port is not None:
            if why := why_not_started(where, process, host or where.server_host, port):
                raise RuntimeError(f"{' '.join(command)} {why}\n{log.read_text(errors='replace')[-2000:]}")
            PROCESSES[port] = process
        yield
    finally:
        if port is not None:
            process = PROCESSES.pop(port, process)
        # The process leads a session of its own, so this ends the server and its workers and
        # nothing else.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def started(where: Loopback, command: Callable[[Path, int], list[str]]) -> Iterator[int]:
    """Runs a server for a block; `command` gets a folder for its files and a free port."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-server-") as folder:
        work = Path(folder)
        # A server that runs as somebody else looks again, when it starts again, for what it made.
        work.chmod(0o755)
        with running(where, command(work, port), port, work / "output.log"):
            yield port


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
) -> contextlib.AbstractContextManager[int]:
    """Runs nginx; `limits` are lines at the level of http, `webdav` enables its part of WebDAV."""
    if tls:
        limits += f"\n    ssl_certificate {tls.certificate}; ssl_certificate_key {tls.key};"
        # Version 1.3 is not among the defaults of Debian's nginx, but it is in Debian's
        # configuration of it.
        limits += "\n    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:tls:1m;"

    def command(work: Path, port: int) -> list[str]:
        config = work / "nginx.conf"
        config.write_text(
            NGINX.format(
                # As root the workers would become www-data, who may not read a build folder in
                # somebody's home.
                user="user root;" if os.geteuid() == 0 else "",
                workers=workers,
                work=work,
                access_log=f"{access_log} ranges" if access_log else "off",
                host=where.server_host,
                port=port,
                tls=(" ssl" if tls else "") + (" http2" if http2 else ""),
                root=root,
                locations=locations + (NGINX_WEBDAV if webdav else ""),
                limits=limits,
            )
        )
        return [needed("nginx", "nginx"), "-p", str(work), "-c", str(config), "-e", str(work / "error.log")]

    return started(where, command)


def apache(
    where: Loopback,
    root: Path,
    access_log: Path | None = None,
    tls: Tls | None = None,
    webdav: bool = False,
    rules: str = "",
) -> contextlib.AbstractContextManager[int]:
    """`webdav` makes everything writable, by mod_dav; `rules` are further directives."""
    modules = [f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in APACHE_MODULES]

    def command(work: Path, port: int) -> list[str]:
        config = work / "apache.conf"
        config.write_text(
            APACHE.format(
                work=work,
                host=where.server_host,
                port=port,
                root=root,
                modules="\n".join(modules),
                access_log=access_log or "/dev/null",
                tls=f"SSLEngine on\nSSLCertificateFile {tls.certificate}\nSSLCertificateKeyFile {tls.key}"
                if tls
                else "",
                dav=f"DavLockDB {work}/locks\n<Location />\n    Dav On\n</Location>" if webdav else "",
                rules=rules,
            )
        )
        # Killed, it leaves its number, and does not start again when another process has that.
        start = ["sh", "-c", f'rm -f {work}/apache.pid && exec "$@"', "sh"]
        return [*start, *as_nobody([needed("apache2", "apache2-bin"), "-f", str(config), "-DFOREGROUND"])]

    return started(where, command)


def caddy(
    where: Loopback, root: Path, access_log: Path | None = None, tls: Tls | None = None
) -> contextlib.AbstractContextManager[int]:
    """Its log is JSON."""

    def command(work: Path, port: int) -> list[str]:
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
        # Without these it writes into its user's home.
        home = ["env", f"HOME={work}", f"XDG_CONFIG_HOME={work}", f"XDG_DATA_HOME={work}"]
        return [*home, needed("caddy", "caddy"), "run", "--config", str(config), "--adapter", "caddyfile"]

    return started(where, command)


def lighttpd(where: Loopback, root: Path, access_log: Path | None = None) -> contextlib.AbstractContextManager[int]:
    def command(work: Path, port: int) -> list[str]:
        config = work / "lighttpd.conf"
        log = access_log or work / "access.log"
        config.write_text(LIGHTTPD.format(work=work, host=where.server_host, port=port, root=root, access_log=log))
        return [needed("lighttpd", "lighttpd"), "-D", "-f", str(config)]

    return started(where, command)


def xrootd(
    where: Loopback,
    root: Path,
    access_log: Path | None = None,
    tls: Tls | None = None,
    more: str = "",
    https: bool = False,
    binary: Path | None = None,
) -> contextlib.AbstractContextManager[int]:
    """Serves root://HOST:PORT//NAME and http://HOST:PORT/NAME, writable; its log traces HTTP.

    With `tls` it is roots:// only, and with `https` http becomes https; `more` are further lines of
    its configuration; `binary` is another one than Debian's.
    """

    def command(work: Path, port: int) -> list[str]:
        (work / "admin").mkdir(mode=0o777)
        config = work / "xrootd.cfg"
        trace = "http.trace all" if access_log else ""
        security = ""
        if tls:
            key = work / "key.pem"
            shutil.copy(tls.key, key)
            key.chmod(0o400)
            if os.geteuid() == 0:
                shutil.chown(key, "nobody")
            security = f"xrd.tls {tls.certificate} {key}\nxrd.tlsca noverify\n" + ("" if https else "xrootd.tls all\n")
        config.write_text(XROOTD.format(port=port, root=root.resolve(), work=work, trace=trace) + more + security)
        # No instance name (`-n`), which would move the log into a folder of that name. Without `-l`
        # the log goes to the output, which is shown if the server does not start.
        log = ["-l", str(access_log)] if access_log else []
        program_path = str(binary or needed("xrootd", "xrootd-server"))
        return as_localhost(as_nobody([program_path, "-c", str(config), *log]))

    return started(where, command)


def gridftp(where: Loopback) -> contextlib.AbstractContextManager[int]:
    """The server of GridFTP for everybody who connects, over the whole file system. Needs root.

    It announces the address of the machine's name, which has to be the one that the client reaches.
    """

    def command(work: Path, port: int) -> list[str]:
        binary = needed("globus-gridftp-server", "globus-gridftp-server-progs")
        (work / "hosts").write_text(f"{where.server_host} server\n")
        prepare = f'hostname server && mount --bind {work}/hosts /etc/hosts && exec "$@"'
        options = ["-p", str(port), "-c", "none", "-aa", "-anonymous-user", "root", "-allow-root"]
        return ["unshare", "--uts", "--mount", "sh", "-c", prepare, "sh", binary, *options]

    return started(where, command)


NO_FLOOR = "limits.min_free_bytes = 0\n"
"""For a configuration of `hither serve`: what it does must not depend on how full the disk is."""


def with_config(flags: Sequence[object]) -> list[str]:
    """The flags of a `hither serve`, with serve.toml where they name no configuration."""
    config = [] if "--config" in flags else ["--config", Path(__file__).with_name("serve.toml")]
    return [*map(str, flags), *map(str, config)]


def hither(
    where: Loopback,
    root: Path,
    access_log: Path | None = None,
    tls: Tls | None = None,
    more: tuple[str, ...] = (),
) -> contextlib.AbstractContextManager[int]:
    """`hither serve`, read-only without `more`. access_log.py does not read its log."""
    if not HITHER.exists():
        raise RuntimeError(f"{HITHER} is not built")
    options = ["--access-log", str(access_log)] if access_log else []
    options += ["--tls-cert", str(tls.certificate), "--tls-key", str(tls.key)] if tls else []
    options += with_config(more)
    return started(
        where, lambda _, port: [str(HITHER), "serve", str(root), "--listen", f"{where.server_host}:{port}", *options]
    )


def hither_process(*arguments: object) -> tuple[subprocess.Popen, str]:
    """A `hither serve` in a session of its own, which the caller ends; and its HOST:PORT."""
    command = [HITHER, "serve", "--json", *with_config(arguments)]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, start_new_session=True)
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"hither serve did not start: exit code {process.wait()}")
    return process, json.loads(line)["urls"][0].removeprefix("http://").rstrip("/")


def cpu_seconds(session: int) -> float:
    """CPU time of all processes of a session."""
    ticks = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def xrootd_cluster(where: Loopback, roots: list[Path]) -> Iterator[tuple[int, list[int]]]:
    """Runs a manager, and a data server for each of `roots`; yields its port and theirs.

    Files can be located some seconds after the start; `kill` ends a data server.
    """
    needed("cmsd", "xrootd-server")
    meeting = free_port()
    with tempfile.TemporaryDirectory(prefix="hither-cluster-") as folder, contextlib.ExitStack() as stack:
        work = Path(folder)
        (work / "admin").mkdir(mode=0o777)
        (work / "admin").chmod(0o777)

        def start(program_name: str, name: str, port: int | None, role: str) -> None:
            config = work / f"{name}-{program_name}.cfg"
            config.write_text(XROOTD_CLUSTER.format(port=port or "any", meeting=meeting, work=work, role=role))
            command = as_localhost(as_nobody([needed(program_name, "xrootd-server"), "-n", name, "-c", str(config)]))
            stack.enter_context(running(where, command, port, work / f"{name}-{program_name}.log"))

        manager, ports = free_port(), [free_port() for _ in roots]
        start("cmsd", "manager", meeting, "all.role manager")
        start("xrootd", "manager", manager, "all.role manager")
        for number, (root, port) in enumerate(zip(roots, ports, strict=True)):
            role = f"all.role server\noss.localroot {root.resolve()}"
            start("xrootd", f"server{number}", port, role)
            # The cmsd beside it, which talks to the manager.
            start("cmsd", f"server{number}", None, role)
        yield manager, ports


XROOTD6 = BUILT_PEERS / "xrootd6/bin/xrootd"
"""The next version of xrootd, which Debian 12 lacks: without third-party copies by HTTP."""


def rclone(where: Loopback, root: Path) -> contextlib.AbstractContextManager[int]:
    """`rclone serve webdav`."""

    def command(work: Path, port: int) -> list[str]:
        # No directory cache, so that changes made by others are seen at once.
        config = ["--config", f"{work}/rclone.conf", "--cache-dir", str(work), "--dir-cache-time", "0"]
        return [
            needed("rclone", "rclone"),
            "serve",
            "webdav",
            str(root),
            "--addr",
            f"{where.server_host}:{port}",
            *config,
        ]

    return started(where, command)


S3_KEY = ("hither", "not-much-of-a-secret")


def s3_environment(port: int) -> dict[str, str]:
    """The variables by which programs find the store at a port."""
    key, secret = S3_KEY
    where = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_REGION": "us-east-1"}
    return {**where, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}


def s3s(where: Loopback, root: Path) -> contextlib.AbstractContextManager[int]:
    """A store that speaks S3 and has one bucket, `bucket`; `S3_KEY` opens it."""
    key, secret = S3_KEY
    options = ["--access-key", key, "--secret-key", secret]
    return s3_store(
        where, root, "s3s-fs", lambda port: ["--host", where.server_host, "--port", str(port), *options, str(root)]
    )


def versitygw(where: Loopback, root: Path) -> contextlib.AbstractContextManager[int]:
    """The same, by the gateway of Versity."""
    key, secret = S3_KEY

    def options(port: int) -> list[str]:
        metadata = root.with_name(f"metadata-of-{root.name}")
        metadata.mkdir(exist_ok=True)
        common = [
            "--access",
            key,
            "--secret",
            secret,
            "--port",
            f"{where.server_host}:{port}",
            "--quiet",
            "--keep-alive",
        ]
        return [*common, "posix", "--sidecar", str(metadata), str(root)]

    return s3_store(where, root, "versitygw", options)


def rclone_s3(where: Loopback, root: Path) -> contextlib.AbstractContextManager[int]:
    """The same, by `rclone serve s3`, which Debian 12's rclone does not have."""

    def options(port: int) -> list[str]:
        address = ["--addr", f"{where.server_host}:{port}", "--auth-key", ",".join(S3_KEY)]
        return ["serve", "s3", str(root), *address, "--config", ""]

    return s3_store(where, root, "rclone", options)


S3_STORES = {"s3s": s3s, "versitygw": versitygw, "rclone": rclone_s3}


@contextlib.contextmanager
def moto(where: Loopback, root: Path) -> Iterator[int]:
    """The same, by moto, which keeps objects in memory.

    What is in the bucket's folder goes there first, and what is there in the end comes back, by
    requests with a signature that moto does not look at.
    """
    bucket = root / "bucket"
    with s3_store(where, root, "moto_server", lambda port: ["-H", where.server_host, "-p", str(port)]) as port:
        url = f"http://{where.server_host}:{port}/bucket"
        scope = "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/s3/aws4_request"

        def ask(method: str, name: str = "", data: bytes = b"") -> bytes:
            fields = {"Content-Type": "application/octet-stream", "Content-Length": str(len(data))}
            fields["Authorization"] = scope
            request = urllib.request.Request(url + name, data or None, fields, method=method)
            with urllib.request.urlopen(request) as response:
                return response.read()

        ask("PUT")
        for path in [path for path in bucket.rglob("*") if path.is_file()]:
            ask("PUT", "/" + urllib.parse.quote(str(path.relative_to(bucket))), path.read_bytes())
        yield port
        shutil.rmtree(bucket)
        listing = ET.fromstring(ask("GET", "?list-type=2"))
        for key in [element.text for element in listing.iter() if element.tag.endswith("}Key")]:
            (bucket / key).parent.mkdir(parents=True, exist_ok=True)
            (bucket / key).write_bytes(ask("GET", "/" + urllib.parse.quote(key)))


def s3_store(
    where: Loopback, root: Path, name: str, options: Callable[[int], list[str]]
) -> contextlib.AbstractContextManager[int]:
    binary = BUILT_PEERS / "bin" / name

    def command(_: Path, port: int) -> list[str]:
        if not binary.exists():
            raise RuntimeError(f"{name} is not installed (tools/setup-peers installs it)")
        (root / "bucket").mkdir(exist_ok=True)
        return [str(binary), *options(port)]

    return started(where, command)


def raw(where: Loopback) -> contextlib.AbstractContextManager[int]:
    """A socket that sends as many bytes as requested, to measure the link itself."""
    script = str(PEERS / "bytes" / "raw_server.py")
    return started(where, lambda _, port: [sys.executable, script, where.server_host, str(port)])


def tinyproxy(where: Loopback, log: Path, options: str = "") -> contextlib.AbstractContextManager[int]:
    """A proxy, whose log names the host of each request."""

    def command(work: Path, port: int) -> list[str]:
        config = work / "tinyproxy.conf"
        config.write_text(TINYPROXY.format(host=where.server_host, port=port, work=work, log=log, options=options))
        return [needed("tinyproxy", "tinyproxy"), "-d", "-c", str(config)]

    return started(where, command)
