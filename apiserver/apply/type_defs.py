"""A schema as ownership sees it: which values are owned as a whole, and which by their parts.

One rule for all: scalars, atomic objects and atomic lists are owned whole; other objects by their fields or
keys, lists of the types `set` and `map` by their items. What has no schema is owned as it looks: objects by
their keys, all else whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from apiserver.apply.field_set import ITSELF, LEAF, FieldSet, key_element, value_element
from apiserver.schema.structural import Kind, Schema

# Objects without a schema are owned by their parts down to this level, then whole.
UNTYPED_LEVELS: Final = 100
# How many outlines a shape keeps, of how many names, and how long these are together at most.
OUTLINES_MAX: Final = 128
OUTLINE_NAMES_MAX: Final = 32
OUTLINE_TEXT_MAX: Final = 500

TypeDefKind = Literal["ignored", "scalar", "struct", "map", "list", "items", "set", "free"]
_SCALARS: Final[Mapping[Kind, str]] = {
    Kind.STRING: "string",
    Kind.BYTES: "string",
    Kind.TIME: "string",
    Kind.MICRO_TIME: "string",
    Kind.INTEGER: "numeric",
    Kind.NUMBER: "numeric",
    Kind.BOOLEAN: "boolean",
    Kind.QUANTITY: "quantity",
}
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "numeric": (int, float),
    "boolean": (bool,),
}
# What a key of a list's items means where it is absent; the definitions do not say it.
KEY_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "io.k8s.api.core.v1.ContainerPort": {"protocol": "TCP"},
    "io.k8s.api.core.v1.ServicePort": {"protocol": "TCP"},
}
# The server's own, whoever writes them.
_SERVER_FIELDS: Final = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)


class TypeDef:
    """One value's.

    is_whole: it is owned as a whole.
    container: the type, in Python, of what is owned by its parts.
    scalar: the type that a scalar has to have, in messages; or empty. types: in Python; empty are all.
    fields: of a struct, each with its path element. element: of maps and lists.
    keys: that tell a list's items apart, in order, with their defaults (None: there is none).
    is_undeclared: a field's that its struct does not name, which is owned itself, as a map's values are.
    is_loose: in it, or below, are values without a schema: true may come to stand where 1 stood.
    alike: what the sets of objects with certain names have in common.
    """

    __slots__ = (
        "alike",
        "container",
        "element",
        "fields",
        "has_untyped",
        "is_undeclared",
        "is_whole",
        "keys",
        "scalar",
        "types",
        "what",
    )

    def __init__(self, what: TypeDefKind, *, is_whole: bool = False, scalar: str = "") -> None:
        self.what: TypeDefKind = what
        self.container: type[Any] = list if what in ("items", "set") else dict
        self.is_whole = is_whole or what in ("scalar", "list")
        self.scalar = scalar
        self.types = _TYPES.get(scalar, ())
        self.fields: dict[str, tuple[str, TypeDef]] = {}
        self.element: TypeDef = self
        self.keys: tuple[tuple[str, Any], ...] = ()
        self.is_undeclared = False
        self.has_untyped = what == "free"
        self.alike: dict[tuple[str, ...], Outline] = {}

    def make_outline(self, names: tuple[str, ...]) -> Outline:
        """Of `alike`. Names are few, and come again and again; where they do not, little is kept."""
        fields: FieldSet = {ITSELF: LEAF}
        inner = []
        child, is_struct = self.element, self.what == "struct"
        for name in sorted(names):
            element = f"f:{name}"
            if is_struct:
                known = self.fields.get(name)
                if known is None or known[1].what == "ignored":
                    continue
                element, child = known
            fields[element] = LEAF
            if not child.is_whole:
                inner.append((name, element, child))
        if len(names) <= OUTLINE_NAMES_MAX and len("".join(names)) <= OUTLINE_TEXT_MAX:
            if len(self.alike) >= OUTLINES_MAX:
                self.alike.clear()
            self.alike[names] = fields, inner
        return fields, inner


# A set that has every element, in order, and the names, elements and shapes of the values that are not owned
# as a whole: what is owned of these has yet to be put there.
Outline: TypeAlias = tuple[FieldSet, Sequence[tuple[str, str, TypeDef]]]


IGNORED: Final = TypeDef("ignored")
_SCALAR_DEFS: Final = {kind: TypeDef("scalar", scalar=scalar) for kind, scalar in _SCALARS.items()}
_UNTYPED_SCALAR: Final = TypeDef("scalar")


def _untyped_levels() -> TypeDef:
    shape = _UNTYPED_ATOMIC
    for _ in range(UNTYPED_LEVELS):
        above = TypeDef("free")
        above.element = shape
        shape = above
    return shape


_UNTYPED_ATOMIC: Final = TypeDef("free", is_whole=True)
FREE: Final = _untyped_levels()


_UNDECLARED: Final = TypeDef("free")
_UNDECLARED.element = FREE
_UNDECLARED.is_undeclared = True


class _OpenFields(dict[str, tuple[str, TypeDef]]):
    """Of a struct that may have fields which it does not name."""

    __slots__ = ()

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name) or (f"f:{name}", _UNDECLARED)

    def __copy__(self) -> _OpenFields:
        return _OpenFields(self)


class TypeDefs:
    """Shapes of schemas that share definitions: each is worked out once.

    key_defaults: by definition, what absent keys of a list's items mean.
    """

    def __init__(self, key_defaults: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> None:
        self._key_defaults = key_defaults
        # By id of the schema, which is kept, too, so that no other gets its id.
        self._known: dict[int, tuple[Schema, TypeDef]] = {}

    def of_object(self, schema: Schema) -> TypeDef:
        """Of a whole object: what the server itself sets in it belongs to nobody."""
        found = self.of(schema)
        shape = TypeDef("struct")
        # Copied as what it is: it may have fields that the schema does not name.
        shape.fields = copy(found.fields)
        shape.fields |= {"apiVersion": ("f:apiVersion", IGNORED), "kind": ("f:kind", IGNORED)}
        meta_schema = schema.fields.get("metadata")
        if meta_schema is not None:
            meta = TypeDef("struct")
            meta.fields = dict(self.of(meta_schema).fields)
            for name in _SERVER_FIELDS:
                meta.fields[name] = (f"f:{name}", IGNORED)
            shape.fields["metadata"] = ("f:metadata", meta)
        _mark_untyped(shape)
        return shape

    def of(self, schema: Schema) -> TypeDef:
        known = self._known.get(id(schema))
        if known is not None:
            return known[1]
        match schema.kind:
            case Kind.STRUCT:
                shape = TypeDef("struct", is_whole=schema.map_type == "atomic")
                self._known[id(schema)] = schema, shape  # before its fields: schemas refer to themselves
                fields = {name: (f"f:{name}", self.of(each)) for name, each in schema.fields.items()}
                shape.fields = _OpenFields(fields) if schema.element else fields
            case Kind.MAP:
                shape = TypeDef("map", is_whole=schema.map_type == "atomic")
                self._known[id(schema)] = schema, shape
                shape.element = self.of(schema.element) if schema.element else FREE
            case Kind.ANY_OBJECT:
                shape = TypeDef("map", is_whole=schema.map_type == "atomic")
                shape.element = FREE
            case Kind.LIST:
                shape = self._list(schema)
            case Kind.ANY | Kind.EITHER:
                shape = FREE
            case kind:
                shape = _SCALAR_DEFS.get(kind, _UNTYPED_SCALAR)
        self._known[id(schema)] = schema, shape
        return shape

    def _list(self, schema: Schema) -> TypeDef:
        what: TypeDefKind = "list"
        if schema.list_type == "set":
            what = "set"
        elif schema.list_type == "map" and schema.list_map_keys:
            what = "items"
        shape = TypeDef(what)
        self._known[id(schema)] = schema, shape
        assert schema.element is not None
        shape.element = self.of(schema.element)
        if what == "items":
            defaults = self._key_defaults.get(schema.element.definition, {})
            named = schema.element.fields
            shape.keys = tuple(
                (name, defaults.get(name, named[name].default if name in named else None))
                for name in sorted(schema.list_map_keys)
            )
        return shape


def _mark_untyped(top: TypeDef) -> None:
    """Tell each shape whether it is loose, from below: shapes may refer to themselves."""
    above: dict[TypeDef, list[TypeDef]] = {}
    pending, untyped = [top], list[TypeDef]()
    seen = {top}
    while pending:
        shape = pending.pop()
        if shape.has_untyped:
            untyped.append(shape)
            continue
        if isinstance(shape.fields, _OpenFields):
            untyped.append(shape)
        for child in (shape.element, *(each for _, each in shape.fields.values())):
            above.setdefault(child, []).append(shape)
            if child not in seen:
                seen.add(child)
                pending.append(child)
    while untyped:
        shape = untyped.pop()
        shape.has_untyped = True
        untyped += [each for each in above.get(shape, ()) if not each.has_untyped]


class NoPathElement(ValueError):
    """A list's item that cannot be told from the others."""


def path_element(item: Any, shape: TypeDef) -> str:
    """The path element of an item of a list whose items are owned. Raises NoElement."""
    if len(shape.keys) == 1 and type(item) is dict:
        name, default = shape.keys[0]
        value = item.get(name, default)
        if type(value) is str:
            return text_key_element(name, value)
    if shape.what == "set":
        if item is None or isinstance(item, dict):
            raise NoPathElement("associative list without keys has an element that's not a scalar")
        return _text_value(item) if type(item) is str else value_element(item)
    if not isinstance(item, dict):
        if item is None:
            raise NoPathElement("associative list with keys may not have a null element")
        raise NoPathElement("associative list with keys may not have non-map elements")
    keys = {}
    for name, default in shape.keys:
        value = item.get(name, default)
        if value is not None:
            keys[name] = value
    if not keys:
        names = ", ".join(f'"{name}"' for name, _ in shape.keys)
        raise NoPathElement(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_element(keys)


# Names are few, and come again and again.
@lru_cache(maxsize=4096)
def text_key_element(name: str, value: str) -> str:
    return key_element({name: value})


@lru_cache(maxsize=4096)
def _text_value(value: str) -> str:
    return value_element(value)
