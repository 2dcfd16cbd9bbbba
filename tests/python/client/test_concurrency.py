"""Event loops, threads, forks, signals, and the end of the interpreter."""

import asyncio
import importlib.metadata
import multiprocessing
import os
import pickle
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import zlib
from pathlib import Path

import pytest

import hither
from hither.fsspec import HitherFileSystem


def test_async_reads_run_concurrently(site, client, content):
    url = site.put("f", content)

    async def use():
        files = [client.open(url) for _ in range(20)]
        stats = await asyncio.gather(*(file.stat_async() for file in files))
        heads = await asyncio.gather(*(file.read_at_async(at, 100) for at, file in enumerate(files)))
        ranges = await files[0].read_ranges_async([(5, 10), (0, 2)])
        return stats, heads, ranges

    stats, heads, ranges = asyncio.run(use())
    assert {stat.size for stat in stats} == {len(content)}
    assert heads == [content[at : at + 100] for at in range(20)]
    assert [bytes(it) for it in ranges] == [content[5:10], content[0:2]]


def test_async_errors_are_raised_where_they_are_awaited(site, client):
    async def use():
        await client.open(site.url("gone")).read_at_async(0, 1)

    with pytest.raises(FileNotFoundError):
        asyncio.run(use())


def test_a_panic_is_an_error_where_its_result_is_awaited(site):
    # Without its class the exception cannot be made, which is a panic.
    program = """
        import asyncio, sys, hither
        from hither import exceptions

        del exceptions.NotFoundError

        async def use():
            with hither.Client(store=False, anonymous=True) as client:
                await asyncio.wait_for(client.open(sys.argv[1]).read_at_async(0, 1), 60)

        try:
            asyncio.run(use())
        except hither.exceptions.HitherError as error:
            print(type(error).__name__, error)
    """
    ended = run(program, site.url("gone"))
    assert "HitherError a defect of hither, please report it: failed to import" in ended.stdout, ended.stderr


def test_a_cancelled_task_cancels_its_read(site, client, content):
    url = site.put("f", content)

    async def use():
        file = client.open(url)
        site.held.clear()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(file.read_at_async(0, 10), 0.05)
        site.held.set()
        return await file.read_at_async(0, 10)

    assert asyncio.run(use()) == content[:10]


def test_a_loop_may_end_before_its_reads(site, client, content):
    url = site.put("f", content)
    file = client.open(url)
    site.held.clear()

    async def leave():
        left = asyncio.ensure_future(file.read_at_async(0, 10))
        await asyncio.ensure_future(file.client.stat_async("/"))
        assert not left.done()

    asyncio.run(leave())
    site.held.set()
    assert file.read_at(0, 10) == content[:10]


def test_a_job_is_awaited_once(site, client):
    job = client._core.stat(site.put("f", b"1"))
    job.wait()
    with pytest.raises(ValueError, match="waited for"):
        job.wait()


def test_ctrl_c_ends_a_wait(site, client):
    file = client.open(site.put("f", b"123"))
    site.held.clear()

    def press():
        # The read is in progress once the server has its request.
        assert site.asked.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    # A process that was started in the background ignores the signal, and so do its children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=press).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            file.read(1)
    finally:
        signal.signal(signal.SIGINT, before)
        site.held.set()
    assert file.read(1) == b"1"


def _child(url, file, queue):
    with hither.open(url) as own:
        queue.put((file.read_at(0, 4), own.read_at(4, 4), file.client.stat(url).size))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_files_and_clients_work_in_child_processes(site, client, content, method):
    url = site.put("f", content)
    file = client.open(url)
    assert file.read_at(0, 4) == content[:4]
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=_child, args=(url, file, queue)) for _ in range(3)]
    for child in children:
        child.start()
    found = [queue.get(timeout=60) for _ in children]
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert found == [(content[:4], content[4:8], len(content))] * 3
    assert file.read_at(8, 4) == content[8:12]


def _read_again(file, queue):
    queue.put((file.size, file.readline(), file.readall()))


def test_a_forked_child_reads_one_version(site, client):
    url = site.put("f", b"old\n" * 10)
    file = client.open(url)
    assert file.readline() == b"old\n"
    assert file.size == 40
    site.put("f", b"new\n" * 20)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_read_again, args=(file, queue))
    child.start()
    assert queue.get(timeout=60) == (80, b"new\n", b"new\n" * 18)
    child.join(60)
    assert child.exitcode == 0


ROUNDS = int(os.environ.get("HITHER_ROUNDS", "20"))


