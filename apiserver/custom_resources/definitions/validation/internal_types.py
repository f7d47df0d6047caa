"""Parts of definitions as Kubernetes' messages show them, with the field names of its internal types.

The order is that of the fields in k8s.io/apiextensions-apiserver, pkg/apis/apiextensions (types.go,
types_jsonschema.go). Fields that are not set are shown, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final, TypeAlias

from apiserver.meta.vocabulary import Document
from apiserver.schema.extensions import Extensions

_Form: TypeAlias = Callable[[Any], Any]

# The most schemas that are shown: each takes 400 characters or more, and messages are cut at 8,192.
_SHOWN_MAX: Final = 32
_SCHEMA_FIELDS: Final = (
    *("id", "$schema", "$ref", "description", "type", "nullable", "format", "title", "default", "maximum"),
    *("exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems"),
    *("minItems", "uniqueItems", "multipleOf", "enum", "maxProperties", "minProperties", "required", "items"),
    *("allOf", "oneOf", "anyOf", "not", "properties", "additionalProperties", "patternProperties"),
    *("dependencies", "additionalItems", "definitions", "externalDocs", "example"),
)
_OTHERWISE_NAMED: Final = {"id": "ID", "$schema": "Schema", "$ref": "Ref"}
_TEXTS: Final = frozenset({"id", "$schema", "description", "type", "format", "title", "pattern"})
_TRUTHS: Final = ("nullable", "exclusiveMaximum", "exclusiveMinimum", "uniqueItems")
_RULE_FIELDS: Final = (
    *(("rule", ""), ("message", ""), ("messageExpression", "")),
    *(("reason", None), ("fieldPath", ""), ("optionalOldSelf", None)),
)
_COLUMN_FIELDS: Final = (
    *(("name", ""), ("type", ""), ("format", ""), ("description", ""), ("priority", 0), ("jsonPath", "")),
)
_SCALE_FIELDS: Final = (("specReplicasPath", ""), ("statusReplicasPath", ""), ("labelSelectorPath", None))


def internal_rule(rule: Document) -> Document:
    return _struct(rule, _RULE_FIELDS)


def internal_version(version: Document, extensions: Extensions) -> Document:
    """Returns a version without the fields that are the same in all versions."""
    schema, parts = version.get("schema"), version.get("subresources")
    root = schema.get("openAPIV3Schema") if schema is not None else None
    return {
        "Name": version.get("name", ""),
        "Served": version.get("served", False),
        "Storage": version.get("storage", False),
        "Deprecated": version.get("deprecated", False),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None
        if schema is None
        else {"OpenAPIV3Schema": None if root is None else internal_schema(root, extensions)},
        "Subresources": None
        if parts is None
        else {
            "Status": parts.get("status"),
            "Scale": None if "scale" not in parts else _struct(parts["scale"], _SCALE_FIELDS),
        },
        "AdditionalPrinterColumns": _each(
            version.get("additionalPrinterColumns"), lambda column: _struct(column, _COLUMN_FIELDS)
        ),
        "SelectableFields": _each(
            version.get("selectableFields"), lambda field: _struct(field, (("jsonPath", ""),))
        ),
    }


def internal_schema(schema: Document, extensions: Extensions) -> Document:
    return _internal(schema, extensions, count())


def _internal(schema: Document, extensions: Extensions, shown_before: count[int]) -> Document:
    if next(shown_before) > _SHOWN_MAX:
        return {}

    def form(child: Document) -> Document:
        return _internal(child, extensions, shown_before)

    forms: Mapping[str, _Form] = {
        "items": lambda value: _schema_or_list(value, form),
        "additionalProperties": lambda value: _schema_or_truth(value, form),
        "additionalItems": lambda value: _schema_or_truth(value, form),
        "dependencies": lambda value: _by_name(value, lambda each: _schema_or_names(each, form)),
        "externalDocs": lambda value: _struct(value, (("description", ""), ("url", ""))),
        "not": form,
        **dict.fromkeys(("allOf", "oneOf", "anyOf"), lambda value: [form(each) for each in value]),
        **dict.fromkeys(
            ("properties", "patternProperties", "definitions"), lambda value: _by_name(value, form)
        ),
        extensions.validations: lambda value: [internal_rule(rule) for rule in value],
    }
    truths = (*_TRUTHS, extensions.embedded_resource, extensions.int_or_string)
    shown: Document = {}
    for name, internal_name in internal_fields(extensions):
        value = schema.get(name, "" if name in _TEXTS else False if name in truths else None)
        if value is not None and name in forms:
            value = forms[name](value)
        shown[internal_name] = value
    return shown


def internal_items(value: Any, extensions: Extensions) -> Document:
    """Returns the `items` of a schema: one schema or several."""
    shown_before = count()
    return _schema_or_list(value, lambda child: _internal(child, extensions, shown_before))


def internal_fields(extensions: Extensions) -> Iterator[tuple[str, str]]:
    """Yields the fields of a schema and their internal names, in Kubernetes' order."""
    yield from ((name, _internal_name(name)) for name in _SCHEMA_FIELDS)
    yield extensions.preserve_unknown_fields, "XPreserveUnknownFields"
    yield extensions.embedded_resource, "XEmbeddedResource"
    yield extensions.int_or_string, "XIntOrString"
    yield extensions.list_map_keys, "XListMapKeys"
    yield extensions.list_type, "XListType"
    yield extensions.map_type, "XMapType"
    yield extensions.validations, "XValidations"


def _internal_name(name: str) -> str:
    return _OTHERWISE_NAMED.get(name) or name[0].upper() + name[1:]


def _struct(value: Document, fields: tuple[tuple[str, Any], ...]) -> Document:
    """Returns a struct as Go prints it."""
    return {
        "JSONPath" if name == "jsonPath" else "URL" if name == "url" else _internal_name(name): value.get(
            name, empty
        )
        for name, empty in fields
    }


def _each(values: list[Any] | None, form: _Form) -> list[Any] | None:
    return [form(value) for value in values] if values else None


def _by_name(values: Document, form: _Form) -> Document:
    return {name: form(values[name]) for name in sorted(values)}


def _schema_or_list(value: Any, form: _Form) -> Document:
    is_list = isinstance(value, list)
    return {
        "Schema": None if is_list or value is None else form(value),
        "JSONSchemas": [form(each) for each in value] if is_list else None,
    }


def _schema_or_truth(value: Any, form: _Form) -> Document:
    is_schema = isinstance(value, dict)
    return {"Allows": is_schema or value, "Schema": form(value) if is_schema else None}


def _schema_or_names(value: Any, form: _Form) -> Document:
    is_schema = isinstance(value, dict)
    return {"Schema": form(value) if is_schema else None, "Property": None if is_schema else value}
