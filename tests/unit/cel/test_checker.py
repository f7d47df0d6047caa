"""What expressions are before they are evaluated: their types, what is wrong with them. Rows R04, R18, R21.

Texts and places of errors are cel-go's (checker/errors.go and its tests).
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from apiserver.cel import types
from apiserver.cel.checker import CheckOptions
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.cel.declarations import Library
from apiserver.cel.environment import Environment
from apiserver.cel.functions import Overload
from apiserver.cel.library.comprehensions import BINDINGS, TWO_VARIABLES
from apiserver.cel.library.optionals import OPTIONALS
from apiserver.cel.library.standard import STANDARD
from apiserver.cel.library.strings import KUBERNETES_STRINGS
from apiserver.cel.syntax import ISSUES_MAX, InvalidExpression, Select
from apiserver.cel.types import Field

CONDITION: Final = types.object_of("Condition", {"type": Field("type", types.STRING)})
SELF: Final = types.object_of(
    "Self",
    {
        "n": Field("n", types.INT),
        "s": Field("s", types.STRING),
        "x__dash__y": Field("x-y", types.BOOL),
        "conditions": Field("conditions", types.list_of(CONDITION)),
        "labels": Field("labels", types.map_of(types.STRING, types.STRING)),
        "any": Field("any", types.DYN),
    },
)
QUANTITY: Final = types.opaque("kubernetes.Quantity")
THINGS: Final = Library(
    "things",
    functions={
        "quantity": (Overload("string_to_quantity", (types.STRING,), QUANTITY, lambda text: text),),
        "math.least": (Overload("math_least", (types.INT, types.INT), types.INT, min),),
        "newest": (Overload("newest", (types.STRING,), types.STRING, lambda text: text, is_method=True),),
    },
)
NEWER: Final = Library(
    "newer", functions={"later": (Overload("later", (), types.INT, lambda: 1),)}, since=(1, 34)
)
LIBRARIES: Final = (STANDARD, OPTIONALS, TWO_VARIABLES, BINDINGS, THINGS, NEWER)
VARIABLES: Final = {"self": SELF, "object": types.DYN, "maybe": types.optional_of(SELF), "q": QUANTITY}
ENVIRONMENT: Final = Environment(VARIABLES, LIBRARIES, messages={"Condition": CONDITION})

TYPES: Final = {
    "1 + 2": "int",
    "1u": "uint",
    "1.5": "double",
    "b'x'": "bytes",
    "null": "null",
    "[1, 2]": "list(int)",
    "[]": "list(dyn)",
    "[[], [1]]": "list(list(int))",
    "{'a': 1.0}": "map(string, double)",
    "[dyn(1)]": "list(dyn)",
    "self.n": "int",
    "self.conditions[0]": "Condition",
    "self.conditions[0].type": "string",
    "self.labels.app": "string",
    "self.labels['app']": "string",
    "self.any": "dyn",
    "self.any.what.ever": "dyn",
    "object.spec": "dyn",
    "has(self.s)": "bool",
    "maybe.s": "optional_type(string)",
    "self.?s": "optional_type(string)",
    "self.conditions[?0]": "optional_type(Condition)",
    "self.?s.orValue('')": "string",
    "[?self.?s]": "list(string)",
    "{?'a': self.?n}": "map(string, int)",
    "true ? 1 : 2": "int",
    "self.any ? 1 : 2": "int",
    "true ? dyn(1) : 2": "dyn",
    "self.any == 1": "bool",
    "1 < 2.0": "bool",
    "timestamp('2020-01-01T00:00:00Z') - timestamp('2020-01-01T00:00:00Z')": "duration",
    "self.any + 1": "int",
    "self.any + self.any": "dyn",
    "type(1)": "type(int)",
    "int": "type(int)",
    "google.protobuf.Timestamp": "type(timestamp)",
    "self.conditions.all(c, c.type == 'x')": "bool",
    "self.conditions.map(c, c.type)": "list(string)",
    "self.conditions.map(c, c.type != '', c)": "list(Condition)",
    "self.conditions.filter(c, c.type != '')": "list(Condition)",
    "self.conditions.exists_one(c, c.type != '')": "bool",
    "self.labels.map(k, k.size())": "list(int)",
    "self.conditions.transformMap(i, c, c.type)": "map(int, string)",
    "self.labels.transformList(k, v, v)": "list(string)",
    "self.labels.transformMapEntry(k, v, {v: k})": "map(string, string)",
    "cel.bind(x, self.n, [x])": "list(int)",
    "quantity('1')": "kubernetes.Quantity",
    "math.least(1, 2)": "int",
    "Condition{type: 'a'}": "Condition",
}


@pytest.mark.parametrize(("text", "want"), TYPES.items(), ids=TYPES)
def test_the_type_of_an_expression(text: str, want: str) -> None:
    assert str(ENVIRONMENT.check(text).type) == want


# expression: column and text of each error
ERRORS: Final = {
    "self.nope": ["5: undefined field 'nope'"],
    "has(self.nope)": ["4: undefined field 'nope'"],
    "self.nope.more + 1": ["5: undefined field 'nope'"],
    "self.n.x": ["7: type 'int' does not support field selection"],
    "nope": ["1: undeclared reference to 'nope' (in container '')"],
    "nope(1)": ["5: undeclared reference to 'nope' (in container '')"],
    "self.s.nope()": ["12: undeclared reference to 'nope' (in container '')"],
    "a.b.c()": [
        "1: undeclared reference to 'a' (in container '')",
        "6: undeclared reference to 'c' (in container '')",
    ],
    "1 + 'a'": ["3: found no matching overload for '_+_' applied to '(int, string)'"],
    "self.n + 1.0": ["8: found no matching overload for '_+_' applied to '(int, double)'"],
    "self.n == 'a'": ["8: found no matching overload for '_==_' applied to '(int, string)'"],
    "self.conditions == null": [
        "17: found no matching overload for '_==_' applied to '(list(Condition), null)'"
    ],
    "self.s < 1": ["8: found no matching overload for '_<_' applied to '(string, int)'"],
    "self.s.contains(1)": ["16: found no matching overload for 'contains' applied to 'string.(int)'"],
    "size(1)": ["5: found no matching overload for 'size' applied to '(int)'"],
    "newest('a')": ["7: found no matching overload for 'newest' applied to '(string)'"],
    "q + q": [
        "3: found no matching overload for '_+_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'"
    ],
    "[1] + ['a']": ["5: found no matching overload for '_+_' applied to '(list(int), list(string))'"],
    "1 in ['a']": ["3: found no matching overload for '@in' applied to '(int, list(string))'"],
    "self.labels[1]": ["12: found no matching overload for '_[_]' applied to '(map(string, string), int)'"],
    "!self.n": ["1: found no matching overload for '!_' applied to '(int)'"],
    "true ? 1 : 'a'": ["6: found no matching overload for '_?_:_' applied to '(bool, int, string)'"],
    "1 && true": ["1: expected type 'bool' but found 'int'"],
    "1 && 'a'": ["1: expected type 'bool' but found 'int'", "6: expected type 'bool' but found 'string'"],
    "[1, 'a']": ["5: expected type 'int' but found 'string'"],
    "{1: 1, 'a': 1}": ["8: expected type 'int' but found 'string'"],
    "{1: 1, 2: 'a'}": ["11: expected type 'int' but found 'string'"],
    "[?1]": ["3: expected type 'optional_type(int)' but found 'int'"],
    "self.n.all(x, true)": [
        "5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)"
    ],
    "self.conditions.all(c, c.type)": ["25: expected type 'bool' but found 'string'"],
    "self.conditions.all(c, true) && c.type == ''": ["33: undeclared reference to 'c' (in container '')"],
    "Nope{a: 1}": ["5: undeclared reference to 'Nope' (in container '')"],
    "self{a: 1}": ["5: 'Self' is not a type"],
    "int{a: 1}": ["4: 'int' is not a message type"],
    "Condition{nope: 1}": ["15: undefined field 'nope'"],
    "Condition{type: 1}": ["15: expected type of field 'type' is 'string' but provided type is 'int'"],
    # Literals that show to be wrong before they are evaluated (cel-go cel/validator.go).
    "duration('1')": ["10: invalid duration argument"],
    "timestamp('1')": ["11: invalid timestamp argument"],
    "self.s.matches('[a')": ["16: invalid matches argument"],
    "[dyn(1), 'a']": ["10: expected type 'dyn' but found 'string'"],
    "{'a': dyn(1), 'b': 'a'}": ["20: expected type 'dyn' but found 'string'"],
}


@pytest.mark.parametrize(("text", "want"), ERRORS.items(), ids=ERRORS)
def test_type_errors(text: str, want: list[str]) -> None:
    with pytest.raises(InvalidExpression) as caught:
        ENVIRONMENT.check(text)
    assert [f"{(issue.offset or 0) + 1}: {issue.message}" for issue in caught.value.issues] == want


def test_errors_are_in_the_order_of_the_text_and_limited() -> None:
    with pytest.raises(InvalidExpression) as caught:
        ENVIRONMENT.check(" && ".join(["a.f(b)"] * 100))
    offsets = [issue.offset for issue in caught.value.issues]
    assert len(offsets) == ISSUES_MAX
    assert offsets == sorted(offset for offset in offsets if offset is not None)


def test_a_field_keeps_the_name_that_documents_have() -> None:
    node = ENVIRONMENT.check("self.x__dash__y").node
    assert isinstance(node, Select)
    assert (node.field, node.key) == ("x__dash__y", "x-y")


def test_formatting_takes_a_list_of_several_types() -> None:
    formatting = Library(
        "format",
        functions={
            "format": (
                Overload("format", (types.STRING, types.LIST_DYN), types.STRING, str.format, is_method=True),
            )
        },
    )
    Environment({}, [STANDARD, formatting]).check("'%d %s'.format([dyn(1), 'a'])")


# cel-go ext/formatting.go, stringFormatValidator.
FORMATS: Final = {
    "'%d %b %o %x %s %%'.format([1, 2, 3, 4, 5])": None,
    "'%s-%d'.format(['a', 1])": None,
    "'%s'.format([[1, 'a', {'b': 1, 'c': []}]])": None,
    "'%s'.format([['a', 1].map(x, x)])": None,
    "'%s%d'.format(['a', 1]) == [1, 'b'][1]": "32: expected type 'int' but found 'string'",
    "'%s %f %e %x %X'.format(['a', 'NaN', 'NaN', 'b', self.s])": None,
    "'%.3f %.1e %s'.format([1.0, 1.0, 1.0])": None,
    "'%b %s'.format([true, false])": None,
    "'%s'.format([{'a': [duration('1s')]}])": None,
    "'%s %d %x'.format([self.any, self.any, self.any])": None,
    "self.s.format([self])": None,
    "'%d'.format(self.any)": None,
    "'%d'.format(['a'])": "14: error during formatting: decimal clause can only be used on integers,"
    " was given string",
    "'%s %.2f'.format([1, self.n])": "26: error during formatting: fixed-point clause can only be used on"
    " doubles, was given int",
    "'%s'.format([[{'a': q}]])": "21: error during formatting: string clause can only be used on strings,"
    " bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps,"
    " was given kubernetes.Quantity",
    "'%x'.format([1.0])": "14: error during formatting: only integers, byte buffers, and strings can be"
    " formatted as hex, was given double",
    "'%d %d'.format([1])": "15: index 1 out of range",
    "'%d'.format([1, 2])": "12: too many arguments supplied to string.format (expected 1, got 2)",
    "'%'.format([1])": "11: unexpected end of string",
    "'%y'.format([1])": '12: could not parse formatting clause: unrecognized formatting clause "y"',
    "'%.2'.format([1.0])": "13: could not parse formatting clause: error while parsing precision: could not"
    " find end of precision specifier",
}


@pytest.mark.parametrize(("text", "want"), FORMATS.items(), ids=FORMATS)
def test_format_arguments_of_literals_are_checked(text: str, want: str | None) -> None:
    environment = Environment(VARIABLES, [*LIBRARIES, *KUBERNETES_STRINGS])
    if want is None:
        environment.check(text)
        return
    with pytest.raises(InvalidExpression) as caught:
        environment.check(text)
    assert [f"{(issue.offset or 0) + 1}: {issue.message}" for issue in caught.value.issues] == [want]


# ---- names


CONTAINED: Final = Environment(
    {"a.b.x": types.INT, "a.x": types.STRING, "x": types.BOOL, "y": types.BYTES, "self.n": types.DOUBLE},
    LIBRARIES,
    container="a.b",
)
NAMES: Final = {
    "x": "int",
    ".x": "bool",
    "a.x": "string",
    "y": "bytes",
    "self.n": "double",
    "[1.0].map(x, x)": "list(double)",
    "[1.0].map(x, .x)": "list(bool)",
    "[{'x': 1.0}].map(a, a.x)": "list(double)",
}


@pytest.mark.parametrize(("text", "want"), NAMES.items(), ids=NAMES)
def test_names_are_looked_up_from_the_innermost_container(text: str, want: str) -> None:
    assert str(CONTAINED.check(text).type) == want


def test_a_library_is_available_from_its_release_on() -> None:
    ENVIRONMENT.check("later()")
    ENVIRONMENT.check("later()", CompatibilityVersion((1, 34), frozenset()))
    with pytest.raises(InvalidExpression, match=re.escape("undeclared reference to 'later'")):
        ENVIRONMENT.check("later()", CompatibilityVersion((1, 33), frozenset()))


def test_lenient_checks_find_no_errors() -> None:
    lenient = Environment({}, LIBRARIES, options=CheckOptions(lenient=True))
    for text in ERRORS:
        lenient.check(text)


# ---- hostile texts


def chain(count: int) -> str:
    return "[1]" + ".map(a, {a: a})" * count


HOSTILE: Final = {
    "types that double with each turn": (chain(100), "type is too complex"),
    "types that double with each binding": (
        "".join(f"cel.bind(x{n + 1}, [[], [{{x{n}: x{n}}}]], " for n in range(60)).replace("x0", "1")
        + "x60"
        + ")" * 60,
        "type is too complex",
    ),
    "literals within literals": ("[" * 200 + "]" * 200, "type is too complex"),
}


@pytest.mark.parametrize(("text", "want"), HOSTILE.values(), ids=HOSTILE)
def test_types_have_a_greatest_size(text: str, want: str) -> None:
    with pytest.raises(InvalidExpression, match=want):
        ENVIRONMENT.check(text)


LARGE: Final = {
    "a chain of terms": " && ".join(["self.n > 0"] * 5_000),
    "a long list": f"[{', '.join(['self.n'] * 10_000)}]",
    "nested operators": "1 + (" * 240 + "1" + ")" * 240,
    "nested loops": "".join(f"self.conditions.all(c{n}, " for n in range(100)) + "true" + ")" * 100,
    "nested bindings": "".join(f"cel.bind(b{n}, 1, " for n in range(240)) + "1" + ")" * 240,
    "a chain of methods": "self.conditions" + ".filter(c, true)" * 200,
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_large_and_deep_expressions_can_be_evaluated(text: str) -> None:
    program = ENVIRONMENT.program(ENVIRONMENT.check(text))
    program({"self": {"n": 1, "conditions": []}})
