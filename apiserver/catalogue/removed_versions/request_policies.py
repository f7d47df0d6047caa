"""Request policies for a device's capacity in resource/v1alpha3, which has no fields for them.

1.34, which introduced these policies, no longer has v1alpha3, so Kubernetes loses nothing. Here an annotation
holds them, by the names of devices and capacities; they become fields again if both still exist. A client's
value is accepted if it has the types of the fields; otherwise it is an ordinary annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from apiserver.catalogue.common import annotation_values
from apiserver.catalogue.common.annotation_values import UnreadableAnnotation, list_of, object_of, quantity
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at

_POLICY: Final = "requestPolicy"
_RANGE_FIELDS: Final = frozenset({"min", "max", "step"})
_POLICY_FIELDS: Final = frozenset({"default", "validValues", "validRange"})


def policies_annotation(brand: Brand) -> str:
    """Returns the annotation of a ResourceSlice in v1alpha3 that holds the policies."""
    return f"{brand.group('resource')}/v1alpha3-capacity-request-policies"


def take_policies(key: str, document: Document) -> None:
    """Moves the policies of a slice in v1 to its annotation."""
    policies: dict[str, dict[str, Any]] = {}
    for device in _devices(document):
        for name, capacity in (device.get("capacity") or {}).items():
            if _POLICY in capacity:
                policies.setdefault(device.get("name", ""), {})[name] = capacity.pop(_POLICY)
    if policies:
        annotation_values.annotate(document, key, orjson.dumps(policies).decode())


def restore_policies(key: str, document: Document) -> None:
    """Moves the policies from the annotation to the capacities of a slice in v1."""
    text = at(document, "metadata", "annotations", key)
    if text is None:
        return
    try:
        policies = annotation_values.read(text, _by_device)
    except UnreadableAnnotation:
        return
    for device in _devices(document):
        for name, policy in policies.get(device.get("name", ""), {}).items():
            if (capacity := (device.get("capacity") or {}).get(name)) is not None:
                capacity[_POLICY] = policy
    annotation_values.take_annotation(document, key)


def _devices(document: Document) -> list[Document]:
    found: list[Document] | None = at(document, "spec", "devices")
    return found or []


# ---- values of the annotation; all raise UnreadableAnnotation


def _by_device(value: Any) -> Mapping[str, Mapping[str, Document]]:
    return {
        device: {name: _policy(each) for name, each in object_of(policies).items()}
        for device, policies in object_of(value).items()
    }


def _policy(value: Any) -> Document:
    policy = object_of(value)
    if policy.keys() - _POLICY_FIELDS:
        raise UnreadableAnnotation
    read = {**policy}
    if policy.get("default") is not None:
        read["default"] = quantity(policy["default"])
    if policy.get("validValues") is not None:
        read["validValues"] = [quantity(each) for each in list_of(policy["validValues"])]
    if policy.get("validRange") is not None:
        bounds = object_of(policy["validRange"])
        if bounds.keys() - _RANGE_FIELDS:
            raise UnreadableAnnotation
        read["validRange"] = {name: None if each is None else quantity(each) for name, each in bounds.items()}
    return read
