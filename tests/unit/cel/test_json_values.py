"""Values of expressions as JSON: cel-go, common/types, and k8s.io/apiserver pkg/cel/mutation/dynamic."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.cel.admission import APPLY_CONFIGURATION, JSON_PATCHES, AdmissionCompiler, CompilationFailed
from apiserver.cel.json_values import JsonValues, NotJson, TooLarge
from tests.support.compatibility import DEFAULT_COMPATIBILITY

COMPILER: Final = AdmissionCompiler(has_params=False)
VERSION: Final = DEFAULT_COMPATIBILITY


def evaluated(text: str) -> Any:
    """The value of a field that an expression sets."""
    program = COMPILER.compile(f"Object{{it: {text}}}", APPLY_CONFIGURATION, VERSION).program
    return program({"object": {"n": None}}).value


def document(text: str, bytes_max: int = 10_000) -> Any:
    return JsonValues(bytes_max).of(evaluated(text))["it"]


VALUES: Final[dict[str, tuple[str, Any]]] = {
    "a text": ("'a'", "a"),
    "null": ("object.n", None),
    "a number": ("5", 5),
    "an unsigned one": ("5u", 5),
    "a whole double": ("5.0", 5),
    "a double": ("0.5", 0.5),
    "a truth value": ("true", True),
    "bytes": ("b'ab'", "YWI="),
    "a timestamp": ("timestamp('2024-01-02T03:04:05.5Z')", "2024-01-02T03:04:05.5Z"),
    "a duration": ("duration('-1m500ms')", "-60.5s"),
    "a list": ("[1, 2]", [1, 2]),
    "a map": ("{'a': ['b']}", {"a": ["b"]}),
    "an object": ("Object.it{a: Object.it.a{b: 1}}", {"a": {"b": 1}}),
    "objects in a list": ("[Object.it{a: 1}, Object.it{a: 2}]", [{"a": 1}, {"a": 2}]),
    "objects in a map": ("{'k': Object.it{a: 1}}", {"k": {"a": 1}}),
    "an optional value": ("optional.of(1)", 1),
    "an optional that has none": ("optional.none()", None),
    "an optional field that is absent": ("Object.it{?a: optional.none()}", {}),
}


@pytest.mark.parametrize(("text", "expected"), VALUES.values(), ids=VALUES)
def test_values(text: str, expected: Any) -> None:
    found = document(text)
    assert found == expected
    assert type(found) is type(expected)


NOT_JSON: Final[dict[str, tuple[str, str]]] = {
    "a key that is a number": ("{1: 'a'}", "map key 1 is of type int, not string"),
    "not a number": ("double('NaN')", "the number nan has no form in JSON"),
    "a type": ("type(1)", "a value of type type has no form in JSON"),
    "an address": ("ip('1.2.3.4')", "a value of type net.IP has no form in JSON"),
    "an object of another place": (
        "Object.other{a: 1}",
        (
            'type mismatch: unexpected type name "Object.other", expected "Object.it", which matches '
            "field name path from root Object type"
        ),
    ),
    "in a list": ("[Object.it.a{}]", 'unexpected type name "Object.it.a", expected "Object.it"'),
    "deeper": ("Object.it{a: Object.it.b{}}", 'unexpected type name "Object.it.b", expected "Object.it.a"'),
}


@pytest.mark.parametrize(("text", "why"), NOT_JSON.values(), ids=NOT_JSON)
def test_what_has_no_form_in_json(text: str, why: str) -> None:
    with pytest.raises(NotJson) as error:
        document(text)
    assert why in str(error.value)


def test_values_that_are_shared_count_wherever_they_are() -> None:
    """Each step doubles what is made, and costs the same."""
    value: Any = ["x"]
    for _ in range(40):
        value = [value, value]
    with pytest.raises(TooLarge):
        JsonValues(1_000_000).of(value)


def test_all_values_together_are_bounded() -> None:
    values = JsonValues(250)
    values.of("x" * 100)
    values.of("x" * 100)
    with pytest.raises(TooLarge):
        values.of("x" * 100)


def test_what_is_nested_too_deeply() -> None:
    value: Any = "x"
    for _ in range(100_000):
        value = [value]
    with pytest.raises(NotJson, match="nested too deeply"):
        JsonValues(10_000_000).of(value)


def test_what_is_made_may_be_changed() -> None:
    """Constants of an expression are the same in each evaluation."""
    program = COMPILER.compile("Object{a: {'b': []}}", APPLY_CONFIGURATION, VERSION).program
    JsonValues(1_000).of(program({}).value)["a"]["b"].append("changed")
    assert JsonValues(1_000).of(program({}).value) == {"a": {"b": []}}


# k8s.io/apiserver, pkg/cel/mutation/jsonpatch.go (JSONPatchVal) and dynamic/objects.go (ObjectType.Field).
UNSET: Final[dict[str, tuple[str, Any]]] = {
    "a text": ("JSONPatch{}.op", ""),
    "another, of a variable": ("[JSONPatch{op: 'add'}].map(p, p.op + p.path + p.from)", ["add"]),
    "a value of any type": ("JSONPatch{op: 'add'}.value == null", True),
    "is there one": ("has(JSONPatch{}.op) || has(JSONPatch{}.value)", False),
    "an empty text is none": (
        "has(JSONPatch{op: ''}.op) || JSONPatch{op: '', path: ''}.?op.hasValue()",
        False,
    ),
    "nor does it tell patches apart": ("JSONPatch{op: '', path: 'p'} == JSONPatch{path: 'p'}", True),
    "but null is a value": ("has(JSONPatch{value: null}.value)", True),
    "an object without fields is zero": (
        "[{}]".format(
            ", ".join(
                f"optional.ofNonZeroValue({each}).hasValue()"
                for each in ("Object{}", "Object{a: ''}", "JSONPatch{}")
            )
        ),
        [False, True, True],
    ),
    "of an object": ("Object{a: 1}.b == null && !has(Object{a: 1}.b) && Object{a: ''}.a == ''", True),
}


@pytest.mark.parametrize(("text", "value"), UNSET.values(), ids=UNSET)
def test_fields_that_are_not_set(text: str, value: Any) -> None:
    assert document(text) == value


TYPES: Final[dict[str, tuple[str, Any, str]]] = {
    "a part is no configuration": (
        "Object.spec{}",
        APPLY_CONFIGURATION,
        "must evaluate to Object but got Object.spec",
    ),
    "an empty list has no type": ("[]", JSON_PATCHES, "must evaluate to list(JSONPatch) but got list(dyn)"),
    "another field of a patch": ("[JSONPatch{a: 1}]", JSON_PATCHES, "undefined field 'a'"),
    "a patch's operation is a text": (
        "[JSONPatch{op: 1}]",
        JSON_PATCHES,
        "expected type of field 'op' is 'string' but provided type is 'int'",
    ),
    "another message": ("Other{}", APPLY_CONFIGURATION, "undeclared reference to 'Other'"),
    "a name that begins alike": ("Objects{}", APPLY_CONFIGURATION, "undeclared reference to 'Objects'"),
    "types are no values": ("Object.spec", APPLY_CONFIGURATION, "undeclared reference to 'Object'"),
}


@pytest.mark.parametrize(("text", "kind", "why"), TYPES.values(), ids=TYPES)
def test_types_of_patches(text: str, kind: Any, why: str) -> None:
    with pytest.raises(CompilationFailed) as error:
        COMPILER.compile(text, kind, VERSION)
    assert why in str(error.value)
