"""Devices that several allocations share, and the expressions that select them, over HTTP."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.api import Api

GROUP: Final = "/apis/resource.k8s.io"


def slice_of(policy: dict[str, Any], **device: Any) -> dict[str, Any]:
    capacity = {"ram": {"value": "8Gi", "requestPolicy": policy}}
    devices = [{"name": "d", "allowMultipleAllocations": True, "capacity": capacity, **device}]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": devices}
    return {"metadata": {"name": "shared"}, "spec": spec}


def test_a_device_tells_how_much_of_it_may_be_asked_for(api: Api) -> None:
    slices = f"{GROUP}/v1/resourceslices"
    wrong = {"default": "3Gi", "validRange": {"min": "1Gi", "max": "16Gi", "step": "0"}}
    refused = api.post(slices, slice_of(wrong))
    where = "spec.devices[0].capacity[ram].requestPolicy.validRange"
    assert (refused.status, refused.causes) == (
        422,
        [("FieldValueInvalid", f"{where}.max"), ("FieldValueInvalid", f"{where}.step")],
    )
    right = {"default": "3Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    created = api.post(slices, slice_of(right, taints=[{"key": "a", "effect": "None"}])).ok()
    (device,) = created["spec"]["devices"]
    assert device["taints"][0]["timeAdded"] >= created["metadata"]["creationTimestamp"]
    value = "/spec/devices/0/capacity/ram/value"

    def resize(to: str) -> Any:
        patch = [{"op": "replace", "path": value, "value": to}]
        return api.send("PATCH", f"{slices}/shared", patch, type="application/json-patch+json")

    assert resize("1Gi").causes == [("FieldValueInvalid", f"{where}.step")]
    assert resize("4Gi").ok()["metadata"]["generation"] == 2
    api.delete(f"{slices}/shared").ok()


def test_a_class_selects_devices_by_an_expression(api: Api) -> None:
    """Long expressions are checked beside the event loop, with the same result."""
    classes = f"{GROUP}/v1/deviceclasses"
    for much in (1, 100):
        good = " && ".join(['device.driver == "a"'] * much)
        path = f"{classes}?dryRun=All"
        assert api.post(path, device_class(good)).status == 201
        refused = api.post(path, device_class(f"{good} && device.none"))
        assert refused.causes == [("FieldValueInvalid", "spec.selectors[0].cel.expression")]
        assert "undefined field 'none'" in refused.message


@pytest.mark.parametrize("levels", [300, 900])
def test_parameters_that_are_nested_too_deeply_are_refused(api: Api, levels: int) -> None:
    """What could not be stored is refused before it is compared with what is stored, and checked."""
    resources: dict[str, dict[str, Any]] = {
        f"{GROUP}/v1/deviceclasses": {},
        f"{GROUP}/v1/namespaces/default/resourceclaimtemplates": {"spec": {"devices": {}}},
    }
    for number, (path, spec) in enumerate(resources.items()):
        name = f"deep-{levels}-{number}"
        api.post(path, {"metadata": {"name": name}, "spec": spec}).ok()
        parameters: dict[str, Any] = {}
        for _ in range(levels):
            parameters = {"a": parameters}
        config = [{"opaque": {"driver": "d.example.com", "parameters": parameters}}]
        deep = {"spec": {"devices": {"config": config}}} if spec else {"config": config}
        changed = {"metadata": {"name": name}, "spec": deep}
        for answer in (
            api.post(path, {"metadata": {"name": "other"}, "spec": deep}),
            api.put(f"{path}/{name}", changed),
            api.send("PATCH", f"{path}/{name}", changed, type="application/merge-patch+json"),
        ):
            assert (answer.status, answer.message) == (400, "the object is nested too deeply to be stored")


def device_class(expression: str) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
