"""Every verb against commonly installed servers: results with exit code 0 are correct, and no good file is lost."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from needs import missing, require
from served import serving as serving_hither

from bench.harness import servers
from bench.harness.links import Loopback

HERE = Loopback()
MODIFIED = 1_700_000_000
TREE = {
    "plain.dat": bytes(range(256)) * 20,
    "with blank.dat": b"blank",
    "plain.dat ": b"ends with a blank",
    "a+b.dat": b"plus",
    "50%.dat": b"percent",
    "a%41b.dat": b"no escape",
    "a&b=c;d.dat": b"signs",
    "ü é.dat": b"letters",
    "ü": b"one letter",
    "plainü": b"ends with a letter",
    "2024-01-01T12:00:00.dat": b"colons",
    "#1.dat": b"hash",
    "empty.dat": b"",
    "large.dat": bytes(range(256)) * 12_000,
    "deep/er/inner.dat": b"inner",
    ".hidden.dat": b"hidden",
}
HIDDEN = {".hidden.dat"}
"""Names that HTML indexes may omit."""
OLD = b"the copy of an earlier run"
INDEXES = {
    "Apache": "Options +Indexes\nIndexOptions FancyIndexing NameWidth=*",
    "Apache, short names": "Options +Indexes\nIndexOptions FancyIndexing NameWidth=8",
    "Apache, table": "Options +Indexes\nIndexOptions FancyIndexing HTMLTable",
    "Apache, list": "Options +Indexes",
}
APACHE = """\
ServerRoot {work}
ServerName localhost
PidFile {work}/pid
DefaultRuntimeDir {work}
Mutex file:{work}
ErrorLog {work}/error.log
Listen 127.0.0.1:{port}
{modules}
TypesConfig /etc/mime.types
DocumentRoot {root}
<Directory {root}>
    Require all granted
    {options}
</Directory>
"""
LIGHTTPD = """\
server.bind = "127.0.0.1"
server.port = {port}
server.document-root = "{root}"
server.errorlog = "{work}/error.log"
server.modules = ( "mod_dirlisting" )
dir-listing.activate = "enable"
"""
CADDY = "{{\n admin off\n}}\nhttp://127.0.0.1:{port} {{\n root * {root}\n file_server browse\n}}\n"
AIOHTTP = """
import sys
from aiohttp import web
app = web.Application()
app.router.add_static("/", sys.argv[2], show_index=True)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""

TOMCAT = """\
<Server port="-1">
  <Service name="Catalina">
    <Connector port="{port}" address="127.0.0.1"/>
    <Engine name="Catalina" defaultHost="localhost">
      <Host name="localhost" appBase="none"><Context path="" docBase="{root}"/></Host>
    </Engine>
  </Service>
</Server>
"""
SERVLET = """\
<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="6.0">
  <servlet>
    <servlet-name>files</servlet-name>
    <servlet-class>org.apache.catalina.servlets.{servlet}</servlet-class>
    <init-param><param-name>listings</param-name><param-value>true</param-value></init-param>
    <init-param><param-name>readonly</param-name><param-value>false</param-value></init-param>
  </servlet>
  <servlet-mapping><servlet-name>files</servlet-name><url-pattern>{pattern}</url-pattern></servlet-mapping>
</web-app>
"""
JETTY = """\
<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "https://jetty.org/configure_10_0.dtd">
<Configure id="server" class="org.eclipse.jetty.server.Server">
  <Call name="addConnector">
    <Arg>
      <New class="org.eclipse.jetty.server.ServerConnector">
        <Arg><Ref refid="server"/></Arg>
        <Set name="host">127.0.0.1</Set>
        <Set name="port">{port}</Set>
      </New>
    </Arg>
  </Call>
  <Set name="handler">
    <New class="org.eclipse.jetty.server.handler.ContextHandler">
      <Set name="contextPath">/</Set>
      <Set name="baseResourceAsString">{root}</Set>
      <Set name="handler">
        <New class="org.eclipse.jetty.server.handler.ResourceHandler"><Set name="dirAllowed">true</Set></New>
      </Set>
    </New>
  </Set>
</Configure>
"""


