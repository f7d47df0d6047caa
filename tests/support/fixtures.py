"""Fixtures of modules that need a server of their own, with flags of their own.

    server = server_with("--controllers=*")

in a module makes a server that its tests share, instead of the one that all modules share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import Api
from tests.support.server_process import ServerProcess


def server_with(*flags: str) -> Any:
    """Returns a fixture: a server on an embedded store with these flags, for the tests of one module."""

    @pytest.fixture(scope="module")
    def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
        with ServerProcess(tmp_path_factory.mktemp("server") / "data", *flags) as server:
            yield server

    return server


def api_with(*flags: str) -> Any:
    """Returns a fixture: a client with the administrator's token, of such a server."""

    @pytest.fixture(scope="module")
    def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
        with ServerProcess(tmp_path_factory.mktemp("server") / "data", *flags) as server, Api(server) as api:
            yield api

    return api
