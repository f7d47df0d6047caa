"""MutatingAdmissionPolicyBindings. Source: pkg/apis/admissionregistration/{validation,v1}."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.admissionregistration.match_rules import (
    DEFAULTS,
    validate_match_resources,
    validate_mutating_operations,
)
from apiserver.catalogue.admissionregistration.policy_rules import param_ref_cell, validate_param_ref
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta import names
from apiserver.meta.field_errors import Errors
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.checks import named


def validate_policy_binding(document: Document) -> Errors:
    spec = document.get("spec", {})
    matches = spec.get("matchResources")
    return [
        *named("spec.policyName", spec.get("policyName"), names.dns_subdomain),
        *validate_param_ref("spec.paramRef", spec.get("paramRef")),
        *validate_match_resources("spec.matchResources", matches),
        *validate_mutating_operations("spec.matchResources", matches or {}),
    ]


BUILTIN_TYPE: Final = BuiltinType(
    "admissionregistration.",
    "v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
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
