"""The cluster IPs and node ports that Services have, and those that have to be chosen for them.

Source: pkg/registry/core/service/storage, alloc.go.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.core.services.allocation import (
    IP_OUT_OF_RANGE,
    IP_TAKEN,
    PORT_TAKEN,
    AllocationRequest,
    allocation_requests,
    allocations,
    assign,
    port_out_of_range,
    refusal,
)
from apiserver.registry.allocations import Allocation
from apiserver.vocabulary import Document
from tests.unit.catalogue.served_kinds import ServedKind, least

SERVICE: Final = ServedKind("services")
DUAL: Final = ServedKind("services", families=("IPv4", "IPv6"))
DNS: Final = [
    {"name": "tcp", "port": 53},
    {"name": "udp", "port": 53, "protocol": "UDP"},
    {"name": "metrics", "port": 9153},
]
LOCAL: Final = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}


def service(kind: ServedKind = SERVICE, **spec: Any) -> Document:
    return kind.created(least("Service", spec={"ports": [{"port": 80}], **spec})).document


HOLDS: Final[dict[str, tuple[dict[str, Any], list[Allocation]]]] = {
    "nothing yet": ({}, []),
    "an address": ({"clusterIP": "10.96.0.7"}, [Allocation("clusterip", "10.96.0.7", "spec.clusterIPs")]),
    "however it is written": (
        {"clusterIP": "FD00::1", "clusterIPs": ["FD00::1"]},
        [Allocation("clusterip", "fd00::1", "spec.clusterIPs")],
    ),
    "also in the other family's form": (
        {"clusterIP": "::ffff:10.96.0.7"},
        [Allocation("clusterip", "10.96.0.7", "spec.clusterIPs")],
    ),
    "none is no address": ({"clusterIP": "None"}, []),
    "a node port, once for both protocols": (
        {
            "type": "NodePort",
            "ports": [
                {"name": "a", "port": 53, "nodePort": 30053},
                {"name": "b", "port": 53, "nodePort": 30053, "protocol": "UDP"},
            ],
        },
        [Allocation("nodeport", "30053", "spec.ports[0].nodePort")],
    ),
    "the port of the health check": (
        {**LOCAL, "healthCheckNodePort": 30081},
        [Allocation("nodeport", "30081", "spec.healthCheckNodePort")],
    ),
    "a name elsewhere": ({"type": "ExternalName", "externalName": "a"}, []),
}


@pytest.mark.parametrize(("spec", "expected"), HOLDS.values(), ids=HOLDS)
def test_what_a_service_holds(spec: dict[str, Any], expected: list[Allocation]) -> None:
    assert list(allocations(service(**spec))) == expected


WANTS: Final[dict[str, tuple[dict[str, Any], list[AllocationRequest]]]] = {
    "an address": ({}, [AllocationRequest("clusterip", "IPv4", (0,))]),
    "which it has": ({"clusterIP": "10.96.0.7"}, []),
    "or does not want": ({"clusterIP": "None"}, []),
    "a name elsewhere": ({"type": "ExternalName", "externalName": "a"}, []),
    "node ports; the same for the same number": (
        {"type": "NodePort", "clusterIP": "10.96.0.7", "ports": DNS},
        [AllocationRequest("nodeport", "", (0, 1)), AllocationRequest("nodeport", "", (2,))],
    ),
    "a load balancer without": (
        {"type": "LoadBalancer", "clusterIP": "10.96.0.7", "allocateLoadBalancerNodePorts": False},
        [],
    ),
    "a health check": (
        {**LOCAL, "clusterIP": "10.96.0.7", "ports": [{"port": 80, "nodePort": 30080}]},
        [AllocationRequest("nodeport", "", ())],
    ),
}


@pytest.mark.parametrize(("spec", "expected"), WANTS.values(), ids=WANTS)
def test_what_has_to_be_chosen_for_a_new_service(
    spec: dict[str, Any], expected: list[AllocationRequest]
) -> None:
    assert list(allocation_requests(service(**spec), is_new=True)) == expected


def test_a_service_that_changes_gets_a_node_port_for_each_port() -> None:
    document = service(type="NodePort", clusterIP="10.96.0.7", ports=DNS)
    assert [want.places for want in allocation_requests(document, is_new=False)] == [(0,), (1,), (2,)]


def test_a_node_port_that_is_asked_for_serves_the_other_protocol_too() -> None:
    ports = [DNS[0], {**DNS[1], "nodePort": 30053}, DNS[2]]
    document = service(type="NodePort", clusterIP="10.96.0.7", ports=ports)
    assert [port.get("nodePort") for port in document["spec"]["ports"]] == [30053, 30053, None]
    assert [want.places for want in allocation_requests(document, is_new=True)] == [(2,)]


def test_what_is_chosen_is_then_held_and_leaves_nothing_to_choose() -> None:
    spec: dict[str, Any] = {**LOCAL, "ports": DNS, "ipFamilyPolicy": "PreferDualStack"}
    document = service(DUAL, **spec)
    chosen = ["10.96.0.7", "fd00::7", "30053", "30054", "30055"]
    for want, value in zip(allocation_requests(document, is_new=True), chosen, strict=True):
        assign(document, want, value)
    assert allocation_requests(document, is_new=True) == ()
    assert [claim.value for claim in allocations(document)] == chosen
    found = document["spec"]
    assert (found["clusterIP"], found["clusterIPs"]) == ("10.96.0.7", ["10.96.0.7", "fd00::7"])
    assert [port["nodePort"] for port in found["ports"]] == [30053, 30053, 30054]
    assert found["healthCheckNodePort"] == 30055


def test_refusals_say_what_and_why() -> None:
    document = service(type="NodePort", clusterIP="10.96.0.7", ports=[{"port": 80, "nodePort": 80}])
    address, port = allocations(document)
    said = 'spec.clusterIPs: Invalid value: ["10.96.0.7"]: failed to allocate IP 10.96.0.7: '
    assert str(refusal(document, address, IP_TAKEN)) == f"{said}provided IP is already allocated"
    assert str(refusal(document, address, IP_OUT_OF_RANGE)) == (
        f"{said}the provided network does not match the current range"
    )
    said = "spec.ports[0].nodePort: Invalid value: 80: provided port is "
    assert str(refusal(document, port, PORT_TAKEN)) == f"{said}already allocated"
    assert str(refusal(document, port, port_out_of_range(30000, 32767))) == (
        f"{said}not in the valid range. The range of valid ports is 30000-32767"
    )
