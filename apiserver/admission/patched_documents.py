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


class InvalidDocument(Exception):
    """A patched document is no object of its kind; the message says why."""


def completed(document: Any, kind: ServedResource, *, is_strict: bool = False) -> Document:
    """Returns a patched document checked, pruned and completed; see `checked`.

    Raises InternalError, because the administrator of admission has to fix that, not the client.
    """
    try:
        return checked(document, kind, is_strict=is_strict)
    except InvalidDocument as invalid:
        raise InternalError.of(str(invalid)) from None


def checked(document: Any, kind: ServedResource, *, is_strict: bool = False) -> Document:
    """Returns a patched document checked, pruned and completed.

    is_strict: whether unknown fields are errors instead of being pruned.
    Raises InvalidDocument if it has another kind, or a field of a wrong type.
    """
    if not isinstance(document, dict):
        raise InvalidDocument("the patched object is not an object")
    found = document.get("apiVersion"), document.get("kind")
    if found != (kind.api_version, kind.kind):
        raise InvalidDocument(f"the patch makes another kind of the object: {found[0]}, Kind={found[1]}")
    try:
        unknown = kind.check(document)
    except TypeMismatch as mismatch:
        raise InvalidDocument(str(mismatch)) from None
    if is_strict and unknown:
        told = ", ".join(f"unknown field {quote(path)}" for path in unknown[:_TOLD_MAX])
        raise InvalidDocument(f"strict decoding error: {told}")
    if not isinstance(document.get("metadata"), dict):
        document["metadata"] = {}
    return document
