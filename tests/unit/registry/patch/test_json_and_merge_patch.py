"""JSON Patch and JSON Merge Patch: the standards' own cases, and bounds. Rows L03, L05."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.registry.patch import json_patch, merge_patch
from tests.support.schema_values import nested

Operation = dict[str, Any]


def op(name: str, path: str, **more: Any) -> Operation:
    return {"op": name, "path": path, **more}


def copied(source: str, path: str) -> Operation:
    return {"op": "copy", "from": source, "path": path}


def moved(source: str, path: str) -> Operation:
    return {"op": "move", "from": source, "path": path}


def patched(document: Any, *operations: Operation) -> Any:
    """As a handler does it: checked, then carried out."""
    json_patch.check(list(operations))
    return json_patch.apply(copy.deepcopy(document), copy.deepcopy(list(operations)))


# https://www.rfc-editor.org/rfc/rfc6902: the sections, and appendix A.

APPLIED: Final[dict[str, tuple[Any, list[Operation], Any]]] = {
    "no operations": ({"a": 1}, [], {"a": 1}),
    "A.1 add a member": ({"foo": "bar"}, [op("add", "/baz", value="qux")], {"baz": "qux", "foo": "bar"}),
    "A.2 add an item": ({"foo": [1, 3]}, [op("add", "/foo/1", value=2)], {"foo": [1, 2, 3]}),
    "4.1 add behind the last item": ({"foo": [1]}, [op("add", "/foo/1", value=2)], {"foo": [1, 2]}),
    "4.1 add over a member": ({"a": 1}, [op("add", "/a", value=2)], {"a": 2}),
    "4.1 add the whole document": ({"a": 1}, [op("add", "", value={"b": 2})], {"b": 2}),
    "A.3 remove a member": ({"baz": 1, "foo": 2}, [op("remove", "/baz")], {"foo": 2}),
    "A.4 remove an item": ({"foo": [1, 2, 3]}, [op("remove", "/foo/1")], {"foo": [1, 3]}),
    "A.5 replace a value": ({"baz": 1, "foo": 2}, [op("replace", "/baz", value=3)], {"baz": 3, "foo": 2}),
    "4.3 replace an item": ({"a": [1, 2]}, [op("replace", "/a/1", value=3)], {"a": [1, 3]}),
    "4.3 replace the whole document": ({"a": 1}, [op("replace", "", value={"b": 1})], {"b": 1}),
    "A.6 move a value": (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [moved("/foo/waldo", "/qux/thud")],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    "A.7 move an item": ({"foo": [1, 2, 3, 4]}, [moved("/foo/1", "/foo/3")], {"foo": [1, 3, 4, 2]}),
    "4.4 move to where it is": ({"a": {"b": 1}}, [moved("/a", "/a")], {"a": {"b": 1}}),
    "4.5 a copy is its own": (
        {"a": {"b": 1}},
        [copied("/a", "/c"), op("replace", "/c/b", value=2)],
        {"a": {"b": 1}, "c": {"b": 2}},
    ),
    "A.8 test values": (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [op("test", "/baz", value="qux"), op("test", "/foo/1", value=2)],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    "4.6 numbers are equal by value": ({"a": 1}, [op("test", "/a", value=1.0)], {"a": 1}),
    "4.6 objects are equal in any order": (
        {"a": {"b": 1, "c": [None]}},
        [op("test", "/a", value={"c": [None], "b": 1})],
        {"a": {"b": 1, "c": [None]}},
    ),
    "A.10 add a nested object": (
        {"foo": "bar"},
        [op("add", "/child", value={"grandchild": {}})],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    "A.11 members it does not know are ignored": (
        {"foo": "bar"},
        [op("add", "/baz", value="qux", xyz=123)],
        {"foo": "bar", "baz": "qux"},
    ),
    "A.14 escapes of pointers": (
        {"/": 9, "~1": 10},
        [op("test", "/~01", value=10), op("test", "/~1", value=9)],
        {"/": 9, "~1": 10},
    ),
    "A.16 add an array as one value": (
        {"foo": ["bar"]},
        [op("add", "/foo/-", value=["abc", "def"])],
        {"foo": ["bar", ["abc", "def"]]},
    ),
    "the empty name is a name": ({"": 1}, [op("replace", "/", value=2)], {"": 2}),
    "null is a value": ({}, [op("add", "/a", value=None)], {"a": None}),
    # Row L03, beyond the standard.
    "replace of what is not there adds it": ({"a": {}}, [op("replace", "/a/b", value=1)], {"a": {"b": 1}}),
}


@pytest.mark.parametrize(("document", "operations", "result"), APPLIED.values(), ids=APPLIED)
def test_json_patches(document: Any, operations: list[Operation], result: Any) -> None:
    assert patched(document, *operations) == result


REFUSED: Final[dict[str, tuple[Any, list[Operation]]]] = {
    "A.9 a test that fails": ({"baz": "qux"}, [op("test", "/baz", value="bar")]),
    "A.12 add below what is not there": ({"foo": "bar"}, [op("add", "/baz/bat", value="qux")]),
    "A.15 a text is no number": ({"~1": 10}, [op("test", "/~01", value="10")]),
    "a truth value is no number": ({"a": 1}, [op("test", "/a", value=True)]),
    "nor within a list": ({"a": [{"b": 0}]}, [op("test", "/a", value=[{"b": False}])]),
    "a later operation that fails": ({"a": 1}, [op("remove", "/a"), op("remove", "/a")]),
    "4.1 add beyond the end": ({"a": [1]}, [op("add", "/a/2", value=1)]),
    "4.2 remove what is not there": ({}, [op("remove", "/a")]),
    "4.2 remove the item behind the last": ({"a": [1]}, [op("remove", "/a/-")]),
    "4.3 replace the item behind the last": ({"a": [1]}, [op("replace", "/a/1", value=1)]),
    "4.3 replace below what is not there": ({}, [op("replace", "/a/b", value=1)]),
    "4.4 move from where nothing is": ({}, [moved("/a", "/b")]),
    "4.4 move into itself": ({"a": {"b": {}}}, [moved("/a", "/a/b/c")]),
    "4.5 copy from where nothing is": ({}, [copied("/a", "/b")]),
    # docs/reference/differences.md: Kubernetes goes on here.
    "4.6 test for null where nothing is": ({}, [op("test", "/a", value=None)]),
    "4.6 test for null beyond the end": ({"a": [1]}, [op("test", "/a/1", value=None)]),
    "test a negative index": ({"a": [1, 2]}, [op("test", "/a/-1", value=2)]),
    "add at a negative index": ({"a": [1, 2]}, [op("add", "/a/-1", value=3)]),
    "replace a negative index": ({"a": [1, 2]}, [op("replace", "/a/-1", value=3)]),
    "remove a negative index": ({"a": [1, 2]}, [op("remove", "/a/-1")]),
    "move a negative index": ({"a": [1, 2]}, [moved("/a/-1", "/b")]),
    "copy a negative index": ({"a": [1, 2]}, [copied("/a/-1", "/b")]),
    "an index with a sign": ({"a": [1, 2]}, [op("add", "/a/+1", value=3)]),
    "an operation there is none of": ({"a": 1}, [op("spam", "/a")]),
    "an operation of a library": ({"a": "b"}, [op("append", "/a", value="c")]),
    "remove the whole document": ({"a": 1}, [op("remove", "")]),
    "4.4 move the whole document into itself": ({"a": 1}, [moved("", "/b")]),
    "4.4 move behind the last item of a shorter list": ({"a": [1, 2]}, [moved("/a/0", "/a/2")]),
    "no operation": ({"a": 1}, [{"path": "/a"}]),
    "no path": ({"a": 1}, [{"op": "remove"}]),
    "no value": ({"a": 1}, [op("add", "/b")]),
    "no value to replace by": ({"a": 1}, [op("replace", "/a")]),
    "no value to test for": ({"a": None}, [op("test", "/a")]),
    "nowhere to move from": ({"a": 1}, [op("move", "/b")]),
    "a pointer without a slash": ({"a": 1}, [op("remove", "a")]),
    "an escape there is none of": ({"~2": 1}, [op("remove", "/~2")]),
    "half an escape": ({"~": 1}, [op("remove", "/~")]),
    "an index with a zero before it": ({"a": [1, 2]}, [op("remove", "/a/01")]),
    "an index in other digits": ({"a": [1, 2]}, [op("remove", "/a/\N{FULLWIDTH DIGIT ONE}")]),
    "an index that is none": ({"a": [1, 2]}, [op("add", "/a/1e0", value=1)]),
    "an index of 5,000 digits": ({"a": [1, 2]}, [op("add", "/a/" + "9" * 5_000, value=1)]),
    "into a text": ({"a": "text"}, [op("test", "/a/0", value="t")]),
    "into a number": ({"a": 1}, [op("add", "/a/b", value=1)]),
    "into null": ({"a": None}, [op("add", "/a/b", value=1)]),
    "a pointer of 100,000 steps": ({"a": {}}, [op("add", "/a" * 100_000, value=1)]),
}


@pytest.mark.parametrize(("document", "operations"), REFUSED.values(), ids=REFUSED)
def test_json_patches_that_cannot_be_applied(document: Any, operations: list[Operation]) -> None:
    with pytest.raises(json_patch.CannotApply):
        patched(document, *operations)


MALFORMED: Final[dict[str, tuple[Any, str]]] = {
    "an object": ({}, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
    "a text": ("x", "cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
    "a number": (1, "cannot unmarshal number into Go value of type []handlers.jsonPatchOp"),
    "a list of numbers": ([1], "cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
    "a list of lists": ([[]], "cannot unmarshal array into Go value of type handlers.jsonPatchOp"),
    # Source: k8s.io/apiserver, pkg/endpoints/handlers/patch.go: op, from and path of jsonPatchOp are strings.
    "an operation that is a number": (
        [{"op": 1, "path": "/a"}],
        "cannot unmarshal number into Go struct field",
    ),
    "a path that is a list": ([{"op": "remove", "path": []}], "cannot unmarshal array into Go struct field"),
}


@pytest.mark.parametrize(("patch", "told"), MALFORMED.values(), ids=MALFORMED)
def test_invalid_json_patches_are_refused(patch: Any, told: str) -> None:
    with pytest.raises(json_patch.MalformedJsonPatch) as caught:
        json_patch.check(patch)
    assert told in str(caught.value)


def test_null_is_a_patch_without_operations() -> None:
    json_patch.check(None)
    assert json_patch.apply({"a": 1}, None) == {"a": 1}


def test_the_number_of_operations_is_bounded() -> None:
    """Row L03. Source: k8s.io/apiserver, pkg/endpoints/handlers/patch.go, maxJSONPatchOperations."""
    json_patch.check([{}] * 10_000)
    with pytest.raises(
        json_patch.TooManyOperations, match=r"allowed maximum operations.* is 10000, got 10001"
    ):
        json_patch.check([{}] * 10_001)


# Source: k8s.io/apiserver, pkg/server/config.go, JSONPatchMaxCopyBytes: 3 MiB. Without a bound a patch of
# 2 kB makes gigabytes of a small object.
AMPLIFIED: Final = {
    "one text over and over": ({"a": ["x" * 100_000]}, [copied("/a/0", "/a/-")] * 40),
    "a list into itself": ({"a": ["x" * 1_000]}, [copied("/a", "/a/-")] * 13),
    # 800 kB, but 262,144 values.
    "empty lists": ({"a": [[]]}, [copied("/a", "/a/-")] * 18),
    "empty objects, a few at a time": ({"a": [{}] * 10}, [copied("/a", "/a/0")] * 10_000),
    "members of an object": ({"a": {}}, [copied("/a", f"/a/{n}") for n in range(18)]),
}


@pytest.mark.parametrize(("document", "operations"), AMPLIFIED.values(), ids=AMPLIFIED)
def test_the_total_size_of_copies_is_bounded(document: Any, operations: list[Operation]) -> None:
    with pytest.raises(ValueError, match=r"(?i)copy|copies|copied"):
        patched(document, *operations)


def test_copies_within_the_bound_are_made() -> None:
    """A Deployment that copies a template of a thousand values ninety times is no attack."""
    template = {"containers": [{"name": "a", "env": [{"name": "A", "value": "b"}] * 300}]}
    result = patched({"a": [template]}, *[copied("/a/0", "/a/-")] * 90)
    assert result == {"a": [template] * 91}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([], False),
        ([op("add", "/a", value=1), op("test", "/a", value=1)], False),
        ([copied("/a", "/b")], False),
        ([copied("/a", "/b"), copied("/a", "/c")], True),
    ],
    ids=["nothing", "values of the patch", "one copy", "two copies"],
)
def test_which_patches_may_multiply_a_document(operations: list[Operation], expected: bool) -> None:
    assert json_patch.may_multiply(operations) is expected


@pytest.mark.parametrize("operation", ["add", "remove", "move"])
def test_the_items_moved_in_lists_are_bounded(operation: str) -> None:
    """Ten thousand times a million items would take many seconds."""
    step = {"op": operation, "path": "/a/0", "from": "/a/1", "value": 1}
    with pytest.raises(json_patch.CannotApply, match="the patch moves more than"):
        json_patch.apply({"a": [1] * 1_000_000}, [step] * json_patch.OPERATIONS_MAX)
    moved = json_patch.apply({"a": [1] * 10_000}, [step] * json_patch.OPERATIONS_MAX)
    assert len(moved["a"]) == {"add": 20_000, "remove": 0, "move": 10_000}[operation]


# As deep as the parser of bodies lets through.
DEPTH: Final = 1_000
DEEP: Final = {
    "copied": [op("add", "/x", value=nested(DEPTH)), copied("/x", "/y")],
    "moved": [op("add", "/x", value=nested(DEPTH)), moved("/x", "/y")],
    "tested": [op("add", "/x", value=nested(DEPTH)), op("test", "/x", value=nested(DEPTH))],
    "tested for something else": [op("add", "/x", value=nested(DEPTH)), op("test", "/x", value=1)],
}


@pytest.mark.parametrize("operations", DEEP.values(), ids=DEEP)
def test_deep_values_in_json_patches_are_no_crash(operations: list[Operation]) -> None:
    """They may be refused."""
    with suppress(json_patch.CannotApply):
        json_patch.apply({}, operations)


def test_deep_merge_patches_are_no_crash() -> None:
    """They may be refused."""
    with suppress(ValueError):
        merge_patch.apply({}, nested(DEPTH))


# https://www.rfc-editor.org/rfc/rfc7386#appendix-A, in its order.
MERGED: Final[dict[str, tuple[Any, Any, Any]]] = {
    "a value is replaced": ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    "a key is added": ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    "null removes the only key": ({"a": "b"}, {"a": None}, {}),
    "null removes one of two keys": ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    "a text replaces a list": ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    "a list replaces a text": ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    "objects are merged at depth": ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    "lists are not merged": ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    "a list replaces a list": (["a", "b"], ["c", "d"], ["c", "d"]),
    "a list replaces an object": ({"a": "b"}, ["c"], ["c"]),
    "null replaces an object": ({"a": "foo"}, None, None),
    "a text replaces an object": ({"a": "foo"}, "bar", "bar"),
    "a null that was there stays": ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    "an object replaces a list, without its nulls": ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    "nulls are left out at depth": ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    "nulls within a list are values: section 2 goes into objects only": (
        {"a": [1]},
        {"a": [None, {"b": None}]},
        {"a": [None, {"b": None}]},
    ),
    "an empty patch changes nothing": ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
}


@pytest.mark.parametrize(("target", "patch", "result"), MERGED.values(), ids=MERGED)
def test_merge_patches(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch.apply(copy.deepcopy(target), copy.deepcopy(patch)) == result


_KEYS: Final = st.sampled_from(["a", "b", "c"])
_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=10,
)


@given(_JSON, _JSON)
def test_a_merge_patch_applied_twice_changes_nothing_more(target: Any, patch: Any) -> None:
    once = merge_patch.apply(copy.deepcopy(target), copy.deepcopy(patch))
    assert merge_patch.apply(copy.deepcopy(once), copy.deepcopy(patch)) == once


_PATHS: Final = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "", "~0", "~"]), max_size=3).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
_OPERATIONS: Final = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": _PATHS | _JSON},
    optional={"from": _PATHS | _JSON, "value": _JSON},
)


@given(_JSON, st.lists(_OPERATIONS | st.dictionaries(st.sampled_from(["op", "path"]), _JSON), max_size=4))
def test_any_json_patch_is_refused_or_carried_out(document: Any, operations: list[Operation]) -> None:
    with suppress(json_patch.MalformedJsonPatch, json_patch.CannotApply):
        patched(document, *operations)


# github.com/evanphx/json-patch, v4, which tells why a policy's patch does not fit.
WHYS: Final[dict[str, tuple[Operation, str]]] = {
    "nothing to remove": (
        op("remove", "/a/x"),
        "error in remove for path: '/a/x': Unable to remove nonexistent key: x: missing value",
    ),
    "nothing to remove it from": (
        op("remove", "/x/y"),
        'remove operation does not apply: doc is missing path: "/x/y": missing value',
    ),
    "no item to remove": (
        op("remove", "/l/5"),
        "error in remove for path: '/l/5': Unable to access invalid index: 5: invalid index referenced",
    ),
    "nothing to add it to": (
        op("add", "/x/y", value=1),
        'add operation does not apply: doc is missing path: "/x/y": missing value',
    ),
    "nothing to replace it in": (
        op("replace", "/x/y", value=1),
        "replace operation does not apply: doc is missing path: /x/y: missing value",
    ),
    "no item to replace": (
        op("replace", "/l/5", value=1),
        "replace operation does not apply: doc is missing key: /l/5: missing value",
    ),
    "nothing to move": (
        {**op("move", "/a/b"), "from": "/x"},
        "move operation does not apply: doc is missing from path: /x: missing value",
    ),
    "nowhere to copy it": (
        {**op("copy", "/x/y"), "from": "/a"},
        "copy operation does not apply: doc is missing destination path: /x/y: missing value",
    ),
    "an operation that there is not": (op("burn", "/a"), "Unexpected kind: burn"),
    "nothing to add": (op("add", "/a/b"), "add operation has no value"),
    "nothing to test for": (op("test", "/a"), "test operation has no value"),
}


@pytest.mark.parametrize(("operation", "why"), WHYS.values(), ids=WHYS)
def test_why_a_json_patch_cannot_be_applied(operation: Operation, why: str) -> None:
    with pytest.raises(json_patch.CannotApply) as error:
        patched({"a": {}, "l": [1]}, operation)
    assert str(error.value) == why


@pytest.mark.parametrize("path", ["/a", "/x"])
def test_a_test_that_fails_is_told_apart(path: str) -> None:
    with pytest.raises(json_patch.TestFailed):
        patched({"a": 1}, op("test", path, value=2))