def test_forks_during_reads_do_not_hang(site, client, content):
    url = site.put("f", content)
    file = client.open(url)
    stop = threading.Event()

    def keep_reading():
        at = 0
        while not stop.is_set():
            at = (at + 65_537) % 900_000
            file.read_at(at, 3000)
            hither.Client(store=False).open(url).read_at(at, 10)

    readers = [threading.Thread(target=keep_reading) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(ROUNDS):
            child = os.fork()
            if child == 0:
                os._exit(0 if file.read_at(0, 8) == content[:8] else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for reader in readers:
            reader.join(60)


def run(program: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_processes_exit_with_open_files_and_active_reads(site, content):
    url = site.put("f", content)
    site.put("stuck", content)
    program = """
        import asyncio, sys, threading, hither
        url, how = sys.argv[1:]
        files = [hither.open(url) for _ in range(50)]
        files[0].read(10)
        if how == "thread":
            threading.Thread(target=lambda: files[1].read_at(500_000, 10), daemon=True).start()
        if how == "loop":
            async def leave():
                asyncio.ensure_future(files[1].read_at_async(500_000, 10))
                await hither.default_client().stat_async("/")
            asyncio.run(leave())
        if how == "hint":
            files[1].hint([(0, 900_000)])
        print("end")
    """
    for how in ("plain", "thread", "loop", "hint"):
        for _ in range(max(1, ROUNDS // 10)):
            ended = run(program, url, how)
            assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", ""), how


def test_importing_is_cheap_and_imports_nothing_optional():
    program = """
        import sys
        # What other packages of the environment have every interpreter import at its start.
        there = set(sys.modules)
        import hither
        named = {name.split(".")[0] for name in set(sys.modules) - there}
        print(sorted(named - set(sys.stdlib_module_names) - {"hither"}))
        print("asyncio" in named, len([name for name in sys.modules if name.split(".")[0] == "hither"]))
    """
    ended = run(program)
    foreign, rest = ended.stdout.splitlines()
    assert (ended.returncode, foreign) == (0, "[]"), ended.stderr
    has_asyncio, modules = rest.split()
    assert has_asyncio == "False"
    # Modules for reading; those for tables, pictures and collections are imported on demand.
    assert int(modules) <= 21, modules


def test_responses_during_the_exit_of_the_interpreter_are_harmless(site, content):
    url = site.put("f", content)
    program = """
        import asyncio, sys, hither
        files = [hither.open(sys.argv[1]) for _ in range(20)]
        files[0].read_at(0, 1_000_000)
        loop = asyncio.new_event_loop()
        async def read(at):
            await files[at % 20].read_at_async(at, 10)
        for at in range(600):
            loop.create_task(read(at))
        loop.call_soon(loop.stop)
        loop.run_forever()
        print("end")
    """
    for _ in range(max(1, ROUNDS // 2)):
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        # Python reports that each task was abandoned, and nothing else.
        assert (ended.returncode, ended.stdout) == (0, "end\n"), ended.stderr[-2000:]
        assert "Fatal" not in ended.stderr


def has_symbols(library: bytes) -> bool:
    """Return whether a 64-bit ELF file has a symbol table (SHT_SYMTAB)."""
    at, size, count = (*struct.unpack_from("<Q", library, 0x28), *struct.unpack_from("<HH", library, 0x3A))
    return any(struct.unpack_from("<I", library, at + nth * size + 4)[0] == 2 for nth in range(count))


def test_the_extension_is_small():
    extension = Path(hither._core.__file__).read_bytes()
    if has_symbols(extension):
        pytest.skip("a build with symbols, which a wheel has not")
    packed = len(zlib.compress(extension, 6))
    print(f"{len(extension):,} bytes, {packed:,} in a wheel")
    # It contains the command and the server; CI builds it without link-time optimization.
    assert packed < 16_000_000


def test_the_command_is_on_the_path(site, content):
    url = site.put("f", content)
    command = str(Path(sys.executable).with_name("hither"))
    for words in ([command], [sys.executable, "-m", "hither"]):
        cat = subprocess.run([*words, "cat", "--range", "8-15", url], capture_output=True, timeout=60, check=False)
        assert (cat.returncode, cat.stdout) == (0, content[8:16])
        missing = subprocess.run([*words, "stat", site.url("gone")], capture_output=True, timeout=60, check=False)
        assert missing.returncode == 3


def test_clients_pickle_with_their_settings():
    client = hither.Client(max_connections=3, store=False, cache="1 MiB")
    again = pickle.loads(pickle.dumps(client))
    assert again._options == client._options


@pytest.mark.parametrize(
    "options",
    [
        {"token": "CANARY"},
        {"token_command": "token-of CANARY"},
        {"user": "me", "password": "CANARY"},
        {"headers": {"X-Site": "CANARY"}},
        {"proxy": "http://me:CANARY@127.0.0.1:1"},
        {"mirrors": {"http://host/data/": ["http://other/data/?authz=CANARY"]}},
    ],
    ids=lambda options: list(options)[-1],
)
def test_secrets_are_not_pickled(tmp_path, options):
    client = hither.Client(store=False, **options)
    local = tmp_path / "f"
    local.write_bytes(b"content")
    filesystem = HitherFileSystem(store=False, skip_instance_cache=True, **options)
    for holder in (client, hither.open(str(local), client=client), filesystem):
        with pytest.raises(ValueError, match="a pickle would hold the secret in") as raised:
            pickle.dumps(holder)
        assert "CANARY" not in str(raised.value) + repr(holder)


def test_options_that_are_no_secrets_are_pickled(tmp_path):
    (tmp_path / "t").write_text("token")
    (tmp_path / "t").chmod(0o600)
    options = {"token_file": tmp_path / "t", "proxy": "http://127.0.0.1:1", "mirrors": {"http://h/d/": ["http://o/d/"]}}
    client = hither.Client(store=False, **options)
    assert pickle.loads(pickle.dumps(client))._options == client._options


def test_the_version_is_that_of_the_installed_package():
    assert hither.__version__ == importlib.metadata.version("hither")
