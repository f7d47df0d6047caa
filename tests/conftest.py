"""A shared server, and a namespace on it for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import settings

from tests.support.api import Api
from tests.support.server_process import ServerProcess

_numbers: Final = itertools.count(1)

# Other processes use the machine, too: how long one example takes says nothing.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


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
