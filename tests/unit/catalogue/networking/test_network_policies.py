"""NetworkPolicies, IPAddresses and ServiceCIDRs. Source: pkg/apis/networking/validation (1.34); row T25."""

from __future__ import annotations

import ipaddress
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.catalogue.networking.canonical_addresses import canonical_cidr, canonical_ip
from tests.unit.catalogue.lifecycle import Changes
from tests.unit.catalogue.served_kinds import ServedKind

POLICY: Final = ServedKind("networkpolicies.networking.k8s.io", {"spec": {"podSelector": {}}})

TYPES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "nothing is said": ({}, ["Ingress"]),
    "there are rules for egress": ({"spec.egress": [{}]}, ["Ingress", "Egress"]),
    "it is said": ({"spec.policyTypes": ["Egress"]}, ["Egress"]),
}


@pytest.mark.parametrize(("changes", "types"), TYPES.values(), ids=TYPES)
def test_the_types_when(changes: Changes, types: list[str]) -> None:
    assert POLICY.create(changes).document["spec"]["policyTypes"] == types


def test_a_port_is_of_tcp_unless_it_says_more() -> None:
    document = POLICY.create({"spec.ingress": [{"ports": [{"port": 80}]}]}).document
    assert document["spec"]["ingress"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]


def of_peer(**peer: object) -> Changes:
    return {"spec.ingress": [{"from": [peer]}]}


def of_port(**port: object) -> Changes:
    return {"spec.egress": [{"ports": [port]}]}


FROM: Final = "spec.ingress[0].from[0]"
PORT: Final = "spec.egress[0].ports[0]"
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a type is one of two": (
        {"spec.policyTypes": ["Both"]},
        ['spec.policyTypes[0]: Unsupported value: "Both": supported values: "Ingress", "Egress"'],
    ),
    "there are no more types than two": (
        {"spec.policyTypes": ["Ingress", "Egress", "Egress"]},
        [
            (
                'spec.policyTypes: Invalid value: ["Ingress","Egress","Egress"]: may not specify more '
                "than two "
                "policyTypes"
            )
        ],
    ),
    "a peer is somebody": (of_peer(), [f"{FROM}: Required value: must specify a peer"]),
    "a block stands alone": (
        of_peer(ipBlock={"cidr": "10.0.0.0/8"}, podSelector={}),
        [f"{FROM}: Forbidden: may not specify both ipBlock and another peer"],
    ),
    "a block is a network": (
        of_peer(ipBlock={"cidr": "10.0.0.0"}),
        [
            (
                f'{FROM}.ipBlock.cidr: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. '
                "10.9.8.0/24 "
                "or 2001:db8::/64)"
            )
        ],
    ),
    "an exception is inside, and smaller": (
        of_peer(ipBlock={"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8", "11.0.0.0/16", "10.1.0.0/16"]}),
        [
            f'{FROM}.ipBlock.except[0]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`',
            f'{FROM}.ipBlock.except[1]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
        ],
    ),
    "an exception is of the same family": (
        of_peer(ipBlock={"cidr": "10.0.0.0/8", "except": ["fd00::/64"]}),
        [f'{FROM}.ipBlock.except[0]: Invalid value: "fd00::/64": must be a strict subset of `cidr`'],
    ),
    "a protocol is one of three": (
        of_port(protocol="ICMP"),
        [f'{PORT}.protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"'],
    ),
    "a range begins with a number": (
        of_port(port="web", endPort=90),
        [f"{PORT}.endPort: Invalid value: 90: may not be specified when `port` is non-numeric"],
    ),
    "a range does not go backwards": (
        of_port(port=80, endPort=79),
        [f"{PORT}.endPort: Invalid value: 79: must be greater than or equal to `port`"],
    ),
    "a range has a beginning": (
        of_port(endPort=90),
        [f"{PORT}.endPort: Invalid value: 90: may not be specified when `port` is not specified"],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_policies_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert POLICY.create(changes).texts == texts
    assert POLICY.update(changes).texts == texts


# ---- addresses that are written in one way only. Source: apimachinery pkg/util/validation/ip.go

IPS: Final = {
    "10.9.8.7": [],
    "2001:db8::ffff": [],
    "10.9.8": ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"],
    "fe80::1%eth0": ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"],
    "010.9.8.7": ["must not have leading 0s"],
    "10.0.0.001": ["must not have leading 0s"],
    "::ffff:1.2.3.4": ["must not be an IPv4-mapped IPv6 address"],
    "2001:DB8::1": ['must be in canonical form ("2001:db8::1")'],
    "2001:db8:0::1": ['must be in canonical form ("2001:db8::1")'],
}


@pytest.mark.parametrize(("text", "problems"), IPS.items(), ids=IPS)
def test_the_name_of_an_ip_address(text: str, problems: list[str]) -> None:
    assert canonical_ip(text) == problems


CIDRS: Final = {
    "10.9.0.0/16": [],
    "2001:db8::/64": [],
    "10.9.0.0": ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"],
    "10.9.0.0/33": ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"],
    "10.9.0.0/016": ["must not have leading 0s in IP or prefix length"],
    "10.9.8.0/16": ["must not have bits set beyond the prefix length"],
    "2001:DB8::/64": ['must be in canonical form ("2001:db8::/64")'],
}


@pytest.mark.parametrize(("text", "problems"), CIDRS.items(), ids=CIDRS)
def test_the_cidr_of_a_service_cidr(text: str, problems: list[str]) -> None:
    assert canonical_cidr(text) == problems


@given(st.ip_addresses())
def test_what_is_written_by_the_library_is_canonical(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    is_mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    assert (canonical_ip(str(address)) == []) is not is_mapped


PARENT: Final = {"resource": "services", "namespace": "default", "name": "s"}
IP_ADDRESS: Final = ServedKind(
    "ipaddresses.networking.k8s.io", {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": PARENT}}
)
SERVICE_CIDR: Final = ServedKind("servicecidrs.networking.k8s.io", {"spec": {"cidrs": ["10.0.0.0/24"]}})


def test_an_address_belongs_to_something_for_ever() -> None:
    assert IP_ADDRESS.create().errors == []
    assert IP_ADDRESS.cells()["ParentRef"] == "services/default/s"
    assert IP_ADDRESS.create({"spec.parentRef": None}).texts == ["spec.parentRef: Required value"]
    (text,) = IP_ADDRESS.update({"spec.parentRef.name": "t"}).texts
    assert text.endswith("field is immutable")


CHANGES: Final[dict[str, tuple[list[str], list[str]]]] = {
    "nothing": (["10.0.0.0/24"], []),
    "a second family": (["10.0.0.0/24", "fd00::/64"], []),
    "another range": (["10.1.0.0/24"], ['spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable']),
    "a second range of the family": (
        ["10.0.0.0/24", "10.1.0.0/24"],
        [
            (
                'spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one '
                "IP for "
                "each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
            )
        ],
    ),
    "no range": ([], ["spec.cidrs: Invalid value: []: field is immutable"]),
}


@pytest.mark.parametrize(("cidrs", "texts"), CHANGES.values(), ids=CHANGES)
def test_a_service_cidr_may_get(cidrs: list[str], texts: list[str]) -> None:
    assert SERVICE_CIDR.update({"spec.cidrs": cidrs}).texts == texts
