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

from apiserver.apply.field_set import ITSELF, LEAF, FieldSet, item_key, item_value
from apiserver.schema.structural import Kind, Schema

# Objects without a schema are owned by their parts down to this level, then whole.
FREE_LEVELS: Final = 100
# How many outlines a shape keeps, of how many names, and how long these are together at most.
ALIKE_MAX: Final = 128
ALIKE_NAMES_MAX: Final = 32
ALIKE_TEXT_MAX: Final = 500

What = Literal["ignored", "scalar", "struct", "map", "list", "items", "set", "free"]
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
_OWN_META: Final = frozenset(
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


class Shape:
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
        "is_loose",
        "is_undeclared",
        "is_whole",
        "keys",
        "scalar",
        "types",
        "what",
    )

    def __init__(self, what: What, *, is_whole: bool = False, scalar: str = "") -> None:
        self.what: What = what
        self.container: type[Any] = list if what in ("items", "set") else dict
        self.is_whole = is_whole or what in ("scalar", "list")
        self.scalar = scalar
        self.types = _TYPES.get(scalar, ())
        self.fields: dict[str, tuple[str, Shape]] = {}
        self.element: Shape = self
        self.keys: tuple[tuple[str, Any], ...] = ()
        self.is_undeclared = False
        self.is_loose = what == "free"
        self.alike: dict[tuple[str, ...], Outline] = {}

    def work_out(self, names: tuple[str, ...]) -> Outline:
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
        if len(names) <= ALIKE_NAMES_MAX and len("".join(names)) <= ALIKE_TEXT_MAX:
            if len(self.alike) >= ALIKE_MAX:
                self.alike.clear()
            self.alike[names] = fields, inner
        return fields, inner


# A set that has every element, in order, and the names, elements and shapes of the values that are not owned
# as a whole: what is owned of these has yet to be put there.
Outline: TypeAlias = tuple[FieldSet, Sequence[tuple[str, str, Shape]]]


IGNORED: Final = Shape("ignored")
_SCALAR_SHAPES: Final = {kind: Shape("scalar", scalar=scalar) for kind, scalar in _SCALARS.items()}
_UNTYPED: Final = Shape("scalar")


def _free_shapes() -> Shape:
    shape = _ANY_WHOLE
    for _ in range(FREE_LEVELS):
        above = Shape("free")
        above.element = shape
        shape = above
    return shape


_ANY_WHOLE: Final = Shape("free", is_whole=True)
FREE: Final = _free_shapes()


_UNDECLARED: Final = Shape("free")
_UNDECLARED.element = FREE
_UNDECLARED.is_undeclared = True


class _OpenFields(dict[str, tuple[str, Shape]]):
    """Of a struct that may have fields which it does not name."""

    __slots__ = ()

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name) or (f"f:{name}", _UNDECLARED)

    def __copy__(self) -> _OpenFields:
        return _OpenFields(self)


class Shapes:
    """Shapes of schemas that share definitions: each is worked out once.

    key_defaults: by definition, what absent keys of a list's items mean.
    """

    def __init__(self, key_defaults: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> None:
        self._key_defaults = key_defaults
        # By id of the schema, which is kept, too, so that no other gets its id.
        self._known: dict[int, tuple[Schema, Shape]] = {}

    def of_object(self, schema: Schema) -> Shape:
        """Of a whole object: what the server itself sets in it belongs to nobody."""
        found = self.of(schema)
        shape = Shape("struct")
        # Copied as what it is: it may have fields that the schema does not name.
        shape.fields = copy(found.fields)
        shape.fields |= {"apiVersion": ("f:apiVersion", IGNORED), "kind": ("f:kind", IGNORED)}
        meta_schema = schema.fields.get("metadata")
        if meta_schema is not None:
            meta = Shape("struct")
            meta.fields = dict(self.of(meta_schema).fields)
            for name in _OWN_META:
                meta.fields[name] = (f"f:{name}", IGNORED)
            shape.fields["metadata"] = ("f:metadata", meta)
        _mark_loose(shape)
        return shape

    def of(self, schema: Schema) -> Shape:
        known = self._known.get(id(schema))
        if known is not None:
            return known[1]
        match schema.kind:
            case Kind.STRUCT:
                shape = Shape("struct", is_whole=schema.map_type == "atomic")
                self._known[id(schema)] = schema, shape  # before its fields: schemas refer to themselves
                fields = {name: (f"f:{name}", self.of(each)) for name, each in schema.fields.items()}
                shape.fields = _OpenFields(fields) if schema.element else fields
            case Kind.MAP:
                shape = Shape("map", is_whole=schema.map_type == "atomic")
                self._known[id(schema)] = schema, shape
                shape.element = self.of(schema.element) if schema.element else FREE
            case Kind.ANY_OBJECT:
                shape = Shape("map", is_whole=schema.map_type == "atomic")
                shape.element = FREE
            case Kind.LIST:
                shape = self._list(schema)
            case Kind.ANY | Kind.EITHER:
                shape = FREE
            case kind:
                shape = _SCALAR_SHAPES.get(kind, _UNTYPED)
        self._known[id(schema)] = schema, shape
        return shape

    def _list(self, schema: Schema) -> Shape:
        what: What = "list"
        if schema.list_type == "set":
            what = "set"
        elif schema.list_type == "map" and schema.list_map_keys:
            what = "items"
        shape = Shape(what)
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


def _mark_loose(top: Shape) -> None:
    """Tell each shape whether it is loose, from below: shapes may refer to themselves."""
    above: dict[Shape, list[Shape]] = {}
    pending, loose = [top], list[Shape]()
    seen = {top}
    while pending:
        shape = pending.pop()
        if shape.is_loose:
            loose.append(shape)
            continue
        if isinstance(shape.fields, _OpenFields):
            loose.append(shape)
        for child in (shape.element, *(each for _, each in shape.fields.values())):
            above.setdefault(child, []).append(shape)
            if child not in seen:
                seen.add(child)
                pending.append(child)
    while loose:
        shape = loose.pop()
        shape.is_loose = True
        loose += [each for each in above.get(shape, ()) if not each.is_loose]


class NoElement(ValueError):
    """A list's item that cannot be told from the others."""


def element_of(item: Any, shape: Shape) -> str:
    """The path element of an item of a list whose items are owned. Raises NoElement."""
    if len(shape.keys) == 1 and type(item) is dict:
        name, default = shape.keys[0]
        value = item.get(name, default)
        if type(value) is str:
            return text_key(name, value)
    if shape.what == "set":
        if item is None or isinstance(item, dict):
            raise NoElement("associative list without keys has an element that's not a scalar")
        return _text_value(item) if type(item) is str else item_value(item)
    if not isinstance(item, dict):
        if item is None:
            raise NoElement("associative list with keys may not have a null element")
        raise NoElement("associative list with keys may not have non-map elements")
    keys = {}
    for name, default in shape.keys:
        value = item.get(name, default)
        if value is not None:
            keys[name] = value
    if not keys:
        names = ", ".join(f'"{name}"' for name, _ in shape.keys)
        raise NoElement(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return item_key(keys)


# Names are few, and come again and again.
@lru_cache(maxsize=4096)
def text_key(name: str, value: str) -> str:
    return item_key({name: value})


@lru_cache(maxsize=4096)
def _text_value(value: str) -> str:
    return item_value(value)
