"""The beta versions of resource.k8s.io. Source: pkg/apis/resource/v1beta1 (release 1.34); rows H02, S01."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, catalogue, read_by_current

GROUP: Final = "resource.k8s.io"
SELECTORS: Final = [{"cel": {"expression": "true"}}]
SUB: Final = {"name": "a", "deviceClassName": "gpu"}
CLAIM: Final = OldKind(
    f"resourceclaims.{GROUP}",
    "v1beta1",
    36,
    {"spec": {"devices": {"requests": [{"name": "a", "deviceClassName": "gpu"}]}}},
)
TEMPLATE: Final = OldKind(
    f"resourceclaimtemplates.{GROUP}",
    "v1beta1",
    36,
    {"spec": {"spec": {"devices": {"requests": [{"name": "a", "deviceClassName": "gpu"}]}}}},
)
DEVICE: Final = {"attributes": {"model": {"string": "x"}}, "capacity": {"memory": {"value": "1Gi"}}}
SLICE: Final = OldKind(
    f"resourceslices.{GROUP}",
    "v1beta1",
    36,
    {
        "spec": {
            "driver": "a.b",
            "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "a", "basic": DEVICE}],
        }
    },
)

# A request in v1beta1 with its defaults, and in v1.
REQUESTS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "one device": (
        {"name": "a", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
        {"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}},
    ),
    "all that are selected": (
        {"name": "a", "deviceClassName": "gpu", "allocationMode": "All", "selectors": SELECTORS},
        {"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "All", "selectors": SELECTORS}},
    ),
    "the first that is there": (
        {
            "name": "a",
            "deviceClassName": "",
            "firstAvailable": [{**SUB, "allocationMode": "ExactCount", "count": 1}],
        },
        {"name": "a", "firstAvailable": [{**SUB, "allocationMode": "ExactCount", "count": 1}]},
    ),
}


@pytest.mark.parametrize(("beta", "stable"), REQUESTS.values(), ids=REQUESTS)
def test_requests_of_v1beta1(beta: dict[str, Any], stable: dict[str, Any]) -> None:
    document = CLAIM.completed({"spec.devices.requests": [beta]})
    assert document["spec"]["devices"]["requests"] == [beta]
    current = CLAIM.to_hub(document)
    assert current["spec"]["devices"]["requests"] == [stable]
    assert read_by_current(document) == current
    assert CLAIM.from_hub(current) == document


@pytest.mark.parametrize("kind", [CLAIM, TEMPLATE], ids=["claim", "template"])
def test_one_device_is_asked_for_by_default(kind: OldKind) -> None:
    document, errors = kind.create()
    assert errors == []
    spec = document["spec"]["spec"] if kind is TEMPLATE else document["spec"]
    assert spec["devices"]["requests"] == [REQUESTS["one device"][1]]
    assert kind.from_hub(kind.current()) == kind.completed()


def test_devices_of_v1beta1() -> None:
    created = SLICE.create()
    assert created.texts == []
    assert created.document["spec"]["devices"] == [{"name": "a", **DEVICE}]
    assert SLICE.from_hub(SLICE.current()) == SLICE.completed()
    assert read_by_current(SLICE.completed()) == SLICE.current()


EXACT: Final = st.fixed_dictionaries(
    {"deviceClassName": st.just("gpu")},
    optional={
        "selectors": st.just(SELECTORS),
        "allocationMode": st.sampled_from(("All", "ExactCount")),
        "count": st.integers(1, 3),
        "adminAccess": st.booleans(),
        "tolerations": st.just([{"operator": "Exists"}]),
        "capacity": st.just({"requests": {"memory": "1Gi"}}),
    },
)
REQUEST: Final = st.one_of(
    EXACT.map(lambda exactly: {"name": "a", "exactly": exactly}),
    st.just({"name": "a", "firstAvailable": [SUB]}),
)


@given(st.lists(REQUEST, max_size=3))
def test_nothing_of_a_claim_of_v1_is_lost(requests: list[Any]) -> None:
    spec = {"devices": {"requests": requests}}
    for kind, own in ((CLAIM, spec), (TEMPLATE, {"spec": spec})):
        document = {"apiVersion": f"{GROUP}/v1", "kind": kind.resource.kind, "metadata": {}, "spec": own}
        assert kind.to_hub(kind.from_hub(document)) == document


@given(
    st.lists(
        st.fixed_dictionaries(
            {"name": st.just("a")},
            optional={
                "attributes": st.just({"model": {"string": "x"}}),
                "allNodes": st.booleans(),
                "taints": st.just([{"key": "a", "effect": "NoExecute"}]),
            },
        ),
        max_size=3,
    )
)
def test_nothing_of_a_slice_of_v1_is_lost(devices: list[Any]) -> None:
    document = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ResourceSlice",
        "metadata": {},
        "spec": {"devices": devices},
    }
    assert SLICE.to_hub(SLICE.from_hub(document)) == document


@pytest.mark.parametrize(
    "resource", ["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"]
)
def test_h02_betas_are_off_by_default_and_v1beta2_is_as_v1(resource: str) -> None:
    for version in ("v1beta1", "v1beta2"):
        assert catalogue(36).resources().find(GROUP, version, resource) is None
    kind = OldKind(f"{resource}.{GROUP}", "v1beta2", 36, {"spec": {}})
    current = {**kind.valid, "apiVersion": f"{GROUP}/v1"}
    assert kind.to_hub(kind.valid) == current
    assert kind.from_hub(current) == kind.valid
