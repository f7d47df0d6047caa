"""Who decides, the checks or the declared rules, and what is counted. Rows H05, H06."""

from __future__ import annotations

import logging

import pytest

from apiserver.field_errors import FieldError, invalid, required
from apiserver.metrics.validation import ValidationMetrics
from apiserver.registry.declarative_validation import DeclarativeValidation
from apiserver.validation.declarative.rules import DeclaredRules
from apiserver.vocabulary import Document

RULES = DeclaredRules(["name required", "count minimum=1"])
NO_NAME = required("name", "needs a name")
OTHER = invalid("count", 7, "must be even")
# What the checks have found in an object without a name, and what counts without and with takeover.
CASES: dict[str, tuple[list[FieldError], list[str], list[str], int]] = {
    "the same": (
        [NO_NAME, OTHER],
        ["name: Required value: needs a name", "count: Invalid value: 7: must be even"],
        ["count: Invalid value: 7: must be even", "name: Required value"],
        0,
    ),
    "the checks find nothing": ([], [], ["name: Required value"], 1),
    "the checks find more": (
        [NO_NAME, invalid("count", 0, "is secret", origin="minimum")],
        ["name: Required value: needs a name", "count: Invalid value: 0: is secret"],
        ["name: Required value"],
        1,
    ),
}


@pytest.mark.parametrize("takes_over", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_who_decides(case: str, takes_over: bool, caplog: pytest.LogCaptureFixture) -> None:
    errors, of_checks, of_rules, mismatches = CASES[case]
    metrics = ValidationMetrics()
    declared = DeclarativeValidation("Thing", RULES, metrics, takes_over=takes_over)
    with caplog.at_level(logging.ERROR):
        found = declared(errors, {"count": 7}, None)
    assert list(map(str, found)) == (of_rules if takes_over else of_checks)
    assert (metrics.mismatches, metrics.panics) == (mismatches, 0)
    assert len(caplog.records) == min(mismatches, 1)
    assert "secret" not in caplog.text


class Broken(DeclaredRules):
    def errors(self, new: Document, old: Document | None) -> list[FieldError]:
        raise KeyError("x")


@pytest.mark.parametrize(
    ("takes_over", "expected"),
    [
        (False, ["count: Invalid value: 7: must be even"]),
        (
            True,
            [
                "count: Invalid value: 7: must be even",
                ": Internal error: panic during declarative validation: KeyError",
            ],
        ),
    ],
)
def test_rules_that_fail_are_counted(takes_over: bool, expected: list[str]) -> None:
    """The write is refused only where nobody else decides."""
    metrics = ValidationMetrics()
    declared = DeclarativeValidation("Thing", Broken([]), metrics, takes_over=takes_over)
    assert list(map(str, declared([OTHER], {}, None))) == expected
    assert (metrics.mismatches, metrics.panics) == (0, 1)


def test_the_metrics_have_kubernetes_names() -> None:
    metrics = ValidationMetrics()
    metrics.count_mismatches(2)
    metrics.count_panic()
    found = {sample.name: sample.value for family in metrics.families() for sample in family.samples}
    assert found == {
        "apiserver_validation_declarative_validation_mismatch_total": 2,
        "apiserver_validation_declarative_validation_panic_total": 1,
    }
