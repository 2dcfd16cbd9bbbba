"""XrdCl's part in counting round trips: opens a file and reads its beginning, without closing it.

python -m bench.peers.bytes.xrdcl_first_byte URL BYTES
"""

import os
import sys

from XRootD import client


def main() -> None:
    url, count = sys.argv[1], int(sys.argv[2])
    file = client.File()
    status, _ = file.open(url)
    if not status.ok:
        sys.exit(f"xrdcl_first_byte: {status.message}")
    status, content = file.read(0, count)
    if not status.ok:
        sys.exit(f"xrdcl_first_byte: {status.message}")
    sys.stdout.buffer.write(content)
    sys.stdout.flush()
    # No close: requests after the data must not be counted.
    os._exit(0)


if __name__ == "__main__":
    main()
