"""The annotation in which kubectl's client-side apply stores the last applied configuration.

A server-side apply by kubectl's manager takes over the fields in the annotation without conflicts, and keeps
it up to date. Source: apimachinery, pkg/util/managedfields, lastappliedmanager.go and lastappliedupdater.go.
"""

from __future__ import annotations

from typing import Final

import orjson

from apiserver.meta.object_meta import ANNOTATIONS_BYTES_MAX
from apiserver.meta.vocabulary import Document
from apiserver.registry.patch.apply.field_set import LEAF, FieldSet, difference, union
from apiserver.registry.patch.apply.typed_value import DocumentTooDeep, SchemaMismatch, compare, to_field_set
from apiserver.registry.patch.apply.updater import TypeVersion

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL: Final = "kubectl"


def annotation_of(document: Document, manager: str) -> str | None:
    """Returns the annotation of an object; empty if there is none, or the manager may not take it over."""
    if manager != KUBECTL:
        return None
    text = ((document.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    return text if isinstance(text, str) and text else None


def allowed_conflicts(live: Document, annotation: str, version: TypeVersion) -> FieldSet:
    """Returns the fields of the annotation whose values have not changed since; none if it is invalid."""
    try:
        applied = orjson.loads(annotation)
        if not isinstance(applied, dict) or applied.get("apiVersion") != version.api_version:
            return LEAF
        comparison = compare(applied, live, version.type_def)
        fields = to_field_set(applied, version.type_def)
        return difference(fields, union(comparison.changed, comparison.removed))
    except (orjson.JSONDecodeError, SchemaMismatch, DocumentTooDeep):
        return LEAF


def annotation_for(applied: Document) -> str:
    """Returns the annotation that makes the next client-side apply start from `applied`."""
    meta = dict(applied["metadata"])
    if isinstance(meta.get("annotations"), dict):
        meta["annotations"] = {k: v for k, v in meta["annotations"].items() if k != LAST_APPLIED}
    text = orjson.dumps({**applied, "metadata": meta}, option=orjson.OPT_SORT_KEYS)
    return text.decode() + "\n"


def set_annotation(document: Document, applied: Document) -> None:
    """Set the annotation to the applied document; remove it if that is too large."""
    annotations = document["metadata"]["annotations"]
    annotations[LAST_APPLIED] = annotation_for(applied)
    size_bytes = sum(len(f"{key}{value}".encode()) for key, value in annotations.items())
    if size_bytes > ANNOTATIONS_BYTES_MAX:
        del annotations[LAST_APPLIED]
