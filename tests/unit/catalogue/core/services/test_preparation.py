"""What is filled in in Services. Source: pkg/apis/core/v1/defaults.go, pkg/registry/core/service."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.core.services.samples import (
    BALANCED,
    DUAL,
    HAS,
    IP,
    LEAST,
    NODE_PORT,
    SERVICE,
    stored,
)
from tests.unit.catalogue.served_kinds import Changes

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
def test_defaults(changes: Changes, expected: dict[str, Any]) -> None:
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
    "a name elsewhere has nothing that a load balancer has": (
        BALANCED,
        {"spec.type": "ExternalName", "spec.externalName": "x.example.com"},
        {
            "clusterIP": None,
            "clusterIPs": None,
            "ipFamilies": None,
            "ipFamilyPolicy": None,
            "healthCheckNodePort": None,
            "allocateLoadBalancerNodePorts": None,
            "loadBalancerClass": None,
            "externalTrafficPolicy": None,
        },
    ),
    "nor has it a headless service's cluster IP": (
        {**HAS, "spec.clusterIP": "None", "spec.clusterIPs": ["None"]},
        {"spec.type": "ExternalName", "spec.externalName": "x.example.com"},
        {"clusterIP": None, "clusterIPs": None, "ipFamilies": None, "ipFamilyPolicy": None},
    ),
    "nor node ports": (
        NODE_PORT,
        {"spec.type": "ExternalName", "spec.externalName": "x.example.com"},
        {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "externalTrafficPolicy": None},
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
