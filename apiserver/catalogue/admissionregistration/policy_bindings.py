"""ValidatingAdmissionPolicyBindings and MutatingAdmissionPolicyBindings.

Errors about `matchResources` have this path, and not Kubernetes' misspelled `matchResouces`. Source:
pkg/apis/admissionregistration/{validation,v1}.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from apiserver.catalogue.admissionregistration.match_rules import (
    DEFAULTS,
    validate_match_resources,
    validate_mutating_operations,
)
from apiserver.catalogue.admissionregistration.policy_rules import param_ref_cell, validate_param_ref
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.checks import named, one_of, uniqueness

_ACTIONS: Final = ("Audit", "Deny", "Warn")


def _validate(document: Document) -> Errors:
    spec = document.get("spec", {})
    return [
        *named("spec.policyName", spec.get("policyName"), names.dns_subdomain),
        *validate_param_ref("spec.paramRef", spec.get("paramRef")),
        *validate_match_resources("spec.matchResources", spec.get("matchResources")),
    ]


def _validate_validating(document: Document) -> Errors:
    actions = document.get("spec", {}).get("validationActions") or []
    return _validate(document) + _actions("spec.validationActions", actions)


def _validate_mutating(document: Document) -> Errors:
    matches = document.get("spec", {}).get("matchResources") or {}
    return _validate(document) + validate_mutating_operations("spec.matchResources", matches)


def _actions(path: str, actions: list[str]) -> Errors:
    errors: Errors = []
    unique = uniqueness()
    for index, action in enumerate(actions):
        where = f"{path}[{index}]"
        errors += one_of(where, action, _ACTIONS) + unique(where, action)
    if {"Deny", "Warn"} <= {*actions}:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, text))
    if not actions:
        errors.append(required(path, "at least one validation action is required"))
    return errors


VALIDATING: Final = BuiltinType(
    "admissionregistration.",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    is_namespaced=False,
    categories=("api-extensions",),
    defaults=DEFAULTS,
    strategy=Strategy(validate=_validate_validating, has_generation=True, allows_unconditional_update=False),
    columns=columns(
        Column("PolicyName", field_cell("spec", "policyName"), "The policy that is bound."),
        Column("ParamRef", param_ref_cell, "The parameters of the policy."),
        AGE,
    ),
)
MUTATING: Final = replace(
    VALIDATING,
    resource="mutatingadmissionpolicybindings",
    kind="MutatingAdmissionPolicyBinding",
    definition="",
    strategy=VALIDATING.strategy._replace(validate=_validate_mutating),
)
