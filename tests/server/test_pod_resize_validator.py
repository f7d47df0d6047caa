"""PodResizeValidator: a pod is not resized beyond what its node has.

Source: kubernetes, plugin/pkg/admission/podresize (release 1.36).
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.api import STRATEGIC_PATCH, Api

NODES: Final = "/api/v1/nodes"


def requesting(**requests: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": requests}}]}


def placed(api: Api, namespace: str, labels: dict[str, str], **allocatable: str) -> str:
    """Make a node and a pod on it, named as the namespace. Returns the path of its resize."""
    api.post(NODES, {"metadata": {"name": namespace, "labels": labels}}).ok()
    status = {"status": {"capacity": allocatable, "allocatable": allocatable}}
    api.patch(f"{NODES}/{namespace}/status", status, "application/merge-patch+json").ok()
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}
    spec = {"nodeName": namespace, "containers": [container], "overhead": {"cpu": "250m"}}
    spec["runtimeClassName"] = namespace
    overhead = {"podFixed": {"cpu": "250m"}}
    runtime = {"metadata": {"name": namespace}, "handler": "h", "overhead": overhead}
    api.post("/apis/node.k8s.io/v1/runtimeclasses", runtime).ok()
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.post(pods, {"metadata": {"name": "p"}, "spec": spec}).ok()
    return f"{pods}/p/resize"


TOO_LARGE: Final = {
    "of the processor, with the overhead": ({"cpu": "751m"}, "cpu, requested: 1001, allocatable: 1000"),
    "of the memory, in bytes": ({"memory": "2Gi"}, "memory, requested: 2147483648, allocatable: 1073741824"),
    "of both": (
        {"cpu": "2", "memory": "2Gi"},
        "cpu, requested: 2250, allocatable: 1000; memory, requested: 2147483648, allocatable: 1073741824",
    ),
}


@pytest.mark.parametrize(("requests", "text"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_more_than_the_node_has(api: Api, namespace: str, requests: dict[str, str], text: str) -> None:
    resize = placed(api, namespace, {}, cpu="1", memory="1Gi")
    refused = api.patch(resize, {"spec": requesting(**requests)}, STRATEGIC_PATCH)
    assert (refused.status, refused.reason) == (403, "Forbidden")
    why = f"node didn't have enough allocatable resources: {text}"
    assert refused.message == f'pods "p" is forbidden: {why}'
    assert refused.json["details"]["causes"] == [{"reason": "NodeCapacity"}]


def test_as_much_as_the_node_has(api: Api, namespace: str) -> None:
    resize = placed(api, namespace, {"kubernetes.io/os": "linux"}, cpu="1", memory="1Gi")
    resized = api.patch(resize, {"spec": requesting(cpu="750m", memory="1Gi")}, STRATEGIC_PATCH).ok()
    assert resized["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "750m", "memory": "1Gi"}


def test_what_changes_nothing_is_not_looked_at(api: Api, namespace: str) -> None:
    resize = placed(api, namespace, {}, cpu="1m", memory="1")
    api.patch(resize, {"spec": requesting(cpu="100m")}, STRATEGIC_PATCH).ok()


def test_a_node_that_cannot_do_it(api: Api, namespace: str) -> None:
    resize = placed(api, namespace, {"kubernetes.io/os": "windows"}, cpu="1", memory="1Gi")
    refused = api.patch(resize, {"spec": requesting(cpu="200m")}, STRATEGIC_PATCH)
    why = f'pod resize is only supported on linux nodes, node "{namespace}" is "windows"'
    assert refused.message == f'pods "p" is forbidden: {why}'
    assert refused.json["details"]["causes"] == [{"reason": "UnsupportedPlatform"}]


def test_a_node_that_is_gone(api: Api, namespace: str) -> None:
    resize = placed(api, namespace, {}, cpu="1", memory="1Gi")
    api.delete(f"{NODES}/{namespace}").ok()
    refused = api.patch(resize, {"spec": requesting(cpu="200m")}, STRATEGIC_PATCH)
    assert refused.message == f'pods "p" is forbidden: node "{namespace}" not found'


BARE: Final = {
    "a pod that asks for one of them": ({"cpu": "100m"}, {"cpu": "1", "memory": "1Gi"}, {"cpu": "200m"}, ""),
    "a node that tells nothing": (
        {"cpu": "100m"},
        {},
        {"cpu": "200m"},
        "cpu, requested: 200, allocatable: 0",
    ),
    "a node that tells one of them": (
        {"cpu": "100m", "memory": "1Mi"},
        {"cpu": "1"},
        {"memory": "2Mi"},
        "memory, requested: 2097152, allocatable: 0",
    ),
}


@pytest.mark.parametrize(("before", "allocatable", "after", "text"), BARE.values(), ids=BARE)
def test_what_is_not_told_is_nothing(
    api: Api,
    namespace: str,
    before: dict[str, str],
    allocatable: dict[str, str],
    after: dict[str, str],
    text: str,
) -> None:
    api.post(NODES, {"metadata": {"name": namespace}}).ok()
    api.patch(f"{NODES}/{namespace}/status", {"status": {"allocatable": allocatable}}).ok()
    container = {"name": "c", "image": "i", "resources": {"requests": before}}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    body = {"metadata": {"name": "p"}, "spec": {"nodeName": namespace, "containers": [container]}}
    api.post(pods, body).ok()
    answer = api.patch(f"{pods}/p/resize", {"spec": requesting(**after)}, STRATEGIC_PATCH)
    if text:
        why = f"node didn't have enough allocatable resources: {text}"
        assert (answer.status, answer.message) == (403, f'pods "p" is forbidden: {why}')
    else:
        assert answer.status == 200
