"""ResourceClaims: requests for devices, and their allocation.

Source: pkg/apis/resource/validation, ValidateResourceClaim, and pkg/registry/resource/resourceclaim (release
1.36).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, clear_status, status_without_metadata
from apiserver.catalogue.pod_specs.scheduling import validate_node_selector
from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.catalogue.resource.device_requests import (
    DEFAULTS,
    LIST_MAX,
    RequestNames,
    claim_selectors,
    request_names,
    validate_claim_configuration,
    validate_claim_spec,
    validate_items,
    validate_label,
    validate_pool_name,
    validate_request_reference,
    validate_set,
)
from apiserver.catalogue.resource.device_selectors import selector_rules
from apiserver.catalogue.resource.device_status import (
    drop_deallocated_devices,
    validate_device_statuses,
    validate_share_id,
)
from apiserver.catalogue.resource.device_taints import validate_toleration
from apiserver.catalogue.resource.devices import validate_binding_conditions
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta.field_errors import Errors, forbidden, required
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status, only_status_without_metadata
from apiserver.schema.validation.checks import immutable, immutable_spec, one_of
from apiserver.schema.validation.documents import at


def builtin_type(compatibility: CompatibilityVersion) -> BuiltinType:
    """Returns the type. compatibility: the version that limits new expressions."""
    return BuiltinType(
        "resource.",
        "v1",
        "resourceclaims",
        "ResourceClaim",
        defaults=DEFAULTS,
        subresources=(status_without_metadata(validate_claim_status_update, _prepare_status),),
        strategy=Strategy(
            returns_deleted=True,
            prepare_create=clear_status,
            validate_create=validate_claim_create,
            expressions=selector_rules(
                lambda new, old: claim_selectors("spec", new.get("spec", {})), "spec.devices", compatibility
            ),
            update=UpdateStrategy(keep_status, immutable_spec),
        ),
        columns=columns(Column("State", claim_state, "The state of the claim."), AGE),
    )


_CONSUMERS_MAX: Final = 256


def validate_claim_create(document: Document) -> Errors:
    return validate_claim_spec("spec", document.get("spec", {}))


# ---- the status of a claim


def _prepare_status(new: Document, old: Document) -> None:
    only_status_without_metadata(new, old)
    drop_deallocated_devices(new, old)


def validate_claim_status_update(new: Document, old: Document) -> Errors:
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation, consumers = status.get("allocation"), status.get("reservedFor") or []
    path = "status.reservedFor"
    errors = validate_set(
        "status", status, "reservedFor", _CONSUMERS_MAX, validate_consumer, lambda each: each.get("uid", "")
    )
    errors += validate_device_statuses("status", status)
    if consumers and allocation is None:
        errors.append(forbidden(path, "may not be specified when `allocated` is not set"))
    elif "deletionTimestamp" in new["metadata"] and any(
        consumer not in (before.get("reservedFor") or []) for consumer in consumers[:_CONSUMERS_MAX]
    ):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(forbidden(path, text))
    if allocation is not None and before.get("allocation") is not None:
        errors += immutable("status.allocation", allocation, before["allocation"])
    elif allocation is not None:
        known = request_names(new.get("spec", {}).get("devices", {}))
        errors += _allocation("status.allocation", allocation, known)
    return errors


def validate_consumer(path: str, consumer: Document) -> Errors:
    return [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not consumer.get(field)]


_CONFIG_SOURCES: Final = ("FromClaim", "FromClass")


def _allocation(path: str, allocation: Document, known: RequestNames) -> Errors:
    devices, where = allocation.get("devices", {}), f"{path}.devices"
    errors = validate_items(where, devices, "results", LIST_MAX, lambda at, each: _result(at, each, known))
    errors += validate_items(
        where, devices, "config", 2 * LIST_MAX, lambda at, each: _allocated(at, each, known)
    )
    if (selector := allocation.get("nodeSelector")) is not None:
        errors += validate_node_selector(f"{path}.nodeSelector", selector)
    return errors


def _result(path: str, result: Document, known: RequestNames) -> Errors:
    return [
        *validate_request_reference(f"{path}.request", result.get("request", ""), known),
        *validate_csi_driver_name(f"{path}.driver", result.get("driver", "")),
        *validate_pool_name(f"{path}.pool", result.get("pool", "")),
        *validate_label(f"{path}.device", result.get("device", "")),
        *validate_binding_conditions(path, result),
        *validate_items(path, result, "tolerations", None, validate_toleration),
        *validate_share_id(path, result),
    ]


def _allocated(path: str, value: Document, known: RequestNames) -> Errors:
    source = one_of(f"{path}.source", value.get("source"), _CONFIG_SOURCES, required_text="")
    return source + validate_claim_configuration(path, value, known)


# ---- columns


def claim_state(document: Document, now: float) -> str:
    is_deleted = "deletionTimestamp" in document["metadata"]
    states = ["deleted"] if is_deleted else []
    if at(document, "status", "allocation") is not None:
        states.append("allocated")
        if at(document, "status", "reservedFor"):
            states.append("reserved")
    elif not is_deleted:
        states.append("pending")
    return ",".join(states)
