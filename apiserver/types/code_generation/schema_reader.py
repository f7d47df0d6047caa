"""Reads structural schemas to the tree of types."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from typing import Any, Final

from apiserver.types.code_generation.keyword_markers import SHORTEST, bounds, merging, rule_marker
from apiserver.types.code_generation.names import RESERVED, class_name, identifier, singular, unique
from apiserver.types.code_generation.tree import (
    ABSENT,
    Choice,
    Field,
    ListOf,
    MapOf,
    Marker,
    Model,
    Named,
    Type,
    TypeUse,
)
from apiserver.types.markers import QUANTITY, Immutable

Document = dict[str, Any]

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
# The types of the values of enumerations by which `Literal` says the type of the schema.
_CHOICES: Final = {"string": str, "integer": int, "boolean": bool}
# Formats that are the ones of the types without a format.
_PLAIN_FORMATS: Final = {"integer": "int64", "number": "double"}
_IMMUTABLE: Final = Marker("Immutable", None)
# What a model says itself.
_DECLARED: Final = ("type", "description", "properties", "required", _PRESERVE, "x-kubernetes-validations")


class SchemaReader:
    """Reads schemas, and gives the models of their objects names.

    Equal schemas of properties with the same name share a model.
    """

    def __init__(self, reserved: frozenset[str], schemas: Iterable[Any]) -> None:
        """reserved: names that fields must not have. schemas: all that are read.

        Names of fields are not names of classes: in a class body, the field would hide the class.
        """
        self._reserved = reserved | RESERVED
        self._taken = {*RESERVED, *_property_names(schemas)}
        self._models: dict[tuple[str, str], Model] = {}

    def model(self, schema: Document, name: str, taken: Iterable[str] = ()) -> Model:
        """Returns the model of a schema. taken: names that its attributes must not have."""
        model = Model(unique(name, self._taken))
        self._taken.add(model.name)
        self._complete(model, dict(schema), model.name, taken)
        return model

    def type_use(self, schema: Document, path: str, leaf: str) -> TypeUse:
        """Returns the type of a schema. path: the name for its model. leaf: of the property that has it."""
        if _is_model(schema):
            return self._model_use(schema, path, leaf)
        rest = _meaningful(schema)
        rules = rest.pop("x-kubernetes-validations", [])
        # The server checks null against an enumeration, too.
        is_nullable = "enum" not in schema and bool(rest.pop("nullable", False))
        kind = rest.pop("type", "")
        markers: list[Marker] = []
        found = self._type(schema, rest, path, leaf)
        if description := rest.pop("description", ""):
            markers.append(Marker("Doc", (description,)))
        markers += bounds(kind, rest)
        markers += merging(rest, has_scalars=_is_list_of_scalars(found))
        if rest.pop(_PRESERVE, False):
            markers.append(Marker("Preserve", None))
        markers += [_IMMUTABLE if rule == Immutable.document() else rule_marker(rule) for rule in rules]
        if rest:
            markers.append(Marker("Keywords", (rest,)))
        return TypeUse(found, tuple(markers), is_nullable)

    def default(self, schema: Document) -> Any:
        """Returns the default of a schema. None, in Python, is an absent field."""
        return ABSENT if schema.get("default") is None else schema["default"]

    def _type(self, schema: Document, rest: Document, path: str, leaf: str) -> Type:
        """Returns the type, and removes the keywords that it says from the rest."""
        kind = schema.get("type", "")
        if rest.pop("x-kubernetes-int-or-string", False):
            if rest.get("anyOf") == _INT_OR_STRING:
                del rest["anyOf"]
            if rest.get("pattern") == QUANTITY.schema["pattern"]:
                del rest["pattern"]
                return Named("Quantity")
            return Named("IntOrString")
        if kind == "array":
            return ListOf(self._element(rest.pop("items", {}), path, leaf))
        if kind == "object":
            values = rest.pop("additionalProperties", None)
            if isinstance(values, dict):
                return MapOf(self._element(values, path, leaf))
            if values is not None:
                rest["additionalProperties"] = values
            elif rest.pop(_PRESERVE, False) and rest.pop(_EMBEDDED, False):
                return Named("EmbeddedObject")
            return MapOf(TypeUse(Named("Any")))
        if not kind:
            rest.pop(_PRESERVE, None)
            return Named("Any")
        values = rest.get("enum", ())
        if values and all(type(each) is _CHOICES.get(kind) for each in values):
            return Choice(tuple(rest.pop("enum")))
        if rest.get("format") == _PLAIN_FORMATS.get(kind, ""):
            rest.pop("format", None)
        # Text with a default or a bound stays text.
        is_plain = rest.keys() <= {"format", "description"} and "default" not in schema
        if is_plain and rest.get("format") in ("date", "date-time"):
            return Named("datetime" if rest.pop("format") == "date-time" else "date")
        return Named(_SCALARS[kind])

    def _element(self, schema: Document, path: str, leaf: str) -> TypeUse:
        use = self.type_use(schema, path, singular(leaf))
        if (default := self.default(schema)) is not ABSENT:
            use = use._replace(markers=(*use.markers, Marker("Keywords", ({"default": default},))))
        return use

    def _model_use(self, schema: Document, path: str, leaf: str) -> TypeUse:
        declared: Document = {key: schema[key] for key in _DECLARED if key in schema}
        key = leaf, json.dumps(declared, sort_keys=True)
        model = self._models.get(key)
        if model is None:
            model = self._models[key] = self.model(declared, path)
        others = model_keywords(schema)
        others.pop("nullable", None)
        markers = list(merging(others))
        if description := others.pop("description", ""):
            markers.insert(0, Marker("Doc", (description,)))
        if others.pop(_PRESERVE, False):
            markers.append(Marker("Preserve", None))
        if others:
            markers.append(Marker("Keywords", (others,)))
        return TypeUse(model, tuple(markers), bool(schema.get("nullable")))

    def _complete(self, model: Model, schema: Document, path: str, taken: Iterable[str] = ()) -> None:
        model.description = description if is_docstring(description := schema.get("description", "")) else ""
        model.rules = [rule_marker(each) for each in schema.get("x-kubernetes-validations", ())]
        model.keeps_unknown = bool(schema.get(_PRESERVE))
        required = schema.get("required", ())
        properties = schema.get("properties", {})
        # A name that an attribute can have stays, whatever the names before it become.
        taken = {*self._reserved, *taken, *properties}
        for name, each in properties.items():
            inner = singular(name) if _is_collection(each) else name
            use = self.type_use(each, f"{path}{class_name(inner)}", name)
            default = self.default(each)
            attribute = name
            if identifier(name) != name or name in self._reserved:
                attribute = unique(identifier(name), taken)
                taken.add(attribute)
            is_required = name in required and default is ABSENT
            model.fields.append(Field(name, attribute, use, is_required, default))


def _property_names(schemas: Iterable[Any]) -> set[str]:
    """Returns the names of all properties in schemas."""
    names: set[str] = set()
    waiting = list(schemas)
    while waiting:
        match waiting.pop():
            case dict() as found:
                if isinstance(properties := found.get("properties"), dict):
                    names.update(properties)
                waiting += found.values()
            case list() as items:
                waiting += items
    return names


def _is_model(schema: Document) -> bool:
    return schema.get("type") == "object" and (
        bool(schema.get("properties")) or ("additionalProperties" not in schema and not schema.get(_PRESERVE))
    )


def model_keywords(schema: Document) -> Document:
    """Returns what a schema of an object with fields says, other than what the model declares."""
    found = _meaningful(schema)
    declared = set(_DECLARED) - {_PRESERVE}
    if not schema.get("properties", {}).keys() >= set(found.get("required", ())):
        declared.discard("required")
    if not is_docstring(found.get("description", "")):
        declared.discard("description")
    return {key: value for key, value in found.items() if key not in declared}


def is_docstring(text: str) -> bool:
    """Whether a text is the same as the docstring of a class, which loses blanks at the ends of lines."""
    lines = text.split("\n")
    return (
        inspect.cleandoc(text) == text
        and all(line.isprintable() and line == line.rstrip() for line in lines)
        and not text.startswith('"')
        and not text.endswith(('"', "\\"))
        and '"""' not in text
    )


def _meaningful(schema: Document) -> Document:
    """Returns a schema without a default, and without keywords that say nothing."""
    return {
        key: value
        for key, value in schema.items()
        if (value is None or key != "default")
        and value is not False
        and value not in ("", [], {})
        and (value or key not in SHORTEST)
    }


def _is_collection(schema: Document) -> bool:
    return schema.get("type") == "array" or "additionalProperties" in schema


def _is_list_of_scalars(found: Type) -> bool:
    match found:
        case ListOf(TypeUse(type=Choice())):
            return True
        case ListOf(TypeUse(type=Named(name))):
            return name in _SCALARS.values() or name in ("date", "datetime")
    return False
