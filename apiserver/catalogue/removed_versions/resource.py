"""Devices of resource.k8s.io/v1alpha3 in releases 1.31 to 1.33.

They are like v1beta1 (`catalogue.resource.beta_versions`), except that a device's capacity is a quantity,
with policies in an annotation (`request_policies`). Removed fields of 1.31 stay in stored objects. Source:
pkg/apis/resource/v1alpha3/conversion.go (release 1.33).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of, other_version
from apiserver.catalogue.removed_versions.request_policies import (
    policies_annotation,
    restore_policies,
    take_policies,
)
from apiserver.catalogue.resource.beta_versions import (
    claim_to_v1,
    claim_to_v1beta1,
    complete_main_request,
    slice_to_v1,
    slice_to_v1beta1,
    template_to_v1,
    template_to_v1beta1,
)
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at

_GROUP: Final = "resource."
_VERSION: Final = "v1alpha3"


def types(brand: Brand, current: CurrentTypes) -> tuple[BuiltinType, ...]:
    """Returns the types; none for a release that had other types under these names."""
    if (_GROUP, "deviceclasses") not in current:
        return ()
    claims, templates = (current[_GROUP, each] for each in ("resourceclaims", "resourceclaimtemplates"))
    slices, completions = current[_GROUP, "resourceslices"], {"DeviceRequest": complete_main_request}
    key = policies_annotation(brand)
    return (
        other_version(current[_GROUP, "deviceclasses"], _VERSION),
        other_version(claims, _VERSION, adds=completions, hub=hub_of(claims, claim_to_v1, claim_to_v1beta1)),
        other_version(
            templates, _VERSION, adds=completions, hub=hub_of(templates, template_to_v1, template_to_v1beta1)
        ),
        other_version(slices, _VERSION, hub=hub_of(slices, partial(to_v1, key), partial(to_v1alpha3, key))),
    )


def to_v1(key: str, document: Document) -> None:
    """Converts a ResourceSlice of v1alpha3 to v1. key: the annotation with the request policies."""
    slice_to_v1(document)
    for device in at(document, "spec", "devices") or ():
        if capacity := device.get("capacity"):
            device["capacity"] = {name: {"value": quantity} for name, quantity in capacity.items()}
    restore_policies(key, document)


def to_v1alpha3(key: str, document: Document) -> None:
    take_policies(key, document)
    slice_to_v1beta1(document)
    for device in at(document, "spec", "devices") or ():
        if capacity := device["basic"].get("capacity"):
            device["basic"]["capacity"] = {name: each.get("value") for name, each in capacity.items()}
