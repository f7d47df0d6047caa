"""Properties of all schemas and all documents."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import assume, given

from apiserver.custom_resources.schemas.correlation import Correlation
from apiserver.custom_resources.schemas.custom_schema import CustomSchema
from apiserver.custom_resources.schemas.embedded_resources import embedded_resources
from apiserver.custom_resources.schemas.validation import SchemaValidator
from apiserver.schema.compile import TypeMismatch
from apiserver.schema.extensions import Extensions

from .random_schemas import LOGIC, SCHEMAS, VALUES
from .samples import LIST_TYPE, VENDOR, of, root


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
    of_lists_and_embedded = custom.validate_parts(document, copy.deepcopy(document))
    assert of_lists_and_embedded == embedded_resources(custom.document, custom.extensions).check(document)


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
