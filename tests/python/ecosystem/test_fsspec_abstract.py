"""fsspec's own suite for filesystems, with WebDAV servers."""

import pytest
from needs import python_package

fsspec = python_package("fsspec")

from fsspec.tests.abstract import (  # noqa: E402
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)
from serving import serving  # noqa: E402

import hither  # noqa: E402
from hither.fsspec import HitherFileSystem  # noqa: E402


@pytest.fixture(scope="module", params=["apache", "rclone"])
def base(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("www")
    folder.chmod(0o777)
    with serving(request.param, folder) as url:
        yield url


class Fixtures(AbstractFixtures):
    @pytest.fixture
    def fs(self):
        with hither.Client(store=False, anonymous=True) as client:
            yield HitherFileSystem(client=client, skip_instance_cache=True)

    @pytest.fixture
    def fs_path(self, base):
        return base

    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(part.rstrip("/") if at == 0 else part for at, part in enumerate(parts))

    @pytest.fixture
    def supports_empty_directories(self):
        return True


class TestCopy(Fixtures, AbstractCopyTests):
    pass


class TestGet(Fixtures, AbstractGetTests):
    pass


class TestOpen(Fixtures, AbstractOpenTests):
    pass


class TestPipe(Fixtures, AbstractPipeTests):
    pass


class TestPut(Fixtures, AbstractPutTests):
    pass
