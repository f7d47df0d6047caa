"""What an idle server does without, and what the first request imports."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.api import Api
from tests.support.recorded_imports import recorded
from tests.support.server_process import ServerProcess

RECORDED: Final = "tests.support.recorded_imports"
LIBRARY: Final = "cryptography"
NAMESPACES: Final = "/api/v1/namespaces"
PROBES: Final = ("/livez", "/readyz", "/healthz", "/version")


def server_on(directory: Path) -> ServerProcess:
    return ServerProcess(directory / "data", "--controllers=*", module=RECORDED)


@pytest.mark.parametrize("is_used", [False, True], ids=["a new directory", "a used directory"])
def test_an_idle_server_has_not_imported_cryptography(tmp_path: Path, is_used: bool) -> None:
    """It would be a seventh of its memory. Probes change nothing about that."""
    if is_used:
        with ServerProcess(tmp_path / "data") as first:
            first.stop()
    with server_on(tmp_path) as server, Api(server, "") as anybody:
        for path in PROBES:
            assert anybody.get(path).status == 200
        assert server.stop() == 0
    imported = recorded(server.stderr)
    assert "apiserver.app.server" in imported
    assert LIBRARY not in imported


def status_by_certificate(server: ServerProcess) -> int:
    context = ssl.create_default_context(cafile=str(server.ca_path))
    pki = server.data_dir / "pki"
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    host = server.url.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, context=context, timeout=60)
    try:
        connection.request("GET", NAMESPACES)
        return connection.getresponse().status
    finally:
        connection.close()


def status_by_token(token: str) -> Callable[[ServerProcess], int]:
    def status(server: ServerProcess) -> int:
        with Api(server, token) as api:
            return api.get(NAMESPACES).status

    return status


FIRST_REQUESTS: Final = {
    "by a client certificate": (status_by_certificate, 200),
    "by a token": (status_by_token("admin-token"), 200),
    "by an unknown token": (status_by_token("a.b.c"), 401),
    "by nobody": (status_by_token(""), 403),
}


@pytest.mark.parametrize(("request_", "status"), FIRST_REQUESTS.values(), ids=FIRST_REQUESTS)
def test_the_first_request_imports_cryptography_beside_the_event_loop(
    tmp_path: Path, request_: Callable[[ServerProcess], int], status: int
) -> None:
    """Otherwise all requests at that time would wait 50 ms."""
    with server_on(tmp_path) as server:
        assert request_(server) == status
        assert server.stop() == 0
    assert recorded(server.stderr)[LIBRARY] != "MainThread"
