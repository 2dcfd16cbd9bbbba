"""Certificates that clients must reject: for other names, or expired. Made with openssl."""

import subprocess
from pathlib import Path

from bench.harness import servers

# `openssl ca` is the only openssl command that accepts two dates, and it needs a database.
BOOKS = """\
[ca]
default_ca = books
[books]
database = {folder}/index.txt
new_certs_dir = {folder}
serial = {folder}/serial
default_md = sha256
policy = any
[any]
commonName = supplied
"""


def certificate(folder: Path, names: str, dates: tuple[str, str] = ("20200101000000Z", "20991231000000Z")) -> servers.Tls:
    """A certificate for `names` (`DNS:a,IP:b`), valid between two dates, from a separate authority."""
    folder.mkdir()
    tls = servers.certificate(folder)
    (folder / "index.txt").touch()
    (folder / "serial").write_text("01\n")
    (folder / "books").write_text(BOOKS.format(folder=folder))
    (folder / "extensions").write_text(f"subjectAltName={names}\n")
    command = ["openssl", "ca", "-batch", "-notext", "-config", "books", "-extfile", "extensions"]
    command += ["-cert", "authority.pem", "-keyfile", "authority.key", "-startdate", dates[0], "-enddate", dates[1]]
    command += ["-in", "server.csr", "-out", "server.pem"]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tls
