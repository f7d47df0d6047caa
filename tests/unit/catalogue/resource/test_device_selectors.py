"""Expressions that select devices. Source: k8s.io/dynamic-resource-allocation, cel (release 1.36)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from apiserver.catalogue.resource.device_selectors import (
    Selector,
    device_type,
    environment,
    validate_selector,
)
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.cel.cost_estimate import estimate
from apiserver.cel.values import EvaluationError
from apiserver.load.size_class import TakesLong
from apiserver.meta.field_errors import forbidden
from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.served_kinds import ServedKind

_ATTRIBUTES: Final = 'device.attributes["dra.example.com"]'
_CAPACITY: Final = 'device.capacity["dra.example.com"]'
_IS_LARGE: Final = '.isGreaterThan(quantity("1Ki"))'
_IS_LATER: Final = '.isGreaterThan(semver("0.0.1"))'
# What Kubernetes computes as the worst case of their costs: cel/compile_test.go there.
COSTS: Final = {
    "true": 0,
    '"no-such-domain" in device.attributes': 3,
    'device.driver == ""': 2,
    'device.driver == "dra.example.com"': 4,
    f"{_ATTRIBUTES}.name": 4,
    f'{_ATTRIBUTES}["name"]': 4,
    f"cel.bind(dra, {_ATTRIBUTES}, dra.name)": 15,
    f"{_ATTRIBUTES}.name > 0": 5,
    f'{_ATTRIBUTES}.name == "fish"': 5,
    f"{_ATTRIBUTES}.names.size() == 2": 6,
    f'{_ATTRIBUTES}.name.isGreaterThan(semver("v0.0.1", true)) && isSemver("v1.0.0", true)': 7,
    f"{_CAPACITY}.name{_IS_LARGE}": 6,
    f'"name" in {_CAPACITY} && {_CAPACITY}.name{_IS_LARGE}': 10,
    f'!("name" in {_CAPACITY}) || {_CAPACITY}.name{_IS_LARGE}': 11,
    (
        f"{_CAPACITY}.quantity{_IS_LARGE} && {_ATTRIBUTES}.bool && {_ATTRIBUTES}.int > 0 && "
        f'{_ATTRIBUTES}.string == "fish" && {_ATTRIBUTES}.version{_IS_LATER} && '
        f'{_CAPACITY}["quantity"]{_IS_LARGE} && {_ATTRIBUTES}["bool"] && {_ATTRIBUTES}["int"] > 0 && '
        f'{_ATTRIBUTES}["string"] == "fish" && {_ATTRIBUTES}["version"]{_IS_LATER}'
    ): 52,
    'device.attributes.exists_one(x, x == "dra.example.com")': 164,
    f'{_ATTRIBUTES}.exists_one(x, x == "services")': 133,
    'device.capacity.exists_one(x, x == "dra.example.com")': 164,
    f'{_CAPACITY}.exists_one(x, x == "memory")': 133,
    f'{_ATTRIBUTES}.services.split("example").size() >= 2': 19,
    f'{_ATTRIBUTES}.services.matches("[^a]?sym")': 18,
    "device.allowMultipleAllocations == true": 3,
}
# Those that need attributes that may be lists.
OF_LISTS: Final = {
    f"{_ATTRIBUTES}.name.exists(x, x > 0)": 5 + 6 * 64,
    f'{_ATTRIBUTES}.names.all(x, x != "")': 5 + 4 * 64,
    f"{_ATTRIBUTES}.names.all(x, x{_IS_LATER})": 5 + 6 * 64,
    f"{_ATTRIBUTES}.name.includes(true)": 4 + 48,
    f'{_ATTRIBUTES}.name.includes("fish")': 4 + 48,
    f"{_ATTRIBUTES}.name.sub": 4,
}
WITH_LISTS: Final = CompatibilityVersion(
    (1, 35), frozenset({"DRAListTypeAttributes", "DRAConsumableCapacity"})
)
DEFAULT: Final = CompatibilityVersion((1, 35), frozenset({"DRAConsumableCapacity"}))


def cost_of(expression: str, *, has_lists: bool = False) -> int:
    version = WITH_LISTS if has_lists else DEFAULT
    checked = environment(has_lists=has_lists).check(expression, version)
    return estimate(checked.node, device_type(has_lists=has_lists)).high


@pytest.mark.parametrize(("expression", "cost"), COSTS.items(), ids=COSTS)
def test_what_expressions_may_cost(expression: str, cost: int) -> None:
    for has_lists in (False, True):
        assert cost_of(expression, has_lists=has_lists) == cost
        assert validate_selector(Selector("e", expression), WITH_LISTS if has_lists else DEFAULT) == []


@pytest.mark.parametrize(("expression", "cost"), OF_LISTS.items(), ids=OF_LISTS)
def test_what_expressions_may_cost_if_attributes_may_be_lists(expression: str, cost: int) -> None:
    """The gate DRAListTypeAttributes."""
    assert cost_of(expression, has_lists=True) == cost
    assert validate_selector(Selector("e", expression), WITH_LISTS) == []
    assert len(validate_selector(Selector("e", expression), DEFAULT)) == 1


INCLUDES: Final = {
    "an item": ([1, 2], 2, True),
    "no item": ([1, 2], 3, False),
    "of another type": ([1, 2], "1", False),
    "the value itself": ("a", "a", True),
    "another value": ("a", "b", False),
    "the last item that there may be": ([*range(48)], 47, True),
    "an item before too many": ([*range(49)], 47, True),
}


@pytest.mark.parametrize(("attribute", "sought", "answer"), INCLUDES.values(), ids=INCLUDES)
def test_includes(attribute: Any, sought: Any, answer: bool) -> None:
    assert evaluated(attribute, sought) is answer


def test_includes_looks_at_so_many_values() -> None:
    with pytest.raises(
        EvaluationError, match="'includes' function cannot be applied to lists longer than 48"
    ):
        evaluated([*range(49)], 48)


def evaluated(attribute: Any, sought: Any) -> Any:
    used = environment(has_lists=True)
    program = used.program(used.check(f"{_ATTRIBUTES}.a.includes({sought!r})", WITH_LISTS))
    return program({"device": {"attributes": {"dra.example.com": {"a": attribute}}}}).value


_TEN: Final = str([*range(1, 11)])
_EXPENSIVE: Final = (
    "".join(f"{_TEN}.all(x{i}, " for i in range(7)) + "int('1'.find('[0-9]*')) < 100" + ")" * 7
)
# Expressions, and how what is wrong with them begins.
WRONG: Final = {
    "nothing": (
        "",
        'e: Invalid value: "": compilation failed: ERROR: <input>:1:1: Syntax error: mismatched input ',
    ),
    "no expression": ("?!", 'e: Invalid value: "?!": compilation failed: ERROR: <input>:1:1: Syntax error: '),
    "a number": ("1", 'e: Invalid value: "1": must evaluate to bool or the unknown type, not int'),
    "a field that devices have not": (
        "device.model",
        "e: Invalid value: \"device.model\": compilation failed: ERROR: <input>:1:7: undefined field 'model'",
    ),
    "another variable": (
        "self",
        "e: Invalid value: \"self\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'self'",
    ),
    "a capacity, as if it were a number": (
        f"{_CAPACITY}.ram > 1",
        'e: Invalid value: "device.capacity[\\"dra.example.com\\"].ram > 1": compilation failed: ERROR: ',
    ),
    "much work": (_EXPENSIVE, "e: Forbidden: too complex, exceeds cost limit"),
}


@pytest.mark.parametrize(("expression", "beginning"), WRONG.values(), ids=WRONG)
def test_expressions_that_are_wrong(expression: str, beginning: str) -> None:
    (error,) = validate_selector(Selector("e", expression), DEFAULT)
    assert str(error).startswith(beginning)


# Attributes are of the type `any`: Kubernetes' own answers.
ANY: Final = {
    f"{_ATTRIBUTES}.a.b": "must evaluate to bool or the unknown type, not dyn",
    f"{_ATTRIBUTES}.a.exists(x, x > 0)": (
        "expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)"
    ),
    f"[{_ATTRIBUTES}.a, 1] == []": "ERROR: <input>:1:42: expected type 'any' but found 'int'",
    f"{_ATTRIBUTES}.a.includes(1)": "undeclared reference to 'includes' (in container '')",
}


@pytest.mark.parametrize(("expression", "detail"), ANY.items(), ids=ANY)
def test_the_type_of_attributes(expression: str, detail: str) -> None:
    (error,) = validate_selector(Selector("e", expression), DEFAULT)
    assert detail in str(error)


def test_the_cost_of_the_expensive_one_is_known() -> None:
    assert cost_of(_EXPENSIVE) == 85_555_551


# What new expressions may use since a release or a gate.
VERSIONED: Final[dict[str, tuple[str, CompatibilityVersion, CompatibilityVersion]]] = {
    "bindings": (
        "cel.bind(a, device.driver, a == '')",
        CompatibilityVersion((1, 30), frozenset()),
        CompatibilityVersion((1, 31), frozenset()),
    ),
    "several allocations": (
        "device.allowMultipleAllocations",
        CompatibilityVersion((1, 35), frozenset()),
        CompatibilityVersion((1, 33), frozenset({"DRAConsumableCapacity"})),
    ),
    "a library": (
        f"{_ATTRIBUTES}.a.isLessThan(semver('1.0.0'))",
        CompatibilityVersion((1, 32), frozenset()),
        CompatibilityVersion((1, 33), frozenset()),
    ),
}


@pytest.mark.parametrize(("expression", "without", "with_"), VERSIONED.values(), ids=VERSIONED)
def test_what_new_expressions_may_use(
    expression: str, without: CompatibilityVersion, with_: CompatibilityVersion
) -> None:
    """Row R20."""
    assert validate_selector(Selector("e", expression), with_) == []
    assert len(validate_selector(Selector("e", expression), without)) == 1


GROUP: Final = "resource.k8s.io"
_REQUESTS: Final = "devices.requests"


def selectors(*expressions: str) -> list[Any]:
    return [{"cel": {"expression": each}} for each in expressions]


def claim(*expressions: str) -> Document:
    """Returns the spec of a claim that has them in both forms of requests."""
    devices = {"deviceClassName": "c", "selectors": selectors(*expressions)}
    requests = [
        {"name": "a", "exactly": devices},
        {"name": "b", "firstAvailable": [{"name": "c", **devices}]},
    ]
    return {"devices": {"requests": requests}}


# A type, a spec with an expression, and the fields that have it.
KINDS: Final[dict[str, tuple[str, Callable[..., Document], list[str]]]] = {
    "claims": (
        "resourceclaims",
        claim,
        [f"spec.{_REQUESTS}[0].exactly", f"spec.{_REQUESTS}[1].firstAvailable[0]"],
    ),
    "templates": (
        "resourceclaimtemplates",
        lambda *expressions: {"spec": claim(*expressions)},
        [f"spec.spec.{_REQUESTS}[0].exactly", f"spec.spec.{_REQUESTS}[1].firstAvailable[0]"],
    ),
    "classes": ("deviceclasses", lambda *expressions: {"selectors": selectors(*expressions)}, ["spec"]),
}


@pytest.fixture(autouse=True, scope="module")
def is_not_the_first() -> None:
    """The first one is never checked in the event loop."""
    environment(has_lists=False)


def found(
    resource: str, spec: Document, *, is_bounded: bool = True, old: Document | None = None
) -> list[str]:
    strategy = ServedKind(f"{resource}.{GROUP}").strategy
    rules = strategy.expressions if old is None else strategy.update.expressions
    assert rules is not None
    before = None if old is None else {"spec": old}
    return list(map(str, rules({"spec": spec}, before, [forbidden("a")], is_bounded).errors))


@pytest.mark.parametrize(("resource", "spec", "fields"), KINDS.values(), ids=KINDS)
def test_what_is_wrong_is_told_where_it_is(
    resource: str, spec: Callable[..., Document], fields: list[str]
) -> None:
    text = 'Invalid value: "1": must evaluate to bool or the unknown type, not int'
    wrong = [f"{field}.selectors[1].cel.expression: {text}" for field in fields]
    assert found(resource, spec("true", "1")) == ["a: Forbidden", *wrong]
    assert found(resource, spec("true")) == ["a: Forbidden"]
    assert found(resource, spec(*["1"] * 33)) == ["a: Forbidden"]  # There are too many of them.
    assert found(resource, spec("1" * 10_241)) == ["a: Forbidden"]  # It is too long.
    assert found(resource, {}) == ["a: Forbidden"]


def test_a_request_of_both_forms_is_not_looked_at() -> None:
    (first, second) = claim("1")["devices"]["requests"]
    both = {"devices": {"requests": [{**first, **second}]}}
    assert found("resourceclaims", both) == ["a: Forbidden"]


@pytest.mark.parametrize(("resource", "spec", "fields"), KINDS.values(), ids=KINDS)
def test_long_expressions_are_checked_beside_the_event_loop(
    resource: str, spec: Callable[..., Document], fields: list[str]
) -> None:
    long = " && ".join(["true"] * 100)
    with pytest.raises(TakesLong):
        found(resource, spec(long))
    assert found(resource, spec(long), is_bounded=False) == ["a: Forbidden"]
    most = [f"'{index}{'x' * 10_000}' == ''" for index in range(10)]
    assert found(resource, spec(*most), is_bounded=False)[1].endswith(
        f"expressions must not have more than 100000 characters together, but have {len(fields) * 100_090}"
    )


def test_patterns_are_compiled_beside_the_event_loop() -> None:
    """Some take hundreds of milliseconds, and every user may send them."""
    selecting = claim(r"device.driver.matches('[^\\pL]{50}')")
    with pytest.raises(TakesLong):
        found("resourceclaims", selecting)
    assert found("resourceclaims", selecting, is_bounded=False) == ["a: Forbidden"]


def test_expressions_of_a_class_that_stay_are_not_checked_again() -> None:
    stored = {"selectors": selectors("1", "true")}
    assert found("deviceclasses", stored, old=stored) == ["a: Forbidden"]
    assert len(found("deviceclasses", {"selectors": selectors("true", "1")}, old=stored)) == 2
    assert ServedKind(f"resourceclaims.{GROUP}").strategy.update.expressions is None
