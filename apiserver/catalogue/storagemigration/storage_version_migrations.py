"""StorageVersionMigrations.

Source: pkg/apis/storagemigration/validation, ValidateStorageVersionMigration, and
pkg/registry/storagemigration/storagemigration/strategy.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, clear_status, status_without_metadata
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.checks import IMMUTABLE, named
from apiserver.schema.validation.conditions import validate_conditions
from apiserver.schema.validation.documents import at

GROUP: Final = "storagemigration"
RESOURCE: Final = "storageversionmigrations"
# The types of its conditions.
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
_REVISION_MAX: Final = 2**63 - 1


def validate_migration(document: Document) -> Errors:
    """Checks the names of a group and a resource as those of an APIService and a definition."""
    path, target = "spec.resource", at(document, "spec", "resource") or {}
    if resource := target.get("resource"):
        errors = named(f"{path}.resource", resource, names.dns1035_label)
    else:
        errors = [required(f"{path}.resource", "resource is required to be set")]
    return errors + named(f"{path}.group", target.get("group"), names.dns_subdomain, is_required=False)


def validate_migration_update(
    new: Document, old: Document, fields: Sequence[str] = ("group", "resource")
) -> Errors:
    """Checks an update. As in Kubernetes, paths omit the parent. fields: the immutable ones."""
    return [
        invalid(field, now or "", IMMUTABLE)
        for field in fields
        if (now := at(new, "spec", "resource", field)) != at(old, "spec", "resource", field)
    ]


def has_condition(document: Document, kind: str) -> bool:
    """Returns whether a condition of the status is true."""
    found: Sequence[Document] = at(document, "status", "conditions") or ()
    return any(each.get("type") == kind and each.get("status") == "True" for each in found)


def validate_migration_status(new: Document, old: Document) -> Errors:
    path = "status.conditions"
    errors = [*_revision(new, old), *validate_conditions(new.get("status") or {}, "status")]
    conditions = at(new, "status", "conditions") or []
    has_ended, had_ended = (
        {kind: has_condition(each, kind) for kind in (SUCCEEDED, FAILED)} for each in (new, old)
    )
    if all(has_ended.values()):
        text = "Both success and failed conditions cannot be true at the same time"
        errors.append(invalid(path, conditions, text))
    titles = {SUCCEEDED: "success", FAILED: "failed"}
    for kind, is_true in has_ended.items():
        if is_true and has_condition(new, RUNNING):
            text = f"Running condition cannot be true when {titles[kind]} condition is true"
            errors.append(invalid(path, conditions, text))
    for kind, was_true in had_ended.items():
        if was_true and not has_ended[kind]:
            text = f"{titles[kind].capitalize()} condition cannot be set to false once it is true"
            errors.append(invalid(path, conditions, text))
    return errors


def _revision(new: Document, old: Document) -> Errors:
    path = "status.resourceVersion"
    now, before = (at(each, "status", "resourceVersion") or "" for each in (new, old))
    if now and not (now.isascii() and now.isdecimal() and len(now) < 20 and int(now) <= _REVISION_MAX):
        return [invalid(path, now, f'failed to parse resource version "{now}"')]
    return [invalid(path, now, "cannot be updated")] if before and now != before else []


BUILTIN_TYPE: Final = BuiltinType(
    f"{GROUP}.",
    "v1beta1",
    RESOURCE,
    "StorageVersionMigration",
    is_namespaced=False,
    subresources=(status_without_metadata(validate_migration_status),),
    strategy=Strategy(
        prepare_create=clear_status,
        validate=validate_migration,
        update=UpdateStrategy(keep_status, validate_migration_update),
        allows_unconditional_update=False,
    ),
    # Off by default, and needed in Kubernetes: here --runtime-config is enough.
    optional_gates=("StorageVersionMigrator",),
)
