"""What is wrong with Services. Source: pkg/apis/core/validation, ValidateService."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.core.services.samples import BALANCED, DUAL, IP, LEAST, NODE_PORT, SERVICE, stored
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

_NOT_BALANCED: Final = "Forbidden: may only be used when `type` is 'LoadBalancer'"
_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_PORT: Final = '{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}'
EXTERNAL: Final = {"type": "ExternalName", "externalName": "x.example.com"}

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a service has ports": ({"spec": {}}, ["spec.ports: Required value"]),
    "several of them have names": (
        {"spec.ports": [{"port": 80}, {"port": 81}]},
        ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
    ),
    "which are their own": (
        {"spec.ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]},
        ['spec.ports[1].name: Duplicate value: "a"'],
    ),
    "a port is offered once": (
        {"spec.ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
        [f"spec.ports[1]: Duplicate value: {_PORT}"],
    ),
    "a port is a number": (
        {"spec.ports.0.port": 0},
        [
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
        ],
    ),
    "a protocol is one of three": (
        {"spec.ports.0.protocol": "tcp"},
        ['spec.ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"'],
    ),
    "a type is one of four": (
        {"spec.type": "X"},
        [
            (
                'spec.type: Unsupported value: "X": supported values: "ClusterIP", "ExternalName", '
                '"LoadBalancer", '
                '"NodePort"'
            )
        ],
    ),
    "an affinity is one of two": (
        {"spec.sessionAffinity": "X"},
        ['spec.sessionAffinity: Unsupported value: "X": supported values: "ClientIP", "None"'],
    ),
    "it ends within a day": (
        {
            "spec.sessionAffinity": "ClientIP",
            "spec.sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}},
        },
        [
            (
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be "
                "greater than 0 "
                "and less than 86400"
            )
        ],
    ),
    "a selector is made of labels": ({"spec.selector": {"a": "-"}}, ["spec.selector: Invalid value:"]),
    "a name elsewhere has a name": (
        {"spec": {"type": "ExternalName"}},
        ["spec.externalName: Required value"],
    ),
    "and no address here": (
        {"spec": {**EXTERNAL, "clusterIP": IP}},
        ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
    ),
    "a node port leads to an address": (
        {"spec.type": "NodePort", "spec.clusterIP": "None"},
        ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
    ),
    "an address is one": (
        {"spec.clusterIP": "a"},
        [
            (
                'spec.clusterIPs[0]: Invalid value: "a": must be a valid IP address, (e.g. 10.9.8.7 or '
                "2001:db8::ffff)"
            )
        ],
    ),
    "the first address is the address": (
        {"spec.clusterIP": IP, "spec.clusterIPs": ["10.96.0.8"]},
        ['spec.clusterIPs: Invalid value: ["10.96.0.8"]: first value must match `clusterIP`'],
    ),
    "two addresses are of two families": (
        {"spec.clusterIP": IP, "spec.clusterIPs": [IP, "10.96.0.8"]},
        [
            (
                'spec.clusterIPs: Invalid value: ["10.96.0.7","10.96.0.8"]: may specify no more than '
                "one IP for each "
                "IP family"
            )
        ],
    ),
    "an address is of the family asked for": (
        {"spec.clusterIP": "fd00::1", "spec.ipFamilies": ["IPv4"]},
        [
            (
                'spec.clusterIPs[0]: Invalid value: "fd00::1": expected an IPv4 value as indicated by '
                "`ipFamilies[0]`"
            )
        ],
    ),
    "of a family that the cluster has": (
        {"spec.clusterIP": "fd00::1"},
        ['spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster'],
    ),
    "and is asked for by name": (
        {"spec.ipFamilies": ["IPv6"]},
        ['spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'],
    ),
    "two families need two": (
        {"spec.ipFamilyPolicy": "RequireDualStack"},
        [
            (
                'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for '
                "dual-stack services"
            )
        ],
    ),
    "a family is named once": (
        {"spec.ipFamilies": ["IPv4", "IPv4"]},
        ['spec.ipFamilies[1]: Duplicate value: "IPv4"'],
    ),
    "an address outside is not a node's own": (
        {"spec.externalIPs": ["127.0.0.1"]},
        [
            (
                'spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range '
                "(127.0.0.0/8, "
                "::1/128)"
            )
        ],
    ),
    "node ports have a type": (
        {"spec.ports.0.nodePort": 30080},
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
    "a node port of a protocol is one port's": (
        {
            "spec.type": "NodePort",
            "spec.ports": [
                {"port": 80, "name": "a", "nodePort": 30080},
                {"port": 81, "name": "b", "nodePort": 30080},
            ],
        },
        ["spec.ports[1].nodePort: Duplicate value: 30080"],
    ),
    "source ranges are networks": (
        {"spec.type": "LoadBalancer", "spec.loadBalancerSourceRanges": [" 10.0.0.0/8 ", "x"]},
        [f'spec.LoadBalancerSourceRanges[1]: Invalid value: "x": {_CIDR}'],
    ),
    "of load balancers": (
        {"spec.loadBalancerSourceRanges": ["10.0.0.0/8"]},
        [f"spec.LoadBalancerSourceRanges: {_NOT_BALANCED}"],
    ),
    "a class, too": ({"spec.loadBalancerClass": "x"}, [f"spec.loadBalancerClass: {_NOT_BALANCED}"]),
    "and what it does with node ports": (
        {"spec.allocateLoadBalancerNodePorts": False},
        [f"spec.allocateLoadBalancerNodePorts: {_NOT_BALANCED}"],
    ),
    "traffic from outside needs a way in": (
        {"spec.externalTrafficPolicy": "Local"},
        [
            (
                'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for '
                "externally-accessible "
                "services"
            )
        ],
    ),
    "a health check is for local traffic": (
        {"spec.type": "LoadBalancer", "spec.healthCheckNodePort": 30000},
        [
            (
                "spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is "
                "'LoadBalancer' and "
                "`externalTrafficPolicy` is 'Local'"
            )
        ],
    ),
    "traffic inside is one of two": (
        {"spec.internalTrafficPolicy": "X"},
        ['spec.internalTrafficPolicy: Unsupported value: "X": supported values: "Cluster", "Local"'],
    ),
    "it goes to somebody near": (
        {"spec.trafficDistribution": "Far"},
        [
            (
                'spec.trafficDistribution: Unsupported value: "Far": supported values: "PreferClose", '
                '"PreferSameZone", "PreferSameNode"'
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_errors_in_services(changes: Changes, texts: list[str]) -> None:
    assert_texts_begin(SERVICE.created(LEAST, changes).texts, texts)


def test_two_addresses_need_a_policy() -> None:
    both = {"spec.clusterIP": IP, "spec.clusterIPs": [IP, "fd00::1"]}
    text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
    assert [each.message for each in DUAL.created(LEAST, both).errors] == [
        f'Invalid value: "SingleStack": {text} cluster IPs are specified',
        f'Invalid value: "SingleStack": {text} IP families are specified',
    ]
    assert DUAL.created(LEAST, {**both, "spec.ipFamilyPolicy": "PreferDualStack"}).errors == []


STATUS: Final[dict[str, tuple[Changes, dict[str, Any], list[str]]]] = {
    "an address": (BALANCED, {"ip": "192.0.2.1"}, []),
    "a name": (BALANCED, {"hostname": "lb.example.com"}, []),
    "an address is no name": (
        BALANCED,
        {"hostname": "192.0.2.1"},
        [
            (
                'status.loadBalancer.ingress[0].hostname: Invalid value: "192.0.2.1": must be a DNS '
                "name, not an IP "
                "address"
            )
        ],
    ),
    "a mode is of an address": (
        BALANCED,
        {"hostname": "a", "ipMode": "VIP"},
        ["status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set"],
    ),
    "only load balancers have one": (
        NODE_PORT,
        {"ip": "192.0.2.1"},
        ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"],
    ),
}


@pytest.mark.parametrize(("before", "ingress", "texts"), STATUS.values(), ids=STATUS)
def test_the_status(before: Changes, ingress: dict[str, Any], texts: list[str]) -> None:
    changes = {"status.loadBalancer.ingress": [ingress]}
    assert SERVICE.updated(stored(before), changes, "status").texts == texts
