"""Running `hither serve`: its log, metrics, health, status page, reloads, the service manager, and replicas on other
servers."""

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from needs import require
from served import CONTENT, PATIENCE, in_order
from token_issuer import Issuer, Key

from bench.harness import servers
from bench.harness.links import Loopback
from bench.harness.paths import HITHER, ROOT
from bench.harness.waiting import wait_until


class Manager:
    """The service manager's end of `sd_notify`."""

    def __init__(self, folder: Path):
        self.path = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(PATIENCE)

    def told(self) -> list[str]:
        """The names in the next message, in order."""
        message = self.socket.recv(4096).decode()
        return [line.partition("=")[0] for line in message.splitlines()]


class Served:
    """A running `hither serve` with a configuration, metrics and a service manager."""

    def __init__(self, folder: Path, text: str = ""):
        self.folder, self.root, self.log = folder, folder / "www", folder / "access.json"
        self.root.mkdir(exist_ok=True)
        (self.root / "file.bin").write_bytes(CONTENT)
        self.config = folder / "serve.toml"
        self.configure(text)
        self.manager = Manager(folder)
        environment = {**os.environ, "NOTIFY_SOCKET": str(self.manager.path)}
        command = [HITHER, "serve", "--json", "--config", self.config]
        self.complaints = folder / "stderr"
        with self.complaints.open("wb") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment)
        told = json.loads(self.process.stdout.readline())
        self.base, self.metrics = told["urls"][0], told["metrics"]
        assert self.manager.told() == ["READY"]

    def configure(self, text: str) -> None:
        self.config.write_text(
            f'root = "{self.root}"\nlisten = ["127.0.0.1:0"]\nmetrics = "127.0.0.1:0"\naccess_log = "{self.log}"\n{text}'
        )

    def reload(self) -> str:
        """Sends SIGHUP; returns the messages that follow."""
        before = self.complaints.stat().st_size
        self.process.send_signal(signal.SIGHUP)
        assert self.manager.told() == ["RELOADING", "MONOTONIC_USEC"]
        assert self.manager.told() == ["READY"]
        return self.complaints.read_bytes()[before:].decode()

    def curl(self, target: str, *arguments: str) -> tuple[int, str]:
        url = target if "://" in target else self.base + target
        command = [require("curl"), "-s", "-m", "60", "-o", "-", "-w", "\n%{http_code}", *arguments, url]
        out = subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace")
        body, _, status = out.rpartition("\n")
        return int(status), body

    def told(self, path: str) -> str:
        with urllib.request.urlopen(self.metrics + path, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def wait_for_line(self) -> None:
        """Waits for the line of the first request, which is written after its response."""
        wait_until(lambda: self.log.read_text().endswith("\n"), "a line of the log")

    def stop(self) -> list[dict]:
        """Stops the server; returns the lines of its log."""
        if self.process.poll() is None:
            self.process.terminate()
            assert self.manager.told() == ["STOPPING"]
            assert self.process.wait(PATIENCE) == 0
        return in_order(self.log)


@contextmanager
def serving(folder: Path, text: str = ""):
    served = Served(folder, text)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.kill()
            served.process.wait(PATIENCE)
        served.process.stdout.close()
        served.manager.socket.close()


def metrics_of(served: Served, requests: int) -> dict[str, str] | None:
    """The metrics once this number of requests has ended, which is a moment after their responses."""
    metrics = dict(line.rsplit(" ", 1) for line in served.told("metrics").splitlines() if line[:1] != "#")
    ended = sum(int(value) for name, value in metrics.items() if name.startswith("hither_requests_total{"))
    return metrics if ended == requests else None


def test_metrics_and_log_match_the_requests_of_curl(tmp_path):
    with serving(tmp_path, "write = true") as served:
        source = tmp_path / "source"
        source.write_bytes(CONTENT)
        assert served.curl("file.bin", "-r", "0-9,20-29")[0] == 206
        assert served.curl("put", "-T", str(source))[0] == 201
        assert served.curl("none")[0] == 404
        metrics = wait_until(lambda: metrics_of(served, requests=3), "the end of three requests")
        assert metrics['hither_requests_total{code="2xx",method="PUT"}'] == "1"
        assert metrics["hither_received_bytes_total"] == str(len(CONTENT))
        assert metrics["hither_request_ranges_sum"] == "2"
        assert float(metrics['hither_disk_seconds_total{work="write"}']) > 0
        health = json.loads(served.told("healthz"))
        assert health["healthy"]
        assert set(health["checks"]) == {"running", "tree", "space"}
        ranges, put, none = served.stop()
    assert (ranges["status"], ranges["ranges"], ranges["complete"]) == (206, 2, True)
    assert ranges["tcp"]["rtt_ms"] > 0
    assert ranges["tcp"]["retransmits"] == 0
    assert (put["received"], put["disk_ms"] > 0) == (len(CONTENT), True)
    assert none["reason"] == "there is no such file or directory"


def test_the_log_names_the_user_and_the_reason_of_an_error(tmp_path):
    key = Key(tmp_path, "key")
    with Issuer(key) as issuer:
        text = f'[auth]\naudience = ["https://se.example"]\n[[auth.issuers]]\nurl = "{issuer.url}"\nbase = ["/"]'
        with serving(tmp_path, text) as served:
            may, may_not = issuer.token("storage.read:/"), issuer.token("storage.read:/elsewhere")
            for token, status in [(may, 200), (may_not, 403), ("x.y.z", 401)]:
                assert served.curl("file.bin", "-H", f"Authorization: Bearer {token}")[0] == status
            assert served.curl(f"file.bin?authz=Bearer%20{may}&a=b")[0] == 401
            lines = served.stop()
            name = f"{issuer.url} {issuer.claims('')['sub']}"
        assert [line.get("who") for line in lines] == [name, name, None, None]
        reasons = [line.get("reason", "") for line in lines]
        assert reasons[0] == ""
        assert "scope" in reasons[1]
        assert reasons[2:] == ["the token is not valid here", "a token or certificate is required"]
        assert lines[3]["target"] == "/file.bin?authz=...&a=b"
        assert may.split(".")[2] not in served.log.read_text()


def test_prometheus_accepts_the_metrics(tmp_path):
    """Every line conforms to the text format 0.0.4, and no series occurs twice."""
    with serving(tmp_path) as served:
        served.curl("file.bin")
        with urllib.request.urlopen(served.metrics + "metrics", timeout=PATIENCE) as answer:
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            lines = answer.read().decode().splitlines()
    comment = re.compile(r"# (HELP [a-z_]+ .+|TYPE [a-z_]+ (counter|gauge|histogram))")
    sample = re.compile(r'([a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})?) (\d+(\.\d+)?(e-?\d+)?)')
    series = [sample.fullmatch(line) or comment.fullmatch(line) or pytest.fail(line) for line in lines]
    names = [match[1] for match in series if match.re is sample]
    assert len(names) == len(set(names)) > 100


def test_a_reload_applies_valid_settings_and_ignores_invalid_ones(tmp_path):
    with serving(tmp_path) as served:
        assert served.curl("new", "-T", str(served.config))[0] == 403
        served.configure("write = true\n[limits]\nconnections = 7")
        assert "restart to apply limits.connections" in served.reload()
        assert served.curl("new", "-T", str(served.config))[0] == 201
        for broken, why in [
            ("write = false\nnonsense = 1", "nonsense"),
            ("write = false\n[limits]\nranges = 0", "limits.ranges"),
            ('[auth]\n[[auth.issuers]]\nurl = "https://iam.example"\nkeys = "/no/keys"', "/no/keys"),
            ('[tls]\ncertificate = "/no/cert"\nkey = "/no/key"', None),
        ]:
            served.configure(broken)
            said = served.reload()
            if why:
                assert "was not reloaded" in said, said
                assert why in said, said
                assert served.curl("new", "-T", str(served.config))[0] == 204, "as before"
        served.configure('[auth]\nanonymous = ["/public"]')
        assert "was reloaded" in served.reload()
        assert served.curl("file.bin")[0] == 401
        served.config.unlink()
        assert "serve.toml" in served.reload()
        lines = served.stop()
    assert "a token or certificate is required" in lines[-1]["reason"]


def test_the_log_continues_in_a_new_file(tmp_path):
    """Like logrotate: rename, then SIGHUP."""
    with serving(tmp_path) as served:
        served.curl("file.bin?1")
        served.wait_for_line()
        served.log.rename(tmp_path / "access.json.1")
        served.reload()
        served.curl("file.bin?2")
        new = served.stop()
    old = [json.loads(line) for line in (tmp_path / "access.json.1").read_text().splitlines()]
    assert [line["target"] for line in old + new] == ["/file.bin?1", "/file.bin?2"]
    assert len(new) == 1


def test_logrotate_rotates_the_log(tmp_path):
    """With the recipe of the guide."""
    logrotate = require("logrotate")
    with serving(tmp_path) as served:
        served.curl("file.bin?1")
        served.wait_for_line()
        recipe = tmp_path / "recipe"
        recipe.write_text(
            f"su root root\n{served.log} {{\n daily\n rotate 3\n missingok\n"
            f" postrotate\n  kill -HUP {served.process.pid}\n endscript\n}}\n"
        )
        recipe.chmod(0o644)
        if os.geteuid() != 0:
            pytest.skip("logrotate is for root")
        subprocess.run([logrotate, "--force", "--state", tmp_path / "state", recipe], check=True, timeout=PATIENCE)
        assert served.manager.told() == ["RELOADING", "MONOTONIC_USEC"]
        assert served.manager.told() == ["READY"]
        served.curl("file.bin?2")
        new = served.stop()
    assert [line["target"] for line in new] == ["/file.bin?2"]
    assert "/file.bin?1" in (tmp_path / "access.json.1").read_text()


@contextmanager
def replicated(folder: Path, *before: str):
    """A server that offers the copies of nginx over `store`, after those at the addresses `before`."""
    store = folder / "elsewhere" / "store"
    store.mkdir(parents=True)
    with servers.nginx(Loopback(), store.parent) as port:
        urls = json.dumps([*before, f"http://127.0.0.1:{port}/store"])
        with serving(folder, f'[[replicas]]\npath = "/"\nurls = {urls}') as served:
            yield served, store


def test_davix_finds_a_replica_when_the_first_ones_are_dead(tmp_path):
    """The file is missing on this server; the server of one replica is dead, the other works."""
    davix = require("davix-get")
    with replicated(tmp_path, "http://127.0.0.1:1/store") as (served, store):
        (store / "copied").write_bytes(CONTENT)
        got = tmp_path / "got"
        subprocess.run([davix, served.base + "copied", got], check=True, timeout=PATIENCE, capture_output=True)
        assert got.read_bytes() == CONTENT
        # Hither reads it too, using the document.
        ours = subprocess.run(
            [HITHER, "cat", served.base + "copied?metalink"], check=True, timeout=PATIENCE, capture_output=True
        )
        assert ours.stdout == CONTENT


def test_aria2_downloads_from_all_replicas(tmp_path):
    aria2 = require("aria2c")
    with replicated(tmp_path) as (served, store):
        (store / "file.bin").write_bytes(CONTENT)
        out = tmp_path / "out"
        command = [aria2, "-d", out, "--follow-metalink=mem", "--allow-overwrite", "--no-conf", "-q"]
        subprocess.run([*command, served.base + "file.bin"], check=True, timeout=PATIENCE)
        assert (out / "file.bin").read_bytes() == CONTENT
        lines = served.stop()
    assert lines[0]["target"] == "/file.bin"
    assert lines[0]["sent"] < 2000, "the document"


def dom(folder: Path, url: str, *flags: str) -> str:
    """A page in Chromium after its scripts have run."""
    chromium = require("chromium")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile", *flags]
    done = subprocess.run(
        [*command, "--virtual-time-budget=3000", "--dump-dom", url], capture_output=True, timeout=PATIENCE, check=True
    )
    return done.stdout.decode()


# Soak: Chromium is large to install.
@pytest.mark.soak
def test_a_browser_shows_the_status(tmp_path):
    name = "a<b>&amp;'\"</script>.bin"
    with serving(tmp_path) as served:
        (served.root / name.replace("/", "")).write_bytes(CONTENT)
        for _ in range(3):
            assert served.curl(urllib.request.quote(name.replace("/", "")))[0] == 200
        page = dom(tmp_path, served.metrics + "status")
    assert '<p id="health" role="status" class="">healthy</p>' in page
    row = re.search(r'<tbody id="top">.*?</tbody>', page, re.DOTALL)[0]
    assert "/a&lt;b&gt;&amp;amp;'\"&lt;script&gt;.bin" in row, row
    assert "<td>3</td><td>3 MiB</td>" in row, row
    assert re.search(r'<dd id="connections">\d+', page)
    assert re.search(r'<svg id="bytes"[^>]* aria-label="sent: .*? now, ', page), "as those hear it who do not see it"
    assert 'id="stale" role="alert" hidden' in page


# Soak: Chromium is large to install.
@pytest.mark.soak
def test_a_browser_shows_a_directory(tmp_path):
    with serving(tmp_path, "write = true") as served:
        folder = served.root / "run 7"
        folder.mkdir()
        (folder / "b.root").write_bytes(bytes(3 << 20))
        assert served.curl("run%207/a&b.txt", "-T", str(served.config))[0] == 201
        page = dom(tmp_path, served.base + "run%207/")
    rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)
    names = [re.search(r'<a href="([^"]*)">(.*?)</a>', row) for row in rows]
    assert [found[1] for found in names if found] == ["/", "/run%207/a%26b.txt", "/run%207/b.root"]
    assert "3.0 MiB" in page
    assert 'title="3145728 bytes"' in page
    assert re.search(r"<code>[0-9a-f]{8}</code>", page), "the sum that was noted when it came"


