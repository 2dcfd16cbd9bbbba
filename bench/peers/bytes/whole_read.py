"""Reads a whole file as bytes.

    python -m bench.peers.bytes.whole_read URL WAY

WAY is `hither` (hither.open, in one read) or `wget` (its process, into a pipe). Imports are not
timed.
"""

import hashlib
import json
import subprocess
import sys
import time


def main() -> None:
    url, way = sys.argv[1:3]
    if way == "hither":
        import hither

        client = hither.Client(store=False, anonymous=True)
        started = time.monotonic()
        with client.open(url) as file:
            content = file.read()
    else:
        started = time.monotonic()
        content = subprocess.run([way, "-q", "-O", "-", url], stdout=subprocess.PIPE, check=True).stdout
    seconds = time.monotonic() - started
    report = {**client.report.as_dict(), "seconds": seconds} if way == "hither" else {"seconds": seconds}
    print(json.dumps({"report": {**report, "digest": hashlib.sha256(content).hexdigest()}}))


if __name__ == "__main__":
    main()
