"""Servers with simulated nodes, and pods on them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from apiserver.meta.conditions import is_condition_true
from apiserver.testing import ApiServer
from tests.support.objects import CONTAINERS

PODS: Final = "/api/v1/namespaces/default/pods"
NODES: Final = "/api/v1/nodes"


def simulating(*flags: str) -> Any:
    """Returns the fixture `original` of a module: a server with two simulated nodes, which are ready."""

    @pytest.fixture(scope="module")
    def original() -> Iterator[ApiServer]:
        with ApiServer(flags=["--simulate-nodes=2", *flags]) as server:
            server.wait_for("ServiceAccount", "default", "default")
            for name in ("simulated-0", "simulated-1"):
                server.wait_for("Node", name, until=lambda it: is_ready(it) and not it["spec"].get("taints"))
            yield server

    return original


def is_ready(found: dict[str, Any]) -> bool:
    return is_condition_true(found, "Ready")


def restarts(pod: dict[str, Any]) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))


def add_pod(
    server: ApiServer, name: str = "p", annotations: Mapping[str, object] | None = None, **spec: Any
) -> None:
    """Adds a pod, with one container `c` if nothing else is said. annotations: texts, or what JSON has."""
    ours = {
        f"simulate.apiserver/{key}": each if isinstance(each, str) else json.dumps(each)
        for key, each in (annotations or {}).items()
    }
    document = {
        "metadata": {"name": name, "annotations": ours, "labels": {"app": name}},
        "spec": {"containers": CONTAINERS, **spec},
    }
    code, answer = server.request("POST", PODS, document)
    assert code == 201, answer


def run_pod(
    server: ApiServer, annotations: Mapping[str, object] | None = None, name: str = "p", **spec: Any
) -> dict[str, Any]:
    """Adds a pod, waits until it is ready, and returns it."""
    add_pod(server, name, annotations, **spec)
    return server.wait_for("Pod", name, "default", until=is_ready)


def await_phase(server: ApiServer, name: str, phase: str) -> dict[str, Any]:
    return server.wait_for("Pod", name, "default", until=lambda it: it["status"].get("phase") == phase)


def patch(server: ApiServer, path: str, change: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/merge-patch+json"}
    code, answer = server.request("PATCH", path, change, headers=headers)
    assert code == 200, answer
    found: dict[str, Any] = answer
    return found
