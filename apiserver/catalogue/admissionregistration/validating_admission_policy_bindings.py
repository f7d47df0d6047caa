"""ValidatingAdmissionPolicyBindings. Source: pkg/apis/admissionregistration/{validation,v1}.

Errors in what a binding matches are at `matchResources`, not at Kubernetes' misspelt `matchResouces`.
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.admissionregistration.match_rules import DEFAULTS, validate_match_resources
from apiserver.catalogue.admissionregistration.policy_rules import param_ref_cell, validate_param_ref
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, duplicate, invalid, not_supported, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.checks import named

_ACTIONS: Final = ("Audit", "Deny", "Warn")


def validate_policy_binding(document: Document) -> Errors:
    spec = document.get("spec", {})
    return [
        *named("spec.policyName", spec.get("policyName"), names.dns_subdomain),
        *validate_param_ref("spec.paramRef", spec.get("paramRef")),
        *validate_match_resources("spec.matchResources", spec.get("matchResources")),
        *_actions("spec.validationActions", spec.get("validationActions") or []),
    ]


def _actions(path: str, actions: list[str]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, action in enumerate(actions):
        where = f"{path}[{index}]"
        if action not in _ACTIONS:
            errors.append(not_supported(where, action, _ACTIONS))
        if action in seen:
            errors.append(duplicate(where, action))
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, text))
    if not actions:
        errors.append(required(path, "at least one validation action is required"))
    return errors


BUILTIN_TYPE: Final = BuiltinType(
    "admissionregistration.",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    is_namespaced=False,
    categories=("api-extensions",),
    defaults=DEFAULTS,
    strategy=Strategy(
        validate=validate_policy_binding, has_generation=True, allows_unconditional_update=False
    ),
    columns=columns(
        Column("PolicyName", field_cell("spec", "policyName"), "The policy that is applied."),
        Column("ParamRef", param_ref_cell, "The objects that it refers to."),
        AGE,
    ),
)
