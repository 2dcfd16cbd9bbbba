"""Attacks on `hither serve`, from the table in `attacks.py`: well-behaved clients are served, and memory stays
bounded."""

import os
import re
import socket
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from attacks import ATTACKS, LARGE, Attack, Attacker, get
from served import CONTENT, PATIENCE, serving

from bench.harness import servers


def answer(attacker: Attacker, seconds: float) -> bytes:
    """The body of `/small`; fails if it takes longer than `seconds`."""
    connection = attacker.connect()
    with connection:
        connection.settimeout(seconds)
        connection.sendall(get("/small", "Connection: close\r\n"))
        received = b""
        while piece := connection.recv(1 << 20):
            received += piece
    return received.partition(b"\r\n\r\n")[2]


def peak_mib(process: int) -> int:
    """The peak memory of a process, in MiB."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[1]) >> 10


def is_ended(connection: socket.socket, seconds: float, replies: bytes) -> bool:
    """Reads to the end of a connection, and sends `replies` after each read; false if the server is silent for
    `seconds`."""
    connection.settimeout(seconds)
    try:
        while connection.recv(1 << 20):
            connection.sendall(replies)
        return True
    except TimeoutError:
        return False
    except OSError:
        return True


def metric(url: str, name: str) -> float:
    with urllib.request.urlopen(url + "metrics", timeout=PATIENCE) as response:
        return float(re.search(rf"^{name} (\S+)$", response.read().decode(), re.MULTILINE)[1])


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.begins.__name__)
def test_clients_that_behave_are_served_meanwhile(tmp_path, attack: Attack):
    config = tmp_path / "serve.toml"
    config.write_text(f"[limits]\n{attack.limits}\n")
    flags = ["--config", str(config), "--metrics", "127.0.0.1:0"]
    if attack.is_secure:
        (tmp_path / "tls").mkdir()
        tls = servers.certificate(tmp_path / "tls")
        flags += ["--tls-cert", str(tls.certificate), "--tls-key", str(tls.key)]
    with ExitStack() as stack:
        served = stack.enter_context(serving(tmp_path, *flags))
        served.file("small")
        with (served.folder / "large").open("wb") as large:
            os.truncate(large.fileno(), LARGE)
        attacker = Attacker(served, attack.is_secure)
        connections = [stack.enter_context(connection) for connection in attack.begins(attacker)]
        for address in attack.clients:
            client = Attacker(served, attack.is_secure, address)
            for _ in range(5):
                assert answer(client, attack.served_within) == CONTENT
        assert peak_mib(served.process.pid) <= attack.resident_mib
        if attack.ends_within:
            assert all(is_ended(connection, attack.ends_within, attack.replies) for connection in connections)
        for name in attack.counted:
            assert metric(served.told["metrics"], name) > 0, name
