"""Random values that a schema allows, as hypothesis draws them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from hypothesis import strategies as st

from apiserver.schema.structural import Schema, ValueKind

# A value has this many levels at most, and so many keys or items, and fields that it need not have, on each.
DEPTH_MAX: Final = 7
FIELDS_MAX: Final = 5
ITEMS_MAX: Final = 3

# Changes a struct that was drawn, in place, so that it says something; also gets how to draw its fields.
Amendment: TypeAlias = Callable[[st.DrawFn, dict[str, Any], Mapping[str, st.SearchStrategy[Any]]], None]

_TEXTS: Final = st.sampled_from(("", "a", "b", "web", "a.b/c", "10.0.0.1", "80", "50%", "é"))
_NUMBERS: Final = st.sampled_from((0, 1, -1, 80, 2**31 - 1))
_SCALARS: Final[Mapping[ValueKind, st.SearchStrategy[Any]]] = {
    ValueKind.STRING: _TEXTS,
    ValueKind.INTEGER: _NUMBERS,
    ValueKind.NUMBER: _NUMBERS,
    ValueKind.BOOLEAN: st.booleans(),
    ValueKind.BYTES: st.sampled_from(("", "eA==")),
    ValueKind.TIME: st.just("2024-05-06T07:08:09Z"),
    ValueKind.MICRO_TIME: st.just("2024-05-06T07:08:09.000001Z"),
    ValueKind.INT_OR_STRING: _TEXTS | _NUMBERS,
    ValueKind.QUANTITY: st.sampled_from(("0", "1", "100m", "1Gi")),
    ValueKind.ANY: st.just({}),
    ValueKind.ANY_OBJECT: st.just({}),
}


class _Struct(NamedTuple):
    """How a struct is drawn: its fields, names of some, those that it needs, and what makes sense of it."""

    fields: Mapping[str, st.SearchStrategy[Any]]
    names: st.SearchStrategy[list[str]]
    required: tuple[str, ...]
    amend: Amendment | None


class SchemaValues:
    """Values of schemas: sense or nonsense, but of their types, and no null anywhere.

    The strategy of a schema on a level is made once: to make those of all fields of each struct takes many
    times longer than to draw the few that it has.

    amendments: make sense of structs, by their names, as `Subject`.
    """

    def __init__(self, amendments: Mapping[str, Amendment]) -> None:
        self._amendments = amendments
        self._values: dict[tuple[Schema, int], st.SearchStrategy[Any]] = {}
        self._structs: dict[tuple[Schema, int], _Struct] = {}

    def of(self, schema: Schema, depth: int = 0) -> st.SearchStrategy[Any]:
        """Returns the values of a schema. depth: how many levels are around them."""
        found = self._values.get((schema, depth))
        if found is None:
            found = self._values[schema, depth] = self._new(schema, depth)
        return found

    def _new(self, schema: Schema, depth: int) -> st.SearchStrategy[Any]:
        if schema.kind in _SCALARS:
            return _SCALARS[schema.kind]
        if schema.kind is ValueKind.STRUCT:
            return _documents(partial(self._struct, schema, depth))
        assert schema.element is not None
        if schema.kind is ValueKind.EITHER:
            assert schema.other is not None
            schemas = st.sampled_from((schema.element, schema.other))
            return schemas.flatmap(lambda each: self.of(each, depth))
        element = self.of(schema.element, depth + 1)
        size_max = ITEMS_MAX if depth < DEPTH_MAX else 0
        if schema.kind is ValueKind.LIST:
            return st.lists(element, max_size=size_max)
        return st.dictionaries(_TEXTS, element, max_size=size_max)

    def _struct(self, schema: Schema, depth: int) -> _Struct:
        found = self._structs.get((schema, depth))
        if found is None:
            fields = {name: self.of(each, depth + 1) for name, each in sorted(schema.fields.items())}
            count_max = FIELDS_MAX if depth < DEPTH_MAX and fields else 0
            names = st.lists(st.sampled_from([*fields] or [""]), max_size=count_max, unique=True)
            required = sorted(schema.required & fields.keys()) if depth < DEPTH_MAX else ()
            amend = self._amendments.get(schema.struct_name)
            found = self._structs[schema, depth] = _Struct(fields, names, tuple(required), amend)
        return found


@st.composite
def _documents(draw: st.DrawFn, struct_of: Callable[[], _Struct]) -> dict[str, Any]:
    """A struct is looked at only when it is drawn: it may have fields of its own type."""
    struct = struct_of()
    names = draw(struct.names)
    drawn = {name: draw(struct.fields[name]) for name in dict.fromkeys((*struct.required, *names))}
    if struct.amend is not None:
        struct.amend(draw, drawn, struct.fields)
    return drawn


def nested(levels: int) -> Any:
    """Returns an object in an object, as deep as this."""
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value
