"""Files as bytes: Python's file interface, positional and vectored reads, hints."""

import io
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from e2e.behaviours import foreign_server

import hither
from hither.exceptions import ProtocolError


@pytest.fixture
def file(site, client, content):
    with client.open(site.put("f", content)) as file:
        yield file


def test_reads_seeks_and_tells_as_a_file(file, content):
    assert file.readable()
    assert file.seekable()
    assert not file.writable()
    assert file.read(10) == content[:10]
    assert file.tell() == 10
    assert file.seek(-4, io.SEEK_END) == len(content) - 4
    assert file.read() == content[-4:]
    assert file.read(5) == b""
    assert file.seek(100) == 100
    assert file.seek(5, io.SEEK_CUR) == 105
    buffer = bytearray(20)
    assert file.readinto(buffer) == 20
    assert bytes(buffer) == content[105:125]
    assert file.size == len(content)
    with pytest.raises(ValueError, match="before the start"):
        file.seek(-1)


def test_is_a_raw_file_that_can_be_buffered(file, content):
    assert isinstance(file, io.RawIOBase)
    buffered = io.BufferedReader(file, 4096)
    assert buffered.read(3) == content[:3]
    buffered.seek(8000)
    assert buffered.read(9000) == content[8000:17000]


def test_lines_are_those_of_an_ordinary_file(site, client, tmp_path):
    lines = b"".join(b"x" * (number % 700) + (b"\r\n" if number % 3 else b"\n") for number in range(3000))
    text = lines + b"y" * 600_000 + b"\n\nno end"
    local = tmp_path / "text"
    local.write_bytes(text)
    with client.open(site.put("text", text)) as file, local.open("rb") as expected:
        assert file.readline(5) == expected.readline(5)
        assert file.tell() == expected.tell()
        assert file.readline(0) == b""
        assert file.read(1000) == expected.read(1000)
        assert file.readlines() == expected.readlines()
        assert file.readline() == b""
        file.seek(300_000)
        expected.seek(300_000)
        assert list(file) == list(expected)
        file.seek(7)
        expected.seek(7)
        assert next(file) == next(expected)
        assert file.tell() == expected.tell()


def test_lines_are_read_in_large_pieces(file, content):
    count = sum(1 for _ in file)
    assert count == content.count(b"\n") + (not content.endswith(b"\n"))
    assert file.report.requests <= 10


@pytest.mark.parametrize("read", [lambda it: it.read(), lambda it: it.read(900), lambda it: it.read_ranges([(0, 700)])])
def test_a_file_whose_response_breaks_off_is_not_whole(client, read):
    def cut(exchange):
        return exchange.command == "GET" and exchange.stream(b"x" * 1000, whole=False)

    site = foreign_server.Site({"/": None, "/f": b"x" * 1000}, cut)
    with foreign_server.serving(site) as server:
        file = client.open(f"http://127.0.0.1:{server.port}/f")
        for _ in range(2):
            with pytest.raises(ProtocolError, match="ended after 500 bytes, but the server states 1000"):
                read(file)


def test_header_fields_of_a_client_are_sent(site, content):
    with hither.Client(store=False, anonymous=True, headers={"X-Site": "T2"}) as client:
        assert client.open(site.put("f", content)).read(4) == content[:4]
    assert site.headers["X-Site"] == "T2"
    with pytest.raises(ValueError, match="hither sets this field itself"):
        hither.Client(headers={"Range": "bytes=0-1"})


def test_read_at_is_short_at_the_end(file, content):
    assert file.read_at(len(content) - 3, 100) == content[-3:]
    assert file.read_at(len(content) + 5, 100) == b""
    assert file.read_at(7, 0) == b""
    assert file.read_at(0, 1 << 62) == content
    with pytest.raises(ValueError, match="negative"):
        file.read_at(-1, 5)


