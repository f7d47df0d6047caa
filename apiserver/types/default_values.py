"""Converts the defaults of Python fields to JSON.

A default that is an object has only the fields that differ from their own defaults: the server sets nested
defaults after outer ones. So the default of `field(default_factory=Spec)` is `{}`. Objects of unions are
whole: most fields of a union have no defaults, and the field that tells its classes apart is required.
Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
    custom-resource-definitions/#defaulting
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from apiserver.types.errors import Unrepresentable
from apiserver.types.json_values import json_value, same
from apiserver.types.models.model import Field, Model
from apiserver.types.models.pydantic_models import root_hint
from apiserver.types.models.reader import ModelReader
from apiserver.types.type_hints import contains_union


class DefaultValues:
    """Converts values, with a reader of the classes among them."""

    def __init__(self, reader: ModelReader) -> None:
        self._reader = reader
        # By the identities of the functions that return them, which the reader keeps, and whether they are
        # whole: objects share the defaults in them.
        self._converted: dict[tuple[int, bool], Any] = {}

    def default_of(self, field: Field, path: str) -> Any:
        """Returns the default of a field as JSON; None if the field has none, or is absent by default.

        The marker Default wins: it may say more fields of an object than those that differ.
        Raises Unrepresentable: JSON does not have the value, or the factory never makes the same twice.
        """
        if field.constraints.default is not None:
            return self.to_json(field.constraints.default.value, path, is_whole=False)
        return self._python_default(field, path)

    def _python_default(self, field: Field, path: str) -> Any:
        if field.default is None:
            return None
        is_whole = contains_union(field.form.bare)
        key = id(field.default), is_whole
        if key in self._converted:
            return copy.deepcopy(self._converted[key])
        first, second = (self._returned(field.default, path, is_whole=is_whole) for _ in range(2))
        if not same(first, second):
            raise Unrepresentable(
                path,
                "the default factory returns another value at each call",
                "make the field optional, and set it where the object is made",
            )
        self._converted[key] = first
        return first

    def _returned(self, factory: Callable[[], Any], path: str, *, is_whole: bool) -> Any:
        try:
            value = factory()
        except Exception as error:
            reason = f"the default factory raises {type(error).__name__}: {error}"
            raise Unrepresentable(path, reason, "make the field optional, or use another factory") from error
        try:
            return self.to_json(value, path, is_whole=is_whole)
        except RecursionError:
            raise Unrepresentable(path, "the default contains itself", "make the field optional") from None

    def to_json(self, value: Any, path: str, *, is_whole: bool) -> Any:
        """Returns a value as JSON. Raises Unrepresentable.

        is_whole: whether objects have the fields that do not differ from their defaults, too.
        """
        return json_value(value, path, partial(self._of_class, is_whole=is_whole))

    def _of_class(self, value: Any, path: str, *, is_whole: bool) -> Any:
        if root_hint(type(value)) is not None:
            return self.to_json(value.root, path, is_whole=is_whole)
        model = self._reader.read(type(value), path)
        if model is None:
            raise Unrepresentable(
                path, f"the default {value!r} has no form in JSON", "make the field optional"
            )
        return self._object(value, model, path, is_whole=is_whole)

    def _object(self, value: Any, model: Model, path: str, *, is_whole: bool) -> dict[str, Any]:
        document = {}
        for field in model.fields:
            inside = f"{path}.{field.attribute}"
            own = self._python_default(field, inside)
            # The tag of a struct is no attribute of it.
            given = self.to_json(
                getattr(value, field.attribute, own),
                inside,
                is_whole=is_whole or contains_union(field.form.bare),
            )
            if field.default is None or not same(given, own) or (is_whole and given is not None):
                document[field.name] = given
        return document
