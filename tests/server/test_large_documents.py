"""Documents of a megabyte on ways that few requests take: no turn of the event loop is long for them.

The common ways of large objects are attacked in `tests/hostile/test_large_objects.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.hostile.support import longest_turn
from tests.support.api import Api
from tests.support.fixtures import server_with

# Of the loop's thread.
TURN_S: Final = 0.05
CORE: Final = "/api/v1/namespaces/default"
SCALERS: Final = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"


server = server_with("--controllers=")


def requires_short_turns(api: Api, ask: Callable[[], object]) -> None:
    with longest_turn(api) as turn:
        ask()
    assert turn.thread_cpu_s <= TURN_S


def test_a_token_for_many_audiences(api: Api) -> None:
    """Their number has no bound of its own, as in kube-apiserver: documents have one for their values."""
    api.post(f"{CORE}/serviceaccounts", {"metadata": {"name": "a"}}).ok()
    spec = {"audiences": [f"{number}" for number in range(249_000)], "expirationSeconds": 3600}

    def ask() -> None:
        answer = api.post(f"{CORE}/serviceaccounts/a/token", {"spec": spec}).ok()
        assert answer["spec"]["audiences"] == spec["audiences"]

    requires_short_turns(api, ask)


def large_scaler(name: str) -> dict[str, Any]:
    target = {"type": "AverageValue", "averageValue": "1"}
    metrics = [
        {"type": "External", "external": {"metric": {"name": f"m{number}"}, "target": target}}
        for number in range(13_000)
    ]
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"scaleTargetRef": scaled, "maxReplicas": 3, "metrics": metrics},
    }


def first_events(api: Api, path: str) -> None:
    """Watch until an object that is there has been deleted."""
    with api.watch(f"{path}?watch=1&fieldSelector=metadata.name=watch") as events:
        assert events.take(1) == [("ADDED", "watch")]
        api.delete(f"{path}/watch").ok()
        assert events.take(1) == [("DELETED", "watch")]


@pytest.mark.parametrize("way", ["get", "list", "watch", "update"])
def test_a_large_object_in_another_version_than_the_hub(api: Api, way: str) -> None:
    path = SCALERS.format("v1")
    api.post(SCALERS.format("v2"), large_scaler(way)).ok()
    asks: dict[str, Callable[[], object]] = {
        "get": lambda: api.get(f"{path}/{way}").ok(),
        "list": lambda: api.get(path).ok(),
        "watch": lambda: first_events(api, path),
        "update": lambda: api.patch(f"{path}/{way}", {"spec": {"maxReplicas": 4}}).ok(),
    }
    requires_short_turns(api, asks[way])
    if way != "watch":
        api.delete(f"{path}/{way}").ok()