def configured(command: str, text: str = "") -> Callable:
    """Runs a server with a configuration; `{root}`, `{port}` and `{work}` are replaced in it and in the command."""

    def run(root: Path):
        def started(work: Path, port: int) -> list[str]:
            places = {"root": root, "port": port, "work": work}
            (work / "config").write_text(text.format(**places))
            return servers.as_nobody([word.format(**places) for word in command.split()])

        return servers.started(HERE, started)

    return run


def tomcat(servlet: str, pattern: str) -> Callable:
    """Tomcat with one of its file servlets."""

    def run(root: Path):
        def started(work: Path, port: int) -> list[str]:
            for folder in ("conf", "logs", "temp"):
                (work / folder).mkdir()
            (work / "conf/server.xml").write_text(TOMCAT.format(port=port, root=root))
            (work / "conf/web.xml").write_text(SERVLET.format(servlet=servlet, pattern=pattern))
            home = java_server("tomcat")
            return ["env", f"CATALINA_HOME={home}", f"CATALINA_BASE={work}", "sh", f"{home}/bin/catalina.sh", "run"]

        return servers.started(HERE, started)

    return run


def jetty(root: Path):
    def started(work: Path, port: int) -> list[str]:
        (work / "server.xml").write_text(JETTY.format(port=port, root=root))
        lib = java_server("jetty") / "lib"
        start = ["java", "-cp", f"{lib}/*:{lib}/logging/*", "org.eclipse.jetty.xml.XmlConfiguration"]
        return [*start, str(work / "server.xml")]

    return servers.started(HERE, started)


def xrootd6(root: Path):
    if not servers.XROOTD6.exists():
        missing("xrootd 6")
    return servers.xrootd(HERE, root, binary=servers.XROOTD6)


def java_server(name: str) -> Path:
    """The folder of a server that `tools/setup-peers soak` fetches."""
    home = servers.BUILT_PEERS / name
    if not (home / ".installed").exists():
        missing(name)
    return home


def apache(options: str) -> Callable:
    names = ("mpm_event", "authz_core", "mime", "dir", "autoindex")
    modules = "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in names)
    text = APACHE.replace("{modules}", modules).replace("{options}", options)
    return configured("apache2 -f {work}/config -DFOREGROUND", text)


def aiohttp(root: Path):
    return configured(f"{sys.executable} {{work}}/config {{port}} {{root}}", AIOHTTP)(root)


def nginx(more: str = "", **options) -> Callable:
    return lambda root: servers.nginx(HERE, root, locations=more, **options)


@contextmanager
def cached(root: Path) -> Iterator[int]:
    """nginx with a cache in front of nginx, which never revalidates."""
    folder = root.parent / "cache"
    folder.mkdir(mode=0o777)
    with nginx("location / { autoindex on; }")(root) as upstream:
        location = (
            f"location / {{ proxy_pass http://127.0.0.1:{upstream}; proxy_cache all; proxy_cache_valid any 10m; }}"
        )
        limits = f"proxy_cache_path {folder} keys_zone=all:1m;"
        with servers.nginx(HERE, root, locations=location, limits=limits) as port:
            yield port


@contextmanager
def own(root: Path) -> Iterator[int]:
    with serving_hither(root.parent, "--write") as server:
        yield int(server.base.rstrip("/").rpartition(":")[2])


@contextmanager
def xrdhttp_behind_nginx(root: Path) -> Iterator[int]:
    """A standard proxy replaces the field `Server`, so no response names the server behind it."""
    with servers.xrootd(HERE, root) as port:
        proxy = f"location / {{ proxy_pass http://127.0.0.1:{port}; client_max_body_size 0; }}"
        with servers.nginx(HERE, root, locations=proxy) as front:
            yield front


