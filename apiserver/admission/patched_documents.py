"""Completes documents that admission has patched. Pure."""

from __future__ import annotations

from typing import Any, Final

from apiserver.meta.errors import InternalError
from apiserver.meta.field_errors import quote
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource
from apiserver.schema.compile import TypeMismatch

# More would not be read.
_TOLD_MAX: Final = 20


def completed(document: Any, kind: ServedResource, *, is_strict: bool = False) -> Document:
    """Returns a patched document checked, pruned and completed.

    is_strict: whether unknown fields are errors instead of being pruned.

    Raises InternalError if it has another kind, or a field of a wrong type, because the administrator of
    admission has to fix that, not the client.
    """
    if not isinstance(document, dict):
        raise InternalError.of("the patched object is not an object")
    found = document.get("apiVersion"), document.get("kind")
    if found != (kind.api_version, kind.kind):
        raise InternalError.of(f"the patch makes another kind of the object: {found[0]}, Kind={found[1]}")
    try:
        unknown = kind.check(document)
    except TypeMismatch as mismatch:
        raise InternalError.of(str(mismatch)) from None
    if is_strict and unknown:
        told = ", ".join(f"unknown field {quote(path)}" for path in unknown[:_TOLD_MAX])
        raise InternalError.of(f"strict decoding error: {told}")
    if not isinstance(document.get("metadata"), dict):
        document["metadata"] = {}
    return document
