"""Headers of responses that other clients read."""

import pytest
from behaviours.foreign_server import Exchange, Site, serving

DATA = b"of the file"


class Folded(Exchange):
    def end_headers(self):
        self._headers_buffer.append(b"X-Folded: one\r\n two\r\n\tthree\r\n")
        super().end_headers()


class Wordy(Exchange):
    def end_headers(self):
        for number in range(300):
            self.send_header(f"X-Field-{number}", "value")
        super().end_headers()


@pytest.mark.parametrize("exchange", [Folded, Wordy])
def test_folds_and_hundreds_of_fields_are_read(hither, tmp_path, exchange):
    site = Site({"/": None, "/d/": None, "/d/a.dat": DATA}, lambda _: False)
    with serving(site, exchange) as server:
        url = f"http://127.0.0.1:{server.port}/d/"
        read = hither("cat", f"{url}a.dat", "--no-store")
        copied = hither("cp", "-r", f"{url}.", tmp_path / "copy", "--no-store")
    assert (read.code, read.out.encode()) == (0, DATA), read
    assert (copied.code, (tmp_path / "copy/a.dat").read_bytes()) == (0, DATA), copied
