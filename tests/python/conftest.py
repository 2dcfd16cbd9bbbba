"""Fixtures of the package's tests: a counting server on loopback, and clients without a store."""

import pytest
from counting_site import Site

import hither


@pytest.fixture
def site():
    site = Site()
    yield site
    site.close()


@pytest.fixture
def client():
    with hither.Client(store=False, anonymous=True) as client:
        yield client


@pytest.fixture(scope="session")
def content() -> bytes:
    """A megabyte in which every four bytes encode their position."""
    return b"".join(at.to_bytes(4, "little") for at in range(1 << 18))
