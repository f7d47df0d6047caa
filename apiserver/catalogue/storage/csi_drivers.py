"""What CSI drivers and nodes say of themselves, and volumes that are attached.

Source: pkg/apis/storage/validation, pkg/apis/storage/v1/defaults.go, pkg/registry/storage. Errors name the
fields as clients write them, also where Kubernetes has `attachedRequired`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.catalogue.rules.lengths import byte_length
from apiserver.field_errors import duplicate, forbidden, invalid, not_supported, required, too_long
from apiserver.meta import names
from apiserver.schema.compile import Default
from apiserver.validation.checks import (
    IMMUTABLE,
    Errors,
    at,
    immutable,
    items,
    label_selector,
    non_negative,
    non_negative_quantity,
    one_of,
    setting,
)
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.api.storage.v1."


def _complete_driver(spec: Document) -> None:
    _FLAGS(spec)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


_FLAGS: Final = setting(
    attachRequired=True,
    podInfoOnMount=False,
    storageCapacity=False,
    fsGroupPolicy="ReadWriteOnceWithFSType",
    requiresRepublish=False,
    seLinuxMount=False,
)
DEFAULTS: Final[Mapping[str, Default]] = {f"{_PACKAGE}CSIDriverSpec": _complete_driver}


# ---- CSIDriver

_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES: Final = ("Persistent", "Ephemeral")
_UPDATE_PERIOD_S_MIN: Final = 10
_TOKEN_S_MIN: Final = 600
_TOKEN_S_MAX: Final = 1 << 32


def prepare_csi_driver_update(new: Document, old: Document) -> None:
    """Only changes count; a new driver has no generation."""
    if new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def validate_csi_driver(document: Document) -> Errors:
    spec = document.get("spec", {})
    policy, period_s = spec.get("fsGroupPolicy"), spec.get("nodeAllocatableUpdatePeriodSeconds")
    errors = one_of("spec.fsGroupPolicy", policy, _GROUP_POLICIES) if policy is not None else []
    errors += _token_requests(spec)
    errors += [
        not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLE_MODES)
        for mode in spec.get("volumeLifecycleModes") or ()
        if mode not in _LIFECYCLE_MODES
    ]
    if period_s is not None and period_s < _UPDATE_PERIOD_S_MIN:
        text = f"must be greater than or equal to {_UPDATE_PERIOD_S_MIN} seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period_s, text))
    return errors


def validate_csi_driver_update(new: Document, old: Document) -> Errors:
    return [
        error
        for field in ("attachRequired", "volumeLifecycleModes")
        for error in immutable(f"spec.{field}", at(new, "spec", field), at(old, "spec", field))
    ]


def _token_requests(spec: Document) -> Errors:
    errors: Errors = []
    audiences: set[str] = set()
    for where, request in items(spec, "tokenRequests", "spec"):
        audience, seconds = request.get("audience", ""), request.get("expirationSeconds")
        path = f"{where}.expirationSeconds"
        if audience in audiences:
            errors.append(duplicate(f"{where}.audience", audience))
        elif seconds is not None and seconds < _TOKEN_S_MIN:
            errors.append(invalid(path, seconds, "may not specify a duration less than 10 minutes"))
        elif seconds is not None and seconds > _TOKEN_S_MAX:
            errors.append(invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
        audiences.add(audience)
    return errors


# ---- CSINode

_NODE_ID_BYTES_MAX: Final = 256
_OLD_NODE_ID_BYTES_MAX: Final = 192


def validate_csi_node(document: Document) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for where, driver in items(document.get("spec", {}), "drivers", "spec"):
        name, node_id = driver.get("name", ""), driver.get("nodeID", "")
        errors += validate_csi_driver_name(f"{where}.name", name)
        if not node_id:
            errors.append(required(f"{where}.nodeID"))
        elif byte_length(node_id) > _NODE_ID_BYTES_MAX:
            text = f"must be {_NODE_ID_BYTES_MAX} characters or less"
            errors.append(invalid(f"{where}.nodeID", node_id, text))
        errors += non_negative(f"{where}.allocatable.count", at(driver, "allocatable", "count"))
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        errors += _topology_keys(where, driver.get("topologyKeys") or ())
    return errors


def _topology_keys(path: str, keys: Any) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for key in keys:
        if not key:
            errors.append(required(path))
        if key in seen:
            errors.append(duplicate(path, key))
        seen.add(key)
        errors += [invalid(path, key, problem) for problem in names.qualified_name(key)]
    return errors


def validate_csi_node_update(new: Document, old: Document) -> Errors:
    """Drivers come and go; one that stays, stays as it is."""
    before = {driver.get("name"): driver for driver in at(old, "spec", "drivers") or ()}
    return [
        error
        for driver in at(new, "spec", "drivers") or ()
        if driver.get("name") in before
        for error in immutable("spec.drivers", driver, before[driver.get("name")])
    ]


# ---- CSIStorageCapacity


def validate_csi_storage_capacity_create(document: Document) -> Errors:
    class_name = document.get("storageClassName", "")
    return [
        *label_selector("nodeTopology", document.get("nodeTopology")),
        *(invalid("storageClassName", class_name, problem) for problem in names.dns_subdomain(class_name)),
        *non_negative_quantity("capacity", document.get("capacity")),
    ]


def validate_csi_storage_capacity_update(new: Document, old: Document) -> Errors:
    return [
        *immutable("nodeTopology", new.get("nodeTopology"), old.get("nodeTopology")),
        *immutable("storageClassName", new.get("storageClassName"), old.get("storageClassName")),
    ]


# ---- VolumeAttachment

_ATTACHMENT_BYTES_MAX: Final = 256 * 1024
_ERROR_BYTES_MAX: Final = 1024
_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def prepare_volume_attachment_create(document: Document) -> None:
    document["status"] = {"attached": False}


def validate_volume_attachment(document: Document) -> Errors:
    spec = document.get("spec", {})
    errors: Errors = [] if spec.get("attacher") else [required("spec.attacher")]
    source = spec.get("source", {})
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if volume is None and inline is None:
        errors.append(required("spec.source", _ONE_SOURCE))
    elif volume is not None and inline is not None:
        errors.append(forbidden("spec.source", _ONE_SOURCE))
    elif volume == "":
        text = "must specify non empty persistentVolumeName"
        errors.append(required("spec.source.persistentVolumeName", text))
    node = spec.get("nodeName", "")
    errors += [invalid("spec.nodeName", node, problem) for problem in names.dns_subdomain(node)]
    return errors + _attachment_status(document.get("status", {}))


def validate_volume_attachment_create(document: Document) -> Errors:
    spec = document.get("spec", {})
    volume = at(spec, "source", "persistentVolumeName")
    errors = validate_csi_driver_name("spec.attacher", spec.get("attacher", ""))
    if volume is not None:
        path = "spec.source.persistentVolumeName"
        errors += [invalid(path, volume, problem) for problem in names.dns_subdomain(volume)]
    return errors


def validate_volume_attachment_update(new: Document, old: Document) -> Errors:
    return [invalid("spec", new.get("spec"), IMMUTABLE)] if new.get("spec") != old.get("spec") else []


def _attachment_status(status: Document) -> Errors:
    errors: Errors = []
    metadata = status.get("attachmentMetadata") or {}
    size_bytes = sum(byte_length(key) + byte_length(value) for key, value in metadata.items())
    if size_bytes > _ATTACHMENT_BYTES_MAX:
        errors.append(too_long("status.attachmentMetadata", _ATTACHMENT_BYTES_MAX))
    for field in ("attachError", "detachError"):
        error = status.get(field) or {}
        if byte_length(error.get("message", "")) > _ERROR_BYTES_MAX:
            errors.append(too_long(f"status.{field}.message", _ATTACHMENT_BYTES_MAX))
        if (code := error.get("errorCode")) is not None and code < 0:
            text = "must be between 0 and 2147483647, inclusive"
            errors.append(invalid(f"status.{field}.errorCode", code, text))
    return errors
