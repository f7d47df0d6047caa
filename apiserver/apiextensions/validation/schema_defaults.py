"""The defaults in schemas: each must be a value that its schema takes as it is.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/{defaulting,pruning}.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from apiserver.apiextensions.validation.schema_tree import DEPTH_MAX, is_deep, is_plain
from apiserver.field_errors import FieldError, forbidden, invalid
from apiserver.schema.compile import TypeMismatch, Walk
from apiserver.schema.custom.json_schema import Extensions
from apiserver.schema.custom.list_types import EmbeddedResources
from apiserver.schema.custom.validation import NO_FIELD, Check
from apiserver.schema.structural import Schema
from apiserver.validation.checks import Errors
from apiserver.vocabulary import Document

_RESOURCE_FIELDS: Final = ("metadata", "apiVersion", "kind")


class DefaultValue(NamedTuple):
    """schema: the one that has the default. path: the default's."""

    schema: Mapping[str, Any]
    value: Any
    path: str


class EvaluateRules(Protocol):
    """What the rules of schemas say of defaults that these take otherwise: all of one version."""

    def __call__(self, defaults: Sequence[DefaultValue]) -> Errors: ...


# Makes an object of what stands at a place in the metadata, the kind or the version of a resource.
_Surround: TypeAlias = Callable[[Any], Document]


class DefaultsValidator:
    """The checks of defaults in a deployment. meta: the schema of ObjectMeta."""

    def __init__(
        self, extensions: Extensions, meta: Callable[[], Schema], evaluate_rules: EvaluateRules
    ) -> None:
        self.extensions, self._meta, self._evaluate_rules = extensions, meta, evaluate_rules
        self._resource = EmbeddedResources({extensions.embedded_resource: True}, extensions)

    def validate(self, path: str, schema: Document) -> Errors:
        """schema: a structural one, of a whole resource."""
        fine: list[DefaultValue] = []
        errors = self._within(path, {**schema, self.extensions.embedded_resource: True}, None, fine)
        return errors + self._evaluate_rules(fine)

    @cached_property
    def _check_metadata(self) -> Walk:
        return Walk(self._meta())

    def _within(
        self, path: str, schema: Document, surround: _Surround | None, fine: list[DefaultValue]
    ) -> Errors:
        """surround: None outside of a resource's own fields. fine: takes the defaults that schemas take.

        Values of maps are not looked at: Kubernetes does not.
        """
        if is_plain(schema):
            return []
        is_resource = bool(schema.get(self.extensions.embedded_resource))
        if is_resource:
            surround = None
        errors: Errors = []
        if "default" in schema:
            errors = self._default(f"{path}.default", schema, surround, fine)
        if isinstance(item := schema.get("items"), dict):
            errors += self._within(f"{path}.items", item, surround and _listed(surround), fine)
        for name, field in schema.get("properties", {}).items():
            inside = _resource if is_resource and name in _RESOURCE_FIELDS else surround
            errors += self._within(f"{path}.properties[{name}]", field, inside and _named(inside, name), fine)
        return errors

    def _default(
        self, path: str, schema: Document, surround: _Surround | None, fine: list[DefaultValue]
    ) -> Errors:
        value = schema["default"]
        if is_deep(value):
            return [forbidden(path, f"must not be nested more than {DEPTH_MAX} deep")]
        errors: Errors = []
        if surround is not None:
            if problems := self._of_resource("", surround(value)):
                texts = [str(each) for each in problems]
                problem = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
                return [invalid(path, value, f"must result in valid metadata: {problem}")]
        else:
            if self._is_pruned(value, schema):
                errors.append(invalid(path, value, "must not have unknown fields"))
            if problems := self._embedded(path, value, schema):
                return errors + problems
        found: dict[str, FieldError] = {}
        Check(schema, self.extensions).explain(value, "", None, found)
        if not found:
            fine.append(DefaultValue(schema, value, path))
        return errors + [_moved(error, path) for error in found.values()]

    def _is_pruned(self, value: Any, schema: Document | None, *, keeps_unknown: bool = False) -> bool:
        """Whether a value has fields that its schema does not know. schema: None if it knows none."""
        if schema is None:
            return not keeps_unknown and _has_fields(value)
        keeps_unknown = schema.get(self.extensions.preserve_unknown_fields, keeps_unknown)
        if isinstance(value, list):
            item = schema.get("items")
            return any(self._is_pruned(each, item, keeps_unknown=keeps_unknown) for each in value)
        if not isinstance(value, dict):
            return False
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        own = _RESOURCE_FIELDS if schema.get(self.extensions.embedded_resource) else ()
        for name, child in value.items():
            if name in own:
                continue
            if name in properties:
                is_pruned = self._is_pruned(child, properties[name])
            elif additional is not None:
                is_pruned = self._is_pruned(child, additional if isinstance(additional, dict) else None)
            else:
                is_pruned = not keeps_unknown
            if is_pruned:
                return True
        return False

    def _embedded(self, path: str, value: Any, schema: Document) -> Errors:
        """What is wrong with the own fields of the resources in a value."""
        errors: Errors = []
        if isinstance(value, list) and isinstance(item := schema.get("items"), dict):
            for index, each in enumerate(value):
                errors += self._embedded(f"{path}[{index}]", each, item)
        if isinstance(value, dict):
            if schema.get(self.extensions.embedded_resource):
                errors += self._of_resource(f"{path}.", value)
            properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
            for name, child in value.items():
                if name in properties:
                    errors += self._embedded(f"{path}.{name}", child, properties[name])
                elif isinstance(additional, dict):
                    errors += self._embedded(f"{path}[{name}]", child, additional)
        return errors

    def _of_resource(self, prefix: str, resource: Document) -> Errors:
        """What is wrong with the type and the metadata of a resource. prefix: of paths."""
        if "metadata" in resource:
            metadata = copy.deepcopy(resource["metadata"])
            try:
                if not isinstance(metadata, dict):
                    raise TypeMismatch("must be an object")
                self._check_metadata(metadata)
            except TypeMismatch as mismatch:
                return [invalid(f"{prefix}metadata", resource["metadata"], str(mismatch))]
        found = self._resource.check(resource)
        return [
            FieldError(f"{prefix}{error.field.removeprefix('.')}", error.reason, error.message)
            for error in found
        ]


def _resource(content: Any) -> Document:
    return {"apiVersion": "validation/v1", "kind": "Validation", **content}


def _listed(surround: _Surround) -> _Surround:
    return lambda value: surround([value])


def _named(surround: _Surround, name: str) -> _Surround:
    return lambda value: surround({name: value})


def _has_fields(value: Any) -> bool:
    """Whether a value is an object with fields, or a list that has one in it, however deep."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, list):
            pending += each
        elif isinstance(each, dict) and each:
            return True
    return False


def _moved(error: FieldError, path: str) -> FieldError:
    """An error of a value that stands at a path."""
    field = path if error.field == NO_FIELD else f"{path}.{error.field}"
    return FieldError(field, error.reason, error.message)
