"""Validates the defaults in schemas: each must be valid for its schema, and not be pruned.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/{defaulting,pruning}.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.custom_resources.definitions.validation.schema_tree import DEPTH_MAX, is_deep, is_plain
from apiserver.custom_resources.rules.compilation import SELF
from apiserver.custom_resources.rules.evaluation import (
    ERRORS_MAX,
    OBJECT_COST_MAX,
    UNKNOWN_CHANGE,
    Evaluation,
)
from apiserver.custom_resources.rules.rule_tree import RuleTreeBuilder
from apiserver.custom_resources.schemas.embedded_resources import embedded_resources
from apiserver.custom_resources.schemas.findings import moved
from apiserver.custom_resources.schemas.validation import SchemaValidator
from apiserver.golang.quoting import aggregate
from apiserver.meta.field_errors import Errors, FieldError, forbidden, invalid
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import CompiledSchema, TypeMismatch, compile_schema
from apiserver.schema.extensions import Extensions
from apiserver.schema.structural import Schema

_RESOURCE_FIELDS: Final = ("metadata", "apiVersion", "kind")


class DefaultValue(NamedTuple):
    """A default that is valid for its schema. path: the default's."""

    schema: Mapping[str, Any]
    value: Any
    path: str


# Makes a resource of a value that belongs into its metadata, kind or version.
_Surround: TypeAlias = Callable[[Any], Document]


class DefaultsValidator:
    """Validates the defaults of schemas. meta: returns the schema of ObjectMeta."""

    def __init__(self, extensions: Extensions, meta: Callable[[], Schema]) -> None:
        self.extensions, self._meta = extensions, meta
        self._resource = embedded_resources({extensions.embedded_resource: True}, extensions)

    def validate(self, path: str, schema: Document) -> Errors:
        """Returns the errors in the defaults of a schema: a structural one, of a whole resource."""
        errors: Errors = []
        valid: list[DefaultValue] = []
        resource = {**schema, self.extensions.embedded_resource: True}
        for where, each, surround in self._with_defaults(path, resource, None):
            problems, is_valid = self._default(where, each, surround)
            errors += problems
            if is_valid:
                valid.append(DefaultValue(each, each["default"], where))
        return errors + evaluate_defaults(valid, self.extensions)

    @cached_property
    def _check_metadata(self) -> CompiledSchema:
        return compile_schema(self._meta())

    def _with_defaults(
        self, path: str, schema: Document, surround: _Surround | None
    ) -> Iterator[tuple[str, Document, _Surround | None]]:
        """Yields the path of each default, its schema, and a function that makes a resource with it.

        surround: None outside of a resource's own fields. Values of maps are not checked, as in Kubernetes.
        """
        if is_plain(schema):
            return
        is_resource = bool(schema.get(self.extensions.embedded_resource))
        if is_resource:
            surround = None
        if "default" in schema:
            yield f"{path}.default", schema, surround
        if isinstance(item := schema.get("items"), dict):
            yield from self._with_defaults(f"{path}.items", item, surround and _listed(surround))
        for name, field in schema.get("properties", {}).items():
            inside = _resource if is_resource and name in _RESOURCE_FIELDS else surround
            inside = inside and _named(inside, name)
            yield from self._with_defaults(f"{path}.properties[{name}]", field, inside)

    def _default(self, path: str, schema: Document, surround: _Surround | None) -> tuple[Errors, bool]:
        """Returns the errors in a default, and whether its schema accepts its value."""
        value = schema["default"]
        if is_deep(value):
            return [forbidden(path, f"must not be nested more than {DEPTH_MAX} deep")], False
        errors: Errors = []
        if surround is not None:
            if problems := self._of_resource("", surround(value)):
                why = f"must result in valid metadata: {aggregate(problems)}"
                return [invalid(path, value, why)], False
        else:
            if self._is_pruned(value, schema):
                errors.append(invalid(path, value, "must not have unknown fields"))
            if problems := self._embedded(path, value, schema):
                return errors + problems, False
        found = SchemaValidator(schema, self.extensions).validate(value)
        return errors + [moved(error, path) for error in found], not found

    def _is_pruned(self, value: Any, schema: Document | None, *, keeps_unknown: bool = False) -> bool:
        """Returns whether a value has fields that its schema does not have. schema: None if there is none."""
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
        """Checks type and metadata of a resource. prefix: that of the paths in errors."""
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
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, list):
            pending += each
        elif isinstance(each, dict) and each:
            return True
    return False


# ---- the rules of schemas


def evaluate_defaults(defaults: Sequence[DefaultValue], extensions: Extensions) -> Errors:
    """Evaluates the rules of schemas for their defaults.

    Each default is evaluated twice: as an unchanged value, and as a new one. All together may cost as much as
    an object may.
    """
    builder, budget = RuleTreeBuilder(extensions), OBJECT_COST_MAX
    errors: Errors = []
    for index, (schema, value, path) in enumerate(defaults):
        node = builder.build(schema, f"{SELF}{index}")
        if node is None:
            continue
        left = []
        for old in (value, None):
            evaluation = Evaluation(budget=budget)
            evaluation.evaluate(node, value, old, (None, path), UNKNOWN_CHANGE)
            left.append(evaluation.budget)
            errors += evaluation.errors
            if evaluation.errors:
                break
        budget = min(left)
        if budget < 0 or len(errors) >= ERRORS_MAX:
            break
    return errors
