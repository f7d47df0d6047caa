"""Quantities of any size, wherever documents have some: they are compared and summed, and nobody waits.

Rows R15-R17: the work is bounded, not the value. kube-apiserver computes for minutes with 1e999999999.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from tests.support.api import Api
from tests.support.fixtures import api_with

NAMESPACE: Final = "/api/v1/namespaces/default"
DEVICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
LARGE: Final = ("1e400", "1e2147483647", "9" * 300, "-1e400", "1e-2147483647")
NEGATIVE, SMALL = LARGE[3:]


api = api_with()


def pod(name: str, requests: dict[str, str], limits: dict[str, str] | None = None) -> dict[str, Any]:
    resources = {"requests": requests, **({} if limits is None else {"limits": limits})}
    container = {"name": "c", "image": "i", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def device(amount: str) -> dict[str, Any]:
    policy = {"default": amount, "validRange": {"min": "1", "max": amount, "step": "1"}}
    capacity = {"m": {"value": amount, "requestPolicy": policy}, "n": {"value": amount}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "d", "allowMultipleAllocations": True, "capacity": capacity}]
    return {
        "metadata": {"name": "s"},
        "spec": {"driver": "a.example.com", "nodeName": "n", "pool": pool, "devices": devices},
    }


def limit_range(amount: str) -> dict[str, Any]:
    limit = {
        "type": "Container",
        "max": {"cpu": amount},
        "min": {"cpu": "1m"},
        "maxLimitRequestRatio": {"cpu": amount},
    }
    return {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}


# Where a quantity may be, and an object that has one there.
HOLDERS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "requests of pods": (f"{NAMESPACE}/pods", lambda v: pod("a", {"cpu": v, "memory": v})),
    "limits of pods": (f"{NAMESPACE}/pods", lambda v: pod("a", {"memory": "1"}, {"memory": v})),
    "huge pages": (f"{NAMESPACE}/pods", lambda v: pod("a", {"cpu": "1"}, {"hugepages-2Mi": v})),
    "sizes of huge pages": (f"{NAMESPACE}/pods", lambda v: pod("a", {"cpu": "1"}, {f"hugepages-{v}": "1"})),
    "limit ranges": (f"{NAMESPACE}/limitranges", limit_range),
    "quotas": (
        f"{NAMESPACE}/resourcequotas",
        lambda v: {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": v, "pods": v}}},
    ),
    "volumes": (
        "/api/v1/persistentvolumes",
        lambda v: {
            "metadata": {"name": "v"},
            "spec": {
                "capacity": {"storage": v},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/a"},
            },
        },
    ),
    "nodes": ("/api/v1/nodes", lambda v: {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": v}}}),
    "devices": (DEVICES, device),
}
# None takes less than nothing, and some take no part of a whole, or nothing that is less than another amount.
REFUSED: Final[dict[str, Sequence[str]]] = {
    **dict.fromkeys(HOLDERS, (NEGATIVE,)),
    **dict.fromkeys(("limits of pods", "huge pages", "limit ranges", "quotas"), (NEGATIVE, SMALL)),
    # The number of bytes in a name, and what is compared with other amounts as int64.
    **dict.fromkeys(("sizes of huge pages", "devices"), LARGE),
}


@pytest.mark.parametrize("amount", LARGE, ids=(each[:14] for each in LARGE))
@pytest.mark.parametrize("holder", HOLDERS)
def test_quantities_of_any_size_are_answered(api: Api, holder: str, amount: str) -> None:
    path, body = HOLDERS[holder]
    answer = api.post(f"{path}?dryRun=All", body(amount))
    assert answer.status == (422 if amount in REFUSED[holder] else 201), answer.body


def test_large_quantities_are_counted_against_quotas_and_limits(api: Api) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "large"}}).ok()
    there = "/api/v1/namespaces/large"
    hard = {"requests.cpu": "25e399", "requests.memory": "1e2147483647"}
    quota = api.post(f"{there}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}}).ok()
    quota["status"] = {"hard": hard, "used": {"requests.cpu": "0", "requests.memory": "1Gi"}}
    api.put(f"{there}/resourcequotas/q/status", quota).ok()
    for name in ("a", "b"):
        api.post(f"{there}/pods", pod(name, {"cpu": "1e400", "memory": "1"})).ok()
    refused = api.post(f"{there}/pods", pod("c", {"cpu": "1e400", "memory": "1"}))
    assert refused.status == 403
    assert "requested: requests.cpu=10e399, used: requests.cpu=20e399, limited: requests.cpu=25e399" in (
        refused.message
    )
    refused = api.post(f"{there}/pods", pod("c", {"cpu": "1", "memory": "1e2147483647"}))
    assert refused.status == 403
    assert "limited: requests.memory=10e2147483646" in refused.message
    ratio = {"type": "Container", "maxLimitRequestRatio": {"memory": "2"}}
    api.post(f"{there}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [ratio]}}).ok()
    refused = api.post(f"{there}/pods", pod("d", {"cpu": "1", "memory": "1"}, {"memory": "1e400"}))
    assert refused.status == 403
    assert (
        "memory max limit to request ratio per Container is 2, but provided ratio is +Inf" in refused.message
    )
