"""Apache with redirects to the login page of another host for requests without a session, as mod_auth_mellon makes them:
nothing is lost, and nothing counts as done."""

import pytest
from behaviours.table import PAGE
from e2e.loopback_server import LoopbackServer, QuietHandler
from needs import require

from bench.harness import servers
from bench.harness.links import Loopback

DATA = bytes(range(256)) * 20
NEW = b"what is uploaded"
READS, CHANGES = ("GET", "HEAD", "PROPFIND"), ("PUT", "DELETE", "MOVE", "COPY", "MKCOL")
RULES = """
RewriteEngine On
RewriteCond %{{HTTP:Cookie}} !session=
RewriteCond %{{REQUEST_METHOD}} ^({methods})$
RewriteRule ^ http://localhost:{port}/sso?SAMLRequest=x [R={status},L]
"""


class Login(QuietHandler):
    """The page of the other host, for whatever request."""

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(PAGE.encode())

    do_GET = do_HEAD = do_PROPFIND = do_PUT = do_DELETE = do_MOVE = do_COPY = do_MKCOL = answer


VERBS = {
    # The methods that each verb needs. `cat` shows what it receives.
    "ls {url}/": ("PROPFIND",),
    "cp {url}/a.dat {here}/copy": ("GET",),
    "cp -r {url} {here}/tree": ("PROPFIND", "GET"),
    "sync --delete {url} {here}/mirror": ("PROPFIND", "GET"),
    "check --size-only {url} {here}/same": ("PROPFIND",),
    "cp {here}/new.dat {url}/new.dat": ("PUT", "MOVE"),
    "cp {here}/new.dat {url}/a.dat": ("PUT", "MOVE"),
    "cp -r {here}/up {url}/up": ("PUT", "MOVE", "MKCOL"),
    "sync --delete {here}/up {url}": ("PUT", "MOVE", "DELETE"),
    "mv {url}/a.dat {url}/c.dat": ("MOVE",),
    "mkdir {url}/e": ("MKCOL",),
    "rm {url}/a.dat": ("DELETE",),
    "rm -r {url}": ("DELETE",),
}


# Soak: other statuses and methods; 303 is that of mod_auth_mellon.
@pytest.mark.parametrize(
    ("methods", "status"),
    [
        ((*READS, *CHANGES), 303),
        *(
            pytest.param(methods, status, marks=pytest.mark.soak)
            for methods in ((*READS, *CHANGES), CHANGES, ("GET", "HEAD"), ("PUT",), ("MOVE",), ("DELETE",))
            for status in (302, 303, 307)
            if (len(methods), status) != (len(READS) + len(CHANGES), 303)
        ),
    ],
    ids=lambda it: "|".join(it) if isinstance(it, tuple) else str(it),
)
def test_a_login_page_of_another_host_is_never_a_success(hither, tmp_path, methods, status):
    require("apache2")
    before = {"a.dat": DATA, "b.dat": DATA[::-1]}
    for verb in VERBS:
        here = tmp_path / verb.replace("/", "_").replace(" ", "_")
        www = here / "www/d"
        for folder, files in {
            www: before,
            here / "mirror": {**before, "a.dat": NEW, "only-here": NEW},
            here / "same": before,
            here / "up": {"u.dat": NEW},
        }.items():
            folder.mkdir(parents=True)
            for name, data in files.items():
                (folder / name).write_bytes(data)
        (here / "new.dat").write_bytes(NEW)
        for path in (here, www.parent, www, *www.iterdir()):
            path.chmod(0o777 if path.is_dir() else 0o666)
    with LoopbackServer(Login) as login:
        rules = RULES.format(methods="|".join(methods), port=login.port, status=status)
        with servers.apache(Loopback(), tmp_path, webdav=True, rules=rules) as port:
            for verb, needed in VERBS.items():
                here = tmp_path / verb.replace("/", "_").replace(" ", "_")
                url = f"http://127.0.0.1:{port}/{here.name}/www/d"
                done = hither(*verb.format(url=url, here=here).split(), "--no-store")
                assert done.code != 0 or not {*needed} & {*methods}, (verb, done)
                assert "Sign in" not in done.out, (verb, done)
                if done.code == 0:
                    continue
                www = {path.name: path.read_bytes() for path in (here / "www/d").iterdir() if path.is_file()}
                lost = {name for name, data in before.items() if www.get(name) != data}
                assert not lost, (verb, done)
                for name in ("mirror", "same"):
                    for path in (here / name).iterdir():
                        assert path.read_bytes() in (DATA, DATA[::-1], NEW), (verb, path, done)
                assert (here / "mirror/only-here").exists(), (verb, done)
                assert not (here / "copy").exists(), (verb, done)
