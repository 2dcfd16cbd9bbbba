"""Space is reserved, shown, renewed and released from Python, as with `hither lots`."""

import asyncio
import datetime as dt
import sys
import time

import pytest
from serving import Loopback, servers

import hither


@pytest.fixture
def url(tmp_path):
    config = tmp_path / "lots.toml"
    config.write_text("[lots]\nbytes = 100000000\n")
    folder = tmp_path / "served"
    folder.mkdir()
    port = servers.free_port()
    command = [sys.executable, "-m", "hither", "serve", str(folder), "--write", "--config", str(config)]
    command += ["--listen", f"127.0.0.1:{port}"]
    with servers.running(Loopback(), command, port, tmp_path / "serve.log"):
        yield f"http://127.0.0.1:{port}"


def test_a_lot_lives_from_reservation_to_release(client, url):
    lots = client.lots(f"{url}/a%20b")
    lot = lots.reserve("1 MB", lease=dt.timedelta(hours=1))
    assert (lot.path.strip("/"), lot.bytes, lot.used_bytes) == ("a b", 1_000_000, 0)
    assert 3500 < lot.expires - time.time() < 3700
    assert [it.id for it in lots.show()] == [lot.id]
    longer = lots.renew(lot, lease=7200)
    assert (longer.bytes, longer.expires > lot.expires + 3000) == (1_000_000, True)
    assert client.lots(url).renew(lot.id, size=2_000_000).bytes == 2_000_000
    lots.release(lot)
    assert lots.show() == []
    with pytest.raises(FileNotFoundError):
        lots.release(lot)


def test_every_method_has_an_async_twin(client, url):
    async def use():
        lots = client.lots(f"{url}/run7")
        lot = await lots.reserve_async(1000, lease=60)
        renewed = await lots.renew_async(lot, size="2 kB")
        shown = await lots.show_async()
        await lots.release_async(lot)
        return [it.bytes for it in [lot, renewed, *shown]]

    assert asyncio.run(use()) == [1000, 2000, 2000]


def test_what_cannot_be_reserved_says_so(client, url, site):
    lots = client.lots(f"{url}/c")
    with pytest.raises(OSError, match="space") as error:
        lots.reserve("1 TB", lease=60)
    assert isinstance(error.value, hither.exceptions.NoSpaceError)
    for lease in (-1, 0, float("nan"), 1e300):
        with pytest.raises(ValueError, match=r"lease is .*, expected a number of seconds"):
            lots.reserve(1000, lease=lease)
    with pytest.raises(ValueError, match="size=, lease="):
        lots.renew("1f0e")
    with pytest.raises(ValueError, match="not the id of a lot"):
        lots.renew("../x", lease=60)
    with pytest.raises(NotImplementedError, match="has no lots"):
        client.lots(site.url("f")).show()
    with pytest.raises(NotImplementedError, match="https://"):
        client.lots("root://127.0.0.1:1//f").show()
