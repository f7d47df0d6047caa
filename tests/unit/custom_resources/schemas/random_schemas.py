"""Random schemas of custom resources, and values for them, as hypothesis draws them."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson
from hypothesis import strategies as st

from .samples import INT_OR_STRING, KEEPS_UNKNOWN, LIST_TYPE, RESOURCE, by_key, items, of, values

NAMES: Final = st.sampled_from(["a", "b", "c", "kind", "metadata"])
NUMBERS: Final = st.integers(-3, 3) | st.sampled_from([0.5, -1.0, 2.0, 1e300, 1 << 63, 1 << 31, -(1 << 70)])
SCALARS: Final = st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "a", "bb", "2024-02-29", "ä"])
VALUES: Final = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def _decoded(some_values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """As they are in a definition: whole numbers of more than 64 bits are floats there."""
    return some_values.map(lambda value: orjson.loads(json.dumps(value)))


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


CONSTRAINTS: Final = some(
    minimum=NUMBERS,
    maximum=NUMBERS,
    exclusiveMaximum=st.booleans(),
    multipleOf=st.sampled_from([1, 2, 0.5]),
    maxLength=st.integers(0, 2),
    minLength=st.integers(0, 2),
    pattern=st.sampled_from(["^a", "b", "^$"]),
    maxItems=st.integers(0, 2),
    minProperties=st.integers(0, 2),
    maxProperties=st.integers(0, 2),
    required=st.lists(NAMES, max_size=2, unique=True),
    enum=st.lists(VALUES, min_size=1, max_size=3),
)
FORMATS: Final = st.sampled_from(["date", "int32", "float", "double", "uuid", "zip", ""])
LOGIC: Final = st.recursive(
    CONSTRAINTS,
    lambda inner: some(
        allOf=st.lists(inner, max_size=2),
        anyOf=st.lists(inner, max_size=2),
        oneOf=st.lists(inner, max_size=2),
        properties=st.dictionaries(NAMES, inner, max_size=2),
        items=inner,
        **{"not": inner},
    ),
    max_leaves=5,
)
TYPES: Final = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        INT_OR_STRING,
        KEEPS_UNKNOWN,
    ]
)


def _merged(*parts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


SCALAR_SCHEMAS: Final = st.builds(
    _merged, TYPES, LOGIC, some(format=FORMATS, nullable=st.booleans(), default=_decoded(SCALARS))
)


def _resource(fields: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a resource has its own schema, as in every definition."""
    return RESOURCE | of(**{name: schema for name, schema in fields.items() if name != "metadata"})


def _containers(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    fields = st.dictionaries(NAMES, inner, max_size=3)
    more = some(nullable=st.booleans(), default=_decoded(VALUES))
    shapes = (
        fields.map(lambda known: of(**known))
        | fields.map(lambda known: of(**known) | KEEPS_UNKNOWN)
        | fields.map(_resource)
        | inner.map(values)
        | inner.map(items)
        | inner.map(lambda known: items(known, **{LIST_TYPE: "set"}))
        | inner.map(lambda known: by_key(of(a=known), "a"))
    )
    return st.builds(
        _merged, shapes, more, LOGIC.map(lambda logic: {k: v for k, v in logic.items() if k[-1] == "f"})
    )


SCHEMAS: Final = st.recursive(SCALAR_SCHEMAS, _containers, max_leaves=6)
