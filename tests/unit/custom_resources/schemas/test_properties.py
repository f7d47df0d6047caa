"""Properties of all schemas and all documents."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

import orjson
from hypothesis import assume, given
from hypothesis import strategies as st

from apiserver.custom_resources.schemas.correlation import Correlation
from apiserver.custom_resources.schemas.custom_schema import CustomSchema
from apiserver.custom_resources.schemas.validation import SchemaValidator
from apiserver.schema.compile import TypeMismatch
from apiserver.schema.extensions import Extensions

from .samples import (
    INT_OR_STRING,
    KEEPS_UNKNOWN,
    LIST_TYPE,
    RESOURCE,
    VENDOR,
    by_key,
    items,
    of,
    root,
    values,
)

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


def prune(custom: CustomSchema, document: dict[str, Any]) -> list[str]:
    """What nobody knows in a document. One that is refused says nothing more: it has a wrong kind, say, which
    may also come from a default that no definition could have.
    """
    try:
        return custom.pruner(document)
    except TypeMismatch:
        assume(False)
        raise


def walked(custom: CustomSchema, document: dict[str, Any]) -> dict[str, Any]:
    document = copy.deepcopy(document)
    prune(custom, document)
    return document


@given(SCHEMAS, VALUES)
def test_a_walk_leaves_nothing_for_a_second(schema: dict[str, Any], value: Any) -> None:
    custom = root(of(v=schema))
    once = walked(custom, {"v": value})
    twice = copy.deepcopy(once)
    assert prune(custom, twice) == []
    assert repr(twice) == repr(once)
    assert not custom.pruner.prune_and_default(twice)


@given(SCHEMAS, VALUES)
def test_stored_objects_are_completed_once(schema: dict[str, Any], value: Any) -> None:
    pruner = root(of(v=schema)).pruner
    document = {"v": copy.deepcopy(value)}
    has_changed = pruner.prune_and_default(document)
    assert has_changed or document == {"v": value}
    assert not pruner.prune_and_default(document)


@given(SCHEMAS | LOGIC, VALUES)
def test_a_value_that_is_wrong_has_a_reason_and_no_other(schema: dict[str, Any], value: Any) -> None:
    validator = SchemaValidator(schema, Extensions(VENDOR))
    assert validator.is_valid(value) is not bool(validator.validate(value, "v"))
    assert validator.matches(value) >= 0


def littered(value: Any) -> Any:
    """With a field in every object that no schema knows."""
    if type(value) is dict:
        return {name: littered(child) for name, child in value.items()} | {"zz": {"a": [{"a": 1}]}}
    return [littered(child) for child in value] if type(value) is list else value


@given(SCHEMAS, VALUES)
def test_unknown_parts_make_no_difference(schema: dict[str, Any], value: Any) -> None:
    assume(not any(word in repr(schema) for word in ("additionalProperties", "preserve-unknown")))
    custom = root(of(v=schema))
    kept = walked(custom, {"v": value})
    other = littered(kept)
    assert "zz" in prune(custom, other)
    assert repr(other) == repr(kept)
    assert custom.validate(other) == custom.validate(kept)


@given(SCHEMAS, VALUES)
def test_an_update_that_changes_nothing_is_refused_only_for_fields_without_a_schema(
    schema: dict[str, Any], value: Any
) -> None:
    custom = root(of(v=schema))
    document = {"v": value}
    errors = custom.validate_values(document, copy.deepcopy(document))
    assert not errors or not custom.correlate(document, copy.deepcopy(document)).is_unchanged
    assert custom.validate_lists(document, copy.deepcopy(document)) == []


@given(SCHEMAS, VALUES, VALUES)
def test_an_old_value_excuses_and_never_accuses(schema: dict[str, Any], new: Any, old: Any) -> None:
    custom = root(of(v=schema))
    alone = {error.field for error in custom.validate_values({"v": new})}
    assert {error.field for error in custom.validate_values({"v": new}, {"v": old})} <= alone


@given(SCHEMAS, VALUES, VALUES)
def test_unchanged_is_equal_but_for_the_order_of_keyed_lists(
    schema: dict[str, Any], new: Any, old: Any
) -> None:
    is_equal = json.dumps(new, sort_keys=True) == json.dumps(old, sort_keys=True)
    is_unchanged = Correlation(new, old, schema, Extensions(VENDOR)).is_unchanged
    assert is_equal or not is_unchanged or f"'{LIST_TYPE}': 'map'" in repr(schema)


@given(SCHEMAS, VALUES)
def test_equal_is_unchanged_but_for_objects_and_keyed_lists(schema: dict[str, Any], new: Any) -> None:
    """Their fields may have no schema, and their items no keys."""
    is_unchanged = Correlation(new, copy.deepcopy(new), schema, Extensions(VENDOR)).is_unchanged
    assert is_unchanged or type(new) is dict or schema.get(LIST_TYPE) == "map"


@given(SCHEMAS)
def test_any_schema_has_a_structure(schema: dict[str, Any]) -> None:
    assert root(of(v=schema)).schema.fields["v"] is not None
