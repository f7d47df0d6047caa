"""Builds the structural schema of a type.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
    custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import chain
from typing import Any, Final, Literal, get_args, get_origin

from apiserver.types.constraints import Constraints, add_constraints, constraints_of
from apiserver.types.default_values import DefaultValues
from apiserver.types.errors import Unrepresentable
from apiserver.types.kubernetes_types import kubernetes_schema
from apiserver.types.list_types import add_list_type
from apiserver.types.markers import Kubernetes, ListType, Marker
from apiserver.types.models.model import Field, Model, description_of
from apiserver.types.models.pydantic_models import root_hint
from apiserver.types.models.reader import ModelReader
from apiserver.types.recursion import Nesting
from apiserver.types.scalars import Schema, enum_schema, scalar_schema
from apiserver.types.type_hints import TypeForm, is_union, type_form, union_members
from apiserver.types.unions import Member, union_schema

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_VALIDATIONS: Final = "x-kubernetes-validations"
# The order of what a schema says.
_ORDER: Final = (
    *("description", "type", "format", "enum", "pattern", "nullable", "default"),
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("properties", "required", "additionalProperties", "items", "allOf", "anyOf", "oneOf", "not"),
    *("x-kubernetes-int-or-string", "x-kubernetes-embedded-resource", _PRESERVE),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", _VALIDATIONS),
)
_RANKS: Final = {name: rank for rank, name in enumerate(_ORDER)}
_SELECTABLE_TYPES: Final = frozenset({"boolean", "integer", "string"})
_KINDS_OF_MODELS: Final = "a dataclass, a pydantic model, a msgspec struct or a TypedDict"
_KINDS_OF_TYPES: Final = f"use str, {_KINDS_OF_MODELS}"
# In every object; the server knows their schemas.
_IMPLIED: Final = frozenset({"apiVersion", "kind", "metadata"})


class SchemaBuilder:
    """Builds the schema of one version.

    selectable_paths: of the fields with the marker Selectable, as JSON paths; complete once the schema is
        built.
    """

    def __init__(self) -> None:
        self._reader = ModelReader()
        self._defaults = DefaultValues(self._reader)
        self._nesting = Nesting()
        self.selectable_paths: list[str] = []

    def root_schema(self, cls: type) -> Schema:
        """Returns the schema of whole objects. Raises Unrepresentable."""
        path = cls.__name__
        model = self._reader.read(cls, path)
        if model is None:
            raise Unrepresentable(path, "not a class with fields", f"use {_KINDS_OF_MODELS}")
        own = [field for field in model.fields if field.name not in _IMPLIED]
        try:
            schema = self._model(cls, model._replace(fields=own), path, "")
        except RecursionError:
            raise Unrepresentable(
                path, "types contain each other without end", "use a class with Depth(n)"
            ) from None
        # A definition may limit the name, as keywords say.
        for field in model.fields:
            if field.name == "metadata" and (keywords := field.constraints.keywords):
                metadata = {"type": "object", **keywords}
                schema["properties"] = {"metadata": metadata, **schema.get("properties", {})}
        return _ordered(schema)

    # ---- types

    def _schema(self, form: TypeForm, found: Constraints, path: str, json_path: str | None) -> Schema:
        """Returns the schema of a type with its markers.

        json_path: of the value, as `.spec.color`; None if clients cannot select it, as in lists and unions.
        """
        if isinstance(found.given, Kubernetes):
            schema = kubernetes_schema(found.given.definition, path)
        elif found.given is not None:
            schema = dict(found.given.schema)
        else:
            schema = self._bare(form.bare, path, json_path)
        add_constraints(schema, found, path)
        if found.list_type is not None:
            add_list_type(schema, found.list_type, path)
        if found.format:
            schema["format"] = found.format
        if found.description:
            schema["description"] = found.description
        if Marker.PRESERVE in found.flags:
            schema[_PRESERVE] = True
        if rules := [rule.document() for rule in found.rules]:
            _require_type(schema, path)
            schema[_VALIDATIONS] = [*schema.get(_VALIDATIONS, ()), *rules]
        return _ordered({**schema, **found.keywords})

    def _inner(self, hint: Any, path: str) -> Schema:
        """Returns the schema of what is no field, such as the items of a list: null may be among them."""
        form = type_form(hint, path)
        found = constraints_of(form.markers, path)
        schema = self._schema(form, found, path, None)
        return _with_null(schema, form, found, path)

    def _bare(self, bare: Any, path: str, json_path: str | None) -> Schema:
        origin = get_origin(bare)
        if bare is Any or bare is object:
            return {_PRESERVE: True}
        if origin is Literal:
            return enum_schema(get_args(bare), path)
        if is_union(bare):
            return self._union(bare, path)
        cls = origin or bare
        if not isinstance(cls, type):
            raise Unrepresentable(path, f"{bare!r} has no schema", _KINDS_OF_TYPES)
        if (root := root_hint(cls)) is not None:
            with self._nesting.inside(cls, cls.__name__, path):
                return _described(self._inner(root, path), cls)
        if (model := self._reader.read(bare, path)) is not None:
            return self._model(bare, model, path, json_path)
        if (schema := scalar_schema(cls, path)) is not None:
            return schema
        return self._container(cls, get_args(bare), path)

    def _container(self, cls: type, arguments: tuple[Any, ...], path: str) -> Schema:
        if issubclass(cls, Mapping):
            return self._map(arguments or (str, Any), path)
        if issubclass(cls, Set):
            return self._set(arguments or (Any,), path)
        if issubclass(cls, tuple) and not hasattr(cls, "_fields"):
            return self._tuple(arguments or (Any, ...), path)
        if issubclass(cls, Sequence) and not issubclass(cls, tuple | bytearray | memoryview):
            return self._list(arguments or (Any,), path)
        raise Unrepresentable(path, f"the class {cls.__qualname__} has no schema", _KINDS_OF_TYPES)

    def _list(self, arguments: tuple[Any, ...], path: str) -> Schema:
        return {"type": "array", "items": self._inner(arguments[0], f"{path}[*]")}

    def _tuple(self, arguments: tuple[Any, ...], path: str) -> Schema:
        schema = self._list(arguments, path)
        if len(arguments) == 2 and arguments[1] is ...:
            return schema
        if any(each != arguments[0] for each in arguments):
            raise Unrepresentable(
                path, "all items of a list have one type", "use a class with a field for each"
            )
        return {**schema, "minItems": len(arguments), "maxItems": len(arguments)}

    def _set(self, arguments: tuple[Any, ...], path: str) -> Schema:
        schema = self._list(arguments, path)
        add_list_type(schema, ListType("set"), path)
        return schema

    def _map(self, arguments: tuple[Any, ...], path: str) -> Schema:
        if len(arguments) != 2:
            raise Unrepresentable(path, "a dict has types for its keys and values", "use dict[str, ...]")
        key, value = arguments
        if (form := type_form(key, path)).bare is not str or form.markers:
            raise Unrepresentable(path, "the keys of a dict are str", "use a class, or dict[str, ...]")
        inner = self._inner(value, f"{path}[*]")
        if inner == {_PRESERVE: True}:
            return {"type": "object", _PRESERVE: True}
        return {"type": "object", "additionalProperties": inner}

    # ---- unions

    def _union(self, bare: Any, path: str) -> Schema:
        members = union_members(bare)
        forms = [type_form(member, path) for member in members]
        bares = [form.bare for form in forms]
        if all(get_origin(each) is Literal for each in bares):
            return enum_schema([value for each in bares for value in get_args(each)], path)
        if set(bares) == {int, str}:
            schema: Schema = {"x-kubernetes-int-or-string": True}
            # Bounds of numbers do not concern strings, and patterns and lengths do not concern numbers.
            add_constraints(
                schema, constraints_of(chain.from_iterable(each.markers for each in forms), path), path
            )
            return schema
        if set(bares) == {int, float} and not any(form.markers for form in forms):
            return self._bare(float, path, None)
        models = [self._reader.read(each, path) for each in bares]
        if any(model is None for model in models):
            names = " | ".join(getattr(each, "__name__", str(each)) for each in bares)
            raise Unrepresentable(
                path, f"a value of {names}", "use int | str, or a union of classes with fields"
            )
        schemas = [self._schema(form, constraints_of(form.markers, path), path, None) for form in forms]
        return union_schema(
            [Member(model.name, schema) for model, schema in zip(models, schemas, strict=True) if model], path
        )

    # ---- models

    def _model(self, key: Any, model: Model, path: str, json_path: str | None) -> Schema:
        """Returns the schema of a model. key: the class, with its arguments."""
        schema: Schema = {"type": "object"}
        with self._nesting.inside(key, model.name, path):
            fields = [field for field in model.fields if not self._nesting.is_too_deep(key, field)]
            properties = {
                field.name: self._field(key, field, f"{path}.{field.attribute}", json_path)
                for field in fields
            }
        if model.description:
            schema["description"] = model.description
        if properties:
            schema["properties"] = properties
        if required := [field.name for field in fields if field.default is None]:
            schema["required"] = required
        if model.keeps_unknown:
            schema[_PRESERVE] = True
        if model.rules:
            schema[_VALIDATIONS] = [rule.document() for rule in model.rules]
        return schema

    def _field(self, key: Any, field: Field, path: str, json_path: str | None) -> Schema:
        """Returns the schema of a field. key, json_path: of the model; path: of the field."""
        # The server does not accept a path with such a name.
        inside = None if json_path is None or "." in field.name else f"{json_path}.{field.name}"
        with self._nesting.below(key, field):
            schema = self._schema(field.form, field.constraints, path, inside)
        default = self._defaults.default_of(field, path)
        if default is not None:
            schema["default"] = default
        # None as the default means an absent field. It is a value if the field has another default, or none.
        if field.default is not None and default is None:
            field = field._replace(form=field.form._replace(is_optional=False))
        schema = _with_null(schema, field.form, field.constraints, path)
        if Marker.SELECTABLE in field.constraints.flags:
            self.selectable_paths.append(_selectable(inside, schema, path))
        return schema


def _described(schema: Schema, cls: type) -> Schema:
    description = description_of(cls)
    return {"description": description, **schema} if description else schema


def _ordered(schema: Schema) -> Schema:
    """Returns a schema whose keys are in the order of `_ORDER`, whichever class it was made from."""
    return {name: schema[name] for name in sorted(schema, key=lambda name: _RANKS.get(name, len(_RANKS)))}


def _require_type(schema: Schema, path: str) -> None:
    """Raise Unrepresentable for a value of a rule without a type, by which CEL could check the rule.

    Source: k8s.io/apiserver pkg/cel/common/schemas.go, SchemaDeclType.
    """
    while schema.get("type") == "array":
        schema = schema["items"]
    if not schema.keys() & {"type", "x-kubernetes-int-or-string"}:
        raise Unrepresentable(path, "a rule needs a value with a type", "use dict[str, Any] for any object")


def _with_null(schema: Schema, form: TypeForm, found: Constraints, path: str) -> Schema:
    """Returns a schema that allows null if null is a value of the type. Raises Unrepresentable.

    The marker Nullable is never refused: the schema then says what its author wants.
    """
    is_nullable = Marker.NULLABLE in found.flags
    if form.is_optional and "enum" in schema and not is_nullable:
        # Source: k8s.io/kube-openapi pkg/validation/validate, the enumeration is checked for null, too.
        raise Unrepresentable(path, "an enumeration cannot have null", "remove None, or make it the default")
    return _ordered({**schema, "nullable": True} if is_nullable or form.is_optional else schema)


def _selectable(json_path: str | None, schema: Schema, path: str) -> str:
    if json_path is None or schema.get("type") not in _SELECTABLE_TYPES:
        raise Unrepresentable(
            path,
            "clients can select by strings, integers and booleans, but not in lists, dicts and unions",
            "use a field whose path has no such type, and no name with a dot",
        )
    return json_path
