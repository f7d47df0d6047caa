"""Reads JSON in annotations, where older versions of a type keep fields that they lack.

Clients may write any text there: all functions raise UnreadableAnnotation for a value that does not have the
type of its field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from apiserver.meta.quantity import InvalidQuantity, canonical_quantity
from apiserver.meta.vocabulary import Document

T = TypeVar("T")


class UnreadableAnnotation(ValueError):
    """An annotation whose value does not have the form that this server writes."""


def annotate(document: Document, key: str, value: str) -> None:
    meta = document["metadata"]
    meta["annotations"] = {**(meta.get("annotations") or {}), key: value}


def take_annotation(document: Document, key: str) -> str | None:
    """Removes an annotation, and returns its value; None if there is none."""
    annotations: dict[str, str] = {**(document["metadata"].get("annotations") or {})}
    if (value := annotations.pop(key, None)) is not None:
        document["metadata"]["annotations"] = annotations
        if not annotations:
            del document["metadata"]["annotations"]
    return value


def read(annotation: str, decode: Callable[[Any], T]) -> T:
    """Returns the value in an annotation. decode: converts the decoded JSON."""
    try:
        value = orjson.loads(annotation)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise UnreadableAnnotation from error
    return decode(value)


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise UnreadableAnnotation
    return value


def int32(value: Any) -> int:
    return _integer(value, 32)


def int64(value: Any) -> int:
    return _integer(value, 64)


def _integer(value: Any, bits: int) -> int:
    if type(value) is not int or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise UnreadableAnnotation
    return value


def quantity(value: Any) -> str:
    try:
        return canonical_quantity(text(value))
    except InvalidQuantity:
        raise UnreadableAnnotation from None


def object_of(value: Any) -> Document:
    if not isinstance(value, dict):
        raise UnreadableAnnotation
    return value


def list_of(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UnreadableAnnotation
    return value
