"""EndpointSlices of discovery/v1beta1 and v1alpha1. Row T07.

Source: pkg/apis/discovery/v1beta1/conversion.go, pkg/registry/discovery/endpointslice (release 1.24).
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current, table
from tests.unit.catalogue.served_kinds import changed

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
ENDPOINT: Final = {"addresses": ["10.0.0.1"], "conditions": {}}
RESOURCE: Final = "endpointslices.discovery.k8s.io"
SLICE: Final = OldKind(RESOURCE, "v1beta1", 24, {"addressType": "IPv4", "endpoints": [ENDPOINT]})
ALPHA: Final = OldKind(RESOURCE, "v1alpha1", 20, {"addressType": "IPv4", "endpoints": [ENDPOINT]})
V1: Final = OldKind(RESOURCE, "v1", 24, {"addressType": "IPv4", "endpoints": [ENDPOINT]})

# What an endpoint has in v1beta1, and in v1.
CONVERSIONS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "nothing": ({}, {}),
    "its zone": ({"topology": {ZONE: "a"}}, {"zone": "a"}),
    "its node": ({"nodeName": "n", "topology": {HOST: "n"}}, {"nodeName": "n"}),
    "another host than its node": (
        {"nodeName": "n", "topology": {HOST: "other"}},
        {"nodeName": "n", "deprecatedTopology": {HOST: "other"}},
    ),
    "another label": ({"topology": {"rack": "r"}}, {"deprecatedTopology": {"rack": "r"}}),
    "all of them": (
        {"nodeName": "n", "hostname": "h", "topology": {ZONE: "a", HOST: "n", "rack": "r"}},
        {"nodeName": "n", "hostname": "h", "zone": "a", "deprecatedTopology": {"rack": "r"}},
    ),
}


@pytest.mark.parametrize(("beta", "stable"), CONVERSIONS.values(), ids=CONVERSIONS)
def test_conversion_both_ways(beta: dict[str, Any], stable: dict[str, Any]) -> None:
    document = {**SLICE.completed(), "endpoints": [{**ENDPOINT, **beta}]}
    current = {**document, "apiVersion": "discovery.k8s.io/v1", "endpoints": [{**ENDPOINT, **stable}]}
    assert SLICE.to_hub(document) == read_by_current(document) == current
    assert SLICE.from_hub(current) == document


def test_the_name_of_a_host_is_that_of_the_node() -> None:
    """What is converted back says so in both places, as in Kubernetes."""
    document = SLICE.completed({"endpoints.0.topology": {HOST: "n"}})
    current = SLICE.to_hub(document)
    assert current["endpoints"] == [{**ENDPOINT, "nodeName": "n"}]
    assert SLICE.from_hub(current)["endpoints"] == [{**ENDPOINT, "nodeName": "n", "topology": {HOST: "n"}}]


def test_v1alpha1_is_v1beta1_under_another_name() -> None:
    topology = {"endpoints.0.topology": {ZONE: "a", "rack": "r"}, "ports": [{"port": 80}]}
    document = ALPHA.completed(topology)
    assert document["ports"] == [{"port": 80, "name": "", "protocol": "TCP"}]
    current = ALPHA.to_hub(document)
    assert current["apiVersion"] == "discovery.k8s.io/v1"
    assert current == SLICE.to_hub(SLICE.completed(topology)) == read_by_current(document)
    assert ALPHA.from_hub(current) == document
    assert ALPHA.create(topology).texts == []
    assert ALPHA.create({"addressType": "IP"}).texts[0].startswith('addressType: Unsupported value: "IP"')
    assert ALPHA.resource.has_protobuf


# Source: release notes of 1.16, 1.17 and 1.21.
STORED: Final = {16: "v1alpha1", 18: "v1beta1", 20: "v1beta1", 22: "v1"}


@pytest.mark.parametrize(("minor", "version"), STORED.items())
def test_the_version_that_a_release_stores(minor: int, version: str) -> None:
    assert {each.storage_version for each in table(minor).resources if each.resource == "endpointslices"} == {
        version
    }


LABELS: Final = st.dictionaries(st.sampled_from(("rack", "room")), st.sampled_from("ab"), min_size=1)
ENDPOINTS: Final = st.lists(
    st.fixed_dictionaries(
        {"addresses": st.just(["10.0.0.1"])},
        optional={
            "nodeName": st.sampled_from("mn"),
            "zone": st.sampled_from("ab"),
            "hints": st.just({"forZones": [{"name": "a"}]}),
            "deprecatedTopology": LABELS,
        },
    ),
    max_size=3,
)


@given(ENDPOINTS)
def test_nothing_of_v1_is_lost(endpoints: list[Any]) -> None:
    document = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {},
        "endpoints": endpoints,
    }
    assert SLICE.to_hub(SLICE.from_hub(document)) == document


def test_topology_is_written_in_v1beta1_only() -> None:
    topology = {"endpoints.0.topology": {"rack": "r"}}
    stored = SLICE.create(topology).document
    assert stored["endpoints"][0]["deprecatedTopology"] == {"rack": "r"}
    new = V1.create({"endpoints.0.deprecatedTopology": {"rack": "r"}}).document
    assert "deprecatedTopology" not in new["endpoints"][0]
    # An update in v1beta1 keeps it, one of the endpoints in v1 does not.
    for kind, is_kept in ((SLICE, True), (V1, False)):
        new = changed(stored, {"endpoints.0.addresses": ["10.0.0.2"]})
        kind.strategy.update.prepare(new, stored)
        assert ("deprecatedTopology" in new["endpoints"][0]) is is_kept


def test_topology_has_rules_of_labels() -> None:
    too_many = {str(index): "" for index in range(17)}
    assert SLICE.create({"endpoints.0.topology": too_many}).texts == [
        "endpoints[0].deprecatedTopology: Too many: 17: must have at most 16 items"
    ]
