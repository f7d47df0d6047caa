"""The cluster IPs and node ports that Services have, and those that have to be chosen for them.

Source: pkg/registry/core/service/storage, alloc.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any, Final

import pytest

from apiserver.catalogue.core.services.allocation import (
    IP_OUT_OF_RANGE,
    IP_TAKEN,
    PORT_TAKEN,
    AllocationRequest,
    ServiceAllocator,
    port_out_of_range,
    refusal,
)
from apiserver.meta.vocabulary import Document
from apiserver.registry.allocations import Allocation, AllocationKey
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
def test_the_allocations_of_a_service(spec: dict[str, Any], expected: list[Allocation]) -> None:
    assert list(ALLOCATOR.allocations(service(**spec))) == expected


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
def test_the_allocation_requests_of_a_new_service(
    spec: dict[str, Any], expected: list[AllocationRequest]
) -> None:
    assert list(ALLOCATOR.requests(service(**spec), is_new=True)) == expected


def test_a_service_that_changes_gets_a_node_port_for_each_port() -> None:
    document = service(type="NodePort", clusterIP="10.96.0.7", ports=DNS)
    assert [want.places for want in ALLOCATOR.requests(document, is_new=False)] == [(0,), (1,), (2,)]


def test_a_node_port_that_is_asked_for_serves_the_other_protocol_too() -> None:
    ports = [DNS[0], {**DNS[1], "nodePort": 30053}, DNS[2]]
    document = service(type="NodePort", clusterIP="10.96.0.7", ports=ports)
    assert [port.get("nodePort") for port in document["spec"]["ports"]] == [30053, 30053, None]
    assert [want.places for want in ALLOCATOR.requests(document, is_new=True)] == [(2,)]


def test_what_is_chosen_is_then_held_and_leaves_nothing_to_choose() -> None:
    spec: dict[str, Any] = {**LOCAL, "ports": DNS, "ipFamilyPolicy": "PreferDualStack"}
    document = service(DUAL, **spec)
    chosen = ["10.96.0.7", "fd00::7", "30053", "30054", "30055"]
    for want, value in zip(ALLOCATOR.requests(document, is_new=True), chosen, strict=True):
        ALLOCATOR.assign(document, want, value)
    assert ALLOCATOR.requests(document, is_new=True) == ()
    assert [claim.value for claim in ALLOCATOR.allocations(document)] == chosen
    found = document["spec"]
    assert (found["clusterIP"], found["clusterIPs"]) == ("10.96.0.7", ["10.96.0.7", "fd00::7"])
    assert [port["nodePort"] for port in found["ports"]] == [30053, 30053, 30054]
    assert found["healthCheckNodePort"] == 30055


def test_the_errors_of_refused_allocations() -> None:
    document = service(type="NodePort", clusterIP="10.96.0.7", ports=[{"port": 80, "nodePort": 80}])
    address, port = ALLOCATOR.allocations(document)
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


# ---- which addresses and ports there are


def allocator(network: str = "10.0.0.0/24", ports: tuple[int, int] = (30_000, 32_767)) -> ServiceAllocator:
    """Returns one that tries the lowest number first."""
    return ServiceAllocator.for_networks([ipaddress.ip_network(network)], ports, lambda low, high: low)


ALLOCATOR: Final = allocator()


# Networks: the first address that may be given, the last one, and the first of the upper band. Those beside
# them may not be given. Source: pkg/registry/core/service/ipallocator/ipallocator.go, NewIPAllocator.
NETWORKS: Final = {
    "10.0.0.0/8": ("10.0.0.1", "10.255.255.254", "10.0.1.1"),
    "10.0.0.0/20": ("10.0.0.1", "10.0.15.254", "10.0.1.1"),
    "10.0.0.0/23": ("10.0.0.1", "10.0.1.254", "10.0.0.33"),
    "10.0.0.0/24": ("10.0.0.1", "10.0.0.254", "10.0.0.17"),
    "10.0.0.0/27": ("10.0.0.1", "10.0.0.30", "10.0.0.17"),
    "10.0.0.0/28": ("10.0.0.1", "10.0.0.14", "10.0.0.1"),
    "10.0.0.0/30": ("10.0.0.1", "10.0.0.2", "10.0.0.1"),
    "fd00::/64": ("fd00::1", "fd00::ffff:ffff:ffff:ffff", "fd00::101"),
    "fd00::/112": ("fd00::1", "fd00::ffff", "fd00::101"),
    "fd00::/119": ("fd00::1", "fd00::1ff", "fd00::21"),
    "fd00::/123": ("fd00::1", "fd00::1f", "fd00::11"),
    "fd00::/124": ("fd00::1", "fd00::f", "fd00::1"),
    "fd00::/126": ("fd00::1", "fd00::3", "fd00::1"),
    "fd00::/127": ("fd00::1", "fd00::1", "fd00::1"),
}


@pytest.mark.parametrize(("cidr", "addresses"), NETWORKS.items(), ids=NETWORKS)
def test_which_addresses_of_a_network_may_be_given(cidr: str, addresses: tuple[str, str, str]) -> None:
    first, last, upper = map(ipaddress.ip_address, addresses)
    services = allocator(cidr)
    request = AllocationRequest("clusterip", f"IPv{first.version}", (0,))

    def refused(address: object) -> bool:
        allocation = Allocation("clusterip", str(address), "spec.clusterIPs")
        return services.refusal({"spec": {"clusterIPs": [str(address)]}}, allocation) is not None

    assert [refused(each) for each in (first - 1, first, last, last + 1)] == [True, False, False, True]
    assert services.choose(request, frozenset()) == Allocation("clusterip", str(upper), "")


# Small networks, and all of their addresses that may be given, in the order in which they are.
SMALL: Final[dict[str, list[str]]] = {
    "10.0.0.0/30": ["10.0.0.1", "10.0.0.2"],
    "10.0.0.0/31": [],
    "10.0.0.0/32": [],
    "fd00::/126": ["fd00::1", "fd00::2", "fd00::3"],
    "fd00::/127": ["fd00::1"],
    "fd00::/128": [],
    "fd00::fff0/124": [f"fd00::fff{each}" for each in "123456789abcdef"],
    "10.0.0.0/27": [f"10.0.0.{each}" for each in (*range(17, 31), *range(1, 17))],
}


@pytest.mark.parametrize(("cidr", "addresses"), SMALL.items(), ids=SMALL)
def test_all_addresses_of_a_network_are_given(cidr: str, addresses: list[str]) -> None:
    request = AllocationRequest("clusterip", f"IPv{ipaddress.ip_network(cidr).version}", (0,))
    assert list(_given(allocator(cidr), request)) == addresses


def _given(services: ServiceAllocator, request: AllocationRequest) -> Iterable[str]:
    taken: set[AllocationKey] = set()
    while (chosen := services.choose(request, taken)) is not None:
        taken.add(AllocationKey(chosen.kind, chosen.value))
        yield chosen.value


# Ranges of node ports, and the first of the upper band.
# Source: pkg/registry/core/service/portallocator/allocator.go, calculateRangeOffset.
PORTS: Final = {
    "the default": ((30_000, 32_767), 30_086),
    "very many": ((30_000, 39_999), 30_128),
    "few": ((30_000, 30_099), 30_016),
    "hardly more than the lower band": ((30_000, 30_016), 30_016),
    "no more than it": ((30_000, 30_015), 30_000),
    "one": ((30_000, 30_000), 30_000),
}


@pytest.mark.parametrize(("ports", "upper"), PORTS.values(), ids=PORTS)
def test_node_ports_are_given_from_the_upper_band_first(ports: tuple[int, int], upper: int) -> None:
    services, request = allocator(ports=ports), AllocationRequest("nodeport", "", ())
    assert services.choose(request, frozenset()) == Allocation("nodeport", str(upper), "")
    taken = {AllocationKey("nodeport", str(each)) for each in range(upper, ports[1] + 1)}
    lower = Allocation("nodeport", str(ports[0]), "") if ports[0] < upper else None
    assert services.choose(request, taken) == lower
