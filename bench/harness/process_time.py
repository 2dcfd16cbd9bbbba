"""Runs a command and prints its time, CPU time, peak memory and output as one JSON object.

    python process_time.py TIMEOUT_SECONDS COMMAND...

It runs at the client's end, so entering a namespace is not counted. After the time-out the process
is killed.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time


def run(timeout: float, command: list[str]) -> dict:
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    late = threading.Event()

    def kill():
        late.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(timeout, kill)
    timer.start()
    errors: list[bytes] = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - started
    timer.cancel()
    reader.join()
    return {
        "exit": os.waitstatus_to_exitcode(status),
        "timeout": late.is_set(),
        "wall": wall,
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,
        "stdout": output.decode(errors="replace"),
        "stderr": errors[0].decode(errors="replace")[-2000:],
    }


if __name__ == "__main__":
    print(json.dumps(run(float(sys.argv[1]), sys.argv[2:])))
