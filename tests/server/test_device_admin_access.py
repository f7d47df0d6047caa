"""Claims have access to devices that others use in labelled namespaces only. Source: KEP-5018."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.api import Api
from tests.support.fixtures import api_with

LABEL: Final = "resource.kubernetes.io/admin-access"
TEXT: Final = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"
VERSIONS: Final = ("v1", "v1beta1", "v1beta2")


api = api_with(f"--runtime-config={','.join(f'resource.k8s.io/{each}=true' for each in VERSIONS)}")


def label(api: Api, value: str | None) -> None:
    api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {LABEL: value}}}).ok()


def asked(version: str, is_admin: bool) -> dict[str, Any]:
    devices = {"deviceClassName": "c", "adminAccess": is_admin}
    other = {"deviceClassName": "c"}
    if version == "v1beta1":
        requests = [{"name": "a", **other}, {"name": "b", **devices}]
    else:
        requests = [{"name": "a", "exactly": other}, {"name": "b", "exactly": devices}]
    return {"devices": {"requests": requests}}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("resource", ["resourceclaims", "resourceclaimtemplates"])
def test_who_asks_for_access_needs_a_labelled_namespace(api: Api, resource: str, version: str) -> None:
    path = f"/apis/resource.k8s.io/{version}/namespaces/default/{resource}?dryRun=All"

    def create(is_admin: bool) -> Any:
        spec = asked(version, is_admin)
        is_template = resource == "resourceclaimtemplates"
        return api.post(path, {"metadata": {"name": "x"}, "spec": {"spec": spec} if is_template else spec})

    for value in (None, "false", "True"):
        label(api, value)
        refused = create(True)
        assert refused.status == 422
        assert refused.causes == [("FieldValueForbidden", "spec.devices.requests[1].adminAccess")]
        assert TEXT in refused.message
    create(False).ok()
    label(api, "true")
    create(True).ok()


def test_who_gives_access_needs_a_labelled_namespace(api: Api) -> None:
    """A claim that has it keeps it: an allocation does not change."""
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    label(api, None)
    api.post(claims, {"metadata": {"name": "a"}, "spec": asked("v1", False)}).ok()
    device = {"request": "b", "driver": "d.example.com", "pool": "p", "device": "d", "adminAccess": True}
    allocation = {"devices": {"results": [{**device, "adminAccess": False, "request": "a"}, device]}}
    status = {"status": {"allocation": allocation}}
    refused = api.patch(f"{claims}/a/status", status)
    assert refused.causes == [("FieldValueForbidden", "status.allocation.devices.results[1].adminAccess")]
    label(api, "true")
    api.patch(f"{claims}/a/status", status).ok()
    label(api, None)
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    reserved = api.patch(f"{claims}/a/status", {"status": {"reservedFor": [consumer]}}).ok()
    assert reserved["status"]["allocation"]["devices"]["results"][1]["adminAccess"] is True
    api.patch(f"{claims}/a/status", {"status": {"allocation": None, "reservedFor": None}}).ok()
    assert api.patch(f"{claims}/a/status", status).status == 422
