"""Services: what they are without being told, what they may not be, and what changes of them.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation (ValidateService), pkg/registry/core/service.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.vocabulary import Document
from tests.unit.catalogue.core_kinds import CoreKind, least
from tests.unit.catalogue.lifecycle import Changes

SERVICE: Final = CoreKind("Service")
DUAL: Final = CoreKind("Service", ("IPv6", "IPv4"))
LEAST: Final = least("Service", spec={"ports": [{"port": 80}]})
IP: Final = "10.96.0.7"


def stored(changes: Changes, kind: CoreKind = SERVICE) -> Document:
    """A service as it is once its addresses have been chosen."""
    document, errors = kind.created(LEAST, changes)
    assert errors == []
    return document


# ---- defaults

DEFAULTS: Final[dict[str, tuple[Changes, dict[str, Any]]]] = {
    "nothing said": (
        {},
        {
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
        },
    ),
    "reached from outside by its type": ({"spec.type": "NodePort"}, {"externalTrafficPolicy": "Cluster"}),
    "or by addresses of its own": (
        {"spec.externalIPs": ["192.0.2.1"]},
        {"type": "ClusterIP", "externalTrafficPolicy": "Cluster"},
    ),
    "a load balancer has node ports": (
        {"spec.type": "LoadBalancer"},
        {"allocateLoadBalancerNodePorts": True},
    ),
    "a client stays for three hours": (
        {"spec.sessionAffinity": "ClientIP"},
        {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}},
    ),
    "no affinity needs no configuration": (
        {"spec.sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}},
        {"sessionAffinityConfig": None},
    ),
    "a name elsewhere has none of that": (
        {"spec": {"type": "ExternalName", "externalName": "x.example.com"}},
        {"ipFamilies": None, "ipFamilyPolicy": None, "internalTrafficPolicy": None, "clusterIPs": None},
    ),
    "a target port by name": (
        {"spec.ports": [{"port": 80, "targetPort": "http"}]},
        {"ports": [{"port": 80, "protocol": "TCP", "targetPort": "http"}]},
    ),
    "somebody else's endpoints are of any family": (
        {"spec.clusterIP": "None"},
        {"clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"},
    ),
    "the cluster's own are of its own": (
        {"spec.clusterIP": "None", "spec.selector": {"a": "b"}},
        {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"},
    ),
    "one address is a list of one": ({"spec.clusterIP": IP}, {"clusterIPs": [IP]}),
}


@pytest.mark.parametrize(("changes", "expected"), DEFAULTS.values(), ids=DEFAULTS)
def test_what_is_not_said_is_filled_in(changes: Changes, expected: dict[str, Any]) -> None:
    document, errors = SERVICE.created(LEAST, {**changes, "status": {"conditions": []}})
    assert errors == []
    assert {field: document["spec"].get(field) for field in expected} == expected
    assert document["status"] == {"loadBalancer": {}}


FAMILIES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "the default one": ({}, ["IPv6"]),
    "that of an address": ({"spec.clusterIP": IP}, ["IPv4"]),
    "both, if that is preferred": ({"spec.ipFamilyPolicy": "PreferDualStack"}, ["IPv6", "IPv4"]),
    "in the order asked for": (
        {"spec.ipFamilyPolicy": "RequireDualStack", "spec.ipFamilies": ["IPv4"]},
        ["IPv4", "IPv6"],
    ),
}


@pytest.mark.parametrize(("changes", "families"), FAMILIES.values(), ids=FAMILIES)
def test_families_of_a_cluster_with_two(changes: Changes, families: list[str]) -> None:
    assert stored(changes, DUAL)["spec"]["ipFamilies"] == families


def test_of_a_cluster_with_one_family_a_preference_gets_one() -> None:
    assert stored({"spec.ipFamilyPolicy": "PreferDualStack"})["spec"]["ipFamilies"] == ["IPv4"]


# ---- what is wrong

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
    "a selector is made of labels": (
        {"spec.selector": {"a": "-"}},
        ["spec.selector: Invalid value:"],
    ),
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
                '"PreferSameNode", "PreferSameZone"'
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_services_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    found = SERVICE.created(LEAST, changes).texts
    assert len(found) == len(texts), found
    for text, start in zip(found, texts, strict=True):
        assert text.startswith(start)


def test_two_addresses_need_a_policy() -> None:
    both = {"spec.clusterIP": IP, "spec.clusterIPs": [IP, "fd00::1"]}
    text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
    assert [each.message for each in DUAL.created(LEAST, both).errors] == [
        f'Invalid value: "SingleStack": {text} cluster IPs are specified',
        f'Invalid value: "SingleStack": {text} IP families are specified',
    ]
    assert DUAL.created(LEAST, {**both, "spec.ipFamilyPolicy": "PreferDualStack"}).errors == []


# ---- changes

HAS: Final[Changes] = {"spec.clusterIP": IP}
NODE_PORT: Final[Changes] = {**HAS, "spec.type": "NodePort", "spec.ports.0.nodePort": 30080}
BALANCED: Final[Changes] = {
    **NODE_PORT,
    "spec.type": "LoadBalancer",
    "spec.externalTrafficPolicy": "Local",
    "spec.healthCheckNodePort": 30081,
    "spec.loadBalancerClass": "example.com/lb",
}
# Before, what a client writes, and what then stands in the spec.
CARRIED: Final[dict[str, tuple[Changes, Changes, dict[str, Any]]]] = {
    "an address that is not repeated stays": (
        HAS,
        {
            "spec.clusterIP": None,
            "spec.clusterIPs": None,
            "spec.ipFamilies": None,
            "spec.ipFamilyPolicy": None,
        },
        {"clusterIP": IP, "clusterIPs": [IP], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"},
    ),
    "so does a node port": (
        NODE_PORT,
        {"spec.ports": [{"port": 8080}]},
        {"ports": [{"port": 8080, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080}]},
    ),
    "unless another port has it now": (
        NODE_PORT,
        {"spec.ports": [{"port": 1, "name": ""}, {"port": 2, "name": "b", "nodePort": 30080}]},
        {
            "ports": [
                {"port": 1, "protocol": "TCP", "targetPort": 1},
                {"port": 2, "protocol": "TCP", "targetPort": 2, "name": "b", "nodePort": 30080},
            ]
        },
    ),
    "so does the port of the health check": (
        BALANCED,
        {"spec.healthCheckNodePort": None},
        {"healthCheckNodePort": 30081},
    ),
    "without node ports there are none": (
        NODE_PORT,
        {"spec.type": "ClusterIP"},
        {
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "clusterIP": IP,
            "externalTrafficPolicy": None,
        },
    ),
    "without a load balancer nothing of it": (
        BALANCED,
        {"spec.type": "ClusterIP"},
        {
            "healthCheckNodePort": None,
            "allocateLoadBalancerNodePorts": None,
            "loadBalancerClass": None,
            "externalTrafficPolicy": None,
        },
    ),
    "a name elsewhere has no address": (
        HAS,
        {"spec.type": "ExternalName", "spec.externalName": "x.example.com"},
        {"clusterIP": None, "clusterIPs": None, "ipFamilies": None, "ipFamilyPolicy": None},
    ),
}


@pytest.mark.parametrize(("before", "changes", "expected"), CARRIED.values(), ids=CARRIED)
def test_what_was_chosen_stays_as_long_as_it_is_needed(
    before: Changes, changes: Changes, expected: dict[str, Any]
) -> None:
    document, errors = SERVICE.updated(stored(before), changes)
    assert {field: document["spec"].get(field) for field in expected} == expected
    assert not [error for error in errors if ".ports" not in error.field]


def test_the_status_of_a_load_balancer_goes_with_it() -> None:
    old = stored(BALANCED)
    old["status"] = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}}
    assert SERVICE.updated(old, {"metadata.labels": {"a": "b"}}).document["status"] == old["status"]
    assert SERVICE.updated(old, {"spec.type": "NodePort"}).document["status"] == {"loadBalancer": {}}
    assert old["status"]["loadBalancer"]["ingress"]


REFUSED: Final[dict[str, tuple[Changes, Changes, list[str]]]] = {
    "an address is for good": (
        HAS,
        {"spec.clusterIP": "10.96.0.8"},
        ['spec.clusterIPs[0]: Invalid value: ["10.96.0.8"]: may not change once set'],
    ),
    "also whether there is one": (
        HAS,
        {"spec.clusterIP": "None"},
        ['spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set'],
    ),
    "a class is for good": (
        BALANCED,
        {"spec.loadBalancerClass": "example.com/other"},
        ['spec.loadBalancerClass: Invalid value: "example.com/other": may not change once set'],
    ),
    "so is the port of the health check": (
        BALANCED,
        {"spec.healthCheckNodePort": 30082},
        ["spec.healthCheckNodePort: Forbidden: field is immutable"],
    ),
    "what is given up is not changed at the same time": (
        NODE_PORT,
        {"spec.type": "ClusterIP", "spec.ports.0.nodePort": 30081},
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
}


@pytest.mark.parametrize(("before", "changes", "texts"), REFUSED.values(), ids=REFUSED)
def test_changes_that_are_refused(before: Changes, changes: Changes, texts: list[str]) -> None:
    assert SERVICE.updated(stored(before), changes).texts == texts


def test_a_second_address_comes_and_goes_as_the_policy_says() -> None:
    one = stored({"spec.clusterIP": "fd00::1"}, DUAL)
    document, errors = DUAL.updated(one, {"spec.ipFamilyPolicy": "RequireDualStack"})
    assert (errors, document["spec"]["ipFamilies"]) == ([], ["IPv6", "IPv4"])
    document["spec"]["clusterIPs"] = ["fd00::1", IP]
    kept = DUAL.updated(document, {"spec.clusterIPs": ["fd00::1"], "spec.ipFamilies": ["IPv6"]}).texts
    assert [text.partition(": ")[2] for text in kept if "clusterIP" in text] == [
        (
            "Invalid value: \"RequireDualStack\": must be set to 'SingleStack' when releasing the "
            "secondary clusterIP"
        )
    ]
    single = DUAL.updated(document, {"spec.ipFamilyPolicy": "SingleStack"})
    assert single.errors == []
    assert single.document["spec"]["clusterIPs"] == ["fd00::1"]
    assert single.document["spec"]["ipFamilies"] == ["IPv6"]


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


# ---- warnings

WARNINGS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "nothing unusual": (HAS, []),
    "addresses outside": (
        {"spec.externalIPs": ["192.0.2.1"]},
        ["spec.externalIPs is deprecated and may no longer be implemented in some clusters"],
    ),
    "without an address inside they mean nothing": (
        {"spec.clusterIP": "None", "spec.externalIPs": ["192.0.2.1"], "spec.loadBalancerIP": "192.0.2.1"},
        [
            "spec.loadBalancerIP is ignored for headless services",
            "spec.externalIPs is ignored for headless services",
        ],
    ),
    "a name elsewhere that is here": (
        {"spec.externalName": "x.example.com"},
        ['spec.externalName is ignored when spec.type is not "ExternalName"'],
    ),
    "an address in an unusual form": (
        {"spec.loadBalancerIP": "::ffff:192.0.2.1"},
        [
            (
                'spec.loadBalancerIP: non-standard IP address "::ffff:192.0.2.1" will be considered '
                "invalid in a "
                'future Kubernetes release: use "192.0.2.1"'
            )
        ],
    ),
    "a network that is an address": (
        {"spec.loadBalancerSourceRanges": ["10.0.0.1/8"]},
        [
            (
                'spec.loadBalancerSourceRanges[0]: CIDR value "10.0.0.1/8" is ambiguous in this '
                "context (should be "
                '"10.0.0.0/8" or "10.0.0.1/32"?)'
            )
        ],
    ),
    "a word for near that is not clear": (
        {"spec.trafficDistribution": "PreferClose"},
        ['spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), WARNINGS.values(), ids=WARNINGS)
def test_warnings(changes: Changes, texts: list[str]) -> None:
    document = SERVICE.created(LEAST, changes).document
    assert SERVICE.strategy.warn(document, None) == texts
