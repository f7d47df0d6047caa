"""Makes CustomResourceDefinitions from classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from apiserver.types.decorators import Names, Version, is_version, version_of
from apiserver.types.errors import DefinitionError
from apiserver.types.plurals import plural_of
from apiserver.types.schema_builder import SchemaBuilder

Document = dict[str, Any]


def definition(*classes: type) -> Document:
    """Returns the CustomResourceDefinition of a type, whose versions are the classes, in their order.

    Raises DefinitionError: the classes are not versions of one type, or not exactly one is stored.
    Raises Unrepresentable: a structural schema cannot express a class.
    """
    if not classes:
        raise DefinitionError("a definition needs at least one class")
    versions = [version_of(cls) for cls in classes]
    _require_one_type(classes, versions)
    names = next(version.names for version in versions if version.storage)
    plural = names.plural or plural_of(names.kind)
    metadata: Document = {"name": f"{plural}.{names.group}"}
    for field, values in (("labels", names.labels), ("annotations", names.annotations)):
        if values:
            metadata[field] = dict(values)
    spec = {
        "group": names.group,
        "names": _names(names, plural),
        "scope": names.scope,
        "versions": [_version(cls, each) for cls, each in zip(classes, versions, strict=True)],
    }
    if names.conversion:
        spec["conversion"] = dict(names.conversion)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def definitions(source: ModuleType | Iterable[object]) -> list[Document]:
    """Returns the definitions of all classes with the decorator `crd` in a module or among objects.

    Classes with the same group and kind are versions of one type. Raises the same errors as `definition`.
    """
    objects: Iterable[object] = vars(source).values() if isinstance(source, ModuleType) else source
    by_type: dict[tuple[str, str], list[type]] = {}
    for cls in dict.fromkeys(each for each in objects if isinstance(each, type) and is_version(each)):
        names = version_of(cls).names
        by_type.setdefault((names.group, names.kind), []).append(cls)
    return [definition(*classes) for classes in by_type.values()]


def _require_one_type(classes: Sequence[type], versions: Sequence[Version]) -> None:
    """Raise DefinitionError if versions do not fit together."""
    kind = versions[0].names.kind
    found = [version.name for version in versions]
    if repeated := [name for name in found if found.count(name) > 1]:
        raise DefinitionError(f"the version {repeated[0]} of {kind} has several classes")
    stored = [cls for cls, version in zip(classes, versions, strict=True) if version.storage]
    if len(stored) != 1:
        shown = ", ".join(version.name for version in versions if version.storage)
        raise DefinitionError(
            f"one version of {kind} needs storage=True, and the others storage=False; "
            f"with storage=True: {shown or 'none'}"
        )
    for cls in classes:
        _require_same_names(stored[0], cls)


def _require_same_names(stored: type, other: type) -> None:
    """Raise DefinitionError if a version has another name than the stored one. It may have none."""
    for field in dataclasses.fields(Names):
        expected, given = (getattr(version_of(cls).names, field.name) for cls in (stored, other))
        if given and given != expected:
            raise DefinitionError(
                f"{stored.__qualname__} and {other.__qualname__} are not versions of one type: "
                f"{field.name} is {expected!r} and {given!r}"
            )


def _names(names: Names, plural: str) -> Document:
    fields: Document = {
        "plural": plural,
        "singular": names.singular or names.kind.lower(),
        "kind": names.kind,
        "listKind": names.list_kind,
        "shortNames": list(names.short_names),
        "categories": list(names.categories),
    }
    return {name: value for name, value in fields.items() if value}


def _version(cls: type, version: Version) -> Document:
    builder = SchemaBuilder()
    schema = {**builder.root_schema(cls), **version.keywords}
    document: Document = {"name": version.name, "served": version.served, "storage": version.storage}
    if version.deprecated:
        document["deprecated"] = True
    if isinstance(version.deprecated, str):
        document["deprecationWarning"] = version.deprecated
    document["schema"] = {"openAPIV3Schema": schema}
    if subresources := _subresources(version, schema):
        document["subresources"] = subresources
    paths = dict.fromkeys((*version.selectable_fields, *builder.selectable_paths))
    if paths:
        document["selectableFields"] = [{"jsonPath": path} for path in paths]
    if version.columns:
        document["additionalPrinterColumns"] = [column.document(schema) for column in version.columns]
    return document


def _subresources(version: Version, schema: Document) -> Document:
    has_status = "status" in schema.get("properties", {}) if version.status is None else version.status
    subresources: Document = {"status": {}} if has_status else {}
    if version.scale is not None:
        subresources["scale"] = version.scale.document()
    return subresources
