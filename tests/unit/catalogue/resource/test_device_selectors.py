"""Expressions that select devices. Source: k8s.io/dynamic-resource-allocation, cel (release 1.36)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from apiserver.catalogue.resource.device_selectors import (
    DEVICE,
    Selector,
    environment,
    validate_selector,
)
from apiserver.cel.cost_estimate import estimate
from apiserver.cel.kubernetes_environments import COMPATIBLE_RELEASE
from apiserver.field_errors import forbidden
from apiserver.registry.findings import TakesLong
from apiserver.vocabulary import Document
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
    f"{_ATTRIBUTES}.name.exists(x, x > 0)": 5 + 6 * 64,
    f'{_ATTRIBUTES}.names.all(x, x != "")': 5 + 4 * 64,
    f"{_ATTRIBUTES}.names.all(x, x{_IS_LATER})": 5 + 6 * 64,
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


@pytest.mark.parametrize(("expression", "cost"), COSTS.items(), ids=COSTS)
def test_what_expressions_may_cost(expression: str, cost: int) -> None:
    checked = environment().check(expression, release=COMPATIBLE_RELEASE)
    assert estimate(checked.node, DEVICE).high == cost
    assert validate_selector(Selector("e", expression)) == []


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
    (error,) = validate_selector(Selector("e", expression))
    assert str(error).startswith(beginning)


def test_the_cost_of_the_expensive_one_is_known() -> None:
    checked = environment().check(_EXPENSIVE, release=COMPATIBLE_RELEASE)
    assert estimate(checked.node, DEVICE).high == 85_555_551


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
    environment()


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


def test_expressions_of_a_class_that_stay_are_not_checked_again() -> None:
    stored = {"selectors": selectors("1", "true")}
    assert found("deviceclasses", stored, old=stored) == ["a: Forbidden"]
    assert len(found("deviceclasses", {"selectors": selectors("true", "1")}, old=stored)) == 2
    assert ServedKind(f"resourceclaims.{GROUP}").strategy.update.expressions is None
