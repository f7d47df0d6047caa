"""Makes instances of classes from documents."""

from __future__ import annotations

import copy
import enum
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, Literal, get_args, get_origin

from apiserver.types.constraints import Constraints, constraints_of
from apiserver.types.errors import InvalidObject
from apiserver.types.instances.scalars import scalar_of
from apiserver.types.json_values import same
from apiserver.types.markers import Marker
from apiserver.types.models.model import Field, Model
from apiserver.types.models.pydantic_models import root_hint
from apiserver.types.models.reader import ModelReader, is_document, new_instance
from apiserver.types.type_hints import TypeForm, is_union, type_form, union_members
from apiserver.types.unions import tag_of

_NAMES: Final = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}


class InstanceDecoder:
    """Makes instances of classes, and of all other types that have a schema."""

    def __init__(self) -> None:
        self._reader = ModelReader()
        self._tags: dict[Any, str | None] = {}

    def model_of(self, hint: Any) -> Model | None:
        """Returns the model of a class with fields; None for other types. Raises Unrepresentable."""
        return self._reader.read(hint, getattr(hint, "__name__", ""))

    def decode(self, hint: Any, value: Any, path: str = "") -> Any:
        """Returns the value of a type that JSON stands for. Raises InvalidObject and Unrepresentable.

        path: of the value, for errors.
        """
        form = type_form(hint, path)
        return self._decode(form, constraints_of(form.markers, path), value, path)

    def _decode(self, form: TypeForm, found: Constraints, value: Any, path: str) -> Any:
        if form.bare is Any or form.bare is object:
            return value
        if value is None:
            if form.is_optional or Marker.NULLABLE in found.flags:
                return None
            raise InvalidObject(path, "must not be null")
        if found.given is not None:  # The schema is of another type than that of Python.
            return value
        return self._value(form.bare, value, path)

    def _value(self, bare: Any, value: Any, path: str) -> Any:
        if get_origin(bare) is Literal:
            return _one_of(get_args(bare), value, path)
        if is_union(bare):
            return self._member(bare, value, path)
        cls = get_origin(bare) or bare
        if (root := root_hint(cls)) is not None:
            return new_instance(cls, {"root": self.decode(root, value, path)}, {}, path)
        if (model := self._reader.read(bare, path)) is not None:
            return self._instance(bare, model, value, path)
        if issubclass(cls, enum.Enum):
            return _one_of([*cls], value, path)
        if (scalar := scalar_of(cls)) is not None:
            try:
                return scalar.read(value)
            except (TypeError, ValueError):
                raise _wrong(path, scalar.name, value) from None
        return self._container(cls, get_args(bare), value, path)

    def _member(self, bare: Any, value: Any, path: str) -> Any:
        """Returns the value of the first type of a union that it fits."""
        problems: list[InvalidObject] = []
        if isinstance(value, dict):
            tag = self._required_tag(bare, path)
            if tag is not None and tag not in value:
                raise InvalidObject(f"{path}.{tag}" if path else tag, "is required")
        for member in union_members(bare):
            try:
                return self.decode(member, value, path)
            except InvalidObject as problem:
                problems.append(problem)
        # That of the type that fits best.
        raise max(problems, key=lambda each: (not each.is_of_another, len(each.path)))

    def _required_tag(self, bare: Any, path: str) -> str | None:
        if bare not in self._tags:
            members = [type_form(member, path).bare for member in union_members(bare)]
            self._tags[bare] = tag_of([_enumerations(self._reader.read(each, path)) for each in members])
        return self._tags[bare]

    def _container(self, cls: type, arguments: tuple[Any, ...], value: Any, path: str) -> Any:
        if issubclass(cls, Mapping):
            if not isinstance(value, dict):
                raise _wrong(path, "an object", value)
            hint = arguments[1] if len(arguments) == 2 else Any
            return {key: self.decode(hint, each, f"{path}[{key}]") for key, each in value.items()}
        if not issubclass(cls, Sequence | Set):
            return value  # A type of pydantic: its class checks it.
        if not isinstance(value, list):
            raise _wrong(path, "a list", value)
        hint = arguments[0] if arguments else Any
        items = [self.decode(hint, each, f"{path}[{index}]") for index, each in enumerate(value)]
        if issubclass(cls, Set):
            return frozenset(items) if issubclass(cls, frozenset) else set(items)
        return tuple(items) if issubclass(cls, tuple) else items

    # ---- classes with fields

    def _instance(self, hint: Any, model: Model, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        values = {}
        for field in model.fields:
            inside = f"{path}.{field.name}" if path else field.name
            if field.name in value or field.constraints.default is not None or field.default is None:
                given = _given(field, value, inside)
                values[field.attribute] = self._decode(field.form, field.constraints, given, inside)
        if is_document(hint):
            return value
        known = {field.name for field in model.fields}
        unknown = {name: each for name, each in value.items() if name not in known}
        return new_instance(hint, values, unknown if model.keeps_unknown else {}, path)


def _enumerations(model: Model | None) -> Mapping[str, Sequence[Any]]:
    """Returns the fields that are enumerations, with their values."""
    found: dict[str, Sequence[Any]] = {}
    for field in () if model is None else model.fields:
        bare = field.form.bare
        if get_origin(bare) is Literal:
            found[field.name] = [_json_value(each) for each in get_args(bare)]
        elif isinstance(bare, type) and issubclass(bare, enum.Enum):
            found[field.name] = [*map(_json_value, bare)]
    return found


def _given(field: Field, value: Mapping[str, Any], path: str) -> Any:
    if field.name in value:
        return value[field.name]
    if field.constraints.default is None:
        raise InvalidObject(path, "is required", is_of_another=True)
    return copy.deepcopy(field.constraints.default.value)


def _one_of(members: Sequence[Any], value: Any, path: str) -> Any:
    """Returns the member of an enumeration that JSON stands for."""
    shown = [*map(_json_value, members)]
    for member, each in zip(members, shown, strict=True):
        if same(each, value):
            return member
    raise InvalidObject(path, f"must be one of {', '.join(map(repr, shown))}", is_of_another=True)


def _json_value(member: Any) -> Any:
    """Returns what stands for a member of an enumeration in JSON."""
    return member.value if isinstance(member, enum.Enum) else member


def _wrong(path: str, expected: str, value: Any) -> InvalidObject:
    found = _NAMES.get(type(value), type(value).__name__)
    given = f"{value!r:.40}" if found in expected or isinstance(value, str | int) else found
    return InvalidObject(path, f"must be {expected}, not {given}")
