"""Devices of resource.k8s.io/v1alpha3. Source: pkg/apis/resource/v1alpha3 (release 1.33); rows S01, S03."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current

GROUP: Final = "resource.k8s.io"
REQUESTS: Final = [{"name": "a", "deviceClassName": "gpu"}]
DEVICE: Final = {"attributes": {"model": {"string": "x"}}, "capacity": {"memory": "1Gi"}}
POOL: Final = {"name": "n", "generation": 1, "resourceSliceCount": 1}


def kind(resource: str, spec: dict[str, Any], minor: int = 33) -> OldKind:
    return OldKind(f"{resource}.{GROUP}", "v1alpha3", minor, {"spec": spec})


SLICE: Final = kind(
    "resourceslices",
    {"driver": "a.b", "nodeName": "n", "pool": POOL, "devices": [{"name": "a", "basic": DEVICE}]},
)
KINDS: Final = {
    "DeviceClass": kind("deviceclasses", {"selectors": [{"cel": {"expression": "true"}}]}),
    "ResourceClaim": kind("resourceclaims", {"devices": {"requests": REQUESTS}}),
    "ResourceClaim of 1.31": kind("resourceclaims", {"devices": {"requests": REQUESTS}}, 31),
    "ResourceClaimTemplate": kind("resourceclaimtemplates", {"spec": {"devices": {"requests": REQUESTS}}}),
    "ResourceSlice": SLICE,
    "ResourceSlice of 1.31": kind("resourceslices", SLICE.valid["spec"], 31),
}


@pytest.mark.parametrize("old", KINDS.values(), ids=KINDS)
def test_they_are_converted_both_ways(old: OldKind) -> None:
    assert old.create().texts == []
    document = old.completed()
    current = old.to_hub(document)
    assert current["apiVersion"] == f"{GROUP}/v1"
    assert read_by_current(document) == current
    assert old.from_hub(current) == document
    assert old.resource.has_protobuf


def test_a_capacity_is_a_quantity() -> None:
    (device,) = SLICE.current()["spec"]["devices"]
    assert device == {"name": "a", **DEVICE, "capacity": {"memory": {"value": "1Gi"}}}


@given(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2Gi"]).map(lambda each: {"value": each}))
)
def test_nothing_of_v1_is_lost(capacity: dict[str, Any]) -> None:
    document = SLICE.current()
    document["spec"]["devices"][0]["capacity"] = capacity
    before = copy.deepcopy(document)
    assert SLICE.to_hub(SLICE.from_hub(document)) == before


@pytest.mark.parametrize("resource", ["ipaddresses", "servicecidrs"])
def test_addresses_of_networking_v1alpha1_are_as_in_v1(resource: str) -> None:
    specs: dict[str, Any] = {
        "ipaddresses": {"parentRef": {"resource": "services", "name": "a", "namespace": "b"}},
        "servicecidrs": {"cidrs": ["10.0.0.0/16"]},
    }
    name = {"ipaddresses": "10.0.0.1", "servicecidrs": "a"}[resource]
    valid = {"metadata": {"name": name}, "spec": specs[resource]}
    old = OldKind(f"{resource}.networking.k8s.io", "v1alpha1", 30, valid)
    assert old.create().texts == []
    assert read_by_current(old.completed()) == old.current()
    assert old.resource.has_protobuf
