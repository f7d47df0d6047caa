"""No call of a library takes all memory, or long, whatever it is given. Rows I13, R30."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from apiserver.cel.values import CostExceeded, EvaluationError
from tests.unit.cel.library_support import evaluate

LONG = "a" * 1_000_000
MANY = list(range(100_000))
NESTED: list[Any] = [[index] for index in range(100_000)]
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]

HOSTILE = {
    "a replacement that multiplies": "text.replace('', text)",
    "a replacement of each character": "text.replace('a', text)",
    "a separator that multiplies": "items.map(i, text).join(text)",
    "a separator that is long": "text.split('').join(text)",
    "a range without end": "lists.range(9223372036854775807).size() > 0",
    "a range that is long": "lists.range(100000000)",
    "what is distinct of much": "nested.distinct()",
    "much that is sorted": "items.sort()",
    "sets of much": "sets.contains(nested, nested)",
    "equal sets of much": "sets.equivalent(nested, nested)",
    "a precision without end": "string('%.999999999999f').format([1.0])",
    "a large precision": "string('%.100000f').format([1.0])",
    "much that is formatted": "'%s'.format([items.map(i, text)])",
    "deep lists made flat": "deep.flatten(9223372036854775807)",
    "deep lists formatted": "'%s'.format([deep])",
    "a quantity with a large exponent": "quantity('1e1000000000').asInteger()",
    "a quantity with a larger exponent": "quantity('1e10000000000')",
    "a quantity with many digits": "quantity(text.replace('a', '1'))",
    "a sum of very different quantities": "quantity('1e1000000000').add(1)",
    "a difference of very different quantities": "quantity('1e1000000000').sub(quantity('1n'))",
    "a version with many digits": "semver(text.replace('a', '1') + '.0.0')",
    "an address with many digits": "ip(text.replace('a', '1') + '.0.0.0')",
    "a range with many digits": "cidr('::/' + text.replace('a', '1'))",
    "an address with many fields": "ip(text.replace('a', '1.'))",
    "too many matches": "text.findAll('a*b|a')",
    "a pattern that is evil": "text.find('^(a+)+$|(a|aa)+b') == ''",
    "a pattern that is large": "text.find(dyn('[a-z]{1,1000}\\\\pL{1000}'))",
    "a query of much": "url('/?' + text.replace('a', 'a&')).getQuery().size() == 2",
}


# They are no trouble.
HARMLESS: Final = [HOSTILE[each] for each in ("a pattern that is evil", "a query of much")]


@pytest.mark.parametrize("expression", HOSTILE.values(), ids=HOSTILE)
def test_hostile_calls_end_with_an_error(expression: str) -> None:
    started = time.process_time()  # whatever else the machine does
    variables = {"text": LONG, "items": MANY, "nested": NESTED, "deep": DEEP}
    if expression in HARMLESS:
        assert evaluate(expression, variables).value is False
    else:
        with pytest.raises((EvaluationError, CostExceeded)):
            evaluate(expression, variables)
    # It takes a tenth of that; another way would take minutes, or all memory.
    assert time.process_time() - started < 10
