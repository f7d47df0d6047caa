"""Validates the schemas of custom resources beyond their structure: supported and consistent keywords.

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/validation/validation.go,
ValidateCustomResourceDefinitionOpenAPISchema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from apiserver.custom_resources.definitions.validation.internal_types import internal_items
from apiserver.custom_resources.definitions.validation.schema_tree import is_plain, nodes
from apiserver.custom_resources.schemas.formats import is_recognised
from apiserver.custom_resources.schemas.schema_paths import InvalidSchemaPath, find_field
from apiserver.meta.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.extensions import Extensions
from apiserver.schema.validation.documents import items

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")
_RESOURCE_FIELDS: Final = frozenset({"metadata", "kind", "apiVersion"})
_has_line_breaks = re.compile(r"[\n\r]").search

_NOT_SUPPORTED: Final = (
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("$ref", "$ref is not supported"),
)


class SchemaRequirements(NamedTuple):
    """The requirements on schemas, without those that stored schemas did not meet.

    no_default: why they may not have defaults; empty if they may.
    """

    types: bool = True
    atomic_sets: bool = True
    list_keys: bool = True
    no_default: str = ""

    @classmethod
    def met_by(cls, schemas: list[Document], extensions: Extensions) -> SchemaRequirements:
        """Returns the requirements that all these schemas meet."""
        check = _Check(extensions, cls(), is_supported=True)
        every = [node for schema in schemas for node in nodes(schema)]
        return cls(
            types=all(node.get("type", "") in ("", *TYPES) for node in every),
            atomic_sets=not any(check.set_items("", node) for node in every),
            list_keys=not any(check.keyed_items("", node) for node in every),
        )


ALL: Final = SchemaRequirements()


class SchemaFindings(NamedTuple):
    """The errors in a schema. invalid_paths: the paths of the schemas that have errors, at any depth."""

    errors: Errors
    invalid_paths: frozenset[str]


def validate_json_schema(
    path: str,
    schema: Document,
    extensions: Extensions,
    requirements: SchemaRequirements = ALL,
    *,
    is_supported: bool,
) -> SchemaFindings:
    """Returns the errors in a schema, and their paths.

    is_supported: whether paths can be looked up in the schema; if not, other errors have the reason.
    """
    check = _Check(extensions, requirements, is_supported)
    root = _Place(requirements.no_default, is_root=True)
    return SchemaFindings(check.schema(path, schema, root), frozenset(check.invalid_paths))


class _Place(NamedTuple):
    """The place of a schema in a resource.

    no_default: why it may not have a default; empty if it may.
    in_resource_fields: in the metadata of an object, or its kind or version.
    """

    no_default: str = ""
    in_resource_fields: bool = False
    is_root: bool = False


@dataclass(frozen=True, slots=True)
class _Check:
    extensions: Extensions
    requirements: SchemaRequirements
    is_supported: bool
    invalid_paths: set[str] = field(default_factory=set)

    def schema(self, path: str, schema: Document, place: _Place) -> Errors:
        if is_plain(schema) and schema["type"] in TYPES:
            return []
        errors = self._supported(path, schema, place)
        if schema.get("uniqueItems"):
            text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            errors.append(forbidden(f"{path}.uniqueItems", text))
        if "properties" in schema and schema.get("additionalProperties", True) is not True:
            text = "additionalProperties and properties are mutual exclusive"
            errors.append(forbidden(f"{path}.additionalProperties", text))
        for where, child, child_place in self._inside(path, schema, place):
            errors += self.schema(where, child, child_place)
        errors += self._extensions(path, schema)
        for where, rule in items(schema, self.extensions.validations, path):
            errors += self._rule(where, rule, schema)
        if errors:
            self.invalid_paths.add(path)
        return errors

    def _supported(self, path: str, schema: Document, place: _Place) -> Errors:
        errors: Errors = []
        found = schema.get("type", "")
        if self.requirements.types and found and found not in TYPES:
            errors.append(not_supported(f"{path}.type", found, TYPES))
        if place.no_default and "default" in schema:
            errors.append(forbidden(f"{path}.default", f"must not be set {place.no_default}"))
        errors += [forbidden(f"{path}.{field}", text) for field, text in _NOT_SUPPORTED if field in schema]
        if found == "null":
            text = "type cannot be set to null, use nullable as an alternative"
            errors.append(forbidden(f"{path}.type", text))
        if isinstance(schema.get("items"), list):
            errors.append(forbidden(f"{path}.items", "items must be a schema object and not an array"))
        if place.in_resource_fields and schema.get(self.extensions.embedded_resource):
            text = "must not be used inside of resource meta"
            errors.append(forbidden(f"{path}.{self.extensions.embedded_resource}", text))
        return errors

    def _inside(self, path: str, schema: Document, place: _Place) -> Iterator[tuple[str, Document, _Place]]:
        """Yields the schemas within a schema that are checked, each with its path and place."""
        place = place._replace(is_root=False) if (is_root := place.is_root) else place
        if isinstance(additional := schema.get("additionalProperties"), dict):
            inside = place
            if place.in_resource_fields:
                inside = place._replace(no_default="inside additionalProperties applying to object metadata")
            yield f"{path}.additionalProperties", additional, inside
        is_resource = is_root or schema.get(self.extensions.embedded_resource)
        for name, child in schema.get("properties", {}).items():
            inside = place
            if is_resource and name in _RESOURCE_FIELDS:
                reason = f"in top-level {name}" if is_root else place.no_default
                inside = place._replace(in_resource_fields=True, no_default=reason)
            yield f"{path}.properties[{name}]", child, inside
        if (negated := schema.get("not")) is not None:
            yield f"{path}.not", negated, place
        for junctor in ("allOf", "oneOf", "anyOf"):
            for where, nested in items(schema, junctor, path):
                yield where, nested, place
        for name, definition in schema.get("definitions", {}).items():
            yield f"{path}.definitions[{name}]", definition, place
        if isinstance(found := schema.get("items"), dict):
            yield f"{path}.items", found, place
        elif found:
            for where, item in items(schema, "items", path):
                yield where, item, place
        for name, dependency in schema.get("dependencies", {}).items():
            if isinstance(dependency, dict):
                yield f"{path}.dependencies[{name}]", dependency, place

    # ---- extensions

    def _extensions(self, path: str, schema: Document) -> Errors:
        names = self.extensions
        errors: Errors = []
        if schema.get(names.preserve_unknown_fields) is False:
            where = f"{path}.{names.preserve_unknown_fields}"
            errors.append(invalid(where, False, "must be true or undefined"))
        if (map_type := schema.get(names.map_type)) is not None:
            errors += self._of_type(path, schema, "object", names.map_type)
            if map_type not in _MAP_TYPES:
                errors.append(not_supported(f"{path}.{names.map_type}", map_type, _MAP_TYPES))
        list_type, keys = schema.get(names.list_type), schema.get(names.list_map_keys)
        if list_type is not None:
            wrong_type = self._of_type(path, schema, "array", names.list_type)
            errors += wrong_type
            if self.requirements.atomic_sets and not wrong_type:
                errors += self.set_items(path, schema)
            if list_type not in _LIST_TYPES:
                errors.append(not_supported(f"{path}.{names.list_type}", list_type, _LIST_TYPES))
        if keys and list_type != "map":
            where, text = f"{path}.{names.list_type}", f"must be map if {names.list_map_keys} is non-empty"
            errors.append(required(where, text) if list_type is None else invalid(where, list_type, text))
        if list_type == "map":
            errors += self._keyed_list(path, schema)
        return errors + self.keyed_items(path, schema) if self.requirements.list_keys else errors

    def _of_type(self, path: str, schema: Document, wanted: str, extension: str) -> Errors:
        where, found = f"{path}.type", schema.get("type", "")
        if found == wanted:
            return []
        text = f"must be {wanted} if {extension} is specified"
        return [invalid(where, found, text) if found else required(where, text)]

    def set_items(self, path: str, schema: Document) -> Errors:
        """Checks that the items of a set are scalars or atomic."""
        names, item = self.extensions, schema.get("items")
        if schema.get(names.list_type) != "set" or not isinstance(item, dict):
            return []
        text = f"must be atomic as item of a list with {names.list_type}=set"
        list_type = item.get(names.list_type)
        if item.get("type") == "array" and list_type not in (None, "atomic"):
            return [invalid(f"{path}.items.{names.list_type}", list_type, text)]
        if item.get("type") == "object" and item.get(names.map_type) != "atomic":
            # Kubernetes shows the list type here, which an object does not have.
            return [invalid(f"{path}.items.{names.map_type}", list_type, text)]
        return []

    def _keyed_list(self, path: str, schema: Document) -> Errors:
        names = self.extensions
        keys: list[str] = schema.get(names.list_map_keys, [])
        errors: Errors = []
        if not keys:
            text = f"must not be empty if {names.list_type} is map"
            errors.append(required(f"{path}.{names.list_map_keys}", text))
        if "items" not in schema:
            text = f"must have a schema if {names.list_type} is map"
            return [*errors, required(f"{path}.items", text)]
        item = schema["items"]
        if not isinstance(item, dict):
            text = f"must only have a single schema if {names.list_type} is map"
            return [*errors, invalid(f"{path}.items", internal_items(item, names), text)]
        if (found := item.get("type", "")) != "object":
            text = f"must be object if parent array's {names.list_type} is map"
            return [*errors, invalid(f"{path}.items.type", found, text)]
        seen: set[str] = set()
        # Each error shows all keys, so it is made once.
        unknown, repeated = (
            invalid(f"{path}.{names.list_map_keys}", keys, text)
            for text in ("entries must all be names of item properties", "must not contain duplicate entries")
        )
        for key in keys:
            field = item.get("properties", {}).get(key)
            if field is None:
                errors.append(unknown)
            elif field.get("type") in ("array", "object"):
                where = f"{path}.items.properties[{key}].type"
                text = f"must be a scalar type if parent array's {names.list_type} is map"
                errors.append(invalid(where, found, text))
            if key in seen:
                errors.append(repeated)
            seen.add(key)
        return errors

    def keyed_items(self, path: str, schema: Document) -> Errors:
        """Checks that items of sets and keyed lists are not null, and that each item has its keys."""
        names, item = self.extensions, schema.get("items")
        list_type = schema.get(names.list_type)
        if list_type not in ("set", "map") or not isinstance(item, dict):
            return []
        errors: Errors = []
        if item.get("nullable"):
            text = f"cannot be nullable when {names.list_type} is {list_type}"
            errors.append(forbidden(f"{path}.items.nullable", text))
        if list_type == "set":
            return errors
        is_required = frozenset(item.get("required", ()))
        for key in schema.get(names.list_map_keys, ()):
            field = item.get("properties", {}).get(key)
            if field is None:
                continue  # This is an error of the list.
            where, subject = f"{path}.items.properties[{key}]", f"this property is in {names.list_map_keys}"
            if key not in is_required and "default" not in field:
                text = f"{subject}, so it must have a default or be a required property"
                errors.append(required(f"{where}.default", text))
            if field.get("nullable"):
                errors.append(forbidden(f"{where}.nullable", f"{subject}, so it cannot be nullable"))
        return errors

    # ---- rules

    def _rule(self, path: str, rule: Document, schema: Document) -> Errors:
        """Checks the parts of a rule that need no compilation."""
        errors: Errors = []
        text, message = rule.get("rule", "").strip(), rule.get("message", "")
        if not text:
            errors.append(required(f"{path}.rule", "rule is not specified"))
        elif message and not message.strip():
            errors.append(invalid(f"{path}.message", message, "message must be non-empty if specified"))
        elif _has_line_breaks(message.strip()):
            errors.append(invalid(f"{path}.message", message, "message must not contain line breaks"))
        elif _has_line_breaks(text) and not message:
            problem = "message must be specified if rule contains line breaks"
            errors.append(required(f"{path}.message", problem))
        if (expression := rule.get("messageExpression")) and not expression.strip():
            problem = "messageExpression must be non-empty if specified"
            errors.append(required(f"{path}.messageExpression", problem))
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            errors.append(not_supported(f"{path}.reason", reason, _REASONS))
        if field_path := rule.get("fieldPath"):
            errors += self._field_path(f"{path}.fieldPath", field_path, schema)
        return errors

    def _field_path(self, path: str, field_path: str, schema: Document) -> Errors:
        errors: Errors = []
        if not field_path.strip():
            errors.append(invalid(path, field_path, "fieldPath must be non-empty if specified"))
        if _has_line_breaks(field_path):
            errors.append(invalid(path, field_path, "fieldPath must not contain line breaks"))
        try:
            find_field(field_path, schema)
        except InvalidSchemaPath:
            if self.is_supported:
                errors.append(invalid(path, field_path, "must be a valid path"))
        return errors


def unrecognized_formats(schemas: list[Document]) -> list[str]:
    """Returns the formats that are unknown for their type, and so are not checked."""
    return list(
        dict.fromkeys(
            node["format"]
            for schema in schemas
            for node in nodes(schema)
            if node.get("format") and not is_recognised(node.get("type", ""), node["format"])
        )
    )
