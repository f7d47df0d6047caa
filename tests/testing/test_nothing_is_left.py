"""A server that has stopped leaves nothing in its process, where no other server runs meanwhile."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes.client
import kubernetes.config
import kubernetes.watch
import pytest

from apiserver.testing import ApiServer


def files() -> set[str]:
    return {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}


def directories() -> set[str]:
    """Those of the servers of this process."""
    return {path.name for path in Path(tempfile.gettempdir()).glob(f"apiserver-{os.getpid()}-*")}


def watch_until_it_ends(server: ApiServer) -> threading.Thread:
    """Watches namespaces, in a thread; returns once the watch has begun."""
    begun = threading.Event()
    new_client: Any = kubernetes.config.new_client_from_config_dict
    new_watch: Any = kubernetes.watch.Watch

    def watch() -> None:
        with new_client(server.kubeconfig_dict) as client:
            events = new_watch()
            for _ in events.stream(kubernetes.client.CoreV1Api(client).list_namespace, timeout_seconds=60):
                begun.set()

    thread = threading.Thread(target=lambda: suppressed(watch), daemon=True)
    thread.start()
    assert begun.wait(60)
    return thread


def suppressed(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception as error:
        logging.getLogger(__name__).debug("the watch has ended: %s", error)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux is missing: open files are read from its /proc")
def test_nothing_is_left_of_it() -> None:
    """Whatever its clients were doing."""
    with ApiServer():
        pass  # imports what is imported late
    threads, before, made = threading.enumerate(), files(), directories()
    server = ApiServer().start()
    port = urlsplit(server.url).port
    kubeconfig = server.user("bob")
    watching = watch_until_it_ends(server)
    with socket.create_connection(("127.0.0.1", port or 0)):  # says nothing
        server.stop()
    watching.join(60)
    server.stop()  # may be repeated
    assert [thread.name for thread in threading.enumerate() if thread not in threads] == []
    assert {name for name in files() - before if name.startswith(("/", "socket:"))} == set()
    assert directories() <= made
    assert not kubeconfig.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port or 0))
