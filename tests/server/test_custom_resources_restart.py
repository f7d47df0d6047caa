"""Custom resources while their server starts."""

from __future__ import annotations

import http.client
import ssl
import threading
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.support.api import Api
from tests.support.definitions import define, definition, new_group, version
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

DEFINITIONS: Final = 30


def test_what_a_starting_server_does_not_know_yet_is_not_said_to_be_missing(tmp_path: Path) -> None:
    """503, which clients try again: at a 404 operators end, as if their definition had been deleted."""
    with ServerProcess(tmp_path / "data") as server:
        with Api(server) as api:
            defined = [define(api, definition(new_group(), version("v1"))) for _ in range(DEFINITIONS)]
            path = defined[-1].objects()
            assert api.get(path).status == 200
        where, context = urlsplit(server.url), ssl._create_unverified_context()
        headers = {"Authorization": "Bearer admin-token"}
        statuses: set[int] = set()
        is_over = threading.Event()

        def ask() -> None:
            while not is_over.is_set():
                connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=context)
                try:
                    connection.request("GET", path, headers=headers)
                    statuses.add(connection.getresponse().status)
                except OSError:
                    pass  # It is not there yet.
                finally:
                    connection.close()

        server.stop()
        asking = threading.Thread(target=ask)
        asking.start()
        try:
            server.start()
            with Api(server) as api:
                assert api.get(path).status == 200
            until(lambda: 200 in statuses)
        finally:
            is_over.set()
            asking.join()
        assert statuses <= {200, 503}
