"""Functions on strings, and what `format` makes of values. Row R05.

Sources: cel-go ext/strings.go, ext/formatting.go.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.cel import types
from apiserver.cel.library.string_conversion import double_text
from apiserver.cel.library.timestamps import SECOND
from apiserver.cel.values import Duration, Timestamp, UInt
from tests.unit.cel.library_support import assert_fails, assert_true, evaluate

TRUE = {
    "the character behind the last is empty": "'hi'.charAt(2) == ''",
    "characters are code points": "'a😀b'.charAt(1) == '😀'",
    "an empty text is where the search starts": "'hello mellow'.indexOf('', 2) == 2",
    "a search starts where it is told": "'hello mellow'.indexOf('ello', 2) == 7",
    "behind the end nothing is found": "'tacocat'.indexOf('a', 30) == -1",
    "behind the end nothing is found backwards": "'tacocat'.lastIndexOf('a', 30) == -1",
    "in an empty text nothing is found": "''.indexOf('a') == -1 && ''.lastIndexOf('a') == -1",
    "backwards, an empty text is at the end": "'hello mellow'.lastIndexOf('') == 12",
    "backwards, it may begin at the index": "'hello mellow'.lastIndexOf('ello', 7) == 7",
    "backwards, it may not begin behind the index": "'hello mellow'.lastIndexOf('ello', 6) == 1",
    "lower case is ASCII's": "'TacoCÆt'.lowerAscii() == 'tacocÆt'",
    "upper case is ASCII's": "'tacocæt'.upperAscii() == 'TACOCæT'",
    "no replacement": "'hello hello'.replace('he', 'we', 0) == 'hello hello'",
    "all replacements": "'hello hello'.replace('he', 'we', -1) == 'wello wello'",
    "an empty text is between all characters": "'ab'.replace('', '-') == '-a-b-'",
    "no piece": "'a b'.split(' ', 0) == []",
    "one piece is all": "'a b'.split(' ', 1) == ['a b']",
    "the last piece is the rest": "'a b c'.split(' ', 2) == ['a', 'b c']",
    "all pieces": "'a b c'.split(' ', -1) == ['a', 'b', 'c']",
    "split into characters": "'aé😀'.split('') == ['a', 'é', '😀']",
    "split into some characters": "'abc'.split('', 2) == ['a', 'bc']",
    "an empty text has one piece": "''.split(',') == ['']",
    "an empty text has no characters": "''.split('') == []",
    "an empty list is joined": "[].join('/') == ''",
    "a list is joined": "['a', 'b'].join(', ') == 'a, b'",
    "the substring behind the end is empty": "'abc'.substring(3) == ''",
    "space is Unicode's": r"' \u0085\u00a0\u3000x\u200b '.trim() == 'x\u200b'",
    "what separates files is no space": r"'\x1cx\x1c'.trim() == '\x1cx\x1c'",
    "quotation": r"""strings.quote('a "b"\n\\é') == '"a \\"b\\"\\n\\\\é"'""",
}


@pytest.mark.parametrize("expression", TRUE.values(), ids=TRUE)
def test_values(expression: str) -> None:
    assert_true(expression)


_DURING = "error during formatting: "
_PARSING = "could not parse formatting clause: "
_PRECISION = f"{_PARSING}error while parsing precision: "
FAILURES = {
    "'abc'.charAt(4)": "index out of range: 4",
    "'abc'.charAt(-1)": "index out of range: -1",
    "'abc'.indexOf('a', -1)": "index out of range: -1",
    "'abc'.substring(4)": "index out of range: 4",
    "'abc'.substring(1, 5)": "index out of range: 5",
    "'abc'.substring(2, 1)": "invalid substring range. start: 2, end: 1",
    "[dyn('a'), dyn(1)].join('')": "no such overload",
    "string('%d %d').format([1])": "index 1 out of range",
    "string('%').format([1])": "unexpected end of string",
    "string('%y').format([1])": _PARSING + 'unrecognized formatting clause "y"',
    "string('%d').format(['x'])": _DURING + "decimal clause can only be used on integers, was given string",
    "string('%.2f').format([dyn(1)])": _DURING
    + "fixed-point clause can only be used on doubles, was given int",
    "string('%s').format([quantity('1')])": (
        f"{_DURING}string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
        "types, durations, and timestamps, was given kubernetes.Quantity"
    ),
    "string('%.f').format([1.0])": (
        f'{_PRECISION}error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    ),
    "string('%.2').format([1.0])": _PRECISION + "could not find end of precision specifier",
    "string('%.1001f').format([1.0])": _PRECISION + "precision 1001 exceeds maximum allowed precision 1000",
}


@pytest.mark.parametrize(("expression", "message"), FAILURES.items(), ids=FAILURES)
def test_errors(expression: str, message: str) -> None:
    assert_fails(expression, message)


# Kubernetes has version 2 of the library, which writes as people in the United States do.
FORMATTED: dict[str, tuple[str, Any, str]] = {
    "lists are literals": ("%s", ["abc", 3.14, None, [9], b"x"], '["abc", 3.140000, null, [9], b"x"]'),
    "maps are literals": ("%s", {"b": Duration(60 * SECOND), "a": UInt(1)}, '{"a":1, "b":duration("60s")}'),
    "times are literals in lists": ("%s", [Timestamp(SECOND // 2)], '[timestamp("1970-01-01T00:00:00.5Z")]'),
    "times by themselves are not": ("%s", Duration(SECOND * 3 // 2), "1.5s"),
    "thousands are grouped": ("%.1f", 1234567.89, "1,234,567.9"),
    "powers are raised": ("%e", 1052.032911275, "1.052033\u202f\u00d7\u202f10⁰³"),
    "large doubles": ("%s", 1000000.0, "1e+06"),
    "types": ("%s", types.INT, "int"),
    "hexadecimal": ("%x %%", 255, "ff %"),
    "hexadecimal of texts": ("%X", "Hi", "4869"),
    "negative in binary": ("%b", -5, "-101"),
    "a bool in binary": ("%b", True, "1"),
    "octal": ("%o", UInt(8), "10"),
}


@pytest.mark.parametrize(("clause", "argument", "text"), FORMATTED.values(), ids=FORMATTED)
def test_format(clause: str, argument: Any, text: str) -> None:
    assert evaluate(f"'{clause}'.format([given])", {"given": argument}).value == text


# Go's strconv.FormatFloat(x, 'g', -1, 64)
DOUBLES = {
    -0.0: "-0", 1.0: "1", 0.5: "0.5", 100000.0: "100000", 1e6: "1e+06", 1234567.0: "1.234567e+06",
    0.0001: "0.0001", 0.00001: "1e-05", 1e21: "1e+21", 5e-324: "5e-324", 123456.789: "123456.789",
    float("inf"): "+Inf", float("-inf"): "-Inf",
}  # fmt: skip


@pytest.mark.parametrize(("number", "text"), DOUBLES.items(), ids=map(str, DOUBLES))
def test_doubles_as_go_writes_them(number: float, text: str) -> None:
    assert double_text(number) == text


@given(st.floats(allow_nan=False))
def test_a_double_is_read_back(number: float) -> None:
    assert float(double_text(number)) == number


# k8s.io/apiserver pkg/cel/library/cost_test.go: the price of a call is of the texts that it reads.
COSTS = {
    "'0123456789'.charAt(1)": 1,
    "'01234567890'.lowerAscii()": 2,
    "'01234567890'.replace('a', 'b')": 3,
    "'01234567890'.split('a')": 3,
    "'01234567890'.indexOf('a')": 1,
    "['0123456789', '0123456789'].join('-')": 5,
    "'0'.format([])": 1,
}


@pytest.mark.parametrize(("expression", "cost"), COSTS.items(), ids=COSTS)
def test_costs(expression: str, cost: int) -> None:
    assert evaluate(expression).cost == cost
