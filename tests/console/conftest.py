"""One browser and one server for the tests of a module; each test makes a visit of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.console.tour import FLAGS, furnish
from tests.support.api import Api
from tests.support.chromium import Browser, Visit, chromium
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("console") / "data", *FLAGS) as process:
        yield process


@pytest.fixture(scope="module")
def api(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as found:
        yield found


@pytest.fixture(scope="module")
def furnished(api: Api) -> None:
    """The server has something to see."""
    furnish(api)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def visit(browser: Browser, server: ServerProcess) -> AsyncIterator[Visit]:
    """A visit in which nothing goes wrong, no policy is violated, and no other server is asked."""
    async with Visit(browser, server) as found:
        yield found
        assert found.faults == []
        assert found.foreign == []
