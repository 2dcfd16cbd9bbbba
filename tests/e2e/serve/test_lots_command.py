"""`hither lots`: space is reserved, shown, renewed and released on the command line."""

from served import serving

INVALID, NOT_FOUND, UNSUPPORTED, NO_SPACE = 2, 3, 8, 11


def test_a_lot_lives_from_reservation_to_release(hither, tmp_path):
    config = tmp_path / "lots.toml"
    config.write_text("[lots]\nbytes = 100000000\n")
    with serving(tmp_path, "--write", "--config", config) as served:
        url = served.url("")
        told = hither("lots", "reserve", f"{url}a%20b", "--bytes", "1M", "--lease", "1h", "--json")
        assert told.code == 0, told.err
        (lot,) = told.json["lots"]
        assert (lot["path"].strip("/"), lot["bytes"]) == ("a b", 1_000_000)
        shown = hither("lots", "show", url)
        assert lot["id"] in shown.out and "a b" in shown.out, shown.err
        (renewed,) = hither("lots", "renew", url, lot["id"], "--lease", "2h", "--bytes", "2M", "--json").json["lots"]
        assert renewed["bytes"] == 2_000_000 and renewed["expires"] > lot["expires"] + 3000
        assert hither("lots", "reserve", f"{url}c", "--bytes", "1T", "--lease", "1h").code == NO_SPACE
        assert hither("lots", "release", url, lot["id"], "--json").json == {"released": [{"id": lot["id"]}], "errors": []}
        assert hither("lots", "release", url, lot["id"]).code == NOT_FOUND
        assert hither("lots", "renew", url, "../x", "--lease", "1h").code == INVALID
        assert hither("lots", "show", url, "--json").json == {"lots": [], "errors": []}


def test_a_server_without_lots_says_so(hither, tmp_path):
    with serving(tmp_path) as served:
        for request in (["show"], ["reserve", "--bytes", "1M", "--lease", "1h"]):
            told = hither("lots", *request, served.url(""))
            assert told.code == UNSUPPORTED and "has no lots" in told.err, told.err
    assert hither("lots", "show", "root://localhost//x").code == UNSUPPORTED
    assert hither("lots", "show", tmp_path).code == UNSUPPORTED