UNIT = ROOT / "packaging" / "hither-serve.service"


def test_the_systemd_unit_is_valid_and_restricted(tmp_path):
    require("systemd-analyze")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/bin/hither", str(HITHER)))
    # Only the package installs the manual page.
    verify = ["systemd-analyze", "verify", "--man=no", unit]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def landlock() -> int:
    """The Landlock version of the kernel; 0 if none."""
    return max(0, ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))


@pytest.mark.parametrize("confined", [True, False])
def test_the_process_reaches_only_the_files_and_system_calls_of_its_settings(hither, tmp_path, tmp_path_factory, confined):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "keys.json"
    elsewhere.write_text("{}")
    with serving(tmp_path, f"write = true\nsandbox = {str(confined).lower()}\n") as served:
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{served.process.pid}/status").read_text().splitlines())
        assert (status["Seccomp"], status["NoNewPrivs"]) == (("2", "1") if confined else ("0", "0"))
        if landlock() < 2:
            pytest.skip("this kernel has no Landlock that allows to move files (Linux 5.19)")
        # A reload needs a file that the settings did not name when the server started.
        served.configure(f'write = true\n[auth]\n[[auth.issuers]]\nurl = "https://iam.example/"\nkeys = "{elsewhere}"\n')
        said = served.reload()
        assert "not reloaded" in said and str(elsewhere) in said, said
        assert ("ermission denied" in said) == confined, said
        # Next to the configuration it is readable.
        beside = tmp_path / "keys.json"
        beside.write_text("{}")
        served.configure(f'write = true\n[auth]\n[[auth.issuers]]\nurl = "https://iam.example/"\nkeys = "{beside}"\n')
        assert "ermission denied" not in served.reload()
