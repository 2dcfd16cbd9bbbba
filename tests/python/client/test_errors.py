"""Exceptions are both hither's own and builtin ones."""

import os
import pickle
import subprocess
import sys

import pytest
from needs import require

import hither
from bench.harness import servers
from bench.harness.links import Loopback
from hither import exceptions

BUILTINS = {
    "not_found": FileNotFoundError,
    "unauthenticated": PermissionError,
    "permission_denied": PermissionError,
    "already_exists": FileExistsError,
    "timeout": TimeoutError,
    "unavailable": ConnectionError,
    "protocol": ConnectionError,
    "invalid": ValueError,
    "unsupported": NotImplementedError,
    "corrupt": OSError,
    "changed": OSError,
    "no_space": OSError,
    "too_large": OSError,
    "local": OSError,
}


@pytest.mark.parametrize(
    "name", [name for name in exceptions.__all__ if name != "HitherError" and not name.endswith("Warning")]
)
def test_every_exception_is_also_the_builtin_one(name):
    kind = getattr(exceptions, name)
    assert issubclass(kind, exceptions.HitherError)
    if kind in (exceptions.MissingKeyError, exceptions.CancelledError):
        return
    assert issubclass(kind, BUILTINS[kind.kind])


@pytest.mark.parametrize("name", exceptions.__all__)
def test_exceptions_have_a_message_and_pickle(name):
    error = getattr(exceptions, name)("what was seen")
    assert str(error) == "what was seen"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), "what was seen")


@pytest.mark.parametrize(
    ("status", "builtin", "own"),
    [
        (404, FileNotFoundError, exceptions.NotFoundError),
        (401, PermissionError, exceptions.UnauthenticatedError),
        (403, PermissionError, exceptions.PermissionDeniedError),
        (500, ConnectionError, exceptions.UnavailableError),
    ],
)
def test_statuses_become_exceptions(site, client, status, builtin, own):
    site.statuses["gone"] = status
    with client.open(site.url("gone")) as file, pytest.raises(builtin) as raised:
        file.read(10)
    assert isinstance(raised.value, own)
    assert "gone" in str(raised.value)


def test_missing_local_files_raise_when_they_are_opened(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        hither.open(tmp_path / "none")
    assert raised.value.errno == 2


def test_odd_urls_and_settings_are_value_errors(client):
    with pytest.raises(NotImplementedError):
        client.open("gopher://h/x")
    with pytest.raises(ValueError, match="empty"):
        client.open("")
    with pytest.raises(ValueError, match="is not a size"):
        hither.Client(cache="lots")
    with pytest.raises(ValueError, match="connect_timeout"):
        hither.Client(connect_timeout=-1.0)
    with pytest.raises(ValueError, match="max_connections is 0, expected at least 1"):
        hither.Client(max_connections=0)


def test_a_user_without_password_is_told_of_the_argument():
    code = "import hither; hither.Client(user='me', store=False)"
    environment = {name: value for name, value in os.environ.items() if name != "HITHER_PASSWORD"}
    # Without a terminal to prompt on.
    command = [sys.executable, "-c", code]
    told = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, start_new_session=True, timeout=60
    )
    assert "set HITHER_PASSWORD, or `password` in Python" in told.stderr


def test_a_directory_is_no_file_to_read(client, tmp_path):
    require("nginx")
    (tmp_path / "directory").mkdir()
    with servers.nginx(Loopback(), tmp_path, locations="autoindex on;") as port:
        url = f"http://127.0.0.1:{port}/directory/"
        with client.open(url) as file, pytest.raises(ValueError, match="directory/ is a directory: list it with ls"):
            file.stat()


def test_no_exception_contains_a_secret(site):
    with hither.Client(store=False, token="hush-hush", credentials_over_http=True) as client:
        site.statuses["f"] = 403
        file = client.open(site.url("f") + "?authz=hush-hush")
        with pytest.raises(PermissionError) as raised:
            file.read(1)
        assert "hush-hush" not in f"{raised.value} {file!r} {client!r}"
