"""Finds the fields that differ between two versions of an object, with secret values redacted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

Document = dict[str, Any]

REDACTED: Final = "(redacted)"
# Every write changes these.
_ALWAYS_DIFFERENT: Final = frozenset({"metadata.managedFields", "metadata.resourceVersion"})
_SECRET_FIELDS: Final = ("data", "stringData")
# It has all that was applied.
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_TEXT_SHOWN: Final = 200


class Change(NamedTuple):
    """A field that differs between two versions of an object. Secret values are redacted.

    path: the path of the field, for example `spec.replicas`.
    old, new: the old value and the new value of the field. The value is None if the corresponding version
        does not contain the field.
    """

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.path}: {text_of(self.old)} -> {text_of(self.new)}"


def differences(old: Document, new: Document) -> Iterator[Change]:
    """Yields the changed fields, with the values of Secrets redacted."""
    is_secret = _is_secret(new) or _is_secret(old)
    for path, before, now in _differences(old, new, ()):
        if is_secret and _is_redacted(path):
            before, now = _redacted(before), _redacted(now)
        yield Change(".".join(path), before, now)


def shown(document: Document) -> str:
    """Returns an object as one line, without secret values and empty fields."""
    metadata = {key: value for key, value in document.get("metadata", {}).items() if key != "managedFields"}
    rest = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    found = {**rest, "metadata": metadata}
    if _is_secret(document):
        found |= {field: _redacted(found[field]) for field in _SECRET_FIELDS if field in found}
        annotations = metadata.get("annotations") or {}
        if _LAST_APPLIED in annotations:
            metadata["annotations"] = {**annotations, _LAST_APPLIED: REDACTED}
    return text_of(found)


def text_of(value: Any) -> str:
    """Returns a value as JSON of limited length."""
    text = orjson.dumps(value).decode()
    return text if len(text) <= _TEXT_SHOWN else text[:_TEXT_SHOWN] + "..."


def _differences(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if ".".join(path) in _ALWAYS_DIFFERENT:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _differences(old.get(key), new.get(key), (*path, key))
    elif old != new:
        yield path, old, new


def _is_secret(document: Document) -> bool:
    return document.get("kind") == "Secret" and document.get("apiVersion") == "v1"


def _is_redacted(path: tuple[str, ...]) -> bool:
    return path[0] in _SECRET_FIELDS or path[:2] == ("metadata", "annotations")


def _redacted(value: Any) -> Any:
    """Returns a value with the same fields, whose contents are redacted."""
    if isinstance(value, dict):
        return dict.fromkeys(value, REDACTED)
    return value if value is None else REDACTED
