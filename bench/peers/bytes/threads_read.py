"""Threads that share one file and each read their part from front to back: by hither or by XrdCl.

    python -m bench.peers.bytes.threads_read WAY URL THREADS FILE_BYTES EACH_BYTES READ_BYTES

WAY is `hither` or `xrdcl`. The file is one of `numbered` (reads/threads.py): each block of 1 MiB
begins with its number and is empty otherwise, which is checked. Imports are not timed, opening the
file is.
"""

import json
import sys
import threading
import time
from collections.abc import Callable

BLOCK = 1 << 20

# Reads the bytes at an offset, of a length.
Reader = Callable[[int, int], object]


def by_hither(url: str) -> tuple[Reader, Callable[[], dict]]:
    import hither

    client = hither.Client(store=False, anonymous=True)

    def report() -> dict:
        return client.report.as_dict()

    return client.open(url).read_at, report


def by_xrdcl(url: str) -> tuple[Reader, Callable[[], dict]]:
    from XRootD import client

    file = client.File()

    def read(offset: int, length: int) -> bytes:
        status, content = file.read(offset, length)
        if not status.ok:
            raise OSError(status.message)
        return content

    status, _ = file.open(url)
    if not status.ok:
        raise OSError(status.message)
    return read, dict


WAYS = {"hither": by_hither, "xrdcl": by_xrdcl}


def check(offset: int, length: int, content: object) -> None:
    view = memoryview(content)
    if len(view) != length:
        raise ValueError(f"{len(view)} bytes instead of {length} at {offset}")
    for at in range(-offset % BLOCK, len(view), BLOCK):
        if int.from_bytes(view[at : at + 8], "little") != (offset + at) // BLOCK:
            raise ValueError(f"the block at {offset + at} has a wrong number")


def main() -> None:
    way, url = sys.argv[1:3]
    threads, file_bytes, each, step = map(int, sys.argv[3:])
    if way == "hither":
        import hither  # noqa: F401
    else:
        import XRootD.client  # noqa: F401
    failures: list[BaseException] = []

    def work(read: Reader, first: int) -> None:
        try:
            for offset in range(first, first + each, step):
                check(offset, step, read(offset, step))
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    started = time.monotonic()
    read, report = WAYS[way](url)
    workers = [
        threading.Thread(target=work, args=(read, number * (file_bytes // threads))) for number in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.monotonic() - started
    if failures:
        sys.exit(f"threads_read: {failures[0]}")
    print(json.dumps({"report": {**report(), "seconds": seconds}}))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
