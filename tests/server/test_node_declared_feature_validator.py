"""NodeDeclaredFeatureValidator: a pod is not resized in a way that its node does not declare.

Source: kubernetes, plugin/pkg/admission/nodedeclaredfeatures (release 1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import STRATEGIC_PATCH, Answer, Api
from tests.support.server_process import ServerProcess

NODES: Final = "/api/v1/nodes"
POD: Final = "InPlacePodLevelResourcesVerticalScaling"
INIT: Final = "InPlacePodVerticalScalingInitContainers"


def amounts(cpu: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu}}


def container(name: str, cpu: str) -> dict[str, Any]:
    return {"name": name, "resources": amounts(cpu)}


def declare(api: Api, node: str, features: Sequence[str]) -> None:
    size = {"cpu": "8", "memory": "1Gi"}
    status = {"capacity": size, "allocatable": size, "declaredFeatures": sorted(features)}
    api.patch(f"{NODES}/{node}/status", {"status": status}).ok()


def placed(api: Api, namespace: str, features: Sequence[str]) -> str:
    """Make a node and a pod on it, named as the namespace. Returns the path of the pod."""
    api.post(NODES, {"metadata": {"name": namespace}}).ok()
    declare(api, namespace, features)
    first = {"image": "i", **container("first", "100m")}
    spec = {
        "nodeName": namespace,
        "resources": amounts("1"),
        "initContainers": [first, {"image": "i", **container("sidecar", "100m"), "restartPolicy": "Always"}],
        "containers": [{"image": "i", **container("c", "100m")}],
    }
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.post(pods, {"metadata": {"name": "p"}, "spec": spec}).ok()
    return f"{pods}/p"


def resize(api: Api, pod: str, change: dict[str, Any], query: str = "") -> Answer:
    return api.patch(f"{pod}/resize{query}", {"spec": change}, STRATEGIC_PATCH)


OF_POD: Final = {"resources": amounts("2")}
OF_INIT: Final = {"initContainers": [container("first", "200m")]}
# What changes, and what the node has to declare for it.
CHANGES: Final[dict[str, tuple[dict[str, Any], tuple[str, ...]]]] = {
    "a container": ({"containers": [container("c", "200m")]}, ()),
    "a sidecar": ({"initContainers": [container("sidecar", "200m")]}, ()),
    "an init container": (OF_INIT, (INIT,)),
    "the pod as a whole": (OF_POD, (POD,)),
    "both": ({**OF_POD, **OF_INIT}, (POD, INIT)),
    "the same amount, written otherwise": ({**OF_INIT, "initContainers": [container("first", "0.1")]}, ()),
}


@pytest.mark.parametrize("query", ["", "?dryRun=All"])
@pytest.mark.parametrize(("change", "needed"), CHANGES.values(), ids=CHANGES)
def test_a_resize_needs_what_the_node_declares(
    api: Api, namespace: str, change: dict[str, Any], needed: tuple[str, ...], query: str
) -> None:
    pod = placed(api, namespace, ["Another"])
    for declared in range(len(needed)):
        declare(api, namespace, ["Another", *needed[:declared]])
        refused = resize(api, pod, change, query)
        assert (refused.status, refused.reason) == (403, "Forbidden")
        why = f"pod update requires features {', '.join(needed[declared:])} which are not available on node"
        assert refused.message == f'pods "p" is forbidden: {why} "{namespace}"'
    declare(api, namespace, ["Another", *needed])
    assert resize(api, pod, change, query).status == 200


def test_a_node_that_is_gone(api: Api, namespace: str) -> None:
    pod = placed(api, namespace, [])
    api.delete(f"{NODES}/{namespace}").ok()
    refused = resize(api, pod, OF_POD)
    assert refused.message == f'pods "p" is forbidden: node "{namespace}" not found'


def test_other_changes_of_a_pod_need_nothing(api: Api, namespace: str) -> None:
    pod = placed(api, namespace, [])
    api.delete(f"{NODES}/{namespace}").ok()
    api.patch(pod, {"spec": {"containers": [{"name": "c", "image": "j"}]}}, STRATEGIC_PATCH).ok()
    api.patch(pod, {"metadata": {"labels": {"a": "b"}}}).ok()


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    flag = "--disable-admission-plugins=NodeDeclaredFeatureValidator"
    with ServerProcess(tmp_path / "data", flag) as server, Api(server) as api:
        assert resize(api, placed(api, "default", []), {**OF_POD, **OF_INIT}).status == 200
