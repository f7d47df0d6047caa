"""DeviceClasses. Source: pkg/apis/resource/validation, ValidateDeviceClass."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.pod_specs.resource_requirements import is_extended_resource
from apiserver.catalogue.resource.device_requests import (
    LIST_MAX,
    selectors_of,
    validate_configuration,
    validate_items,
    validate_selectors,
)
from apiserver.catalogue.resource.device_selectors import Selector, selector_rules
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta.field_errors import Errors, invalid
from apiserver.meta.table import AGE, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import without_nulls


def _changed_selectors(new: Document, old: Document | None) -> Iterable[Selector]:
    """Returns all expressions, or none if they equal the stored ones."""
    spec = new.get("spec", {})
    if old is not None and _is_same("selectors", spec, old.get("spec", {})):
        return ()
    return selectors_of("spec", spec)


def builtin_type(compatibility: CompatibilityVersion) -> BuiltinType:
    """Returns the type. compatibility: the version that limits new expressions."""
    expressions = selector_rules(_changed_selectors, "spec.selectors", compatibility)
    return BuiltinType(
        "resource.",
        "v1",
        "deviceclasses",
        "DeviceClass",
        is_namespaced=False,
        strategy=Strategy(
            returns_deleted=True,
            validate_create=validate_device_class,
            expressions=expressions,
            update=UpdateStrategy(validate=validate_device_class_update, expressions=expressions),
            has_generation=True,
        ),
        columns=columns(AGE),
    )


def validate_device_class(document: Document) -> Errors:
    spec = document.get("spec", {})
    return _selectors(spec) + _configuration(spec) + _extended_resource(spec)


def validate_device_class_update(new: Document, old: Document) -> Errors:
    """Checks an update. Unchanged selectors and configuration may exceed the limits of new ones."""
    spec, before = new.get("spec", {}), old.get("spec", {})
    errors = [] if _is_same("selectors", spec, before) else _selectors(spec)
    if not _is_same("config", spec, before):
        errors += _configuration(spec)
    return errors + _extended_resource(spec)


def _is_same(field: str, spec: Document, before: Document) -> bool:
    return bool(without_nulls(spec.get(field) or None) == without_nulls(before.get(field) or None))


def _selectors(spec: Document) -> Errors:
    return validate_selectors("spec", spec)


def _configuration(spec: Document) -> Errors:
    return validate_items("spec", spec, "config", LIST_MAX, validate_configuration)


def _extended_resource(spec: Document) -> Errors:
    name = spec.get("extendedResourceName")
    if name is None or is_extended_resource(name):
        return []
    return [invalid("spec.extendedResourceName", name, "must be a valid extended resource name")]
