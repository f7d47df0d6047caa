"""What kubectl's client-side apply has applied, kept for the next time in an annotation.

Server-side apply under kubectl's name, and no other, takes over what is in there, and keeps it up.
"""

from __future__ import annotations

from typing import Final

import orjson

from apiserver.apply.field_set import LEAF, FieldSet
from apiserver.apply.typed_value import SchemaMismatch, TooDeep
from apiserver.apply.updater import KeyVersion, _owned_by_version
from apiserver.meta.object_meta import ANNOTATIONS_BYTES_MAX
from apiserver.vocabulary import Document

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL: Final = "kubectl"


def text_of(document: Document, manager: str) -> str | None:
    """What a client-side apply has left, if it is the manager's to take over."""
    if manager != KUBECTL:
        return None
    text = ((document.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    return text if isinstance(text, str) and text else None


def allowed_conflicts(live: Document, text: str, version: KeyVersion) -> FieldSet:
    """What a client-side apply has set, and is as it was. text: what it has left."""
    try:
        applied = orjson.loads(text)
        if not isinstance(applied, dict) or applied.get("apiVersion") != version.api_version:
            return LEAF
        return _owned_by_version(live, applied, version)
    except (orjson.JSONDecodeError, SchemaMismatch, TooDeep):
        return LEAF


def annotation_for(wanted: Document) -> str:
    """What is wanted, for the next client-side apply."""
    meta = dict(wanted["metadata"])
    if isinstance(meta.get("annotations"), dict):
        meta["annotations"] = {k: v for k, v in meta["annotations"].items() if k != LAST_APPLIED}
    text = orjson.dumps({**wanted, "metadata": meta}, option=orjson.OPT_SORT_KEYS)
    return text.decode() + "\n"


def set_annotation(document: Document, wanted: Document) -> None:
    """Have the next client-side apply find what is wanted now, if there is room for that."""
    annotations = document["metadata"]["annotations"]
    annotations[LAST_APPLIED] = annotation_for(wanted)
    size_bytes = sum(len(f"{key}{value}".encode()) for key, value in annotations.items())
    if size_bytes > ANNOTATIONS_BYTES_MAX:
        del annotations[LAST_APPLIED]
