"""No breaking change of a random schema is overlooked."""

from __future__ import annotations

import copy
from typing import Any, Final

from hypothesis import event, given
from hypothesis import strategies as st

from apiserver.custom_resources.definitions.comparison.schema_changes import SchemaComparison
from apiserver.custom_resources.definitions.validation.schema_defaults import DefaultsValidator
from apiserver.custom_resources.definitions.validation.structural_schemas import validate_structural
from apiserver.custom_resources.schemas.custom_schema import CustomSchema
from apiserver.custom_resources.schemas.json_schema import all_schemas
from apiserver.schema.compile import TypeMismatch
from apiserver.schema.extensions import Extensions
from tests.unit.custom_resources.schemas.random_schemas import NAMES, SCALARS, SCHEMAS, VALUES
from tests.unit.custom_resources.schemas.samples import INT_OR_STRING, KEEPS_UNKNOWN, META, VENDOR, of, root

X: Final = Extensions(VENDOR)
Schema = dict[str, Any]
TEXTS: Final = st.sampled_from(["", "a", "ab", "bb", "2024-02-29"])
INTEGERS: Final = st.integers(-3, 3) | st.just(1 << 31)


@st.composite
def changed(draw: st.DrawFn, schema: Schema) -> Schema:
    """A schema with other keywords in one of the schemas in it."""
    new = copy.deepcopy(schema)
    node: Any = draw(st.sampled_from(list(all_schemas(new))))
    other = draw(SCHEMAS)
    taken = draw(st.lists(st.sampled_from(sorted(other)), unique=True))
    removed = draw(st.lists(st.sampled_from(sorted(node)), max_size=1)) if node else []
    for keyword in removed:
        del node[keyword]
    node.update({keyword: other[keyword] for keyword in taken})
    if node.get("type") not in ("object", None):
        node.pop("properties", None)
    return new


def values_of(schema: Schema) -> st.SearchStrategy[Any]:
    """Values, most of which fit a schema."""
    if schema.get("enum"):
        return st.sampled_from(schema["enum"])
    if schema.get(X.int_or_string):
        return TEXTS | INTEGERS
    match schema.get("type"):
        case "object":
            known = {name: values_of(each) for name, each in (schema.get("properties") or {}).items()}
            others = schema.get("additionalProperties")
            more = values_of(others) if isinstance(others, dict) else SCALARS
            drawn = st.fixed_dictionaries({}, optional=known)
            return st.builds(lambda one, two: {**two, **one}, drawn, st.dictionaries(NAMES, more, max_size=2))
        case "array":
            return st.lists(values_of(schema.get("items") or {}), max_size=3)
        case "string":
            return TEXTS
        case "integer":
            return INTEGERS
        case "number":
            return INTEGERS | st.sampled_from([0.5, -1.5])
        case "boolean":
            return st.booleans()
        case _:
            return VALUES


def stored(custom: CustomSchema, document: Any) -> Any:
    """A document as the server stores it; None if it is refused."""
    document = copy.deepcopy(document)
    try:
        custom.pruner(document)
    except TypeMismatch:
        return None
    return None if custom.validate(document) else document


def has_all(whole: Any, part: Any) -> bool:
    """Whether a value has all parts of another: it may have more fields."""
    if type(part) is dict and type(whole) is dict:
        return all(name in whole and has_all(whole[name], value) for name, value in part.items())
    if type(part) is list and type(whole) is list:
        return len(whole) == len(part) and all(map(has_all, whole, part))
    return repr(whole) == repr(part)


def is_valid(schema: Schema) -> bool:
    """Whether a definition may have a schema."""
    if validate_structural("v", of(v=schema), X):
        return False
    return not DefaultsValidator(X, lambda: META).validate("v", of(v=schema))


def mended(schema: Schema) -> Schema:
    """A schema without what most often makes it invalid, if it is."""
    for keywords in (("allOf", "anyOf", "oneOf", "not"), ("default",), (X.list_type, X.list_map_keys)):
        if is_valid(schema):
            break
        schema = copy.deepcopy(schema)
        for node in all_schemas(schema):
            assert isinstance(node, dict)
            for keyword in keywords:
                node.pop(keyword, None)
    return schema


@given(st.data())
def test_what_is_not_breaking_keeps_all_values(data: st.DataObject) -> None:
    old = mended(data.draw(SCHEMAS))
    new = mended(data.draw(changed(old)))
    if not (is_valid(old) and is_valid(new)):
        event("not valid")
        return
    value = data.draw(values_of(old) | VALUES)
    before = stored(root(of(v=old)), {"v": value})
    if before is None:
        event("refused before")
        return
    changes = SchemaComparison(X).changes(of(v=old), of(v=new))
    if any(change.is_breaking for change in changes):
        event("breaking")
        return
    event("compatible")
    after = stored(root(of(v=new)), before)
    assert after is not None, (old, new, before, changes)
    assert has_all(after, before), (old, new, before, after, changes)


def test_a_list_that_keeps_unknown_fields_of_its_items() -> None:
    item = {"type": "object", "properties": {"a": INT_OR_STRING}}
    old = {"type": "array", "items": item, **KEEPS_UNKNOWN}
    (change,) = SchemaComparison(X).changes(of(v=old), of(v={"type": "array", "items": item}))
    assert (change.kind, change.path, change.is_breaking) == ("PreserveUnknownFieldsRemoved", "v[*]", True)
