"""What expressions become: values, errors, and what is not evaluated at all. Rows R01-R03, R18, R30."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.cel import types
from apiserver.cel.checker import CheckOptions
from apiserver.cel.compiler import Program, ProgramError
from apiserver.cel.declarations import Library
from apiserver.cel.environment import Environment
from apiserver.cel.functions import Overload
from apiserver.cel.library.comprehensions import BINDINGS, TWO_VARIABLES
from apiserver.cel.library.optionals import OPTIONALS
from apiserver.cel.library.regex import REGEX
from apiserver.cel.library.standard import STANDARD
from apiserver.cel.types import Field
from apiserver.cel.values import (
    CostExceeded,
    Duration,
    EvaluationError,
    MapList,
    Message,
    OptionalValue,
    SetList,
    Timestamp,
    UInt,
    equal,
)

OWNER: Final = types.object_of("Owner", {"name": Field("name", types.STRING)})
SELF: Final = types.object_of(
    "Self",
    {
        "n": Field("n", types.INT),
        "s": Field("s", types.STRING),
        "x__dash__y": Field("x-y", types.INT),
        "o": Field("o", OWNER),
        "owners": Field("owners", types.list_of(OWNER)),
        "l": Field("l", types.list_of(types.INT)),
        "labels": Field("labels", types.map_of(types.STRING, types.STRING)),
    },
)


def failing() -> bool:
    raise EvaluationError("failed")


def failing_too() -> bool:
    raise EvaluationError("failed, too")


OWN: Final = Library(
    "own",
    functions={
        "fail": (Overload("fail", (), types.BOOL, failing),),
        "fail2": (Overload("fail2", (), types.BOOL, failing_too),),
        "pick": (
            Overload("pick_ints", (types.list_of(types.INT),), types.STRING, lambda items: "ints"),
            Overload("pick_strings", (types.list_of(types.STRING),), types.STRING, lambda items: "strings"),
        ),
    },
)
LIBRARIES: Final = (STANDARD, OPTIONALS, TWO_VARIABLES, BINDINGS, REGEX, OWN)
ENVIRONMENT: Final = Environment(
    {"self": SELF, "d": types.DYN, "b": types.BOOL, "m": types.map_of(types.INT, types.STRING)},
    LIBRARIES,
    messages={"Owner": OWNER},
)
DOCUMENT: Final = {
    "n": 3,
    "s": "abc",
    "x-y": 7,
    "o": {"name": "o"},
    "owners": [{"name": "a"}, {"name": "b"}],
    "l": [1, 2, 3],
    "labels": {"app": "web"},
}


def program(text: str) -> Program:
    return ENVIRONMENT.program(ENVIRONMENT.check(text))


def value(text: str, **variables: Any) -> Any:
    return program(text)({"self": DOCUMENT, **variables}).value


VALUES: Final[dict[str, Any]] = {
    "self.n + 1": 4,
    "self.x__dash__y": 7,
    "self.o.name == 'o'": True,
    "self.owners[1].name": "b",
    "self.owners.map(o, o.name)": ["a", "b"],
    "self.labels.app": "web",
    "self.labels['app']": "web",
    "'app' in self.labels && !('x' in self.labels)": True,
    "2 in self.l": True,
    "has(self.o.name)": True,
    "has(self.labels.x)": False,
    "self.labels.all(k, self.labels[k] == 'web')": True,
    "self.l.exists_one(x, x > 2)": True,
    "self.l.filter(x, x > 1).map(x, x * 2)": [4, 6],
    "self.l.map(x, x > 1, x * 2)": [4, 6],
    "self.l.map(x, self.l.filter(y, y < x))": [[], [1], [1, 2]],
    "self.l.map(x, self.l.exists(x, x == 3) && x == 3)": [False, False, True],
    "self.l.transformMap(i, v, v > 1, v * v)": {1: 4, 2: 9},
    "self.labels.transformList(k, v, k + '=' + v)": ["app=web"],
    "self.labels.transformMapEntry(k, v, {v: k})": {"web": "app"},
    "self.l.all(i, v, v == i + 1)": True,
    "self.n > 2 ? 'many' : 'few'": "many",
    "cel.bind(x, self.n * 2, x + x)": 12,
    "[1, 2][0] == 1 && {1: 'a'}[1] == 'a' && {true: 'b'}[true] == 'b'": True,
    "{1: 'a'}[dyn(1.0)]": "a",
    "[7][dyn(0.0)]": 7,
    "self.?o.?name.orValue('x')": "o",
    "self.?labels.?nope.orValue('x')": "x",
    "self.l[?9].hasValue()": False,
    "self.labels[?'app'].optMap(v, v + '!').value()": "web!",
    "self.?labels.app.hasValue()": True,
    "[?self.?s, ?self.labels[?'x']]": ["abc"],
    "{?'a': self.?s, ?'b': self.labels[?'x']}": {"a": "abc"},
    "Owner{name: 'x'}.name": "x",
    "has(Owner{}.name)": False,
    "Owner{name: 'x'} == Owner{name: 'x'}": True,
    "'abc'.matches('^b') || self.s.matches('b')": True,
    "type(self.n) == int && type([]) == list && type(Owner{}) == Owner": True,
    "pick(dyn(['a'])) + pick(dyn([1]))": "stringsints",
    "dyn([1, 2]) == dyn([1.0, 2.0])": True,
    "dyn(1) == 1.0 && 1u < 2 && 2.5 > 2": True,
    "dyn(1) == dyn('1')": False,
    # Lists of constants are searched otherwise than others.
    "self.n in [1, 2, 3] && !(self.n in [1, 2])": True,
    "dyn(3.0) in [1, 3] && 3u in [dyn(3)] && dyn(self.n) in [3.0]": True,
    "dyn(true) in [1] || dyn(1) in [true] || dyn(duration('1s')) in [1000000000] || dyn([3]) in [3]": False,
    "dyn(true) in [dyn(1), dyn(true)] && self.s in ['abc'] && self.l in [[1, 2, 3]]": True,
    "0.0 / 0.0 in [0.0 / 0.0]": False,
    "1 / 0 in []": False,
    "[1, 2] + [3] == [1, 2, 3] && [[1, 2]].map(x, x + x) == [[1, 2, 1, 2]]": True,
    # What an optional value has an alternative for is asked for only if there is none.
    "optional.of(1).orValue(1 / 0)": 1,
    "optional.of(1).or(optional.of(1 / 0)).value()": 1,
    "optional.none().orValue(self.n)": 3,
    "optional.none().or(self.?o.?name).orValue('x')": "o",
    "optional.none().or(optional.none()).hasValue()": False,
    "self.labels[?'x'].or(self.labels[?'app']).orValue('y')": "web",
    "optional.none().orValue(1 / 0) == 1 || true": True,
}


@pytest.mark.parametrize(("text", "want"), VALUES.items(), ids=VALUES)
def test_the_value_of_an_expression(text: str, want: Any) -> None:
    got = value(text)
    assert equal(got, want)
    assert type(got) is type(want)


# Texts that a client sees; recorded from Kubernetes, or cel-go's (common/types).
ERRORS: Final[dict[str, str]] = {
    "self.l[3]": "index out of bounds: 3",
    "self.l[-1]": "index out of bounds: -1",
    "self.labels['zz']": "no such key: zz",
    "self.labels.zz": "no such key: zz",
    "d.x": "no such key: x",
    "m[1]": "no such key: 1",
    "10 / (self.n - 3)": "division by zero",
    "10 % (self.n - 3)": "modulus by zero",
    "self.n * 9223372036854775807": "integer overflow",
    "int(self.s)": "type conversion error from 'string' to 'int'",
    "dyn(1) + dyn('a')": "no such overload",
    "size(dyn(1))": "no such overload: size(int)",
    "dyn('a').startsWith(dyn(1))": "no such overload: startsWith(string, int)",
    "dyn(1) && true": "no such overload",
    "dyn('a') ? 1 : 2": "no such overload",
    "d['a'].b": "no such key: a",
    "[1][dyn('a')]": "unsupported index type 'string' in list",
    "{'a': 1, 'a': 2}": "Failed with repeated key",
    "dyn(1).all(x, true)": "got 'int', expected iterable type",
    "optional.none().value()": "optional.none() dereference",
    "[1, 1].transformMapEntry(i, v, {v: i})": "insert failed: key 1 already exists",
    "'a'.matches(self.s + '[')": "error parsing regexp: missing closing ]: `[`",
    "optional.none().orValue(1 / 0)": "division by zero",
    "optional.none().or(optional.of(1 / 0))": "division by zero",
    "dyn(1).or(optional.of(1))": "no such overload",
    "dyn(1).orValue(1)": "no such overload",
}


@pytest.mark.parametrize(("text", "want"), ERRORS.items(), ids=ERRORS)
def test_evaluation_errors(text: str, want: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        value(text, d={}, m={2: "b"})
    assert str(caught.value) == want


# cel-spec doc/langdef.md, "Logical operators" and "Macros": what an error cannot change.
ABSORBED: Final[dict[str, bool]] = {
    "fail() && false": False,
    "false && fail()": False,
    "fail() || true": True,
    "true || fail()": True,
    "fail() && fail2() && false": False,
    "fail() || fail2() || true": True,
    "[1, 2].all(x, x > 1 || fail() && x == 2 ? true : false)": False,
    "[0, 1].all(x, 1 / x > 1)": False,
    "[0, 1].exists(x, 1 / x == 1)": True,
    "true ? true : fail()": True,
    "cel.bind(x, fail(), true)": True,
}


@pytest.mark.parametrize(("text", "want"), ABSORBED.items(), ids=ABSORBED)
def test_logical_operators_ignore_errors_that_do_not_matter(text: str, want: bool) -> None:
    assert value(text) is want


REMAINING: Final[dict[str, str]] = {
    "fail() && true": "failed",
    "true && fail()": "failed",
    "fail() && fail2()": "failed",
    "fail2() || fail()": "failed, too",
    "fail() && fail2() && true": "failed",
    "[0, 1].all(x, 1 / x == 1)": "division by zero",
    "[0, 2].exists(x, 1 / x == 1)": "division by zero",
    "[1, 0].exists_one(x, 1 / x == 1)": "division by zero",
    "fail() ? 1 : 2 > 1 ? 1 : 2": "failed",
    "cel.bind(x, fail(), x || x)": "failed",
}


@pytest.mark.parametrize(("text", "want"), REMAINING.items(), ids=REMAINING)
def test_the_first_error_that_matters_is_raised(text: str, want: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        value(text)
    assert str(caught.value) == want


@given(st.lists(st.sampled_from(["true", "false", "fail()"]), min_size=1, max_size=6), st.booleans())
def test_the_order_of_terms_changes_nothing(terms: list[str], is_and: bool) -> None:
    """False wins in `&&`, true in `||`; then errors."""
    operator, winning = ("&&", "false") if is_and else ("||", "true")
    text = f" {operator} ".join(terms)
    if winning in terms:
        assert value(text) is not is_and
    elif "fail()" in terms:
        with pytest.raises(EvaluationError):
            value(text)
    else:
        assert value(text) is is_and


def test_a_binding_is_evaluated_once_and_only_if_it_is_needed() -> None:
    calls = []

    def count() -> bool:
        calls.append(1)
        raise EvaluationError("no value")

    library = Library("count", functions={"count": (Overload("count", (), types.BOOL, count),)})
    environment = Environment({}, [STANDARD, BINDINGS, library])
    run = environment.program(environment.check("cel.bind(x, count(), x || x || x || true)"))
    assert run({}).value is True
    assert len(calls) == 1
    unused = environment.program(environment.check("[1, 2].all(y, cel.bind(x, count(), y > 0 || x))"))
    assert unused({}).value is True
    assert len(calls) == 1


def test_a_binding_in_a_loop_is_evaluated_in_each_iteration() -> None:
    assert value("[1, 2, 3].map(x, cel.bind(y, x * 2, y + y))") == [4, 8, 12]


def test_a_missing_variable_is_an_error_where_it_is_read() -> None:
    assert program("true || d.x")({}).value is True
    with pytest.raises(EvaluationError, match=r"no such attribute\(s\): d"):
        program("d")({})
    with pytest.raises(EvaluationError, match=r"no such attribute\(s\): d"):
        program("d.x.y > 1")({})


def test_a_value_that_is_not_of_its_type_is_an_error_of_the_evaluation() -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        program("self.n < 5")({"self": {"n": "three"}})


JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats()
    | st.sampled_from(["", "a", "app", "1", "%s", "[", "1h", "2020-01-01T00:00:00Z"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*DOCUMENT, "name", "app", "a", "b"]), inner, max_size=4)
    ),
    max_leaves=8,
)
ANY_PROGRAM: Final = st.sampled_from([*VALUES, *ERRORS]).map(cache(program))


@settings(max_examples=200)
@given(ANY_PROGRAM, st.fixed_dictionaries({}, optional=dict.fromkeys(["self", "d", "b", "m"], JSON)))
def test_any_values_yield_a_value_or_an_error(run: Program, values: dict[str, Any]) -> None:
    with suppress(EvaluationError, CostExceeded):
        run(values)


@given(ANY_PROGRAM, JSON, st.booleans(), st.dictionaries(st.integers(0, 2), st.text(max_size=2)))
def test_overloads_are_chosen_by_the_types_of_values(
    run: Program, anything: Any, b: bool, m: dict[int, str]
) -> None:
    causes = []
    try:
        run({"self": DOCUMENT, "d": anything, "b": b, "m": m})
    except EvaluationError as error:
        causes.append(error.__cause__)
    assert causes in ([], [None])


# The type of an item of `d + [1]` is int, whatever is in `d`.
@pytest.mark.parametrize("factor", ["1000000000000", "1000000000000u", "1000000000000.0"])
def test_only_numbers_are_multiplied(factor: str) -> None:
    for text in (f"(d + [{factor}])[0] * {factor}", f"{factor} * (d + [{factor}])[0]"):
        with pytest.raises(EvaluationError, match="no such overload"):
            value(text, d=["a text"])
    with pytest.raises(EvaluationError, match="no such overload"):
        value("timestamp((d + [1])[0])", d=["a text"])


def test_documents_are_read_as_they_are() -> None:
    """Nothing is copied: what an expression returns of a document is the document's own."""
    assert value("self.owners.filter(o, o.name == 'b')[0]") is DOCUMENT["owners"][1]  # type: ignore[index]