def test_a_range_past_the_end_that_a_server_repeats_is_requested_within_the_file(client):
    def repeats(exchange):
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", exchange.headers.get("Range", ""))
        if exchange.command != "GET" or not asked or int(asked[2]) < 3:
            return False
        length = int(asked[2]) + 1 - int(asked[1])
        return exchange.answer(206, Content_Range=f"bytes {asked[1]}-{asked[2]}/3", Content_Length=length)

    with foreign_server.serving(foreign_server.Site({"/": None, "/f": b"abc"}, repeats)) as server:
        url = f"http://127.0.0.1:{server.port}/f"
        assert client.open(url).read_at(0, 2000) == b"abc"
        assert client.open(url).read_at(1, 2000) == b"bc"
        assert client.open(url).read() == b"abc"


def test_ranges_come_in_the_requested_order(file, content):
    ranges = [(500, 600), (0, 4), (550, 560), (9, 9), (0, 4)]
    found = file.read_ranges(ranges)
    assert [bytes(it) for it in found] == [content[start:stop] for start, stop in ranges]
    assert all(isinstance(it, memoryview) and it.readonly for it in found)


def test_the_memory_of_a_range_outlives_file_and_client(site, content):
    with hither.Client(store=False) as client, client.open(site.put("f", content)) as file:
        (found,) = file.read_ranges([(1000, 5000)])
    array = np.frombuffer(found, dtype="<u4")
    del file, client, found
    assert array.tolist() == list(range(250, 1250))


def test_ranges_beyond_the_end_are_errors(file, content):
    with pytest.raises(hither.exceptions.CorruptError):
        file.read_ranges([(0, 10), (len(content) - 5, len(content) + 5)])
    with pytest.raises(ValueError, match="expected 0 <= start <= stop"):
        file.read_ranges([(5, 4)])


def test_hinted_bytes_are_fetched_once(site, file, content):
    hint = file.hint([(400_000, 500_000)])
    assert bytes(file.read_ranges([(400_000, 500_000)])[0]) == content[400_000:500_000]
    file.cancel(hint)
    asked = sum(1 for _, _, ranges in site.requests if ranges)
    assert bytes(file.read_ranges([(450_000, 460_000)])[0]) == content[450_000:460_000]
    assert sum(1 for _, _, ranges in site.requests if ranges) == asked


def test_every_use_of_a_closed_file_is_an_error(file):
    file.close()
    file.close()
    assert file.closed
    for use in (file.read, file.tell, file.stat, lambda: file.read_at(0, 1), lambda: file.read_ranges([(0, 1)])):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_pickled_files_reopen_at_the_same_position(file, content):
    file.seek(40)
    again = pickle.loads(pickle.dumps(file))
    assert again.tell() == 40
    assert again.read(8) == content[40:48]
    again.close()


def test_many_threads_read_one_file(file, content):
    def read(at):
        start = at * 997 % 1_000_000
        return file.read_at(start, 500) == content[start : start + 500]

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(read, range(2000)))


def test_other_threads_run_while_one_waits(site, file):
    site.held.clear()
    done = []
    reader = threading.Thread(target=lambda: done.append(file.read_at(0, 10)))
    reader.start()
    for _ in range(1000):
        assert not done
    site.held.set()
    reader.join(30)
    assert len(done) == 1


def test_a_file_that_changes_is_noticed(site, file, content):
    assert file.read_at(0, 10) == content[:10]
    site.tag = '"2"'
    with pytest.raises(hither.exceptions.ChangedError):
        file.read_at(900_000, 10)
    with file.client.open(site.url("f")) as anew:
        assert anew.read_at(900_000, 10) == content[900_000:900_010]


def test_local_files_are_files_too(tmp_path, client, content):
    path = tmp_path / "f"
    path.write_bytes(content)
    with client.open(path) as file:
        assert file.read() == content
        assert bytes(file.read_ranges([(3, 5)])[0]) == content[3:5]
        assert file.hint([(0, 10)]) is None


def test_the_report_counts_what_the_server_saw(site, file):
    file.read_at(0, 1000)
    report = file.report
    assert report.requests == len(site.requests)
    assert report.bytes_payload >= 1000
    assert report.reads == 1
    assert [source.name for source in report.sources] == [site.url("f")]
    assert f"requests                   {report.requests:8}" in str(report)
    assert "<svg" in report._repr_html_()
    assert report.as_dict()["bytes_wasted"] == report.bytes_wasted
