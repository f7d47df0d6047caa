"""Type definitions for apply: which values are owned as a whole, and which by their parts.

Scalars, atomic objects and atomic lists are owned as a whole; other objects by their fields or keys, lists of
the types `set` and `map` by their items. Values without a schema are owned by their JSON type: objects by
their keys, all others as a whole. Source: structured-merge-diff, schema/elements.go and typed/deduced.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from apiserver.meta.text_caches import text_cache
from apiserver.registry.patch.apply.field_set import (
    CACHED_LENGTH_MAX,
    ITSELF,
    LEAF,
    FieldSet,
    key_element,
    value_element,
)
from apiserver.schema.go_fields import fields_of
from apiserver.schema.structural import Schema, ValueKind

# Objects without a schema are owned by their parts down to this level, then as a whole.
UNTYPED_LEVELS: Final = 100
# Bounds for the outlines of a type definition: their count, the names in one, and the total length of these.
OUTLINES_MAX: Final = 128
OUTLINE_NAMES_MAX: Final = 32
OUTLINE_TEXT_MAX: Final = 500

# A list is atomic unless it is a set_list or a map_list. "untyped" has no schema.
TypeDefKind = Literal["ignored", "scalar", "struct", "map", "list", "map_list", "set_list", "untyped"]
_SCALARS: Final[Mapping[ValueKind, str]] = {
    ValueKind.STRING: "string",
    ValueKind.BYTES: "string",
    ValueKind.INTEGER: "numeric",
    ValueKind.NUMBER: "numeric",
    ValueKind.BOOLEAN: "boolean",
}
# Of a scalar of another kind, as a time or a quantity: it may be of any type here.
_ANY_SCALAR: Final = "untyped"
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "numeric": (int,),
    "boolean": (bool,),
    _ANY_SCALAR: (str, int, bool),
    "list": (list,),
}
# The defaults of absent keys of list items that a marker in the Go type gives; the definitions do not have
# them. All other fields that are always encoded have their zero value for a default.
KEY_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "io.k8s.api.core.v1.ContainerPort": {"protocol": "TCP"},
    "io.k8s.api.core.v1.LocalObjectReference": {"name": ""},
    "io.k8s.api.core.v1.ServicePort": {"protocol": "TCP"},
}
_ZERO_KEYS: Final[Mapping[ValueKind, Any]] = {ValueKind.STRING: "", ValueKind.INTEGER: 0}
# The fields of metadata that the server sets, and their types; no manager owns them.
_SERVER_FIELDS: Final[Mapping[str, str]] = {
    "name": "string",
    "namespace": "string",
    "creationTimestamp": _ANY_SCALAR,
    "selfLink": "string",
    "uid": "string",
    "clusterName": "string",
    "generation": "numeric",
    "managedFields": "list",
    "resourceVersion": "string",
}


class TypeDef:
    """The definition of one value's type.

    is_atomic: whether the value is owned as a whole.
    container: the Python type of a value that is owned by its parts.
    scalar: the type name of a scalar, or of an ignored value; else empty. types: its Python types; a float
        may be a number, too.
    fields: those of a struct, each with its path element. element: the definition of the items of maps and
        lists.
    keys: the keys of a map list, in order, with their defaults (None: there is none).
    is_undeclared: whether it is of a field that its struct does not declare: such a field itself is owned,
        like the values of maps.
    has_untyped: whether the value, or one below it, has no schema: true may replace 1 there.
    is_marked: whether `has_untyped` is set.
    outlines: the parts of field sets that objects with the same names share, by these names.
    """

    __slots__ = (
        "container",
        "element",
        "fields",
        "has_untyped",
        "is_atomic",
        "is_marked",
        "is_undeclared",
        "keys",
        "kind",
        "outlines",
        "scalar",
        "types",
    )

    def __init__(self, kind: TypeDefKind, *, is_atomic: bool = False, scalar: str = "") -> None:
        self.kind: TypeDefKind = kind
        self.container: type[Any] = list if kind in ("map_list", "set_list") else dict
        self.is_atomic = is_atomic or kind in ("scalar", "list")
        self.scalar = scalar
        self.types = _TYPES.get(scalar, ())
        self.fields: dict[str, tuple[str, TypeDef]] = {}
        self.element: TypeDef = self
        self.keys: tuple[tuple[str, Any], ...] = ()
        self.is_undeclared = False
        self.has_untyped = kind == "untyped"
        self.is_marked = True
        self.outlines: dict[tuple[str, ...], Outline] = {}

    def make_outline(self, names: tuple[str, ...]) -> Outline:
        """Make the outline of objects with these names, and keep it unless the names are long or many."""
        fields: FieldSet = {ITSELF: LEAF}
        inner = []
        child, is_struct = self.element, self.kind == "struct"
        for name in sorted(names):
            element = f"f:{name}"
            if is_struct:
                known = self.fields.get(name)
                if known is None or known[1].kind == "ignored":
                    continue
                element, child = known
            fields[element] = LEAF
            if not child.is_atomic:
                inner.append((name, element, child))
        if len(names) <= OUTLINE_NAMES_MAX and len("".join(names)) <= OUTLINE_TEXT_MAX:
            if len(self.outlines) >= OUTLINES_MAX:
                self.outlines.clear()
            self.outlines[names] = fields, inner
        return fields, inner


class _DeferredTypeDef(TypeDef):
    """The definition of a schema's type, whose parts are made at their first use.

    Most parts of most types are never written: those of the fifteen types that a server writes at its start
    would be 150 kB. `__getattr__` is only called for empty slots; others cost nothing.
    Thread-safe: two threads may make the same part, which are equal.
    """

    __slots__ = ("_schema", "_type_defs")

    def __init__(self, kind: TypeDefKind, schema: Schema, type_defs: TypeDefs) -> None:
        super().__init__(kind, is_atomic=kind in ("struct", "map") and schema.map_type == "atomic")
        self._schema, self._type_defs = schema, type_defs
        self.is_marked = False
        del self.has_untyped
        if kind == "struct":
            del self.fields
        else:
            del self.element

    def __getattr__(self, name: str) -> Any:
        match name:
            case "fields":
                self.fields = self._type_defs.fields_of(self._schema)
            case "element":
                self.element = self._type_defs.element_of(self._schema)
            case "has_untyped":
                _mark_untyped(self)
            case _:
                raise AttributeError(name)
        return getattr(self, name)


# A field set with every element, in order; and the names, elements and type definitions of the values that
# are not atomic, whose nodes are yet to be added.
Outline: TypeAlias = tuple[FieldSet, Sequence[tuple[str, str, TypeDef]]]


# The definitions below are shared by all schemas. All that changes in them is `outlines`, a bounded cache.
_IGNORED: Final = {scalar: TypeDef("ignored", scalar=scalar) for scalar in _TYPES}
_SCALAR_DEFS: Final = {kind: TypeDef("scalar", scalar=scalar) for kind, scalar in _SCALARS.items()}
_UNTYPED_SCALAR: Final = TypeDef("scalar", scalar=_ANY_SCALAR)


def _untyped_levels() -> TypeDef:
    type_def = _UNTYPED_ATOMIC
    for _ in range(UNTYPED_LEVELS):
        above = TypeDef("untyped")
        above.element = type_def
        type_def = above
    return type_def


_UNTYPED_ATOMIC: Final = TypeDef("untyped", is_atomic=True)
UNTYPED: Final = _untyped_levels()


_UNDECLARED: Final = TypeDef("untyped")
_UNDECLARED.element = UNTYPED
_UNDECLARED.is_undeclared = True


class _OpenFields(dict[str, tuple[str, TypeDef]]):
    """The fields of a struct that allows undeclared fields."""

    __slots__ = ()

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name) or (f"f:{name}", _UNDECLARED)

    def __copy__(self) -> _OpenFields:
        return _OpenFields(self)


class TypeDefs:
    """The type definitions of schemas that share definitions; each is made once.

    key_defaults: by definition, the defaults for absent keys of list items.
    """

    def __init__(self, key_defaults: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> None:
        self._key_defaults = key_defaults
        self._known: dict[Schema, TypeDef] = {}
        self._metadata: dict[Schema, TypeDef] = {}

    def of_object(self, schema: Schema) -> TypeDef:
        """Returns the type definition of a whole object; fields that the server sets have no owners."""
        type_def = _DeferredTypeDef("struct", schema, self)
        # copy() keeps the class, which may be _OpenFields.
        fields = copy(self.of(schema).fields)
        fields |= {name: (f"f:{name}", _IGNORED["string"]) for name in ("apiVersion", "kind")}
        meta_schema = schema.fields.get("metadata")
        if meta_schema is not None:
            fields["metadata"] = ("f:metadata", self._metadata_of(meta_schema))
        type_def.fields = fields
        return type_def

    def _metadata_of(self, schema: Schema) -> TypeDef:
        known = self._metadata.get(schema)
        if known is None:
            known = self._metadata[schema] = _DeferredTypeDef("struct", schema, self)
            fields = dict(self.of(schema).fields)
            fields |= {name: (f"f:{name}", _IGNORED[scalar]) for name, scalar in _SERVER_FIELDS.items()}
            known.fields = fields
        return known

    def of(self, schema: Schema) -> TypeDef:
        known = self._known.get(schema)
        if known is None:
            known = self._known[schema] = self._made(schema)
        return known

    def _made(self, schema: Schema) -> TypeDef:
        match schema.kind:
            case ValueKind.STRUCT:
                return _DeferredTypeDef("struct", schema, self)
            case ValueKind.MAP | ValueKind.ANY_OBJECT:
                return _DeferredTypeDef("map", schema, self)
            case ValueKind.LIST:
                return self._list(schema)
            case ValueKind.ANY | ValueKind.EITHER:
                return UNTYPED
            case kind:
                return _SCALAR_DEFS.get(kind, _UNTYPED_SCALAR)

    def _list(self, schema: Schema) -> TypeDef:
        kind: TypeDefKind = "list"
        if schema.list_type == "set":
            kind = "set_list"
        elif schema.list_type == "map" and schema.list_map_keys:
            kind = "map_list"
        type_def = _DeferredTypeDef(kind, schema, self)
        assert schema.element is not None
        if kind == "map_list":
            type_def.keys = tuple(
                (name, self._key_default(schema.element, name)) for name in sorted(schema.list_map_keys)
            )
        return type_def

    def _key_default(self, item: Schema, name: str) -> Any:
        """Returns the value of an absent key of a list's items; None if it has no default."""
        named = item.fields.get(name)
        defaults = self._key_defaults.get(item.definition, {})
        if name in defaults or named is None:
            return defaults.get(name)
        go_field = fields_of(item.definition, item.vendor).get(name)
        if named.default is None and go_field is not None and go_field.encodes_zero:
            return None if go_field.is_pointer else _ZERO_KEYS.get(named.kind)
        return named.default

    # ---- the parts of one type definition

    def fields_of(self, schema: Schema) -> dict[str, tuple[str, TypeDef]]:
        """Returns the fields of a struct."""
        fields = {name: (f"f:{name}", self.of(each)) for name, each in schema.fields.items()}
        return _OpenFields(fields) if schema.element else fields

    def element_of(self, schema: Schema) -> TypeDef:
        """Returns the definition of the items of a map or list."""
        if schema.element is None or schema.kind is ValueKind.ANY_OBJECT:
            return UNTYPED
        return self.of(schema.element)