# Selections that a map, a message and an optional value answer each in its way.
HOLDERS: Final[Mapping[str, tuple[Any, str, Any]]] = {
    "a map": ({"a": {"b": 1}}, "d.a.b", 1),
    "a message": (Message(OWNER, {"name": "x"}), "d.name", "x"),
    "an optional map": (OptionalValue({"a": {"b": 1}}), "d.a.b.value()", 1),
    "no value": (OptionalValue(has_value=False), "d.a.b.hasValue()", False),
}


@pytest.mark.parametrize(("holder", "text", "want"), HOLDERS.values(), ids=HOLDERS)
def test_a_field_is_selected_from_whatever_there_is(holder: Any, text: str, want: Any) -> None:
    assert value(text, d=holder) == want


@pytest.mark.parametrize(
    "holder",
    [None, 1, "text", [1], True, UInt(1), Timestamp(1), Duration(1)],
    ids=["null", "int", "string", "list", "bool", "uint", "timestamp", "duration"],
)
def test_values_without_fields_have_no_field(holder: Any) -> None:
    assert value("has(d.a)", d=holder) is False
    with pytest.raises(EvaluationError):
        value("d.a", d=holder)
    with pytest.raises(EvaluationError):
        value("d.?a", d=holder)


# Row R30: set and map lists by what their schemas say.
LISTS: Final[Mapping[str, tuple[str, Any, Any]]] = {
    "sets are equal in any order": ("d == [2, 1]", SetList([1, 2]), True),
    "sets are united": ("d + [3, 2]", SetList([1, 2]), [1, 2, 3]),
    "map lists take what is added for what they had": (
        "d + [{'k': 'b', 'v': 9}, {'k': 'c', 'v': 3}]",
        MapList([{"k": "a", "v": 1}, {"k": "b", "v": 2}], ("k",)),
        [{"k": "a", "v": 1}, {"k": "b", "v": 9}, {"k": "c", "v": 3}],
    ),
}


