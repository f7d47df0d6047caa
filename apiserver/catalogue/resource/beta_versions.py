"""The beta versions of the group: v1beta2, which only differs from v1 in name, and v1beta1.

v1beta1 has the fields of requests and devices in other places.
Source: pkg/apis/resource/v1beta1 (conversion.go, defaults.go).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import hub_of, other_version
from apiserver.catalogue.resource.device_requests import complete_request
from apiserver.catalogue.resource.devices import complete_device
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at

# Fields that are in the request itself in v1beta1, and below `exactly` in v1.
_EXACT: Final = (
    *("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"),
    "derivedAttributes",
)


def types(current: Iterable[BuiltinType]) -> tuple[BuiltinType, ...]:
    """Returns the beta versions of the types of v1, `current`."""
    of_v1 = {each.resource: each for each in current}
    claims, templates = of_v1["resourceclaims"], of_v1["resourceclaimtemplates"]
    classes, slices = of_v1["deviceclasses"], of_v1["resourceslices"]
    completions = {"DeviceRequest": complete_main_request}
    return (
        *(other_version(each, "v1beta2") for each in of_v1.values()),
        other_version(classes, "v1beta1"),
        other_version(claims, "v1beta1", adds=completions, hub=hub_of(claims, claim_to_v1, claim_to_v1beta1)),
        other_version(
            templates, "v1beta1", adds=completions, hub=hub_of(templates, template_to_v1, template_to_v1beta1)
        ),
        other_version(
            slices,
            "v1beta1",
            adds={"BasicDevice": complete_device},
            hub=hub_of(slices, slice_to_v1, slice_to_v1beta1),
        ),
    )


def complete_main_request(request: Document) -> None:
    """Completes a request that has no alternatives."""
    if request.get("deviceClassName"):
        complete_request(request)


# ---- claims


def claim_to_v1(document: Document) -> None:
    for request in _requests(document, "spec"):
        exactly = {field: request.pop(field) for field in _EXACT if field in request}
        if any(exactly.values()):
            request["exactly"] = exactly


def claim_to_v1beta1(document: Document) -> None:
    _move_up(_requests(document, "spec"))


def template_to_v1(document: Document) -> None:
    claim_to_v1(document.get("spec", {}))


def template_to_v1beta1(document: Document) -> None:
    _move_up(_requests(document, "spec", "spec"))


def _move_up(requests: Iterable[Document]) -> None:
    for request in requests:
        request.update({"deviceClassName": "", **(request.pop("exactly", None) or {})})


def _requests(document: Document, *path: str) -> list[Document]:
    found: Any = at(document, *path, "devices", "requests")
    return found or []


# ---- slices


def slice_to_v1(document: Document) -> None:
    for device in at(document, "spec", "devices") or ():
        device.update(device.pop("basic", None) or {})


def slice_to_v1beta1(document: Document) -> None:
    for device in at(document, "spec", "devices") or ():
        device["basic"] = {field: device.pop(field) for field in [*device] if field != "name"}
