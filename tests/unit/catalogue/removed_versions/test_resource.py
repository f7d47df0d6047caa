"""Devices of resource.k8s.io/v1alpha3. Source: pkg/apis/resource/v1alpha3 (release 1.33); rows S01, S03."""

from __future__ import annotations

import copy
import json
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


POLICIES: Final = "resource.k8s.io/v1alpha3-capacity-request-policies"
QUANTITIES: Final = st.sampled_from(["1", "2Gi"])
POLICY: Final[Any] = st.fixed_dictionaries(
    {},
    optional={
        "default": QUANTITIES,
        "validValues": st.lists(QUANTITIES, max_size=2),
        "validRange": st.dictionaries(st.sampled_from(["min", "max", "step"]), QUANTITIES),
    },
)
CAPACITIES: Final = st.dictionaries(
    st.sampled_from("abc"), st.fixed_dictionaries({"value": QUANTITIES}, optional={"requestPolicy": POLICY})
)


@given(st.lists(CAPACITIES, max_size=3), st.sampled_from([{}, {"a": "b"}]))
def test_nothing_of_v1_is_lost(capacities: list[Any], annotations: dict[str, str]) -> None:
    document = SLICE.current()
    document["spec"]["devices"] = [{"name": f"d{i}", "capacity": each} for i, each in enumerate(capacities)]
    if annotations:
        document["metadata"]["annotations"] = annotations
    before = copy.deepcopy(document)
    assert SLICE.to_hub(SLICE.from_hub(document)) == before


def test_policies_of_requests_are_an_annotation() -> None:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    current = SLICE.current()
    current["spec"]["devices"][0]["capacity"]["memory"]["requestPolicy"] = policy
    shown = SLICE.from_hub(current)
    assert shown["spec"]["devices"][0]["basic"]["capacity"] == {"memory": "1Gi"}
    assert json.loads(shown["metadata"]["annotations"][POLICIES]) == {"a": {"memory": policy}}
    # A capacity or a device that is no longer there takes its policy along.
    shown["spec"]["devices"][0]["basic"]["capacity"] = {"cores": "4"}
    back = SLICE.to_hub(shown)
    assert back["spec"]["devices"][0]["capacity"] == {"cores": {"value": "4"}}
    assert "annotations" not in back["metadata"]


NO_POLICIES: Final = {
    "no JSON": "{",
    "a list": "[]",
    "a device that is none": '{"a":1}',
    "a policy that is none": '{"a":{"memory":[]}}',
    "another field": '{"a":{"memory":{"other":"1"}}}',
    "a number": '{"a":{"memory":{"default":1}}}',
    "no quantity": '{"a":{"memory":{"default":"one"}}}',
    "no list": '{"a":{"memory":{"validValues":"1"}}}',
    "another bound": '{"a":{"memory":{"validRange":{"other":"1"}}}}',
    "very deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", NO_POLICIES.values(), ids=NO_POLICIES)
def test_what_holds_no_policies_is_an_annotation_as_any_other(text: str) -> None:
    current = SLICE.current({"metadata.annotations": {POLICIES: text}})
    assert current["metadata"]["annotations"] == {POLICIES: text}
    assert current["spec"] == SLICE.current()["spec"]


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
