"""EndpointSlices of Services: the addresses of the pods that these select.

https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.workloads.endpoint_slices import plan_slices


def service(**spec: Any) -> Document:
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "uid": "s", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "a"}, "ports": ports, "clusterIP": "10.0.0.9", **spec},
    }


def pod(name: str = "p", *, ready: bool = True, ip: str = "10.128.0.2", **changes: Any) -> Document:
    ports = [{"name": "web", "containerPort": 9090, "protocol": "TCP"}]
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": {"app": "a"},
            **changes.pop("metadata", {}),
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": ports}], **changes.pop("spec", {})},
        "status": {"phase": "Running", "podIP": ip, "conditions": conditions, **changes},
    }


def slices(found: Document, *pods: Document) -> list[Document]:
    return [create.document for create in plan_slices(found, pods, ()).creates]


def test_a_slice() -> None:
    (found,) = slices(service(), pod())
    assert found["metadata"]["labels"] == {
        "team": "a",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Service"
    assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert found["endpoints"] == [
        {
            "addresses": ["10.128.0.2"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "p"},
            "nodeName": "n",
        }
    ]


GOING: Final[dict[str, Any]] = {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}
# A Service, a pod, and the conditions of the endpoint: ready, serving, terminating; None for no endpoint.
CONDITIONS: Final[dict[str, tuple[Document, Document, tuple[bool, bool, bool] | None]]] = {
    "ready": (service(), pod(), (True, True, False)),
    "not ready": (service(), pod(ready=False), (False, False, False)),
    "not ready, but published": (
        service(publishNotReadyAddresses=True),
        pod(ready=False),
        (True, False, False),
    ),
    "going": (service(), pod(**GOING), (False, True, True)),
    "ended": (service(), pod(phase="Succeeded"), None),
    "without an address": (service(), pod(ip=""), None),
    "of another app": (service(selector={"app": "b"}), pod(), None),
}


@pytest.mark.parametrize(("found", "selected", "conditions"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditions(found: Document, selected: Document, conditions: tuple[bool, bool, bool] | None) -> None:
    (only,) = slices(found, selected)
    got = [tuple(each["conditions"].values()) for each in only["endpoints"]]
    assert got == ([conditions] if conditions is not None else [])


# The port of a Service, and the one of its endpoints.
PORTS: Final = {
    "its own number": ({"port": 80}, [80]),
    "another number": ({"port": 80, "targetPort": 8080}, [8080]),
    "a name": ({"port": 80, "targetPort": "web"}, [9090]),
    "a name that the pod does not have": ({"port": 80, "targetPort": "grpc"}, []),
    "a name of another protocol": ({"port": 80, "targetPort": "web", "protocol": "UDP"}, []),
}


@pytest.mark.parametrize(("port", "numbers"), PORTS.values(), ids=PORTS)
def test_ports(port: Document, numbers: list[int]) -> None:
    (found,) = slices(service(ports=[port]), pod())
    assert [each["port"] for each in found["ports"]] == numbers


def test_many_pods_are_in_several_slices() -> None:
    pods = [pod(f"p{number:03}", ip=f"10.128.0.{number + 1}") for number in range(150)]
    assert [len(each["endpoints"]) for each in slices(service(), *pods)] == [100, 50]


@pytest.mark.parametrize("spec", [{"selector": None}, {"type": "ExternalName"}])
def test_services_that_have_no_slices_of_ours(spec: dict[str, Any]) -> None:
    assert slices(service(**spec), pod()) == []


def test_what_is_as_it_should_be_is_left_alone() -> None:
    (there,) = slices(service(), pod())
    plan = plan_slices(service(), [pod()], [there])
    assert not plan.changes_objects
    (update,) = plan_slices(service(), [pod(ready=False)], [there]).updates
    assert update.change(there)
    assert not update.change(there)
    assert there["endpoints"][0]["conditions"]["ready"] is False


def test_a_service_that_selects_no_pods_any_more_loses_its_slices() -> None:
    (there,) = slices(service(), pod())
    theirs: Document = {"metadata": {"name": "web-theirs", "labels": {}}}
    plan = plan_slices(service(selector=None), [pod()], [there, theirs])
    assert [each.found["metadata"]["name"] for each in plan.deletes] == [there["metadata"]["name"]]


def test_hostnames_of_a_headless_service() -> None:
    named = pod(spec={"hostname": "db-0", "subdomain": "web"})
    (found,) = slices(service(clusterIP="None"), named)
    assert found["endpoints"][0]["hostname"] == "db-0"
    assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
