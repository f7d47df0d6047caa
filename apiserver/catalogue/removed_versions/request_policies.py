"""How much of a device's capacity may be asked for, in resource/v1alpha3: it has no place for it.

1.34, which has brought these policies, has no v1alpha3 any more, so Kubernetes loses nothing. Here an
annotation has them, by the names of devices and capacities, and it becomes fields again where both are still
there. What a client writes into it is taken if it has the types that the fields have, and is else an
annotation as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from apiserver.brand import Brand
from apiserver.meta.quantity import InvalidQuantity, canonical_quantity
from apiserver.validation.documents import at
from apiserver.vocabulary import Document

_POLICY: Final = "requestPolicy"
_RANGE_FIELDS: Final = frozenset({"min", "max", "step"})
_POLICY_FIELDS: Final = frozenset({"default", "validValues", "validRange"})


class _Unreadable(ValueError):
    """The annotation does not hold policies."""


def policies_annotation(brand: Brand) -> str:
    """Returns the annotation of a ResourceSlice in v1alpha3 that has the policies."""
    return f"{brand.group('resource')}/v1alpha3-capacity-request-policies"


def take_policies(key: str, document: Document) -> None:
    """Moves the policies of a slice of v1 into its annotation."""
    policies: dict[str, dict[str, Any]] = {}
    for device in _devices(document):
        for name, capacity in (device.get("capacity") or {}).items():
            if _POLICY in capacity:
                policies.setdefault(device.get("name", ""), {})[name] = capacity.pop(_POLICY)
    if policies:
        meta = document["metadata"]
        meta["annotations"] = {**(meta.get("annotations") or {}), key: orjson.dumps(policies).decode()}


def restore_policies(key: str, document: Document) -> None:
    """Moves the policies from the annotation to the capacities of a slice of v1."""
    meta = document["metadata"]
    text = (meta.get("annotations") or {}).get(key)
    if text is None:
        return
    try:
        policies = _read(text)
    except _Unreadable:
        return
    for device in _devices(document):
        for name, policy in policies.get(device.get("name", ""), {}).items():
            if (capacity := (device.get("capacity") or {}).get(name)) is not None:
                capacity[_POLICY] = policy
    rest = {name: value for name, value in meta["annotations"].items() if name != key}
    if rest:
        meta["annotations"] = rest
    else:
        del meta["annotations"]


def _devices(document: Document) -> list[Document]:
    found: list[Document] | None = at(document, "spec", "devices")
    return found or []


# ---- values that were text just now; all raise _Unreadable


def _read(text: str) -> Mapping[str, Mapping[str, Document]]:
    try:
        by_device = orjson.loads(text)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise _Unreadable from error
    return {
        device: {name: _policy(each) for name, each in _dict(policies).items()}
        for device, policies in _dict(by_device).items()
    }


def _policy(value: Any) -> Document:
    policy = _dict(value)
    if policy.keys() - _POLICY_FIELDS:
        raise _Unreadable
    read = {**policy}
    if policy.get("default") is not None:
        read["default"] = _quantity(policy["default"])
    if policy.get("validValues") is not None:
        read["validValues"] = [_quantity(each) for each in _list(policy["validValues"])]
    if policy.get("validRange") is not None:
        bounds = _dict(policy["validRange"])
        if bounds.keys() - _RANGE_FIELDS:
            raise _Unreadable
        read["validRange"] = {
            name: None if each is None else _quantity(each) for name, each in bounds.items()
        }
    return read


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unreadable
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _Unreadable
    return value


def _quantity(value: Any) -> str:
    if not isinstance(value, str):
        raise _Unreadable
    try:
        return canonical_quantity(value)
    except InvalidQuantity as error:
        raise _Unreadable from error
