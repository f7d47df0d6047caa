"""A change is taken back: what it has set goes, and what others have set since stays."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.cli.history.reverts import (
    ABSENT,
    Revert,
    differences,
    is_equal,
    reverted,
    text_of,
    without_owned,
)

SCALARS: Final = st.integers(0, 2) | st.sampled_from(("", "a", "b")) | st.booleans() | st.none()
ITEMS: Final = st.fixed_dictionaries({"name": st.sampled_from(("x", "y", "z")), "value": SCALARS})
VALUES: Final = st.recursive(
    SCALARS,
    lambda below: (
        st.lists(below | ITEMS, max_size=3) | st.dictionaries(st.sampled_from("abc"), below, max_size=3)
    ),
    max_leaves=10,
)
METADATA: Final = st.fixed_dictionaries(
    {"name": st.just("a"), "resourceVersion": st.sampled_from(("1", "2", "3")), "uid": st.just("u")},
    optional={
        "generation": st.integers(1, 3),
        "labels": st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3),
        "managedFields": st.lists(st.just({"manager": "m"}), max_size=2),
    },
)
OBJECTS: Final = st.fixed_dictionaries(
    {"metadata": METADATA},
    optional={"spec": st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), "data": VALUES},
)


def paths(found: Revert) -> tuple[list[str], list[str]]:
    return [text_of(each) for each in found.reverted], [text_of(each) for each in found.conflicts]


@given(OBJECTS, OBJECTS)
def test_without_the_last_change_an_object_is_as_before(before: Any, after: Any) -> None:
    found = reverted(before, after, after)
    assert found.conflicts == ()
    assert is_equal(without_owned(found.value), without_owned(before))
    # What the server sets stays, so that a write can have the live object's version as its condition.
    owned = {key: value for key, value in after["metadata"].items() if key not in ("name", "labels")}
    assert {key: found.value["metadata"].get(key) for key in owned} == owned


@given(OBJECTS, OBJECTS, st.dictionaries(st.sampled_from("xyz"), VALUES))
def test_unrelated_later_changes_stay(before: Any, after: Any, later: dict[str, Any]) -> None:
    live = {**after, "spec": {**after.get("spec", {}), **later}, "status": later}
    found = reverted(before, after, live)
    assert found.conflicts == ()
    wanted = {**without_owned(before), "spec": {**before.get("spec", {}), **later}, "status": later}
    assert is_equal(without_owned(found.value), wanted) or (
        not wanted["spec"] and is_equal(without_owned({**found.value, "spec": {}}), wanted)
    )


@given(*(st.dictionaries(st.sampled_from("abcd"), SCALARS, max_size=4) for _ in range(3)))
def test_each_field_by_itself(before: Any, after: Any, live: Any) -> None:
    """The rule, for objects without objects in them."""
    found = reverted({"data": before}, {"data": after}, {"data": live})
    wanted, conflicts = {}, []
    for key in dict.fromkeys((*live, *before, *after)):
        old, new, now = (each.get(key, ABSENT) for each in (before, after, live))
        is_changed = not is_equal(old, new)
        value = old if is_changed and is_equal(now, new) else now
        if is_changed and not is_equal(now, new) and not is_equal(now, old):
            conflicts.append(f"data.{key}")
        if value is not ABSENT:
            wanted[key] = value
    assert is_equal(found.value["data"], wanted)
    assert paths(found)[1] == conflicts


@given(OBJECTS, OBJECTS, OBJECTS)
def test_a_field_is_reverted_or_a_conflict_or_as_it_is(before: Any, after: Any, live: Any) -> None:
    found = reverted(before, after, live)
    reverts, conflicts = paths(found)
    assert not {*reverts} & {*conflicts}
    if not reverts:
        assert is_equal(found.value, live)


def containers(**images: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": image} for name, image in images.items()]}}


CASES: Final[dict[str, tuple[Any, Any, Any, Any, tuple[list[str], list[str]]]]] = {
    "a value": ({"a": 1}, {"a": 2}, {"a": 2, "b": 1}, {"a": 1, "b": 1}, (["a"], [])),
    "a field that was added": ({}, {"a": 1}, {"a": 1}, {}, (["a"], [])),
    "a field that was removed": ({"a": 1}, {}, {"b": 1}, {"b": 1, "a": 1}, (["a"], [])),
    "a value that was changed since": ({"a": 1}, {"a": 2}, {"a": 3}, {"a": 3}, ([], ["a"])),
    "a value that was removed since": ({"a": 1}, {"a": 2}, {}, {}, ([], ["a"])),
    "a value that is as before again": ({"a": 1}, {"a": 2}, {"a": 1}, {"a": 1}, ([], [])),
    "true is not one": ({"a": 1}, {"a": 2}, {"a": True}, {"a": True}, ([], ["a"])),
    "an object that was added, and used since": (
        {},
        {"labels": {"x": "1"}},
        {"labels": {"x": "1", "y": "2"}},
        {"labels": {"y": "2"}},
        (["labels.x"], []),
    ),
    "an object that was removed, and added again since": (
        {"labels": {"x": "1"}},
        {},
        {"labels": {"y": "2"}},
        {"labels": {"y": "2", "x": "1"}},
        (["labels.x"], []),
    ),
    "an object that became a value": ({"a": {"b": 1}}, {"a": 1}, {"a": 1}, {"a": {"b": 1}}, (["a"], [])),
    "a list": ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}, {"a": [1]}, (["a"], [])),
    "a list that was changed since": ({"a": [1]}, {"a": [1, 2]}, {"a": [2]}, {"a": [2]}, ([], ["a"])),
    "an item of a list, and another one since": (
        containers(web="web:1", log="log:1"),
        containers(web="web:2", log="log:1"),
        containers(web="web:2", log="log:2"),
        containers(web="web:1", log="log:2"),
        (["spec.containers[name=web].image"], []),
    ),
    "the same item of a list since": (
        containers(web="web:1"),
        containers(web="web:2"),
        containers(web="web:3"),
        containers(web="web:3"),
        ([], ["spec.containers[name=web].image"]),
    ),
    "an item of a list, and an item that was added since": (
        containers(web="web:1"),
        containers(web="web:2"),
        containers(web="web:2", log="log:1"),
        containers(web="web:2", log="log:1"),
        ([], ["spec.containers"]),
    ),
    "items in another order since": (
        containers(web="1", log="1"),
        containers(web="2", log="1"),
        containers(log="1", web="2"),
        containers(log="1", web="2"),
        ([], ["spec.containers"]),
    ),
    "items with the same name": (
        {"a": [{"name": "x", "v": 1}, {"name": "x", "v": 2}]},
        {"a": [{"name": "x", "v": 3}, {"name": "x", "v": 2}]},
        {"a": [{"name": "x", "v": 3}, {"name": "x", "v": 4}]},
        {"a": [{"name": "x", "v": 3}, {"name": "x", "v": 4}]},
        ([], ["a"]),
    ),
}


@pytest.mark.parametrize(("before", "after", "live", "value", "told"), CASES.values(), ids=CASES)
def test_a_change_taken_back(
    before: Any, after: Any, live: Any, value: Any, told: tuple[list[str], list[str]]
) -> None:
    found = reverted(before, after, live)
    assert is_equal(found.value, value)
    assert paths(found) == told


def test_an_object_of_the_greatest_depth() -> None:
    # 240 levels: each second one is two.
    def nested(value: int, count: int = 160) -> Any:
        document: Any = {"value": value, "later": count}
        for level in range(count):
            document = [{"name": "x", "below": document}] if level % 2 else {"k": document}
        return document

    found = reverted({"a": nested(1)}, {"a": nested(2)}, {"a": nested(2)})
    assert is_equal(found.value, {"a": nested(1)})
    assert len([*differences(nested(1), nested(2))]) == 1
