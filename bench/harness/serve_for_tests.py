"""Runs a writable server for tests that are not written in Python, until its standard input ends.

    python -m bench.harness.serve_for_tests SERVER FOLDER

Prints the port, or why there is none.
"""

import sys
from pathlib import Path

from bench.harness import servers
from bench.harness.links import Loopback

# Users are authenticated by name, and have a folder of that name.
NAMED = """xrootd.seclib libXrdSec.so
sec.protocol unix
sec.protbind * only unix
ofs.authorize 1
acc.authdb {root}/rights
"""

WRITABLE = {
    "apache": lambda root: servers.apache(Loopback(), root, webdav=True),
    "nginx": lambda root: servers.nginx(Loopback(), root, webdav=True),
    "rclone": lambda root: servers.rclone(Loopback(), root),
    "s3s": lambda root: servers.s3s(Loopback(), root),
    "versitygw": lambda root: servers.versitygw(Loopback(), root),
    "xrootd": lambda root: servers.xrootd(Loopback(), root),
    "xrootd-named": lambda root: servers.xrootd(Loopback(), root, more=NAMED.format(root=root.resolve())),
}


def main() -> int:
    server, folder = sys.argv[1:]
    try:
        with WRITABLE[server](Path(folder)) as port:
            print(port, flush=True)
            sys.stdin.read()
    except RuntimeError as error:
        print(error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
