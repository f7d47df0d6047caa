"""Random models: the server accepts their definitions, and the objects that Python accepts.

These differ, and no object here has them: null for a field with a default is the default for the server and
an error for pydantic; the fields of the other classes of a union stay, and get no defaults; items of sets are
unique; numbers have 64 bits; a Decimal may have a unit; bytes are base64; times have a time zone; the server
accepts a list in place of a text with a format, as kube-apiserver does.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Final, get_origin

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apiserver.types import crd, definition
from apiserver.types.errors import InvalidObject
from apiserver.types.instances.decoder import InstanceDecoder
from tests.unit.types.checks import custom_schema, problems
from tests.unit.types.random_models import (
    KINDS,
    Container,
    OptionalOf,
    RandomModel,
    RandomType,
    Scalar,
    UnionOf,
    hint_of,
    models,
    values,
)

WIDGET: Final = crd("example.com/v1", kind="Widget")
EXAMPLES: Final = [
    pytest.param(15, id="few"),
    pytest.param(500, id="many", marks=pytest.mark.slow),
]
DELETED: Final = object()
REPLACEMENTS: Final[tuple[Any, ...]] = (True, 0, -1, 1.5, "x", "2026-13-01", [], {}, [None], DELETED)


def class_of(model: RandomModel, kind: str) -> type:
    made: type = WIDGET(hint_of(model, KINDS[kind]))
    return made


@pytest.mark.parametrize("examples", EXAMPLES)
def test_the_server_accepts_the_same_definition_of_four_kinds(examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(models(3))
    def check(model: RandomModel) -> None:
        first, *others = (json.dumps(definition(class_of(model, kind))) for kind in KINDS)
        for other in others:
            assert other == first
        assert problems(json.loads(first)) == []

    check()


@st.composite
def changed(draw: st.DrawFn, value: Any) -> Any:
    """A value, one part of which is replaced or deleted."""
    value = copy.deepcopy(value)
    places = [(parent, key) for parent in parts(value) for key in keys(parent)]
    if places:
        parent, key = draw(st.sampled_from(places))
        # As kube-apiserver, the server accepts a list in place of a text with a format.
        new = draw(
            st.sampled_from([each for each in REPLACEMENTS if not is_text_and_list(parent[key], each)])
        )
        if new is DELETED:
            del parent[key]
        else:
            parent[key] = copy.deepcopy(new)
    return value


def is_text_and_list(old: Any, new: Any) -> bool:
    return isinstance(old, str) and isinstance(new, list)


def parts(value: Any) -> list[Any]:
    """The objects and lists in a value, itself included."""
    if not isinstance(value, dict | list):
        return []
    inside = value.values() if isinstance(value, dict) else value
    return [value, *(part for each in inside for part in parts(each))]


def keys(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else list(range(len(value)))


@pytest.mark.parametrize("examples", EXAMPLES)
def test_the_server_accepts_the_objects_that_pydantic_accepts(examples: int) -> None:
    """The stored object has the defaults that Python sets."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        model = data.draw(models(3))
        document = data.draw(values(model).flatmap(lambda value: st.just(value) | changed(value)))
        compare(model, document)

    check()


def compare(model: RandomModel, document: Any) -> None:
    """The server accepts an object if pydantic does, and sets the same defaults."""
    cls = class_of(model, "pydantic")
    schema = custom_schema(cls)
    parsed: Any = None
    with suppress(pydantic.ValidationError):
        parsed = pydantic.TypeAdapter(cls).validate_json(json.dumps(document), strict=True)
    stored = copy.deepcopy(document)
    schema.pruner(stored)
    assert (schema.validate(stored) == []) == (parsed is not None), (document, stored)
    if parsed is not None and not has(model, is_union):
        assert without_none(stored) == without_none(parsed.model_dump(mode="json"))


def read_by_msgspec(cls: type, document: Any) -> None:
    msgspec.json.decode(json.dumps(document), type=cls)


def read_by_decoder(cls: type, document: Any) -> None:
    InstanceDecoder().decode(cls, document)


# Who reads objects of the other kinds of classes. Dataclasses and TypedDicts have no validation but that of
# the instances that functions of extensions get.
READERS: Final = {
    "msgspec": ("msgspec", read_by_msgspec),
    **{f"instances-{kind}": (kind, read_by_decoder) for kind in KINDS},
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("examples", EXAMPLES)
def test_the_server_accepts_the_objects_that_python_can_read(examples: int, reader: str) -> None:
    """Neither msgspec nor the instances know bounds: of models with bounds, they read more."""
    kind, read = READERS[reader]

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        model = data.draw(models(3))
        document = data.draw(values(model).flatmap(lambda value: st.just(value) | changed(value)))
        cls = class_of(model, kind)
        schema = custom_schema(cls)
        stored = copy.deepcopy(document)
        schema.pruner(stored)
        is_accepted = schema.validate(stored) == []
        is_read = True
        try:
            read(cls, stored if is_accepted else document)
        except (msgspec.ValidationError, InvalidObject):
            is_read = False
        assert is_read or not is_accepted, stored
        assert is_accepted or not is_read or has(model, is_bounded), document

    check()


def has(of: RandomType, is_sought: Callable[[RandomType], bool]) -> bool:
    """Whether a type, or one in it, is of some sort."""
    match of:
        case Container(item=item) | OptionalOf(item=item):
            return is_sought(of) or has(item, is_sought)
        case UnionOf(members=members):
            return is_sought(of) or any(has(each, is_sought) for each in members)
        case RandomModel(fields=fields):
            return is_sought(of) or any(has(field.type, is_sought) for field in fields)
    return is_sought(of)


def is_union(of: RandomType) -> bool:
    return isinstance(of, UnionOf)


def is_bounded(of: RandomType) -> bool:
    return isinstance(of, Scalar) and get_origin(of.hint) is Annotated


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_none(each) for name, each in value.items() if each is not None}
    return [without_none(each) for each in value] if isinstance(value, list) else value