@dataclass(frozen=True)
class Server:
    name: str
    run: Callable
    """Serves a folder; the context yields the port."""
    needs: str = ""
    takes_uploads: bool = False
    refuses: tuple[str, ...] = ()
    """Names of files that it lists and does not send; the tests omit them."""
    scheme: str = "http"


def s3(name: str, start: Callable, program: str) -> Server:
    return Server(name, lambda root: start(HERE, root), program, takes_uploads=True, scheme="s3")


DIRECT = "location / { autoindex on; }"
UPLOADS = "dav_methods PUT DELETE MKCOL COPY MOVE; create_full_put_path on; client_max_body_size 0;"
FULL_PATHS = f"location / {{ {UPLOADS} autoindex on; }}"
SERVERS = [
    Server("nginx", nginx(DIRECT), "nginx"),
    Server("nginx, cached", cached, "nginx"),
    Server("nginx, WebDAV", nginx(webdav=True), "nginx", takes_uploads=True),
    Server("nginx, full paths", nginx(FULL_PATHS), "nginx", takes_uploads=True),
    *(Server(name, apache(options), "apache2") for name, options in INDEXES.items()),
    Server("Apache, WebDAV", lambda root: servers.apache(HERE, root, webdav=True), "apache2", takes_uploads=True),
    Server("lighttpd", configured("lighttpd -D -f {work}/config", LIGHTTPD), "lighttpd"),
    Server(
        "Caddy",
        configured("env HOME={work} caddy run --config {work}/config --adapter caddyfile", CADDY),
        "caddy",
    ),
    Server("http.server", configured(f"{sys.executable} -m http.server {{port}} -b 127.0.0.1 -d {{root}}")),
    Server("aiohttp", aiohttp),
    Server("XrdHttp", lambda root: servers.xrootd(HERE, root), "xrootd", takes_uploads=True),
    Server("XrdHttp behind nginx", xrdhttp_behind_nginx, "xrootd", takes_uploads=True),
    Server("xrootd", lambda root: servers.xrootd(HERE, root), "xrootd", takes_uploads=True, scheme="root"),
    Server("rclone, WebDAV", lambda root: servers.rclone(HERE, root), "rclone", takes_uploads=True),
    s3("s3s", servers.s3s, "s3s-fs"),
    # Soak: the servers of this list are built or fetched for it, and take minutes to install.
    *(
        pytest.param(server, marks=pytest.mark.soak)
        for server in (
            s3("versitygw", servers.versitygw, "versitygw"),
            s3("rclone, S3", servers.rclone_s3, "rclone"),
            s3("moto", servers.moto, "moto_server"),
            Server("XrdHttp 6", xrootd6, takes_uploads=True),
            Server("xrootd 6", xrootd6, takes_uploads=True, scheme="root"),
            Server("Tomcat", tomcat("DefaultServlet", "/"), "java"),
            Server("Tomcat, WebDAV", tomcat("WebdavServlet", "/*"), "java", takes_uploads=True),
            Server("Jetty", jetty, "java", refuses=("50%.dat", "a%41b.dat")),
        )
    ),
    Server("hither", own, takes_uploads=True),
]


