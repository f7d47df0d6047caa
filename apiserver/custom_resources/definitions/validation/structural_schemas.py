"""Validates that schemas are structural: value validations must not determine their shape.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/{convert,validation,complete}.go. Everything that
is not about the shape (limits, patterns, the logical junctors) is *value validation*; `allOf`, `anyOf`,
`oneOf` and `not` may contain nothing else.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from apiserver.custom_resources.definitions.validation.schema_tree import is_plain, nodes
from apiserver.golang.regex import InvalidPattern, compile_pattern
from apiserver.meta.field_errors import Errors, forbidden, invalid, required, truncated
from apiserver.meta.vocabulary import Document
from apiserver.schema.extensions import Extensions

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_UNSUPPORTED: Final = {
    "id": "id",
    "$schema": "schema",
    "$ref": "$ref",
    "patternProperties": "patternProperties",
    "dependencies": "dependencies",
    "additionalItems": "additionalItems",
    "definitions": "definitions",
}
# The fields that the schema of the root's `metadata` may have, or that are ignored there.
_METADATA_MAY_SAY: Final = frozenset({"type", "default", "properties", "externalDocs", "example"})
_METADATA_MAY_LIMIT: Final = frozenset({"name", "generateName"})


class _Level(enum.Enum):
    ROOT = "at the root"
    ITEM = "for specified array items"
    FIELD = "for specified object fields"


def unsupported(schema: Document, extensions: Extensions) -> str:
    """Returns why a schema cannot be converted to a structural one; empty if it can."""
    for node in nodes(schema):
        if not _UNSUPPORTED.keys().isdisjoint(node):
            for field, name in _UNSUPPORTED.items():
                if node.get(field) not in (None, ""):
                    return f"OpenAPIV3Schema '{name}' is not supported"
        if node.get(extensions.preserve_unknown_fields) is False:
            field = extensions.preserve_unknown_fields
            return f"internal error: '{field}' must be true or undefined"
        if isinstance(node.get("items"), list):
            return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    return ""


def validate_structural(path: str, schema: Document, extensions: Extensions) -> Errors:
    """Returns why a schema that is not `unsupported` is not structural, in the order of the texts."""
    check = _Check(extensions)
    errors = check.invariants(path, schema, _Level.ROOT)
    errors += _incomplete_junctors(schema, schema, path, path)
    return sorted(errors, key=str)


def validate_pattern(path: str, pattern: str) -> Errors:
    try:
        compile_pattern(pattern)
    except InvalidPattern as error:
        text = truncated(f"must be a valid regular expression, but isn't: {error}")
        return [invalid(path, pattern, text)]
    return []


class _Check(NamedTuple):
    extensions: Extensions

    def invariants(self, path: str, schema: Document, level: _Level) -> Errors:
        if is_plain(schema) and schema["type"] != "array" and level is not _Level.ROOT:
            return []
        errors: Errors = []
        items, additional = schema.get("items"), schema.get("additionalProperties")
        if items is not None:
            errors += self.invariants(f"{path}.items", items, _Level.ITEM)
        elif schema.get("type") == "array":
            errors.append(required(f"{path}.items", "must be specified"))
        for name, field in schema.get("properties", {}).items():
            errors += self.invariants(f"{path}.properties[{name}]", field, _Level.FIELD)
        if additional is not None:
            if level is _Level.ROOT:
                errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
            if isinstance(additional, dict):
                errors += self.invariants(f"{path}.additionalProperties", additional, _Level.FIELD)
        errors += self._int_or_string(path, schema)
        errors += self._values(
            path,
            schema,
            skips_any_of=schema.get("anyOf") == _INT_OR_STRING,
            skips_first_any_of=_first_any_of(schema) == _INT_OR_STRING,
        )
        errors += self._type(path, schema, level)
        if level is _Level.ROOT or schema.get(self.extensions.embedded_resource):
            errors += _resource_fields(path, schema, level)
        if schema.get(self.extensions.embedded_resource):
            errors += self._embedded(path, schema)
        return errors

    def _int_or_string(self, path: str, schema: Document) -> Errors:
        names = self.extensions
        if not schema.get(names.int_or_string):
            return []
        text = f"must be false if {names.int_or_string} is true"
        others = (names.preserve_unknown_fields, names.embedded_resource)
        return [invalid(f"{path}.{other}", True, text) for other in others if schema.get(other)]

    def _type(self, path: str, schema: Document, level: _Level) -> Errors:
        names, where, found = self.extensions, f"{path}.type", schema.get("type", "")
        errors: Errors = []
        if schema.get(names.embedded_resource) and found != "object":
            text = f"must be object if {names.embedded_resource} is true"
            errors.append(invalid(where, found, text) if found else required(where, text))
        elif not (found or schema.get(names.int_or_string) or schema.get(names.preserve_unknown_fields)):
            errors.append(required(where, f"must not be empty {level.value}"))
        if level is _Level.ROOT and found not in ("", "object"):
            errors.append(invalid(where, found, "must be object at the root"))
        return errors

    def _embedded(self, path: str, schema: Document) -> Errors:
        names = self.extensions
        errors: Errors = []
        if "additionalProperties" in schema:
            text = f"must not be used if {names.embedded_resource} is set"
            errors.append(forbidden(f"{path}.additionalProperties", text))
        if not schema.get("properties") and not schema.get(names.preserve_unknown_fields):
            text = (
                f"must not be empty if {names.embedded_resource} is true "
                f"without {names.preserve_unknown_fields}"
            )
            errors.append(required(f"{path}.properties", text))
        return errors

    # ---- value validation

    def _values(
        self, path: str, schema: Document, *, skips_any_of: bool = False, skips_first_any_of: bool = False
    ) -> Errors:
        """Validates value validations."""
        errors: Errors = []
        for where, junctor, index, nested in _junctors(path, schema):
            if junctor != "anyOf" or not skips_any_of:
                is_first = junctor == "allOf" and index == 0
                errors += self._nested(where, nested, skips_any_of=is_first and skips_first_any_of)
        if pattern := schema.get("pattern"):
            errors += validate_pattern(f"{path}.pattern", pattern)
        return errors

    def _nested(self, path: str, schema: Document, *, skips_any_of: bool = False) -> Errors:
        errors = self._values(path, schema, skips_any_of=skips_any_of)
        if isinstance(items := schema.get("items"), dict):
            errors += self._nested(f"{path}.items", items)
        properties = schema.get("properties", {})
        for name, field in properties.items():
            errors += self._nested(f"{path}.properties[{name}]", field)
        errors += [
            forbidden(f"{path}.{field}", f"must be {wanted} to be structural")
            for field, wanted in self._forbidden()
            if schema.get(field) not in (None, "", False) or (wanted == "undefined" and field in schema)
        ]
        if "metadata" in properties:
            text = "must not be specified in a nested context"
            errors.append(forbidden(f"{path}.properties[metadata]", text))
        return errors

    def _forbidden(self) -> tuple[tuple[str, str], ...]:
        """Returns the fields that are forbidden in a junctor, and the values they must have instead."""
        names = self.extensions
        return (
            ("type", "empty"),
            ("additionalProperties", "undefined"),
            ("default", "undefined"),
            ("title", "empty"),
            ("description", "empty"),
            ("nullable", "false"),
            (names.preserve_unknown_fields, "false"),
            (names.embedded_resource, "false"),
            (names.int_or_string, "false"),
            (names.list_map_keys, "empty"),
            (names.list_type, "undefined"),
            (names.map_type, "undefined"),
            (names.validations, "empty"),
        )


def _first_any_of(schema: Document) -> Any:
    all_of = schema.get("allOf")
    return all_of[0].get("anyOf") if all_of else None


def _resource_fields(path: str, schema: Document, level: _Level) -> Errors:
    properties = schema.get("properties", {})
    errors: Errors = []
    for name in ("kind", "apiVersion"):
        if name in properties and (found := properties[name].get("type", "")) != "string":
            errors.append(invalid(f"{path}.properties[{name}].type", found, "must be string"))
    if (metadata := properties.get("metadata")) is not None:
        where = f"{path}.properties[metadata]"
        if (found := metadata.get("type", "")) != "object":
            errors.append(invalid(f"{where}.type", found, "must be object"))
        limits_others = metadata.get("properties", {}).keys() - _METADATA_MAY_LIMIT
        if level is _Level.ROOT and (metadata.keys() - _METADATA_MAY_SAY or limits_others):
            text = (
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            )
            errors.append(forbidden(where, text))
    return errors


def _junctors(path: str, schema: Document) -> Iterator[tuple[str, str, int, Document]]:
    """Yields the schemas in logical junctors: path, junctor, index, schema."""
    for junctor in ("anyOf", "allOf", "oneOf"):
        for index, nested in enumerate(schema.get(junctor) or ()):
            yield f"{path}.{junctor}[{index}]", junctor, index, nested
    if (nested := schema.get("not")) is not None:
        yield f"{path}.not", "not", 0, nested


# ---- completeness


def _incomplete_junctors(schema: Document, outside: Document, path: str, outside_path: str) -> Errors:
    """Returns errors for fields that only the junctors of a schema specify.

    Kubernetes checks junctors of the root only, not those further inside.
    """
    return [
        error
        for where, _, _, nested in _junctors(path, schema)
        for error in _incomplete(nested, outside, where, outside_path)
    ]


def _incomplete(nested: Document, outside: Document | None, path: str, outside_path: str) -> Errors:
    if outside is None:
        return [required(outside_path, f"because it is defined in {path}")]
    errors = _incomplete_junctors(nested, outside, path, outside_path)
    if isinstance(items := nested.get("items"), dict):
        errors += _incomplete(items, outside.get("items"), f"{path}.items", f"{outside_path}.items")
    properties = outside.get("properties", {})
    for name, field in nested.get("properties", {}).items():
        step = f".properties[{name}]"
        errors += _incomplete(field, properties.get(name), path + step, outside_path + step)
    return errors
