"""The status of allocated devices, which drivers write into the status of a ResourceClaim.

Source: pkg/apis/resource/validation, validateDeviceStatus; pkg/registry/resource/resourceclaim/strategy.go,
dropDeallocatedStatusDevices; KEP-4817 (release 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.catalogue.resource.device_requests import (
    validate_label,
    validate_pool_name,
    validate_set,
    validate_size,
)
from apiserver.golang.quoting import go_quote
from apiserver.meta.field_errors import Errors, invalid
from apiserver.meta.names import byte_length
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.addresses import interface_address
from apiserver.schema.validation.checks import max_bytes, max_items, uniqueness
from apiserver.schema.validation.conditions import validate_conditions
from apiserver.schema.validation.documents import at, items

_CONDITIONS_MAX: Final = 8
_DATA_BYTES_MAX: Final = 10 * 1024
_INTERFACE_NAME_BYTES_MAX: Final = 256
_HARDWARE_ADDRESS_BYTES_MAX: Final = 128
_IPS_MAX: Final = 16

# What identifies an allocated device: its driver, pool, name, and the share of it, which may be empty.
Share: TypeAlias = tuple[str, ...]
_SHARE: Final = ("driver", "pool", "device", "shareID")


def drop_deallocated_devices(new: Document, old: Document) -> None:
    """Removes the status of devices that are no longer allocated to the claim."""
    status = new.get("status") or {}
    found = status.get("devices")
    if not found:
        return
    gone = {share_of(each) for each in _allocated(old.get("status") or {})}
    gone -= {share_of(each) for each in _allocated(status)}
    if not gone:
        return
    left = [each for each in found if share_of(each) not in gone]
    rest = {field: value for field, value in status.items() if field != "devices"}
    new["status"] = {**rest, "devices": left} if left else rest


def validate_device_statuses(path: str, status: Document) -> Errors:
    """Checks the status of devices, and that each is allocated to the claim. path: that of the status."""
    allocated = {share_of(each) for each in _allocated(status)}
    errors: Errors = []
    for where, device in items(status, "devices", path):
        errors += _device(where, device, is_allocated=share_of(device) in allocated)
    unique = uniqueness()
    for where, device in items(status, "devices", path):
        identity = share_of(device)
        errors += unique(where, identity, _identity_in_go(identity))
    return errors


def _allocated(status: Document) -> Iterable[Document]:
    found: list[Document] | None = at(status, "allocation", "devices", "results")
    return found or ()


def share_of(device: Document) -> Share:
    """Returns the identity of an allocated device, or of its status."""
    return tuple(device.get(field) or "" for field in _SHARE)


def _identity_in_go(identity: Share) -> Document:
    return dict(zip(("Driver", "Pool", "Device", "ShareID"), identity, strict=True))


def _device(path: str, device: Document, *, is_allocated: bool) -> Errors:
    errors = validate_csi_driver_name(f"{path}.driver", device.get("driver", ""))
    errors += validate_pool_name(f"{path}.pool", device.get("pool", ""))
    errors += validate_label(f"{path}.device", device.get("device", ""))
    errors += validate_share_id(path, device)
    if not is_allocated:
        identity = _identity_in_go(share_of(device))
        errors.append(invalid(path, identity, "must be an allocated device in the claim"))
    errors += max_items(f"{path}.conditions", device.get("conditions"), _CONDITIONS_MAX)
    errors += validate_conditions(device, path)
    if (data := device.get("data")) is not None:
        errors += validate_size(f"{path}.data", data, _DATA_BYTES_MAX)
    if (network := device.get("networkData")) is not None:
        errors += _network(f"{path}.networkData", network)
    return errors


def _network(path: str, network: Document) -> Errors:
    name, address = network.get("interfaceName"), network.get("hardwareAddress")
    errors = max_bytes(f"{path}.interfaceName", name, _INTERFACE_NAME_BYTES_MAX)
    errors += max_bytes(f"{path}.hardwareAddress", address, _HARDWARE_ADDRESS_BYTES_MAX)
    return errors + validate_set(path, network, "ips", _IPS_MAX, interface_address, lambda address: address)


# ---- shares


_IN_LOWER_CASE: Final = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
    "hexadecimal characters"
)
_URN: Final = "urn:uuid:"
_is_uuid = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch
_is_hex = re.compile("[0-9a-fA-F]+").fullmatch


def validate_share_id(path: str, device: Document) -> Errors:
    """Checks the share ID of a device that several allocations may share. path: that of the device."""
    uid: Any = device.get("shareID")
    if uid is None:
        return []
    if problem := _uuid_problem(uid):
        return [invalid(f"{path}.shareID", uid, f"error validating uid: {problem}")]
    if len(uid) != 36 or uid != uid.lower():
        return [invalid(f"{path}.shareID", uid, _IN_LOWER_CASE)]
    return []


def _uuid_problem(uid: str) -> str:
    """Returns the error in a UUID of any form, in the words of github.com/google/uuid."""
    bare = uid
    match length := byte_length(uid):
        case 36 | 32:
            pass
        case 45:
            if uid[:9].lower() != _URN:
                return f"invalid urn prefix: {go_quote(uid[:9])}"
            bare = uid[9:]
        case 38:
            if not (uid.startswith("{") and uid.endswith("}")):
                return "invalid bracketed UUID format"
            bare = uid[1:-1]
        case _:
            return f"invalid UUID length: {length}"
    is_right = _is_hex(bare) if length == 32 else _is_uuid(bare)
    return "" if is_right else "invalid UUID format"
