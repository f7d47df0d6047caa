"""Compares what is beside the schema of a version: whether it is served, subresources, columns, selectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from apiserver.custom_resources.definitions.comparison.changes import Change, breaking, note
from apiserver.meta.vocabulary import Document
from apiserver.schema.extensions import Extensions
from apiserver.schema.validation.documents import at

_SCALE_FIELDS: Final = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")


def version_path(name: str) -> str:
    return f"spec.versions[{name}]"


def schema_of(version: Document) -> Document:
    """Returns the schema of a version; an empty one if it has none."""
    return at(version, "schema", "openAPIV3Schema") or {}


def version_changes(old: Document, new: Document, extensions: Extensions) -> Iterator[Change]:
    """Yields the changes of a version, except those of its schema."""
    path = version_path(new["name"])
    if old.get("served") and not new.get("served"):
        text = "The version is not served any more. Clients that use it get 404."
        yield breaking("VersionNotServed", f"{path}.served", text)
    elif new.get("served") and not old.get("served"):
        yield note("VersionServed", f"{path}.served", "The version is served.")
    yield from _deprecation(old, new, path)
    yield from _status(old, new, f"{path}.subresources.status", extensions)
    yield from _scale(old, new, f"{path}.subresources.scale")
    yield from _selectable_fields(old, new, f"{path}.selectableFields")
    if _columns(old) != _columns(new):
        text = "kubectl get prints other columns."
        yield note("ColumnsChanged", f"{path}.additionalPrinterColumns", text)


def _deprecation(old: Document, new: Document, path: str) -> Iterator[Change]:
    before, after = (bool(each.get("deprecated")) for each in (old, new))
    if after and not before:
        text = "The version is deprecated. Its clients get warnings."
        yield note("VersionDeprecated", f"{path}.deprecated", text)
    elif before and not after:
        yield note("VersionNotDeprecated", f"{path}.deprecated", "The version is no longer deprecated.")
    elif old.get("deprecationWarning") != new.get("deprecationWarning"):
        text = "Clients of the deprecated version get another warning."
        yield note("DeprecationWarningChanged", f"{path}.deprecationWarning", text)


def _status(old: Document, new: Document, path: str, extensions: Extensions) -> Iterator[Change]:
    before, after = ("status" in (each.get("subresources") or {}) for each in (old, new))
    if before and not after:
        text = "The status subresource is removed. Clients that write it get 404."
        yield breaking("SubresourceRemoved", path, text)
    elif after and not before:
        text = "The status subresource is added. The server ignores the status in other writes."
        schema = schema_of(old)
        has_status = "status" in (schema.get("properties") or {}) or any(
            schema.get(each) for each in ("additionalProperties", extensions.preserve_unknown_fields)
        )
        yield (breaking if has_status else note)("SubresourceAdded", path, text)


def _scale(old: Document, new: Document, path: str) -> Iterator[Change]:
    before, after = (at(each, "subresources", "scale") for each in (old, new))
    if before == after:
        return
    if after is None:
        text = "The scale subresource is removed. Clients that use it get 404."
        yield breaking("SubresourceRemoved", path, text)
    elif before is None:
        yield note("SubresourceAdded", path, "The scale subresource is added.")
    else:
        for field in _SCALE_FIELDS:
            was, is_ = before.get(field), after.get(field)
            if was and is_ and was != is_:
                text = f"The scale uses {is_} of the object instead of {was}."
                yield breaking("ScaleChanged", f"{path}.{field}", text)
            elif was and not is_:
                text = f"The scale does not use {was} of the object any more."
                yield breaking("ScaleChanged", f"{path}.{field}", text)
            elif is_ and not was:
                yield note("ScaleChanged", f"{path}.{field}", f"The scale also uses {is_} of the object.")


def _selectable_fields(old: Document, new: Document, path: str) -> Iterator[Change]:
    before, after = (
        dict.fromkeys(each["jsonPath"] for each in version.get("selectableFields") or ())
        for version in (old, new)
    )
    for field in before:
        if field not in after:
            text = f"Field selectors with {field} are refused."
            yield breaking("SelectableFieldRemoved", path, text)
    for field in after:
        if field not in before:
            yield note("SelectableFieldAdded", path, f"Field selectors can use {field}.")


def _columns(version: Document) -> list[Any]:
    """Returns the columns as clients see them."""
    fields = ("name", "type", "format", "priority", "jsonPath")
    columns = version.get("additionalPrinterColumns") or ()
    return [[each.get(field) or None for field in fields] for each in columns]
