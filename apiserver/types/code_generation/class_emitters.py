"""Writes classes whose fields have defaults: dataclasses, pydantic models and msgspec structs."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from apiserver.types.code_generation.emitter import Emitter, UnsupportedName, is_optional
from apiserver.types.code_generation.expressions import (
    INDENT,
    Bracketed,
    Element,
    Expression,
    Lambda,
    Text,
    call,
    dictionary,
    literal,
)
from apiserver.types.code_generation.tree import (
    ABSENT,
    Choice,
    Field,
    ListOf,
    MapOf,
    Marker,
    Model,
    Named,
    TypeUse,
)


class ClassEmitter(Emitter):
    """Writes classes with a function that declares a field, such as `field`."""

    @abstractmethod
    def field_function(self) -> str:
        """Returns the name of the function."""

    def field_type(self, model: Model, field: Field) -> Expression:
        markers = self.name_marker(field)
        if _has_objects(field) or (field.default is not ABSENT and self._default(field) is None):
            markers.append(self.marker(Marker("Default", (field.default,))))
        return self.type_of(field.type, markers, [self.absent(model)[0]] if is_optional(field) else [])

    def field_value(self, model: Model, field: Field) -> Expression | None:
        return Text(self.absent(model)[1]) if is_optional(field) else self._default(field)

    def absent(self, model: Model) -> tuple[str, str]:
        """Returns the type and the value of a field that is absent."""
        return "None", "None"

    # ---- defaults

    def _default(self, field: Field) -> Expression | None:
        """Returns the default; None if there is none, or if no Python value stands for it."""
        if field.default is ABSENT:
            return None
        value = _value(field.type, field.default)
        if value is None or not isinstance(field.default, list | dict):
            return value
        if field.default:
            return self.default_of(field, value)
        name = field.type.type.name if isinstance(field.type.type, Model) else type(field.default).__name__
        return self.made_by(Text(name))

    def default_of(self, field: Field, value: Expression) -> Expression:
        """Returns what a field is assigned that has a list, a dict or an object as its default."""
        return self.made_by(Lambda(value))

    def made_by(self, factory: Expression) -> Expression:
        return call(self.field_function(), default_factory=factory)


def _has_objects(field: Field) -> bool:
    """Whether there are objects in a default. Of those, the schema has only what is said: some fields."""
    values = field.default if isinstance(field.default, list) else [field.default]
    return any(isinstance(each, dict) and each for each in values)


def _value(use: TypeUse, value: Any) -> Expression | None:
    """Returns an expression of a value of a type, from JSON; None if there is none."""
    match use.type:
        case Model() if isinstance(value, dict):
            return _instance(use.type, value)
        case ListOf(element) if isinstance(value, list):
            items = [found for each in value if (found := _value(element, each)) is not None]
            return Bracketed("[", tuple(map(Element, items)), "]") if len(items) == len(value) else None
        case MapOf(inner) if isinstance(value, dict):
            values = {key: found for key, each in value.items() if (found := _value(inner, each)) is not None}
            return dictionary(values.items()) if values.keys() == value.keys() else None
        case Named("date" | "datetime"):
            return None
    return literal(value)


def _instance(model: Model, value: Mapping[str, Any]) -> Expression | None:
    """Returns a call of a class; None if the value lacks a required field or has another one."""
    fields = {field.json_name: field for field in model.fields}
    is_complete = all(name in value for name, field in fields.items() if _needs_value(field))
    if not is_complete or not value.keys() <= fields.keys():
        return None
    arguments = {
        fields[key].name: found
        for key, each in value.items()
        if (found := _value(fields[key].type, each)) is not None
    }
    return call(model.name, **arguments) if len(arguments) == len(value) else None


def _needs_value(field: Field) -> bool:
    """Whether a constructor requires the field: it has no default, or none that Python has."""
    if field.default is ABSENT:
        return field.is_required
    return _value(field.type, field.default) is None


# ---- the kinds


class DataclassEmitter(ClassEmitter):
    """Writes dataclasses."""

    def decorators(self) -> list[str]:
        # Fields with and without defaults are in any order.
        return [f"@{self.imports.name('dataclass')}(kw_only=True)"]

    def field_function(self) -> str:
        return self.imports.name("field")


class PydanticEmitter(ClassEmitter):
    """Writes models of pydantic."""

    reserved = frozenset(
        {
            *("construct", "copy", "dict", "from_orm", "json", "parse_file", "parse_obj", "parse_raw"),
            *("register", "schema", "schema_json", "update_forward_refs", "validate"),
            *("model_computed_fields", "model_config", "model_construct", "model_copy", "model_dump"),
            *("model_dump_json", "model_extra", "model_fields", "model_fields_set", "model_json_schema"),
            *("model_parametrized_name", "model_post_init", "model_rebuild", "model_validate"),
            *("model_validate_json", "model_validate_strings"),
        }
    )

    def bases(self, model: Model) -> list[str]:
        return [self.imports.name("BaseModel")]

    def options(self, model: Model) -> list[str]:
        options = {
            "extra": literal("allow") if model.keeps_unknown else None,
            "populate_by_name": literal(True) if _has_aliases(model) else None,
            "protected_namespaces": literal(()) if _has_protected_names(model) else None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        if not given:
            return []
        return call(self.imports.name("ConfigDict"), **given).lines(INDENT, "model_config = ")

    def field_function(self) -> str:
        return self.imports.name("Field")

    def name_marker(self, field: Field) -> list[Expression]:
        return []

    def field_type(self, model: Model, field: Field) -> Expression:
        found = super().field_type(model, field)
        if field.name == field.json_name:
            return found
        # Of the whole field: an alias of one member of a union has no effect.
        return self.annotated(found, [call(self.field_function(), alias=literal(field.json_name))])

    def default_of(self, field: Field, value: Expression) -> Expression:
        """Returns lists and dicts as they are: pydantic copies them, and type checkers see their literals.

        Objects are made later: in the body of a class that refers to itself there is no complete class yet.
        """
        return super().default_of(field, value) if _contains_model(field.type) else value


def _contains_model(use: TypeUse) -> bool:
    match use.type:
        case ListOf(inner) | MapOf(inner):
            return _contains_model(inner)
    return isinstance(use.type, Model)


def _has_aliases(model: Model) -> bool:
    return any(field.name != field.json_name for field in model.fields)


def _has_protected_names(model: Model) -> bool:
    """Whether pydantic would warn of names of fields that may become its own."""
    return any(field.name.startswith(("model_dump", "model_validate")) for field in model.fields)


class MsgspecEmitter(ClassEmitter):
    """Writes structs of msgspec, which checks the bounds in its own `Meta`."""

    def bases(self, model: Model) -> list[str]:
        struct = f"{self.imports.module('msgspec')}.Struct"
        # An object is written with its apiVersion and kind, though they are defaults.
        return [struct, "kw_only=True", *([] if _is_whole(model) else ["omit_defaults=True"])]

    def absent(self, model: Model) -> tuple[str, str]:
        return ("msgspec.UnsetType", "msgspec.UNSET") if _is_whole(model) else super().absent(model)

    def field_function(self) -> str:
        return "msgspec.field"

    def name_marker(self, field: Field) -> list[Expression]:
        return []

    def field_value(self, model: Model, field: Field) -> Expression | None:
        value = super().field_value(model, field)
        if field.name == field.json_name:
            return value
        if _REFUSED.search(field.json_name):
            raise UnsupportedName(f"msgspec does not support the field name {field.json_name!r}")
        name = literal(field.json_name)
        if value is None:
            return call(self.field_function(), name=name)
        if isinstance(value, Bracketed) and value.opening == f"{self.field_function()}(":
            return Bracketed(value.opening, (*value.elements, Element(name, "name=")), value.closing)
        return call(self.field_function(), default=value, name=name)

    def bounds(self, use: TypeUse) -> list[Expression]:
        checked = {
            _META[marker.name]: literal(marker.arguments[0])
            for marker in use.markers
            if marker.name in _META and marker.arguments and _is_checked(use, marker.arguments[0])
        }
        if not checked:
            return super().bounds(use)
        others = tuple(marker for marker in use.markers if _META.get(marker.name) not in checked)
        meta = call(f"{self.imports.module('msgspec')}.Meta", **checked)
        return [meta, *super().bounds(use._replace(markers=others))]


# Source: msgspec, which writes the names of fields to JSON as they are.
_REFUSED: Final = re.compile(r'[\\"\x00-\x1f]')
# Without patterns, which msgspec compiles as Python's, and not as RE2's.
_META: Final = {
    "Ge": "ge",
    "Gt": "gt",
    "Le": "le",
    "Lt": "lt",
    "MultipleOf": "multiple_of",
    "MinLen": "min_length",
    "MaxLen": "max_length",
}


def _is_checked(use: TypeUse, bound: Any) -> bool:
    """Whether msgspec can check a bound: of integers, bounds are integers; choices have none."""
    match use.type:
        case Choice():
            return False
        case Named("float"):
            return True
    return isinstance(bound, int)


def _is_whole(model: Model) -> bool:
    """Whether a model is of whole objects, with apiVersion and kind."""
    return any(field.is_required and field.default is not ABSENT for field in model.fields)
