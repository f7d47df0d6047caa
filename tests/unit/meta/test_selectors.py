"""Label and field selectors: their meaning, and the errors of invalid ones.

Rows I17, I18. The grammar and the sentences are those of k8s.io/apimachinery, pkg/labels/selector.go and
pkg/fields/selector.go.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apiserver.meta.selectors import (
    LABEL_KEYS_MAX,
    REQUIREMENTS_MAX,
    VALUES_MAX,
    FieldRequirement,
    FieldSelector,
    LabelSelector,
    Requirement,
    SelectorSyntaxError,
    TooManyTerms,
    label_selector_of,
    parse_field_selector,
    parse_label_selector,
)

# ---- label selectors


def r(key: str, operator: str, *values: str) -> Requirement:
    return Requirement(key, operator, frozenset(values))


LABELS: Final[dict[str, tuple[str, list[Requirement]]]] = {
    "nothing selects everything": ("", []),
    "spaces are nothing": (" \t\r\n", []),
    "a key alone must be there": ("a", [r("a", "exists")]),
    "an exclamation mark: must not be there": ("!a", [r("a", "!")]),
    "space after the mark": ("! a", [r("a", "!")]),
    "=": ("a=b", [r("a", "in", "b")]),
    "== is the same": ("a==b", [r("a", "in", "b")]),
    "!=": ("a!=b", [r("a", "notin", "b")]),
    "the empty value": ("a=", [r("a", "in", "")]),
    "the empty value before another requirement": ("a=,b", [r("a", "in", ""), r("b", "exists")]),
    "in": ("a in (b,c)", [r("a", "in", "b", "c")]),
    "notin": ("a notin (b,c)", [r("a", "notin", "b", "c")]),
    "no space is needed before a bracket": ("a in(b)", [r("a", "in", "b")]),
    "the same value twice": ("a in (b,b)", [r("a", "in", "b")]),
    "no values are the empty one": ("a in ()", [r("a", "in", "")]),
    "left out before a comma": ("a in (,b)", [r("a", "in", "", "b")]),
    "left out after a comma": ("a in (b,)", [r("a", "in", "", "b")]),
    "left out between commas": ("a in (b,,c)", [r("a", "in", "", "b", "c")]),
    "greater": ("a>1", [r("a", "gt", "1")]),
    "less": ("a < 10", [r("a", "lt", "10")]),
    "spaces anywhere": (" a  =  b ,\tc in ( d , e )\n", [r("a", "in", "b"), r("c", "in", "d", "e")]),
    "in and notin are words where they are no operators": (
        "in in (in,notin),notin=in,!in",
        [r("in", "in", "in", "notin"), r("notin", "in", "in"), r("in", "!")],
    ),
    "keys with a domain": ("example.com/a.b_c=D.e_f-1", [r("example.com/a.b_c", "in", "D.e_f-1")]),
    "one key, many requirements": ("a>1,a<9,a", [r("a", "gt", "1"), r("a", "lt", "9"), r("a", "exists")]),
}


@pytest.mark.parametrize(("text", "requirements"), LABELS.values(), ids=LABELS)
def test_label_selectors_are_parsed(text: str, requirements: list[Requirement]) -> None:
    selector = parse_label_selector(text)
    assert list(selector.requirements) == requirements


NO_KEY: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
NO_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
INVALID_B: Final = f'Invalid value: "b$": {NO_VALUE}'
INVALID_C: Final = f'Invalid value: "c$": {NO_VALUE}'
NO_INTEGER: Final = "for 'Gt', 'Lt' operators, the value must be an integer"
REQUIREMENT: Final = "unable to parse requirement: "
BAD_LABELS: Final = {
    "an operator at the start": ("=b", "found '=', expected: !, identifier, or 'end of string'"),
    "a comma at the start": (",a", "found ',', expected: !, identifier, or 'end of string'"),
    "a comma at the end": ("a,", "found '', expected: identifier after ','"),
    "two commas": ("a,,b", "found ',', expected: identifier after ','"),
    "two values": ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    "two equations": ("a=b=c", "found '=', expected: ',' or 'end of string'"),
    "a value for what must not be there": ("!a=b", "found '=', expected: ',' or 'end of string'"),
    "a mark alone": ("!", REQUIREMENT + "found '', expected: identifier"),
    "two marks": ("!!a", REQUIREMENT + "found '!', expected: identifier"),
    "two keys": ("a b", REQUIREMENT + "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    "operators are lower case": (
        "a IN (b)",
        REQUIREMENT + "found 'IN', expected: in, notin, =, ==, !=, gt, lt",
    ),
    "a mark as operator": ("a!b", REQUIREMENT + "found '!', expected: in, notin, =, ==, !=, gt, lt"),
    "an operator as value": ("a=!b", REQUIREMENT + "found '!', expected: identifier"),
    "no values at all": ("a in", REQUIREMENT + "found '' expected: '('"),
    "values without brackets": ("a in b", REQUIREMENT + "found 'b' expected: '('"),
    "an operator first in brackets": (
        "a in (=)",
        REQUIREMENT + "found '=', expected: ',', ')' or identifier",
    ),
    "an open bracket and nothing": ("a in (", REQUIREMENT + "found '', expected: ',', ')' or identifier"),
    "an operator later in brackets": ("a in (b,=)", REQUIREMENT + "found '=', expected: ',', or identifier"),
    "brackets not closed": ("a in (b", REQUIREMENT + "found '', expected: ',' or ')'"),
    "no comma in brackets": ("a in (b c)", REQUIREMENT + "found 'c', expected: ',' or ')'"),
    "a bad key": ("a$=b", f'{REQUIREMENT}<nil>: Invalid value: "a$": {NO_KEY}'),
    "a key as long as no key is": (
        "a" * 64,
        f'{REQUIREMENT}<nil>: Invalid value: "{"a" * 64}": name part must be no more than 63 bytes',
    ),
    "a bad value": ("a=b$", f"{REQUIREMENT}values[0][a]: {INVALID_B}"),
    "a bad value among good ones, which are sorted": (
        "a in (c$,b)",
        f"{REQUIREMENT}values[1][a]: {INVALID_C}",
    ),
    "all bad values are told": (
        "a in (b$,c$)",
        f"{REQUIREMENT}[values[0][a]: {INVALID_B}, values[1][a]: {INVALID_C}]",
    ),
    "a bound that is no number": ("a>b", f'{REQUIREMENT}values[0]: Invalid value: "b": {NO_INTEGER}'),
    "a bound with a fraction": ("a<1.5", f'{REQUIREMENT}values[0]: Invalid value: "1.5": {NO_INTEGER}'),
    "no bound": ("a>", f'{REQUIREMENT}values[0]: Invalid value: "": {NO_INTEGER}'),
    "a bound beyond 64 bits": (
        "a<9223372036854775808",
        f'{REQUIREMENT}values[0]: Invalid value: "9223372036854775808": {NO_INTEGER}',
    ),
    "a bound below zero, which is no label's value": (
        "a<-1",
        f'{REQUIREMENT}values[0][a]: Invalid value: "-1": {NO_VALUE}',
    ),
    "a bound that is neither": (
        "a>b$",
        f'{REQUIREMENT}[values[0]: Invalid value: "b$": {NO_INTEGER}, values[0][a]: {INVALID_B}]',
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_errors_of_bad_label_selectors(text: str, message: str) -> None:
    with pytest.raises(SelectorSyntaxError) as raised:
        parse_label_selector(text)
    assert str(raised.value) == message


MATCHES: Final = {
    "everything": ("", {}, True),
    "the value": ("a=b", {"a": "b"}, True),
    "another value": ("a=b", {"a": "c"}, False),
    "no such label": ("a=b", {"b": "b"}, False),
    "the empty value is not an absent label": ("a=", {}, False),
    "the empty value": ("a=", {"a": ""}, True),
    "one of the values": ("a in (b,c)", {"a": "c"}, True),
    "none of the values": ("a in (b,c)", {"a": "d"}, False),
    "an absent label is not one of the values": ("a in (b,)", {}, False),
    "not the value": ("a!=b", {"a": "c"}, True),
    "but the value": ("a!=b", {"a": "b"}, False),
    "an absent label has no value": ("a!=b", {}, True),
    "none of these": ("a notin (b,c)", {"a": "d"}, True),
    "but one of these": ("a notin (b,c)", {"a": "c"}, False),
    "an absent label is none of these": ("a notin (b,)", {}, True),
    "there": ("a", {"a": ""}, True),
    "not there": ("a", {"b": "a"}, False),
    "must not be there": ("!a", {"a": ""}, False),
    "is not there": ("!a", {}, True),
    "greater": ("a>9", {"a": "10"}, True),
    "not greater": ("a>9", {"a": "9"}, False),
    "less": ("a<9", {"a": "-10"}, True),
    "not less": ("a<9", {"a": "9"}, False),
    "no number is never greater": ("a>9", {"a": "b"}, False),
    "no label is never less": ("a<9", {}, False),
    "beyond 64 bits is no number": ("a>9", {"a": "9223372036854775808"}, False),
    "all requirements must hold": ("a=b,c", {"a": "b", "c": "d"}, True),
    "one that does not hold is enough": ("a=b,c", {"a": "b"}, False),
}


@pytest.mark.parametrize(("text", "labels", "does"), MATCHES.values(), ids=MATCHES)
def test_which_labels_match(text: str, labels: Mapping[str, str], does: bool) -> None:
    assert parse_label_selector(text).conditions.test()(labels) is does


_word: Final = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?", fullmatch=True)
_key: Final = _word | st.builds(
    "{}/{}".format, st.from_regex(r"[a-z0-9]{1,5}(\.[a-z0-9]{1,5})?", fullmatch=True), _word
)
_value: Final = st.just("") | _word
_number: Final = st.integers(0, 2**63 - 1).map(str)
_requirement: Final = st.one_of(
    st.builds(r, _key, st.sampled_from(["exists", "!"])),
    st.builds(r, _key, st.sampled_from(["gt", "lt"]), _number),
    st.builds(
        Requirement, _key, st.sampled_from(["in", "notin"]), st.frozensets(_value, min_size=1, max_size=4)
    ),
)


def written(requirement: Requirement) -> str:
    key, operator, values = requirement
    listed = ",".join(sorted(values))
    return {"exists": key, "!": f"!{key}", "gt": f"{key}>{listed}", "lt": f"{key}<{listed}"}.get(
        operator, f"{key} {operator} ({listed})"
    )


@given(st.lists(_requirement, max_size=5))
def test_a_label_selector_written_out_is_read_back(requirements: list[Requirement]) -> None:
    assert parse_label_selector(",".join(map(written, requirements))) == LabelSelector(tuple(requirements))


@given(_requirement, st.dictionaries(_key, _value, max_size=3), _value | _number, st.booleans())
def test_opposites_never_agree(
    requirement: Requirement, labels: dict[str, str], value: str, is_there: bool
) -> None:
    key, operator, values = requirement
    if is_there:
        labels[key] = value
    opposites = {"exists": "!", "!": "exists", "in": "notin", "notin": "in", "gt": "lt", "lt": "gt"}
    does = LabelSelector((requirement,)).conditions.test()(labels)
    opposite = LabelSelector((Requirement(key, opposites[operator], values),)).conditions.test()(labels)
    if operator in ("gt", "lt"):
        assert not (does and opposite)
    else:
        assert does is not opposite


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """As https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors has it."""
    key, operator, values = requirement
    if operator in ("exists", "!"):
        return (key in labels) is (operator == "exists")
    if operator in ("in", "notin"):
        return (key in labels and labels[key] in values) is (operator == "in")
    if key not in labels or not labels[key].lstrip("-").isdigit():
        return False
    number, bound = int(labels[key]), int(min(values))
    return number > bound if operator == "gt" else number < bound


# Few keys and values, so that requirements meet each other and the labels.
_few_keys: Final = st.sampled_from("abc")
_few_values: Final = st.sampled_from(["", "x", "y", "1", "2", "3", "-1"])
_meeting_requirement: Final = st.one_of(
    st.builds(r, _few_keys, st.sampled_from(["exists", "!"])),
    st.builds(r, _few_keys, st.sampled_from(["gt", "lt"]), st.sampled_from(["-2", "0", "1", "2", "4"])),
    st.builds(
        Requirement,
        _few_keys,
        st.sampled_from(["in", "notin"]),
        st.frozensets(_few_values, min_size=1, max_size=4),
    ),
)
_few_labels: Final = st.dictionaries(st.sampled_from("abcd"), _few_values, max_size=4)


@given(st.lists(_meeting_requirement, max_size=8), _few_labels)
def test_a_compiled_label_selector_selects_what_all_its_requirements_hold_for(
    requirements: list[Requirement], labels: dict[str, str]
) -> None:
    test = LabelSelector(tuple(requirements)).conditions.test()
    assert test(labels) is all(holds(requirement, labels) for requirement in requirements)


@given(st.lists(_meeting_requirement, max_size=6), st.randoms())
def test_the_order_of_requirements_and_repetitions_make_no_difference(
    requirements: list[Requirement], random: Random
) -> None:
    """So that one test serves all watchers with selectors that mean the same."""
    other = requirements * 2
    random.shuffle(other)
    assert LabelSelector(tuple(requirements)).conditions == LabelSelector(tuple(other)).conditions


SAME: Final = {
    "a set of one": ("a=b", "a in (b)"),
    "what can only be one": ("a=b", "a in (b,c),a notin (c,d),a"),
    "many forbidden values": ("a!=b,a!=c", "a notin (c,b)"),
    "overlapping sets": ("a in (b,c)", "a in (b,c,d),a in (b,c,e)"),
    "bounds within bounds": ("a>1,a<9", "a>0,a>1,a<9,a<10,a"),
    "numbers to choose from": ("a in (2,3)", "a in (1,2,3,x),a>1"),
    "what must not exist has no value": ("!a", "!a,a!=b"),
    "two values at once": ("a=b,a=c", "x,!x"),
    "a value that is forbidden": ("a=b,a!=b", "x,!x"),
    "a number that cannot be": ("a>1,a<2", "x,!x"),
    "a number of more than 64 bits": ("a>9223372036854775807", "x,!x"),
    "no number": ("a=b,a>1", "x,!x"),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_selectors_that_mean_the_same_are_compiled_to_the_same(one: str, other: str) -> None:
    assert parse_label_selector(one).conditions == parse_label_selector(other).conditions


LONG: Final[dict[str, tuple[int, Callable[[int], str]]]] = {
    "requirements": (REQUIREMENTS_MAX, lambda n: ",".join(f"a!=b{i}" for i in range(n))),
    "values of one label": (VALUES_MAX, lambda n: f"a in ({','.join(f'b{i}' for i in range(n))})"),
    "values that are nothing": (VALUES_MAX, lambda n: f"a in ({',' * (n - 1)})"),
    "values of many labels": (
        VALUES_MAX,
        lambda n: (
            f"a in ({','.join(map(str, range(n // 2)))}),b in ({','.join(map(str, range(n - n // 2)))})"
        ),
    ),
    "labels": (LABEL_KEYS_MAX, lambda n: ",".join(f"a{i}" for i in range(n))),
}


@pytest.mark.parametrize(("most", "text"), LONG.values(), ids=LONG)
def test_label_selectors_have_bounds(most: int, text: Callable[[int], str]) -> None:
    parse_label_selector(text(most))
    with pytest.raises(TooManyTerms, match=f"Too many: must .* at most {most} "):
        parse_label_selector(text(most + 1))


_symbols: Final = st.text(alphabet="ab1 ,=!()<>$\\.", max_size=20) | st.lists(
    st.sampled_from(["in", "notin", "a", "b/c", "(", ")", ",", "=", "!", ">", " ", "1"])
).map("".join)


@given(_symbols | st.text())
@example("a in (" + "," * 1000 + ")")
def test_any_text_is_a_label_selector_or_a_syntax_error(text: str) -> None:
    with contextlib.suppress(SelectorSyntaxError):
        parse_label_selector(text).conditions.test()({})


# ---- field selectors

KNOWN: Final = frozenset({"metadata.name", "metadata.namespace"})
NAME, NAMESPACE = "metadata.name", "metadata.namespace"


def f(field: str, value: str, is_equal: bool = True) -> FieldRequirement:
    return FieldRequirement(field, value, is_equal)


FIELDS: Final[dict[str, tuple[str, list[FieldRequirement]]]] = {
    "nothing selects everything": ("", []),
    "commas alone are nothing": (",,", []),
    "=": ("metadata.name=a", [f(NAME, "a")]),
    "== is the same": ("metadata.name==a", [f(NAME, "a")]),
    "!=": ("metadata.name!=a", [f(NAME, "a", False)]),
    "the empty value": ("metadata.name=", [f(NAME, "")]),
    "many": ("metadata.name=a,metadata.namespace!=b", [f(NAME, "a"), f(NAMESPACE, "b", False)]),
    "what is between two commas is left out": ("metadata.name=a,,", [f(NAME, "a")]),
    "spaces are part of the value": ("metadata.name= a b", [f(NAME, " a b")]),
    "a comma in the value": (r"metadata.name=a\,b", [f(NAME, "a,b")]),
    "an equals sign in the value": (r"metadata.name=a\=b", [f(NAME, "a=b")]),
    "a backslash in the value": (r"metadata.name=a\\,metadata.name=b", [f(NAME, "a\\"), f(NAME, "b")]),
    "a mark in the value": ("metadata.name=a!b", [f(NAME, "a!b")]),
}


@pytest.mark.parametrize(("text", "requirements"), FIELDS.values(), ids=FIELDS)
def test_field_selectors_are_parsed(text: str, requirements: list[FieldRequirement]) -> None:
    selector = parse_field_selector(text, KNOWN)
    assert list(selector.requirements) == requirements


BAD_FIELDS: Final = {
    "no operator": (
        "metadata.name=a,metadata.name",
        "invalid selector: 'metadata.name=a,metadata.name'; can't understand 'metadata.name'",
    ),
    "a set, which only labels have": (
        "metadata.name in (a)",
        "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'",
    ),
    "a bare equals sign in a value": (
        "metadata.name=a=b",
        "invalid field selector: unescaped character in value: 61",
    ),
    "a backslash before a letter": (
        r"metadata.name=a\b",
        r"invalid field selector: invalid escape sequence: \b",
    ),
    "a backslash at the end": ("metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
    "a field that nobody knows": (
        "data.x=1",
        '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
    "of several the first by the order of texts": (
        "x=1,metadata.name=b=c,data.x",
        "invalid selector: 'x=1,metadata.name=b=c,data.x'; can't understand 'data.x'",
    ),
    "a field with a space before it": (
        "metadata.name=a, metadata.name=b",
        '" metadata.name" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_errors_of_bad_field_selectors(text: str, message: str) -> None:
    with pytest.raises(SelectorSyntaxError) as raised:
        parse_field_selector(text, KNOWN)
    assert str(raised.value) == message


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


_field_requirement: Final = st.builds(
    FieldRequirement,
    st.sampled_from(sorted(KNOWN)),
    st.text() | st.text(alphabet="a\\,=!\n", max_size=8),
    st.booleans(),
)


@given(st.lists(_field_requirement, max_size=4))
def test_a_field_selector_written_out_is_read_back(requirements: list[FieldRequirement]) -> None:
    written = [(f"{r.field}{'=' if r.is_equal else '!='}{escaped(r.value)}", r) for r in requirements]
    read = parse_field_selector(",".join(text for text, _ in written), KNOWN)
    assert read == FieldSelector(tuple(requirement for _, requirement in sorted(written)))


@given(_symbols.map("metadata.name".__add__) | st.text())
def test_any_text_is_a_field_selector_or_a_syntax_error(text: str) -> None:
    with contextlib.suppress(SelectorSyntaxError):
        field_test(parse_field_selector(text, KNOWN))(dict.fromkeys(KNOWN, ""))


def field_test(selector: FieldSelector) -> Callable[[Mapping[str, str]], bool]:
    return selector.conditions.test(operator.itemgetter)


def test_fields_match_when_all_requirements_hold() -> None:
    fields = {NAME: "a", NAMESPACE: "b"}
    assert field_test(FieldSelector((f(NAME, "a"), f(NAMESPACE, "c", False))))(fields)
    assert not field_test(FieldSelector((f(NAME, "a"), f(NAMESPACE, "b", False))))(fields)
    assert not field_test(FieldSelector((f(NAME, "b"),)))(fields)
    assert field_test(FieldSelector())(fields)


_field_requirements: Final = st.lists(
    st.builds(FieldRequirement, st.sampled_from(sorted(KNOWN)), st.sampled_from("abc"), st.booleans()),
    max_size=6,
)
_field_values: Final = st.fixed_dictionaries({field: st.sampled_from("abcd") for field in sorted(KNOWN)})


@given(_field_requirements, _field_values)
def test_a_compiled_field_selector_selects_what_all_its_requirements_hold_for(
    requirements: list[FieldRequirement], fields: dict[str, str]
) -> None:
    test = field_test(FieldSelector(tuple(requirements)))
    assert test(fields) is all((fields[r.field] == r.value) is r.is_equal for r in requirements)


@given(_field_requirements, st.randoms())
def test_the_order_of_field_requirements_makes_no_difference(
    requirements: list[FieldRequirement], random: Random
) -> None:
    other = requirements * 2
    random.shuffle(other)
    assert FieldSelector(tuple(requirements)).conditions == FieldSelector(tuple(other)).conditions


def test_field_selectors_have_a_bound() -> None:
    terms = [f"metadata.name!=a{i}" for i in range(REQUIREMENTS_MAX + 1)]
    parse_field_selector(",".join(terms[:-1]), KNOWN)
    with pytest.raises(TooManyTerms, match=f"Too many: must have at most {REQUIREMENTS_MAX} requirements"):
        parse_field_selector(",".join(terms), KNOWN)


def test_a_required_value_is_that_of_an_equality() -> None:
    """So that a selector by name reads one object instead of all."""
    selector = parse_field_selector("metadata.namespace!=b,metadata.name=a", KNOWN)
    assert selector.required_value(NAME) == "a"
    assert selector.required_value(NAMESPACE) is None
    assert selector.without({(NAME, "a"), (NAMESPACE, "b")}) == FieldSelector((f(NAMESPACE, "b", False),))


def test_two_required_values_contradict_each_other() -> None:
    """One of them may be read by; the other must still be tested, and then nothing is selected."""
    for text in ("metadata.name=a,metadata.name=b", "metadata.name=b,metadata.name=a"):
        selector = parse_field_selector(text, KNOWN)
        assert selector.required_value(NAME) == "a"
        assert selector.without({(NAME, "a")}).required_value(NAME) == "b"
        assert selector.conditions.is_never


SELECTORS_IN_OBJECTS: Final = {
    "nothing": ({}, ""),
    "labels": ({"matchLabels": {"a": "1", "b": ""}}, "a=1,b="),
    "some values": (
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]},
        "a in (1,2)",
    ),
    "no such value": (
        {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]},
        "a notin (1)",
    ),
    "any value": ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "a"),
    "none": ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "!a"),
}


@pytest.mark.parametrize(("document", "text"), SELECTORS_IN_OBJECTS.values(), ids=SELECTORS_IN_OBJECTS)
def test_a_selector_in_an_object_is_that_of_a_text(document: dict[str, Any], text: str) -> None:
    assert label_selector_of(document) == parse_label_selector(text)


def test_a_selector_in_an_object_has_the_bound_of_a_text() -> None:
    terms = [{"key": "a", "operator": "Exists"}] * (REQUIREMENTS_MAX + 1)
    with pytest.raises(TooManyTerms):
        label_selector_of({"matchExpressions": terms})
