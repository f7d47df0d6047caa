"""Random values that a schema allows, as hypothesis draws them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from apiserver.schema.structural import Kind, Schema

# A value has this many levels at most, and so many keys or items, and fields that it need not have, on each.
DEPTH_MAX: Final = 7
FIELDS_MAX: Final = 5
ITEMS_MAX: Final = 3

# Changes a struct that was drawn, in place, so that it says something; also gets how to draw its fields.
Amendment: TypeAlias = Callable[[st.DrawFn, dict[str, Any], Mapping[str, st.SearchStrategy[Any]]], None]
_NO_AMENDMENTS: Final[Mapping[str, Amendment]] = MappingProxyType({})

_TEXTS: Final = st.sampled_from(("", "a", "b", "web", "a.b/c", "10.0.0.1", "80", "50%", "é"))
_NUMBERS: Final = st.sampled_from((0, 1, -1, 80, 2**31 - 1))
_SCALARS: Final[Mapping[Kind, st.SearchStrategy[Any]]] = {
    Kind.STRING: _TEXTS,
    Kind.INTEGER: _NUMBERS,
    Kind.NUMBER: _NUMBERS,
    Kind.BOOLEAN: st.booleans(),
    Kind.BYTES: st.sampled_from(("", "eA==")),
    Kind.TIME: st.just("2024-05-06T07:08:09Z"),
    Kind.MICRO_TIME: st.just("2024-05-06T07:08:09.000001Z"),
    Kind.INT_OR_STRING: _TEXTS | _NUMBERS,
    Kind.QUANTITY: st.sampled_from(("0", "1", "100m", "1Gi")),
    Kind.ANY: st.just({}),
    Kind.ANY_OBJECT: st.just({}),
}


def values(schema: Schema, amendments: Mapping[str, Amendment] = _NO_AMENDMENTS) -> st.SearchStrategy[Any]:
    """Returns values of a schema: sense or nonsense, but of its types, and no null anywhere.

    amendments: make sense of structs, by their names, as `Subject`.
    """
    return _value(schema, 0, amendments)


@st.composite
def _value(draw: st.DrawFn, schema: Schema, depth: int, amendments: Mapping[str, Amendment]) -> Any:
    if schema.kind in _SCALARS:
        return draw(_SCALARS[schema.kind])
    if schema.kind is Kind.STRUCT:
        return draw(_struct(schema, depth, amendments))
    assert schema.element is not None
    if schema.kind is Kind.EITHER:
        assert schema.other is not None
        return draw(_value(draw(st.sampled_from((schema.element, schema.other))), depth, amendments))
    element = _value(schema.element, depth + 1, amendments)
    size_max = ITEMS_MAX if depth < DEPTH_MAX else 0
    if schema.kind is Kind.LIST:
        return draw(st.lists(element, max_size=size_max))
    return draw(st.dictionaries(_TEXTS, element, max_size=size_max))


@st.composite
def _struct(
    draw: st.DrawFn, schema: Schema, depth: int, amendments: Mapping[str, Amendment]
) -> dict[str, Any]:
    fields = {name: _value(each, depth + 1, amendments) for name, each in sorted(schema.fields.items())}
    count_max = FIELDS_MAX if depth < DEPTH_MAX and fields else 0
    names = draw(st.lists(st.sampled_from([*fields] or [""]), max_size=count_max, unique=True))
    required = sorted(schema.required & fields.keys()) if depth < DEPTH_MAX else ()
    drawn = {name: draw(fields[name]) for name in dict.fromkeys((*required, *names))}
    if schema.struct_name in amendments:
        amendments[schema.struct_name](draw, drawn, fields)
    return drawn