@pytest.mark.parametrize(("text", "given_list", "want"), LISTS.values(), ids=LISTS)
def test_lists_that_are_sets_or_maps(text: str, given_list: Any, want: Any) -> None:
    environment = Environment({"d": types.DYN}, LIBRARIES, options=CheckOptions(mixed=True))
    assert environment.program(environment.check(text))({"d": given_list}).value == want


@pytest.mark.parametrize("text", ["'a'.find('[')", "'a'.findAll('[')", "'a'.matches('[')"])
def test_a_pattern_that_is_constant_is_compiled_before_anything_is_evaluated(text: str) -> None:
    environment = Environment({}, LIBRARIES, options=CheckOptions(lenient=True))
    with pytest.raises(ProgramError) as caught:
        environment.program(environment.check(text))
    assert str(caught.value) == "error parsing regexp: missing closing ]: `[`"


UNCONVERTIBLE: Final[dict[str, str]] = {
    "int('x') == 1": "type conversion error from 'string' to 'int'",
    "true || int('x') == 1": "type conversion error from 'string' to 'int'",
    "self.l.all(x, uint(-1) > 0u)": "unsigned integer overflow",
    r"string(b'\xff') == ''": "invalid UTF-8 in bytes, cannot convert to string",
    "duration(string('x')) == d": "type conversion error from 'string' to 'google.protobuf.Duration'",
    "'a'.matches(string('['))": "error parsing regexp: missing closing ]: `[`",
}


@pytest.mark.parametrize(("text", "want"), UNCONVERTIBLE.items(), ids=UNCONVERTIBLE)
def test_constants_are_converted_before_anything_is_evaluated(text: str, want: str) -> None:
    """cel-go interpreter/decorators.go, decOptimize."""
    with pytest.raises(ProgramError) as caught:
        program(text)
    assert str(caught.value) == want


def test_an_invalid_literal_is_an_error_only_where_it_is_evaluated() -> None:
    assert value("true || {'a': 1, 'a': 2} == {}") is True


def test_threads_can_share_a_program() -> None:
    run = program("self.l.map(x, cel.bind(y, x + self.n, self.l.filter(z, z < y).size()))")
    got: dict[int, Any] = {}

    def evaluate(number: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(50):
                got[number] = run({"self": {"n": number, "l": [1, 2, 3]}}).value

        return work

    threads = [Thread(target=evaluate(number)) for number in (-5, 0, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {-5: [0, 0, 0], 0: [0, 1, 2], 5: [3, 3, 3]}
