"""Bindings of admission policies. Source: pkg/apis/admissionregistration/{validation,v1}."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.admissionregistration.test_validating_admission_policies import (
    GROUP,
    MATCH,
    POLICY,
    RULE,
)
from tests.unit.catalogue.served_kinds import Changes, ServedKind

BINDING: Final = ServedKind(
    f"validatingadmissionpolicybindings.{GROUP}", {"spec": {"policyName": "p", "validationActions": ["Deny"]}}
)


def test_a_binding_is_completed() -> None:
    document, errors = BINDING.create({"spec.matchResources": {"resourceRules": [RULE]}})
    assert errors == []
    assert document["spec"]["matchResources"] == MATCH


INVALID_BINDINGS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "it is of a policy": ({"spec.policyName": None}, ["spec.policyName: Required value"]),
    "it does something": (
        {"spec.validationActions": None},
        ["spec.validationActions: Required value: at least one validation action is required"],
    ),
    "parameters are one or many": (
        {"spec.paramRef": {"parameterNotFoundAction": "Deny"}},
        ["spec.paramRef: Required value: one of name or selector must be specified"],
    ),
    "what it matches is well-formed": (
        {"spec.matchResources": {"matchPolicy": "Nearly"}},
        [
            (
                'spec.matchResources.matchPolicy: Unsupported value: "Nearly": supported values: '
                '"Equivalent", "Exact"'
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID_BINDINGS.values(), ids=INVALID_BINDINGS)
def test_bindings_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert BINDING.create(changes).texts == texts


ROWS: Final[dict[str, tuple[Any, str]]] = {
    "no parameters": (None, "<unset>"),
    "all there are": ({"selector": {}, "parameterNotFoundAction": "Deny"}, "*"),
    "one of a namespace": ({"name": "n", "namespace": "s", "parameterNotFoundAction": "Deny"}, "s/n"),
}


@pytest.mark.parametrize(("ref", "cell"), ROWS.values(), ids=ROWS)
def test_rows(ref: Any, cell: str) -> None:
    assert BINDING.cells({"spec.paramRef": ref})["ParamRef"] == cell
    kind = {"apiVersion": "g/v1", "kind": "K"}
    assert POLICY.cells({"spec.paramKind": kind}).items() >= {"Validations": 1, "ParamKind": "g/v1/K"}.items()
