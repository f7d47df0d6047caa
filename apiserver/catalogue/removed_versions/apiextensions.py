"""CustomResourceDefinitions of apiextensions/v1beta1, where fields of all versions may be at the top.

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/v1beta1 (defaults.go), v1 (conversion.go) and
validation (release 1.21). Row T14.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType, status_subresource
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of, other_version
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.custom_resources.definitions import strategy as definition_strategy
from apiserver.custom_resources.definitions.validation.custom_resource_definitions import DefinitionValidator
from apiserver.custom_resources.definitions.validation.internal_types import internal_version
from apiserver.custom_resources.definitions.validation.schema_tree import same
from apiserver.meta import names
from apiserver.meta.brand import Brand
from apiserver.meta.field_errors import Errors, forbidden, invalid
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.extensions import Extensions
from apiserver.schema.structural import Schema

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# Fields beside the versions, and in each of them; and what messages call them.
_IN_COMMON: Final = (
    ("subresources", "subresources", "subresources"),
    ("validation", "schema", "schemas"),
    ("additionalPrinterColumns", "additionalPrinterColumns", "additionalPrinterColumns"),
)


def types(
    brand: Brand,
    schema_of: Callable[[str], Schema],
    current: CurrentTypes,
    compatibility: CompatibilityVersion,
) -> tuple[BuiltinType, ...]:
    """Returns the types. schema_of: finds built-in schemas. compatibility: the version that limits new
    expressions.
    """
    v1 = current["apiextensions.", "customresourcedefinitions"]
    checks = DefinitionValidator(brand, partial(schema_of, _META), compatibility, of_v1beta1=True)
    validate = partial(validate_common_fields, Extensions(brand.vendor))
    completions = {
        "CustomResourceDefinitionSpec": complete_spec,
        "CustomResourceConversion": complete_conversion,
    }
    return (
        other_version(
            v1,
            "v1beta1",
            adds=completions,
            subresources=(status_subresource(checks.validate_status_update),),
            strategy=_strategy(v1.strategy, checks),
            hub=hub_of(v1, to_v1, to_v1beta1, validate=validate),
        ),
    )


def _strategy(of_v1: Strategy, checks: DefinitionValidator) -> Strategy:
    update = UpdateStrategy(definition_strategy.prepare_update, checks.validate_update)
    return of_v1._replace(validate_create=checks.validate_create, update=update, warn=checks.warn)


# ---- defaults


def complete_spec(spec: Document) -> None:
    """Sets values for which v1 has no defaults: the scope, the preservation of unknown fields, and
    `versions`.
    """
    spec["scope"] = spec.get("scope") or "Namespaced"
    if not spec.get("versions") and spec.get("version"):
        spec["versions"] = [{"name": spec["version"], "served": True, "storage": True}]
    if not spec.get("version") and spec.get("versions"):
        spec["version"] = spec["versions"][0].get("name", "")
    spec.setdefault("preserveUnknownFields", True)


def complete_conversion(conversion: Document) -> None:
    if conversion.get("strategy") == "Webhook" and not conversion.get("conversionReviewVersions"):
        conversion["conversionReviewVersions"] = ["v1beta1"]


# ---- conversion


def to_v1(document: Document) -> None:
    """Moves the top-level fields of all versions into each of them."""
    spec = document["spec"]
    spec.pop("version", None)
    if not spec.get("preserveUnknownFields"):
        spec.pop("preserveUnknownFields", None)
    versions = spec.get("versions") or []
    for common, own, _ in _IN_COMMON:
        if (value := spec.pop(common, None)) is not None:
            for index, version in enumerate(versions):
                # Whatever changes one of them later must not change the others.
                version[own] = copy.deepcopy(value) if index else value
    for version in versions:
        if columns := version.get("additionalPrinterColumns"):
            version["additionalPrinterColumns"] = [_renamed(each, "JSONPath", "jsonPath") for each in columns]
    spec["versions"] = versions or None
    _convert_conversion_to_v1(spec)


def to_v1beta1(document: Document) -> None:
    """Moves the fields that are the same in all versions to the top."""
    spec = document["spec"]
    versions = spec.get("versions") or []
    for version in versions:
        if columns := version.get("additionalPrinterColumns"):
            version["additionalPrinterColumns"] = [_renamed(each, "jsonPath", "JSONPath") for each in columns]
    for common, own, _ in _IN_COMMON:
        if versions and (value := versions[0].get(own)) is not None and _is_in_all(versions, own, value):
            spec[common] = value
            for version in versions:
                del version[own]
    if versions:
        spec["version"] = versions[0].get("name", "")
    else:
        spec.pop("versions", None)
    spec.setdefault("preserveUnknownFields", False)
    _convert_conversion_to_v1beta1(spec)


def _is_in_all(versions: Sequence[Document], field: str, value: Any) -> bool:
    return all(same(version.get(field), value) for version in versions)


def _renamed(value: Document, old: str, new: str) -> Document:
    """Returns a document with one field renamed, in the same place."""
    return {new if name == old else name: each for name, each in value.items()}


def _convert_conversion_to_v1(spec: Document) -> None:
    conversion = spec.get("conversion")
    if conversion is None:
        return
    config = conversion.pop("webhookClientConfig", None)
    reviews = conversion.pop("conversionReviewVersions", None)
    if config is not None or reviews:
        webhook = conversion["webhook"] = {"conversionReviewVersions": reviews}
        if config is not None:
            webhook["clientConfig"] = config


def _convert_conversion_to_v1beta1(spec: Document) -> None:
    conversion = spec.get("conversion")
    if conversion is None or (webhook := conversion.pop("webhook", None)) is None:
        return
    if (config := webhook.get("clientConfig")) is not None:
        conversion["webhookClientConfig"] = config
    if reviews := webhook.get("conversionReviewVersions"):
        conversion["conversionReviewVersions"] = reviews


# ---- rules that the form of v1 cannot break


def validate_common_fields(extensions: Extensions, document: Document) -> Errors:
    """Checks that fields of all versions are at the top, and in no version."""
    spec = document["spec"]
    versions: list[Document] = spec.get("versions") or []
    errors: Errors = []
    for common, own, plural in _IN_COMMON:
        if common in spec and any(own in version for version in versions):
            text = f"top-level and per-version {plural} are mutually exclusive"
            errors.append(forbidden(f"spec.{common}", text))
    for common, own, plural in _IN_COMMON:
        value = versions[0].get(own) if versions else None
        if value is not None and _is_in_all(versions, own, value):
            shown = [internal_version(version, extensions) for version in versions]
            text = (
                f"per-version {plural} may not all be set to identical values "
                f"(top-level {common} should be used instead)"
            )
            errors.append(invalid("spec.versions", shown, text))
    version = spec.get("version")
    if version and versions:
        if problems := names.dns1035_label(version):
            errors.append(invalid("spec.version", version, ",".join(problems)))
        if versions[0].get("name") != version:
            text = "must match the first version in spec.versions"
            errors.append(invalid("spec.version", version, text))
    return errors
