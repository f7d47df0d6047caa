"""DeviceClasses. Source: pkg/apis/resource/validation, ValidateDeviceClass."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.pod_specs.resource_requirements import is_extended_resource
from apiserver.catalogue.resource.device_requests import (
    LIST_MAX,
    validate_configuration,
    validate_items,
    validate_selectors,
)
from apiserver.field_errors import Errors, invalid
from apiserver.meta.table import AGE, columns
from apiserver.registry.strategy import Strategy
from apiserver.vocabulary import Document


def builtin_type() -> BuiltinType:
    return BuiltinType(
        "resource.",
        "v1",
        "deviceclasses",
        "DeviceClass",
        "io.k8s.api.resource.v1.DeviceClass",
        is_namespaced=False,
        strategy=Strategy(validate=validate_device_class, has_generation=True),
        columns=columns(AGE),
    )


def validate_device_class(document: Document) -> Errors:
    spec = document.get("spec", {})
    errors = validate_selectors("spec", spec)
    errors += validate_items("spec", spec, "config", LIST_MAX, validate_configuration)
    if (name := spec.get("extendedResourceName")) is not None and not is_extended_resource(name):
        text = "must be a valid extended resource name"
        errors.append(invalid("spec.extendedResourceName", name, text))
    return errors