def _mark_untyped(top: TypeDef) -> None:
    """Set `has_untyped` of a type definition and of those below it, which may be recursive."""
    above: dict[TypeDef, list[TypeDef]] = {}
    pending, untyped = [top], list[TypeDef]()
    seen = {top}
    while pending:
        type_def = pending.pop()
        if type_def.is_marked:
            if type_def.has_untyped:
                untyped.append(type_def)
            continue
        if isinstance(type_def.fields, _OpenFields):
            untyped.append(type_def)
        for child in (type_def.element, *(each for _, each in type_def.fields.values())):
            above.setdefault(child, []).append(type_def)
            if child not in seen:
                seen.add(child)
                pending.append(child)
    has_untyped = set[TypeDef]()
    while untyped:
        type_def = untyped.pop()
        if type_def not in has_untyped:
            has_untyped.add(type_def)
            untyped += above.get(type_def, ())
    # Only now: another thread must not read what may change yet.
    for type_def in seen:
        if not type_def.is_marked:
            type_def.has_untyped = type_def in has_untyped
            type_def.is_marked = True


class NoPathElement(ValueError):
    """A list item lacks the keys that distinguish it from the others."""


def path_element(item: Any, type_def: TypeDef) -> str:
    """Returns the path element of an item of a set list or map list. Raises NoPathElement."""
    if len(type_def.keys) == 1 and type(item) is dict:
        name, default = type_def.keys[0]
        value = item.get(name, default)
        if type(value) is str and len(value) <= CACHED_LENGTH_MAX:
            return text_key_element(name, value)
    if type_def.kind == "set_list":
        if type(item) is dict:
            raise NoPathElement("associative list without keys has an element that's a map type")
        if type(item) is list:
            raise NoPathElement("not supported: associative list with lists as elements")
        if item is None:
            raise NoPathElement("associative list without keys has an element that's an explicit null")
        is_short_text = type(item) is str and len(item) <= CACHED_LENGTH_MAX
        return _text_value(item) if is_short_text else value_element(item)
    if not isinstance(item, dict):
        if item is None:
            raise NoPathElement("associative list with keys may not have a null element")
        raise NoPathElement("associative list with keys may not have non-map elements")
    keys = {}
    for name, default in type_def.keys:
        if name in item:
            keys[name] = item[name]
        elif default is not None:
            keys[name] = default
    if not keys:
        names = " ".join(f'"{name}"' for name, _ in type_def.keys)
        raise NoPathElement(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_element(keys)


# The same few names and values come again and again.
@text_cache(4_096)
def text_key_element(name: str, value: str) -> str:
    return key_element({name: value})


@text_cache(4_096)
def _text_value(value: str) -> str:
    return value_element(value)
