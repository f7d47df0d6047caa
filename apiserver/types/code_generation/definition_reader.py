"""Reads CustomResourceDefinitions: a root class for each version, with what `crd` is called with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from apiserver.types.code_generation.names import class_name
from apiserver.types.code_generation.schema_reader import SchemaReader, model_keywords
from apiserver.types.code_generation.tree import Marker, Model, object_fields
from apiserver.types.plurals import plural_of

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
# What every object has, and the classes of definitions leave out.
_IMPLIED: Final = ("apiVersion", "kind", "metadata")


def definition_models(definition: Mapping[str, Any], reader: SchemaReader) -> list[Model]:
    """Returns the root classes of the versions of a definition, that of the storage version first."""
    spec = definition["spec"]
    versions = sorted(spec["versions"], key=lambda version: not version["storage"])
    return [_root(definition, version, reader) for version in versions]


def _root(definition: Mapping[str, Any], version: Mapping[str, Any], reader: SchemaReader) -> Model:
    spec = definition["spec"]
    kind = spec["names"]["kind"]
    schema = dict(version["schema"]["openAPIV3Schema"])
    fields = schema.get("properties", {})
    schema["properties"] = {name: each for name, each in fields.items() if name not in _IMPLIED}
    schema["required"] = [name for name in schema.get("required", ()) if name not in _IMPLIED]
    keywords = model_keywords(schema)
    name = class_name(kind if version["storage"] else f"{kind}-{version['name']}")
    model = reader.model(schema, name, taken=_IMPLIED)
    *names, metadata = object_fields(f"{spec['group']}/{version['name']}", kind)
    if limits := _limits(fields.get("metadata", {})):
        metadata = metadata._replace(
            type=metadata.type._replace(markers=(Marker("Keywords", ({"properties": limits},)),))
        )
    model.fields = [*names, metadata, *model.fields]
    named = dict(_arguments(definition, version, model.name, "status" in fields))
    if keywords:
        named["keywords"] = keywords
    model.version = Marker("crd", (f"{spec['group']}/{version['name']}",), named)
    return model


def _limits(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schemas of the name and generateName; empty if they are those of all objects."""
    fields: Mapping[str, Any] = metadata.get("properties", {})
    return fields


def _arguments(
    definition: Mapping[str, Any], version: Mapping[str, Any], name: str, has_status_field: bool
) -> Iterator[tuple[str, Any]]:
    """Yields the arguments of `crd` that differ from its defaults."""
    spec = definition["spec"]
    names = spec["names"]
    kind = names["kind"]
    if kind != name:
        yield "kind", kind
    if names["plural"] != plural_of(kind):
        yield "plural", names["plural"]
    if names.get("singular", kind.lower()) != kind.lower():
        yield "singular", names["singular"]
    if names.get("listKind", f"{kind}List") != f"{kind}List":
        yield "list_kind", names["listKind"]
    if short_names := names.get("shortNames"):
        yield "short_names", tuple(short_names)
    if categories := names.get("categories"):
        yield "categories", tuple(categories)
    if spec["scope"] != "Namespaced":
        yield "scope", spec["scope"]
    if not version["storage"]:
        yield "storage", False
    if not version["served"]:
        yield "served", False
    if version.get("deprecated"):
        yield "deprecated", version.get("deprecationWarning") or True
    if columns := version.get("additionalPrinterColumns"):
        yield "columns", tuple(map(_column, columns))
    subresources = version.get("subresources") or {}
    if "scale" in subresources:
        yield "scale", _scale(subresources["scale"])
    if ("status" in subresources) != has_status_field:
        yield "status", "status" in subresources
    if selectable := version.get("selectableFields"):
        yield "selectable_fields", tuple(field["jsonPath"] for field in selectable)
    for field in ("labels", "annotations"):
        values = {key: each for key, each in definition["metadata"].get(field, {}).items() if key != _APPLIED}
        if values:
            yield field, values
    conversion = spec.get("conversion") or {}
    if version["storage"] and conversion.get("strategy", "None") != "None":
        yield "conversion", conversion


def _column(column: Mapping[str, Any]) -> Marker:
    named = {key: column[key] for key in ("type", "format", "description", "priority") if column.get(key)}
    return Marker("Column", (column["name"], column["jsonPath"]), named)


def _scale(scale: Mapping[str, Any]) -> Marker:
    names = {
        "specReplicasPath": "spec_replicas",
        "statusReplicasPath": "status_replicas",
        "labelSelectorPath": "selector",
    }
    return Marker("Scale", (), {names[key]: scale[key] for key in names if key in scale})
