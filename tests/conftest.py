"""A shared server, and a namespace on it for each test."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Generator, Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests.support.api import Api
from tests.support.logged_secrets import ALL_SERVERS
from tests.support.server_process import ServerProcess

_numbers: Final = itertools.count(1)

# Examples are the same in each run, so that a failure tells of what was changed, not of luck. `make fuzz` and
# ARGS="--hypothesis-profile=search" look for new ones. Other processes use the machine, too: how long one
# example takes, to run or to draw, says nothing.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same examples", settings.get_profile("search"), derandomize=True)
settings.load_profile("same examples")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collects no garbage where there is none, nor looks for it in 17,000 tests all the time later."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test of all begins first: what begins last is waited for by the workers that are done."""
    items.sort(key=lambda item: item.get_closest_marker("longest") is None)


@pytest.fixture(scope="session", autouse=True)
def no_secret_is_logged() -> Iterator[None]:
    """Fails at the end, when all servers of this process have ended, if one has written a secret."""
    yield
    assert ALL_SERVERS.found == []


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on an embedded store, shared by the tests of one process. Tests must not stop it."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    """A client of the shared server with the administrator's token."""
    api = Api(server)
    yield api
    api.close()


@pytest.fixture
def namespace(api: Api) -> str:
    """A new namespace. It is not deleted: the server's data is."""
    name = f"test-{next(_numbers)}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    return name
