"""The downward API: references to fields of the pod, and to resources of its containers.

Source: pkg/apis/core/validation, validateObjectFieldSelector and validateContainerResourceFieldSelector.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, not_supported, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import quantity_of

_POD_FIELDS: Final = frozenset(
    {
        *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
        *("status.hostIP", "status.hostIPs", "status.phase", "status.podIP", "status.podIPs"),
    }
)


def validate_field_selector(path: str, reference: Document, supported: Collection[str]) -> Errors:
    """Checks an ObjectFieldSelector. supported: the fields without a subscript, in order."""
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if version == "v1" and field in supported and field in _POD_FIELDS:
        return []
    if not version:
        return [required(f"{path}.apiVersion")]
    if not field:
        return [required(f"{path}.fieldPath")]
    owner, subscript = _subscripted(field)
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif owner and owner not in ("metadata.annotations", "metadata.labels"):
        problem = f"field label does not support subscript: {field}"
    elif not owner and field == "spec.host":
        field = "spec.nodeName"
    elif not owner and field not in _POD_FIELDS:
        problem = f"field label not supported: {field}"
    if problem:
        return [invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {problem}")]
    if owner:
        key = subscript.lower() if owner == "metadata.annotations" else subscript
        return [invalid(path, key, text) for text in names.qualified_name(key)]
    return [] if field in supported else [not_supported(f"{path}.fieldPath", field, tuple(supported))]


def _subscripted(field: str) -> tuple[str, str]:
    """Splits `metadata.labels['app']` into the field and the key; both are empty without a key."""
    owner, _, subscript = field.removesuffix("']").partition("['")
    return (owner, subscript) if field.endswith("']") and "['" in field[:-2] else ("", "")


_RESOURCES: Final = tuple(
    f"{field}.{name}" for field in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_BYTES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_NAMES_OF_BYTES: Final = {
    "memory": "memory",
    "ephemeral-storage": "local ephemeral storage",
    "hugepages-": "hugepages",
}


def validate_resource_field_selector(path: str, reference: Document, *, needs_container: bool) -> Errors:
    """Checks a ResourceFieldSelector."""
    resource = reference.get("resource", "")
    errors: Errors = []
    if needs_container and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.append(not_supported(f"{path}.resource", resource, _RESOURCES))
    if quantity_of(divisor := reference.get("divisor")).value:
        errors += _divisor(f"{path}.divisor", resource, divisor)
    return errors


def _divisor(path: str, resource: str, divisor: Any) -> Errors:
    if resource in ("limits.cpu", "requests.cpu"):
        text = "only divisor's values 1m and 1 are supported with the cpu resource"
        return [] if divisor in ("1m", "1") else [invalid(path, resource, text)]
    for name, shown in _NAMES_OF_BYTES.items():
        is_meant = (
            resource.startswith(_HUGE_PAGES)
            if name == "hugepages-"
            else (resource in (f"limits.{name}", f"requests.{name}"))
        )
        if is_meant and divisor not in _BYTES:
            text = f"only divisor's values {', '.join(_BYTES)} are supported with the {shown} resource"
            return [invalid(path, resource, text)]
    return []
