"""Memory of a process that streams a file larger than its cache."""

import subprocess
import sys

from serving import serving

SIZE = 600 << 20
STREAM = """
import re, sys, hither
with hither.Client(store=False, anonymous=True) as client, client.open(sys.argv[1]) as file:
    count = 0
    while piece := file.read(1 << 20):
        count += len(piece)
found = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(count, int(found[1]) * 1024)
"""


def test_streaming_takes_little_memory(tmp_path):
    with (tmp_path / "f").open("wb") as file:
        file.truncate(SIZE)
    with serving("nginx", tmp_path) as url:
        command = [sys.executable, "-c", STREAM, f"{url}/f"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    count, resident = map(int, done.stdout.split())
    print(resident)
    assert count == SIZE
    # 40 MB of it are used before the first read. At most 64 MiB of the stream are in flight or wait
    # for earlier bytes, and the allocator keeps the same amount again: the median is 136 MB on an
    # idle machine, and 183 MB with six busy programs.
    assert resident < 200e6
