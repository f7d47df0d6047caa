"""Who decides, the checks or the declared rules, and what is counted. Rows H05, H06."""

from __future__ import annotations

import logging

import pytest

from apiserver.meta.field_errors import FieldError, invalid, required
from apiserver.meta.vocabulary import Document
from apiserver.metrics.validation import ValidationMetrics
from apiserver.registry.declarative_validation import DeclarativeValidation
from apiserver.schema.validation.declarative.rules import DeclaredRules

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
    metrics.count_mismatches("pod_create", 2)
    metrics.count_mismatches("pod_update", 1)
    metrics.count_panic()
    prefix = "apiserver_validation_declarative_validation_"
    assert [line.removeprefix(prefix) for family in metrics.families() for line in family.series] == [
        "mismatch_total 3\n",
        'parity_discrepancies_total{validation_identifier="pod_create"} 2\n',
        'parity_discrepancies_total{validation_identifier="pod_update"} 1\n',
        "panic_total 1\n",
    ]


@pytest.mark.parametrize(
    ("old", "identifier"), [(None, "thing_create"), ({"name": "a", "count": 1}, "thing_update")]
)
def test_mismatches_are_counted_by_kind_and_operation(old: Document | None, identifier: str) -> None:
    """Source: k8s.io/apiserver, pkg/registry/rest/validate.go, metricIdentifier."""
    counted = []

    class Counts(ValidationMetrics):
        def count_mismatches(self, identifier: str, count: int) -> None:
            counted.append((identifier, count))

    DeclarativeValidation("Thing", RULES, Counts(), takes_over=False)([], {"count": 7}, old)
    assert counted == [(identifier, 1)]
