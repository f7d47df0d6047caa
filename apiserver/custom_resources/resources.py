"""From a definition to served resources. Rows S02, S03, E14, E15, D06-D10, I13."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from apiserver.apiextensions import definitions
from apiserver.brand import Brand
from apiserver.catalogue.builtin_type import field as field_at
from apiserver.catalogue.subresources import scale, text_at
from apiserver.custom_resources import schemas
from apiserver.custom_resources.columns import COMPILED_INLINE_MAX, ColumnPreparation, columns_of
from apiserver.custom_resources.schemas import DefinitionSource, VersionSchema
from apiserver.custom_resources.strategies import CustomResourceStrategies
from apiserver.custom_resources.version_codec import (
    Converter,
    CustomResourceCodec,
    DefinitionReader,
    Family,
    ViewCache,
)
from apiserver.registry.served_resource import FieldGetter, ScaleFields, ServedResource, Subresource
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.structural import Schema
from apiserver.vocabulary import Deprecation, Document, GroupVersion

# The order in which Kubernetes tells them.
VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


@dataclass(frozen=True, slots=True)
class CustomResourceFactory:
    """What it takes to serve definitions.

    meta: gets the schema of metadata. definitions: where these are looked for.
    webhook: makes what converts, of `spec.conversion.webhook`.
    room: where what is made of objects is kept.
    """

    brand: Brand
    meta: Callable[[], Schema]
    definitions: DefinitionReader
    room: ViewCache
    webhook: Callable[[Document], Converter]


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A definition's resources.

    resources: of the versions that are served. stored: of the version that is stored, served or not.
    """

    source: DefinitionSource
    resources: tuple[ServedResource, ...]
    stored: ServedResource


def served(found: StoredObject, definition: Document, workshop: CustomResourceFactory) -> ServedKind:
    """What a definition is served as. found: its stored form, of which schemas are read when they are needed.

    Raises LookupError for one that stores no version.
    """
    spec = definition["spec"]
    names = definitions.accepted_names(definition)
    group, plural, kind = spec["group"], spec["names"]["plural"], spec["names"]["kind"]
    by_name = {each["name"]: each for each in spec["versions"]}
    source = DefinitionSource(found)
    compiled = {
        name: VersionSchema(source, name, brand=workshop.brand, meta=workshop.meta) for name in by_name
    }
    conversion = spec.get("conversion") or {}
    family = Family(
        group,
        kind,
        plural,
        {name: schema.prune_and_default for name, schema in compiled.items()},
        stored=definitions.storage_version(spec),
        webhook=_webhook(conversion, workshop),
        key=found.key,
        definitions=workshop.definitions,
        room=workshop.room,
    )

    def resource(version: Mapping[str, Any]) -> ServedResource:
        schema = compiled[version["name"]]
        subresources, strategies = _subresources(version, schema)
        columns = columns_of(version.get("additionalPrinterColumns") or ())
        has_many = len(columns.columns) > COMPILED_INLINE_MAX
        warning = definitions.deprecation_warning(spec, version) if version.get("deprecated") else ""
        return ServedResource(
            group_version=GroupVersion(group, version["name"]),
            resource=plural,
            kind=kind,
            is_namespaced=spec["scope"] == "Namespaced",
            schema=lambda: schema.structural,
            list_kind=names.get("listKind") or "",
            singular=names.get("singular") or "",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            verbs=VERBS,
            subresources=MappingProxyType(subresources),
            strategy=strategies.strategy(takes_long=len(found.tail) > schemas.LARGE_DEFINITION_BYTES),
            columns=columns,
            selectable_fields=_selectable_fields(version.get("selectableFields") or ()),
            storage_version=family.stored,
            keeping=CustomResourceCodec(family, version["name"]),
            deprecation=Deprecation("", text=warning) if warning else None,
            walk=lambda: schema.check,
            preparations=(
                schema,
                compiled[family.stored],
                *([ColumnPreparation(columns)] if has_many else []),
            ),
            openapi=partial(schemas.openapi, schema, GroupVersion(group, version["name"]), kind),
        )

    stored = resource(by_name[family.stored])
    return ServedKind(
        source,
        tuple(
            stored if each["name"] == family.stored else resource(each)
            for each in definitions.versions_to_serve(spec)
        ),
        stored,
    )


def _webhook(conversion: Mapping[str, Any], workshop: CustomResourceFactory) -> Converter | None:
    if conversion.get("strategy") != "Webhook":
        return None
    return workshop.webhook(conversion.get("webhook") or {})


# ---- subresources


def _subresources(
    version: Mapping[str, Any], schema: VersionSchema
) -> tuple[dict[str, Subresource], CustomResourceStrategies]:
    asked = version.get("subresources") or {}
    fields = _scale_fields(asked["scale"]) if asked.get("scale") is not None else None
    has_status = asked.get("status") is not None
    rules = CustomResourceStrategies(
        lambda: schema.custom, lambda: schema.rules, has_status=has_status, scale=fields
    )
    subresources = {}
    if fields is not None:
        subresources["scale"] = scale(fields)
    if has_status:
        subresources["status"] = Subresource("status", update=rules.status())
    return subresources, rules


def _scale_fields(described: Document) -> ScaleFields:
    selector = described.get("labelSelectorPath")
    return ScaleFields(
        text_at(*_steps(selector)) if selector else lambda document: "",
        replicas=_steps(described["specReplicasPath"]),
        status_replicas=_steps(described["statusReplicasPath"]),
        default=None,
        checks_replicas=False,
    )


def _steps(path: str) -> tuple[str, ...]:
    """`.spec.replicas` -> its fields."""
    return tuple(path.removeprefix(".").split("."))


def _selectable_fields(described: Sequence[Document]) -> Mapping[str, FieldGetter]:
    """By the name that selectors have for a field, which is its path without the dot."""
    paths = (_steps(each["jsonPath"]) for each in described)
    return MappingProxyType({".".join(path): field_at(*path) for path in paths})
