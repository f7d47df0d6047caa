"""ResourcePoolStatusRequests: queries for the numbers of all and of free devices in a driver's pools.

Source: pkg/apis/resource/validation, ValidateResourcePoolStatusRequest; the declarative rules of
k8s.io/api/resource/v1alpha3; pkg/registry/resource/resourcepoolstatusrequest; KEP-5677 (release 1.36).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, status_subresource
from apiserver.catalogue.resource.device_requests import validate_pool_name
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import (
    Strategy,
    UpdateStrategy,
    drop_status,
    keep_status,
    only_status_without_metadata,
)
from apiserver.schema.validation.checks import (
    at_least,
    at_most,
    immutable,
    immutable_spec,
    max_bytes,
    max_items,
    named,
)
from apiserver.schema.validation.conditions import validate_conditions
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import items

GATE: Final = "DRAResourcePoolStatus"
_PACKAGE: Final = "io.k8s.api.resource.v1alpha3."
_DRIVER_BYTES_MAX: Final = 63
_LIMIT_MAX: Final = 1_000
_POOLS_MAX: Final = 1_000
_CONDITIONS_MAX: Final = 10
_PROBLEM_BYTES_MAX: Final = 256
_COUNTS: Final = ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices")


def validate_request(document: Document) -> Errors:
    spec = document.get("spec", {})
    errors = _driver("spec.driver", spec.get("driver", ""))
    if (pool := spec.get("poolName")) is not None:
        errors += validate_pool_name("spec.poolName", pool)
    limit = spec.get("limit")
    return errors + at_least("spec.limit", limit, 1) + at_most("spec.limit", limit, _LIMIT_MAX)


def _driver(path: str, driver: str) -> Errors:
    """Checks the name of a driver: a short subdomain, in which upper case is allowed."""
    if not driver:
        return [required(path)]
    return max_bytes(path, driver, _DRIVER_BYTES_MAX) + [
        invalid(path, driver, problem) for problem in names.dns_subdomain(driver.lower())
    ]


def validate_status(new: Document, old: Document) -> Errors:
    """Checks a status, which is written once: then the request is complete."""
    status, before = new.get("status"), old.get("status")
    if before is not None:
        return immutable("status", status, before)
    if status is None:
        return []
    errors: Errors = []
    if (count := status.get("poolCount")) is None:
        errors.append(required("status.poolCount"))
    errors += at_least("status.poolCount", count, 0)
    for field, most in (("pools", _POOLS_MAX), ("conditions", _CONDITIONS_MAX)):
        if excess := max_items(f"status.{field}", status.get(field), most):
            return errors + excess
    for where, pool in items(status, "pools", "status"):
        errors += _pool(where, pool)
    return errors + validate_conditions(status, "status")


def _pool(path: str, pool: Document) -> Errors:
    errors = _driver(f"{path}.driver", pool.get("driver", ""))
    errors += validate_pool_name(f"{path}.poolName", pool.get("poolName", ""))
    errors += at_least(f"{path}.generation", pool.get("generation", 0), 0)
    errors += at_least(f"{path}.resourceSliceCount", pool.get("resourceSliceCount"), 1)
    for field in _COUNTS:
        errors += at_least(f"{path}.{field}", pool.get(field), 0)
    if (node := pool.get("nodeName")) is not None:
        errors += named(f"{path}.nodeName", node, names.dns_subdomain)
    return errors + max_bytes(f"{path}.validationError", pool.get("validationError"), _PROBLEM_BYTES_MAX)


BUILTIN_TYPE: Final = BuiltinType(
    "resource.",
    "v1alpha3",
    "resourcepoolstatusrequests",
    "ResourcePoolStatusRequest",
    is_namespaced=False,
    subresources=(
        status_subresource(
            validate_status, prepare=only_status_without_metadata, resets=("metadata", "spec")
        ),
    ),
    defaults={f"{_PACKAGE}ResourcePoolStatusRequestSpec": setting(limit=100)},
    strategy=Strategy(
        returns_deleted=True,
        prepare_create=drop_status,
        validate_create=validate_request,
        update=UpdateStrategy(keep_status, immutable_spec),
        allows_unconditional_update=False,
    ),
    feature_gates=(GATE,),
)
