"""NetworkPolicies. Source: pkg/apis/networking/validation (1.34); row T25."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

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
        [f"{PORT}.endPort: Invalid value: 80: must be greater than or equal to `port`"],
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
