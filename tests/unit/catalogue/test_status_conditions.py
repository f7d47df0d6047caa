"""Kinds whose conditions are `metav1.Condition`, checked with the status.

Source: the callers of k8s.io/apimachinery's ValidateConditions in Kubernetes 1.36.
"""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.conditions import validate_conditions
from tests.unit.catalogue.removed_versions.old_kinds import OldKind
from tests.unit.catalogue.served_kinds import ServedKind

READY: Final[Document] = {
    "type": "Ready",
    "status": "True",
    "reason": "Waited",
    "message": "",
    "lastTransitionTime": "2024-05-06T07:08:09Z",
}
WHERE: Final = "status.conditions[0]"
REASONS: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  "
    "or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)
CONDITIONS: Final[dict[str, tuple[list[Document], list[str]]]] = {
    "a right one": ([READY], []),
    "two of one type": ([READY, READY], ['status.conditions[1].type: Duplicate value: "Ready"']),
    "no status": (
        [{**READY, "status": ""}],
        [f'{WHERE}.status: Unsupported value: "": supported values: "False", "True", "Unknown"'],
    ),
    "no reason": ([{**READY, "reason": ""}], [f"{WHERE}.reason: Required value"]),
    "another reason": ([{**READY, "reason": "a b"}], [f'{WHERE}.reason: Invalid value: "a b": {REASONS}']),
    "no time": ([{**READY, "lastTransitionTime": None}], [f"{WHERE}.lastTransitionTime: Required value"]),
    "a generation below zero": (
        [{**READY, "observedGeneration": -1}],
        [f"{WHERE}.observedGeneration: Invalid value: -1: must be greater than or equal to zero"],
    ),
    "a long reason": (
        [{**READY, "reason": "a" * 1025}],
        [f"{WHERE}.reason: Too long: may not be more than 1024 bytes"],
    ),
    "a long message": (
        [{**READY, "message": "a" * 32_769}],
        [f"{WHERE}.message: Too long: may not be more than 32768 bytes"],
    ),
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_a_condition_is_checked(case: str) -> None:
    conditions, errors = CONDITIONS[case]
    assert [str(error) for error in validate_conditions({"conditions": conditions}, "status")] == errors


BUDGETS: Final = "poddisruptionbudgets.policy"
MIGRATIONS: Final = "storageversionmigrations.storagemigration.k8s.io"
KINDS: Final[dict[str, tuple[ServedKind | OldKind, Document]]] = {
    "disruption budgets": (ServedKind(BUDGETS), {}),
    "disruption budgets of v1beta1": (OldKind(BUDGETS, "v1beta1", 24, {}), {}),
    "policies": (ServedKind("validatingadmissionpolicies.admissionregistration.k8s.io"), {}),
    "storage version migrations": (OldKind(MIGRATIONS, "v1beta1", 36, {}), {"resourceVersion": "1"}),
    "device taint rules": (OldKind("devicetaintrules.resource.k8s.io", "v1beta2", 36, {}), {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_status_of_a_kind_checks_its_conditions(kind: str) -> None:
    served, status = KINDS[kind]
    strategy = served.resource.subresources["status"].update
    assert strategy is not None
    old: Document = {"metadata": {"name": "a"}, "spec": {}, "status": {}}
    for conditions, expected in (([READY], []), ([{**READY, "reason": ""}], CONDITIONS["no reason"][1])):
        new = {**old, "status": {**status, "conditions": conditions}}
        assert [str(error) for error in strategy.validate(new, old)] == expected
