"""Named resources of release 1.30 in v1alpha2: resources of nodes, and parameters that select them.

Expressions are only required, and not compiled. Source: pkg/apis/resource/validation and
pkg/apis/resource/structured/namedresources/validation (release 1.30).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.catalogue.resource.classic_claims import named_resources, validate_reference
from apiserver.catalogue.resource.devices import is_semver
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.table import AGE, Column, Columns, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import field_texts
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import follows, immutable_fields, named, uniqueness
from apiserver.schema.validation.documents import items

_VERSION: Final = "v1alpha2"
_VALUES: Final = ("bool", "int", "intSlice", "quantity", "string", "stringSlice", "version")


def _parameters(kind: str, validate: Callable[[Document], Errors], shown: Columns) -> BuiltinType:
    return BuiltinType(
        "resource.",
        _VERSION,
        kind.lower(),
        kind,
        strategy=Strategy(returns_deleted=True, validate=validate),
        columns=shown,
    )


def _generated_from(document: Document, now: float) -> str:
    source = document.get("generatedFrom")
    if source is None:
        return ""
    group = source.get("apiGroup", "")
    return f"{source['kind']}{'.' if group else ''}{group} {source['name']}"


# ---- slices


def validate_slice(document: Document) -> Errors:
    errors = named("nodeName", document.get("nodeName"), names.dns_subdomain, is_required=False)
    errors += validate_csi_driver_name("driverName", document.get("driverName", ""))
    return errors + named_resources("", document, _instances)


def _validate_slice_update(new: Document, old: Document) -> Errors:
    return immutable_fields("", new, old, ("nodeName", "driverName"))


def _instances(path: str, resources: Document) -> Errors:
    errors, unique = Errors(), uniqueness()
    for where, instance in items(resources, "instances", path):
        errors += _name(f"{where}.name", instance, unique)
        unique_here = uniqueness()
        for each, attribute in items(instance, "attributes", where):
            errors += _name(f"{each}.name", attribute, unique_here) + _attribute(each, attribute)
    return errors


def _name(path: str, named: Document, unique: Callable[..., Errors]) -> Errors:
    name = named.get("name", "")
    return follows(path, name, names.dns_subdomain) + unique(path, name)


def _attribute(path: str, attribute: Document) -> Errors:
    errors: Errors = []
    version = attribute.get("version")
    if version is not None and not is_semver(version):
        text = "must be a string compatible with semver.org spec 2.0.0"
        errors.append(invalid(f"{path}.version", version, text))
    given = [field for field in _VALUES if attribute.get(field) is not None]
    if not given:
        errors.append(required(path, "exactly one value must be set"))
    elif len(given) > 1:
        errors.append(invalid(path, given, "exactly one field must be set, not several"))
    return errors


# ---- parameters


def validate_claim_parameters(document: Document) -> Errors:
    errors = validate_reference("generatedFrom", document.get("generatedFrom"))
    return errors + _by_driver(document, "driverRequests", _requests)


def validate_class_parameters(document: Document) -> Errors:
    errors = validate_reference("generatedFrom", document.get("generatedFrom"))
    errors += _by_driver(document, "filters", _filter)
    return errors + _by_driver(document, "vendorParameters", lambda path, parameters: [])


def _by_driver(document: Document, field: str, check: Callable[[str, Document], Errors]) -> Errors:
    """Checks a list with one item per driver. check: (path, item), for all fields but the driver's name."""
    errors, unique = Errors(), uniqueness()
    for where, item in items(document, field, ""):
        path, name = f"{where}.driverName", item.get("driverName", "")
        errors += validate_csi_driver_name(path, name) + unique(path, name) + check(where, item)
    return errors


def _requests(path: str, of_driver: Document) -> Errors:
    if not of_driver.get("requests"):
        return [required(f"{path}.requests", "empty entries with no requests are not allowed")]
    return [
        error
        for where, request in items(of_driver, "requests", path)
        for error in named_resources(where, request, _selector)
    ]


def _filter(path: str, of_driver: Document) -> Errors:
    return named_resources(path, of_driver, _selector)


def _selector(path: str, model: Document) -> Errors:
    return [] if model.get("selector") else [required(f"{path}.selector")]


_GENERATED: Final = columns(Column("GeneratedFrom", _generated_from, "The source of the parameters."), AGE)
TYPES: Final = (
    BuiltinType(
        "resource.",
        _VERSION,
        "resourceslices",
        "ResourceSlice",
        is_namespaced=False,
        strategy=Strategy(
            returns_deleted=True,
            validate=validate_slice,
            update=UpdateStrategy(validate=_validate_slice_update),
        ),
        columns=columns(
            Column("NodeName", field_cell("nodeName"), "The node of the resources."),
            Column("DriverName", field_cell("driverName"), "The driver of the devices."),
            AGE,
        ),
        selectable_fields=field_texts("nodeName", "driverName"),
    ),
    _parameters("ResourceClaimParameters", validate_claim_parameters, _GENERATED),
    _parameters("ResourceClassParameters", validate_class_parameters, _GENERATED),
)
