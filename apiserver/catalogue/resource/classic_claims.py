"""ResourceClaims of releases 1.26 to 1.30, in v1alpha1 and v1alpha2, which a driver of a class allocates.

PodSchedulingContexts carry possible nodes of pods between a driver's controller and the scheduler; 1.31 still
had them, beside claims in the current form. Neither Kubernetes nor this server converts between these forms:
objects in one cannot be read in another, and must be deleted before an upgrade. No controller here allocates
claims. Source: pkg/apis/resource/{validation,v1alpha1,v1alpha2}, pkg/registry/resource (releases 1.26 to
1.31).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType, clear_status, status_without_metadata
from apiserver.catalogue.common.claim_specs import validate_claim_metadata
from apiserver.catalogue.pod_specs.scheduling import validate_node_selector
from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.catalogue.resource.device_requests import validate_items
from apiserver.catalogue.resource.resource_claims import claim_state, validate_consumer
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, forbidden, invalid, longer_than, required
from apiserver.meta.names import byte_length
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.compile import Default
from apiserver.schema.validation.checks import follows, immutable, immutable_spec, named, one_of, uniqueness
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at, items, join

_CONSUMERS_MAX: Final = 32
_HANDLES_MAX: Final = 32
_HANDLE_BYTES_MAX: Final = 16 * 1024
_NODES_MAX: Final = 128
# What Kubernetes calls the path of an object itself.
_WHOLE_OBJECT: Final = "<nil>"
_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_DRIVER: Final = Column("DriverName", field_cell("driverName"), "The driver that allocates them.")


def types(version: str) -> tuple[BuiltinType, ...]:
    """Returns claims, their templates and classes, and PodSchedulingContexts.

    version: v1alpha1 or v1alpha2.
    """
    return (
        _claims(version),
        _templates(version),
        _classes(version),
        pod_scheduling(version, "PodScheduling" if version == "v1alpha1" else "PodSchedulingContext"),
    )


def _package(version: str) -> str:
    return f"io.k8s.api.resource.{version}"


_complete_claim: Final = setting(allocationMode="WaitForFirstConsumer")


def _defaults(version: str) -> Mapping[str, Default]:
    return {f"{_package(version)}.ResourceClaimSpec": _complete_claim}


# ---- claims and their templates


def _claims(version: str) -> BuiltinType:
    return BuiltinType(
        "resource.",
        version,
        "resourceclaims",
        "ResourceClaim",
        defaults=_defaults(version),
        subresources=(status_without_metadata(validate_claim_status),),
        strategy=Strategy(
            returns_deleted=True,
            prepare_create=clear_status,
            validate=lambda document: _claim_spec("spec", document.get("spec", {})),
            update=UpdateStrategy(keep_status, immutable_spec),
        ),
        columns=columns(
            *_claim_columns("spec"),
            Column("State", claim_state, "The state of the claim."),
            AGE,
        ),
    )


def _templates(version: str) -> BuiltinType:
    return BuiltinType(
        "resource.",
        version,
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        defaults=_defaults(version),
        strategy=Strategy(
            returns_deleted=True, validate=_validate_template, update=UpdateStrategy(validate=immutable_spec)
        ),
        columns=columns(*_claim_columns("spec", "spec"), AGE),
    )


def _claim_columns(*path: str) -> tuple[Column, Column]:
    return (
        Column(
            "ResourceClassName", field_cell(*path, "resourceClassName"), "The resource class of the claim."
        ),
        Column("AllocationMode", field_cell(*path, "allocationMode"), "The allocation mode of the claim."),
    )


def _validate_template(document: Document) -> Errors:
    template = document.get("spec", {})
    errors = validate_claim_metadata("spec.metadata", template.get("metadata") or {})
    return errors + _claim_spec("spec.spec", template.get("spec", {}))


def _claim_spec(path: str, spec: Document) -> Errors:
    errors = follows(f"{path}.resourceClassName", spec.get("resourceClassName", ""), names.dns_subdomain)
    errors += validate_reference(f"{path}.parametersRef", spec.get("parametersRef"))
    return errors + one_of(f"{path}.allocationMode", spec.get("allocationMode"), _MODES)


def validate_reference(path: str, reference: Document | None) -> Errors:
    """Checks a reference to parameters, if there is one."""
    if reference is None:
        return []
    errors = [required(f"{path}.{field}") for field in ("kind", "name") if not reference.get(field)]
    return errors + named(f"{path}.namespace", reference.get("namespace"), names.dns_label, is_required=False)


# ---- the status of a claim


def validate_claim_status(new: Document, old: Document) -> Errors:
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation, driver = status.get("allocation"), status.get("driverName", "")
    errors: Errors = []
    if driver:
        errors += validate_csi_driver_name("status.driverName", driver)
    elif allocation is not None:
        errors.append(required("status.driverName", "must be specified when `allocation` is set"))
    errors += _allocation("status.allocation", allocation or {})
    errors += _consumers("status", status)
    errors += _reservations(new, status, before)
    if allocation is not None and before.get("allocation") is not None:
        errors += immutable("status.allocation", allocation, before["allocation"])
    return errors + _deallocation(status, before)


def _consumers(path: str, status: Document) -> Errors:
    unique = uniqueness()

    def check(where: str, consumer: Document) -> Errors:
        return unique(f"{where}.uid", consumer.get("uid", "")) or validate_consumer(where, consumer)

    return _items(path, status, "reservedFor", _CONSUMERS_MAX, check)


def _reservations(new: Document, status: Document, before: Document) -> Errors:
    consumers, path = status.get("reservedFor") or [], "status.reservedFor"
    allocation = status.get("allocation")
    if not consumers:
        return []
    if allocation is None:
        return [forbidden(path, "may not be specified when `allocated` is not set")]
    errors: Errors = []
    if not allocation.get("shareable") and len(consumers) > 1:
        errors.append(forbidden(path, "may not be reserved more than once"))
    is_ending = "deletionTimestamp" in new["metadata"] or status.get("deallocationRequested")
    known = before.get("reservedFor") or []
    if is_ending and any(consumer not in known for consumer in consumers[:_CONSUMERS_MAX]):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(forbidden(path, text))
    return errors


def _deallocation(status: Document, before: Document) -> Errors:
    """Checks that deallocation is requested only for an unused claim, and is not canceled."""
    is_asked, was_asked = (bool(each.get("deallocationRequested")) for each in (status, before))
    path, errors = "status.deallocationRequested", Errors()
    if is_asked and not was_asked and status.get("reservedFor"):
        errors.append(forbidden(path, "deallocation cannot be requested while `reservedFor` is set"))
    if is_asked and status.get("allocation") is None:
        errors.append(forbidden("status", "`allocation` must be set when `deallocationRequested` is set"))
    if was_asked and not is_asked and status.get("allocation") is not None:
        errors.append(forbidden(path, "may not be cleared when `allocation` is set"))
    return errors


def _allocation(path: str, allocation: Document) -> Errors:
    errors: Errors = []
    # v1alpha1 has one handle, a text.
    if byte_length(allocation.get("resourceHandle", "")) > _HANDLE_BYTES_MAX:
        errors.append(longer_than(f"{path}.resourceHandle", _HANDLE_BYTES_MAX))
    errors += _items(path, allocation, "resourceHandles", _HANDLES_MAX, _handle)
    if (selector := allocation.get("availableOnNodes")) is not None:
        errors += validate_node_selector(f"{path}.availableOnNodes", selector)
    return errors


def _handle(path: str, handle: Document) -> Errors:
    errors = validate_csi_driver_name(f"{path}.driverName", handle.get("driverName", ""))
    data, structured = handle.get("data", ""), handle.get("structuredData")
    if byte_length(data) > _HANDLE_BYTES_MAX:
        errors.append(longer_than(f"{path}.data", _HANDLE_BYTES_MAX))
    if structured is None:
        return errors
    where = f"{path}.structuredData"
    errors += named(f"{where}.nodeName", structured.get("nodeName"), names.dns_subdomain, is_required=False)
    for each, result in items(structured, "results", where):
        errors += named_resources(each, result, _result)
    if data:
        errors.append(invalid(path, None, "data and structuredData are mutually exclusive"))
    return errors


def _result(path: str, result: Document) -> Errors:
    return named(f"{path}.name", result.get("name"), names.dns_subdomain)


def named_resources(path: str, holder: Document, check: Callable[[str, Document], Errors]) -> Errors:
    """Checks the model of resources. There is one model: named instances.

    path: empty if the object itself holds it. check: (path, value of `namedResources`).
    """
    found = holder.get("namedResources")
    if found is None:
        return [required(path or _WHOLE_OBJECT, "exactly one structured model field must be set")]
    return check(join(path, "namedResources"), found)


# ---- classes


def _classes(version: str) -> BuiltinType:
    return BuiltinType(
        "resource.",
        version,
        "resourceclasses",
        "ResourceClass",
        is_namespaced=False,
        strategy=Strategy(returns_deleted=True, validate=validate_class),
        columns=columns(_DRIVER, AGE),
    )


def validate_class(document: Document) -> Errors:
    errors = validate_csi_driver_name("driverName", document.get("driverName", ""))
    errors += validate_reference("parametersRef", document.get("parametersRef"))
    if (selector := document.get("suitableNodes")) is not None:
        errors += validate_node_selector("suitableNodes", selector)
    return errors


# ---- where pods might run


def pod_scheduling(version: str, kind: str) -> BuiltinType:
    return BuiltinType(
        "resource.",
        version,
        f"{kind.lower()}s",
        kind,
        subresources=(status_without_metadata(_validate_scheduling_status),),
        strategy=Strategy(
            returns_deleted=True,
            prepare_create=clear_status,
            validate=_validate_scheduling,
            update=UpdateStrategy(keep_status),
        ),
        columns=columns(
            Column(
                "SelectedNode",
                field_cell("spec", "selectedNode"),
                "The selected node.",
            ),
            AGE,
        ),
    )


def _validate_scheduling(document: Document) -> Errors:
    return _nodes("spec", document.get("spec", {}), "potentialNodes")


def _validate_scheduling_status(new: Document, old: Document) -> Errors:
    errors: Errors = []
    unique = uniqueness()
    for index, claim in enumerate(at(new, "status", "resourceClaims") or ()):
        where, name = f"status.claims[{index}]", claim.get("name", "")
        errors += _nodes(where, claim, "unsuitableNodes")
        errors += unique(where, name)
    return errors


def _nodes(path: str, value: Document, field: str) -> Errors:
    unique = uniqueness()

    def check(where: str, node: str) -> Errors:
        return unique(where, node) or follows(where, node, names.dns_subdomain)

    return _items(path, value, field, _NODES_MAX, check)


# ---- lists


def _items(path: str, value: Document, field: str, limit: int, check: Callable[[str, Any], Errors]) -> Errors:
    """Checks all items of a list, and then that there are at most `limit`."""
    errors = validate_items(path, value, field, None, check)
    if len(value.get(field) or ()) > limit:
        errors.append(longer_than(f"{path}.{field}", limit))
    return errors