def write(folder: Path, files: dict[str, bytes], age: int = 0) -> None:
    """Writes files with a time of modification `age` seconds before a fixed time."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (MODIFIED - age, MODIFIED - age))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def served(server: Server, folder: Path, monkeypatch) -> Iterator[str]:
    """The URL of the served folder `d`."""
    if server.scheme == "s3" and not (servers.BUILT_PEERS / "bin" / server.needs).exists():
        missing(server.needs)
    if server.scheme != "s3" and server.needs:
        require(server.needs)
    root = folder / "www"
    root.mkdir(parents=True, exist_ok=True)
    for place in (folder, root):
        place.chmod(0o777)
    with server.run(root) as port:
        here = f"127.0.0.1:{port}"
        for variable, value in servers.s3_environment(port).items() if server.scheme == "s3" else []:
            monkeypatch.setenv(variable, value)
        yield {"root": f"root://{here}//d/", "s3": "s3://bucket/d/"}.get(server.scheme, f"http://{here}/d/")


def folder_of(server: Server, folder: Path) -> Path:
    """The served folder `d`."""
    return folder / "www" / ("bucket/d" if server.scheme == "s3" else "d")


@pytest.mark.parametrize("verb", ["cp -r", "cp -r onto old files", "sync", "sync --delete", "check"])
@pytest.mark.parametrize("server", SERVERS, ids=lambda it: it.name)
def test_what_is_read_is_true(hither, tmp_path, monkeypatch, server, verb):
    tree = {name: data for name, data in TREE.items() if name not in server.refuses}
    target = tmp_path / "target"
    before = {
        "cp -r": {},
        "cp -r onto old files": {"plain.dat": OLD},
        "sync": {**tree, "plain.dat": OLD},
        "sync --delete": {**tree, "only-here": OLD},
        "check": tree,
    }[verb]
    write(target, before, age=60 if verb == "sync" else 0)
    write(folder_of(server, tmp_path), tree)
    with served(server, tmp_path, monkeypatch) as url:
        words = ["cp", "-r", f"{url}."] if verb.startswith("cp") else [*verb.split(), url]
        done = hither(*words, target, "--store", tmp_path / "store")
    after = contents(target)
    for name, data in after.items():
        assert data in (tree.get(name), before.get(name)), (name, done)
    assert set(tree) & set(before) <= set(after), f"the server holds what was deleted; {done}"
    if done.code == 0 and verb != "check":
        shown = {name: data for name, data in tree.items() if name not in HIDDEN}
        assert {name: after.get(name) for name in shown} == shown, done
    if done.code == 0 and verb == "sync --delete":
        assert set(after) == set(tree), done
    if verb.startswith("cp"):
        assert done.code == 0, done


@pytest.mark.parametrize("verb", ["cp -r", "sync", "sync --delete"])
@pytest.mark.parametrize("server", [it for it in SERVERS if getattr(it, "values", (it,))[0].takes_uploads], ids=lambda it: it.name)
def test_what_is_written_is_true(hither, tmp_path, monkeypatch, server, verb):
    source = tmp_path / "source"
    write(source, TREE)
    before = {"plain.dat": OLD, "only-there": OLD}
    write(folder_of(server, tmp_path), before, age=60)
    with served(server, tmp_path, monkeypatch) as url:
        words = ["cp", "-r", f"{source}/.", url] if verb == "cp -r" else [*verb.split(), source, url]
        done = hither(*words, "--no-store")
    after = contents(folder_of(server, tmp_path))
    for name, data in after.items():
        assert data in (TREE.get(name), before.get(name)), (name, done)
    if done.code == 0:
        assert {name: after.get(name) for name in TREE} == TREE, done
    removes = verb == "sync --delete" and done.code == 0
    assert ("only-there" in after) != removes, done
    if verb != "sync --delete":
        assert done.code == 0, done


@pytest.mark.parametrize("server", ["XrdHttp", "XrdHttp behind nginx"])
def test_xrdhttp_replaces_no_file_unasked(hither, tmp_path, monkeypatch, server):
    """It ignores `Overwrite: F`, and does not decode the destination of a MOVE."""
    server = next(it for it in SERVERS if getattr(it, "name", "") == server)
    source, folder = tmp_path / "source", folder_of(server, tmp_path)
    write(source, {"a b": b"new", "ü#;": b"new"})
    write(folder, {"a%20b": OLD, "from": b"data", "to": OLD})
    with served(server, tmp_path, monkeypatch) as url:
        copied = hither("cp", source / "a b", source / "ü#;", url, "--no-store")
        moved = hither("mv", "-n", f"{url}from", f"{url}to", "--no-store")
    after = {"a b": b"new", "ü#;": b"new", "a%20b": OLD, "from": b"data", "to": OLD}
    assert contents(folder) == after, (copied, moved)
    assert copied.code == 0, copied


@pytest.mark.parametrize("is_known", [False, True], ids=["unknown server", "known server"])
def test_a_name_that_a_server_cuts_is_not_that_of_another_file(hither, tmp_path, is_known):
    """XrdHttp parses the part after a question mark as a query, encoded or not."""
    require("xrootd")
    files = {"a": b"this is a", "a?b": b"other one"}
    for name in ("cp", "rm", "mv", "mv onto", "put", "cat", "stat", "sync"):
        write(tmp_path / f"www/{name}", files)
    write(tmp_path / "source", {"plain": b"plain"})
    store = ["--store", tmp_path / "store"]
    with servers.xrootd(HERE, tmp_path / "www") as port:
        url = f"http://127.0.0.1:{port}"
        if is_known:
            assert hither("ls", f"{url}/rm/", *store).code == 0
        # The other file is copied as part of the tree.
        jobs = [
            ("cp", "-r", f"{url}/cp/.", tmp_path / "copy"),
            ("rm", f"{url}/rm/a%3Fb"),
            ("mv", f"{url}/mv/a%3Fb", f"{url}/mv/c"),
            ("mv", f"{url}/mv%20onto/a", f"{url}/mv%20onto/c%3Fd"),
            ("cp", tmp_path / "source/plain", f"{url}/put/a%3Fb"),
            ("cat", f"{url}/cat/a%3Fb"),
            ("stat", f"{url}/stat/a%3Fb"),
            ("sync", "--delete", tmp_path / "source", f"{url}/sync"),
        ]
        for job in jobs:
            done = hither(*job, *store)
            assert done.code != 0, (job, done)
            assert "other one" not in done.out
            assert "this is a" not in done.out
            assert "'?' in names" in done.err, (job, done)
    assert contents(tmp_path / "copy") == {"a": files["a"]}
    for name in ("rm", "mv", "mv onto", "put"):
        assert contents(tmp_path / f"www/{name}") == files, name
    assert contents(tmp_path / "www/sync") in ({**files, "plain": b"plain"}, {"a?b": files["a?b"], "plain": b"plain"})


@pytest.mark.parametrize("verb", ["ls", "cp -r", "sync --delete", "check"])
@pytest.mark.parametrize("form", ["json", "jsonp", "xml"])
def test_an_index_for_programs_is_refused(hither, tmp_path, monkeypatch, form, verb):
    target = tmp_path / "target"
    write(target, TREE)
    write(tmp_path / "www/d", TREE)
    server = Server(form, nginx(f"location / {{ autoindex on; autoindex_format {form}; }}"), "nginx")
    with served(server, tmp_path, monkeypatch) as url:
        url = f"{url}." if verb == "cp -r" else url
        done = hither(*verb.split(), url, *([] if verb == "ls" else [target]), "--no-store")
    assert (done.code, "no HTML index" in done.err) == (8, True), done
    assert contents(target) == TREE


@pytest.mark.parametrize("verb", ["ls", "cp -r", "sync --delete", "check"])
def test_an_index_of_paths_that_a_proxy_does_not_know_is_refused(hither, tmp_path, monkeypatch, verb):
    """aiohttp writes absolute paths, which are wrong if nginx serves them under another path."""
    target = tmp_path / "target"
    write(target, TREE)
    write(tmp_path / "www/d", TREE)
    with aiohttp(tmp_path / "www") as upstream:
        proxy = f"location /data/ {{ proxy_pass http://127.0.0.1:{upstream}/; }}"
        with nginx(proxy)(tmp_path / "www") as port:
            url = f"http://127.0.0.1:{port}/data/d/"
            url = f"{url}." if verb == "cp -r" else url
            done = hither(*verb.split(), url, *([] if verb == "ls" else [target]), "--no-store")
    assert (done.code, "which leads elsewhere" in done.err) == (5, True), done
    assert contents(target) == TREE
