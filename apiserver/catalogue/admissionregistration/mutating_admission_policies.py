"""MutatingAdmissionPolicies. Source: pkg/apis/admissionregistration/{validation,v1}."""

from __future__ import annotations

from functools import partial
from typing import Final

from apiserver.catalogue.admissionregistration import match_rules
from apiserver.catalogue.admissionregistration.expressions import PolicyExpressions
from apiserver.catalogue.admissionregistration.policy_rules import (
    param_kind_cell,
    too_many_policy_expressions,
    validate_common_fields,
)
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.columns import list_length
from apiserver.cel.admission import APPLY_CONFIGURATION, JSON_PATCHES
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta.field_errors import Errors, invalid, not_supported, required
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import one_of
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import items


def builtin_type(compatibility: CompatibilityVersion) -> BuiltinType:
    """Returns the type. compatibility: the version that limits new expressions."""
    validate = partial(validate_policy, compatibility)
    return BuiltinType(
        "admissionregistration.",
        "v1",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
        is_namespaced=False,
        categories=("api-extensions",),
        defaults={
            **match_rules.DEFAULTS,
            "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicySpec": setting(failurePolicy="Fail"),
        },
        strategy=Strategy(
            allows_unconditional_update=False,
            validate_create=validate,
            update=UpdateStrategy(validate=validate),
            has_generation=True,
            is_costly=True,  # There may be many expressions to compile.
        ),
        columns=columns(
            Column(
                "Mutations",
                list_length("spec", "mutations"),
                "The number of mutations.",
                type="integer",
            ),
            Column("ParamKind", param_kind_cell, "The kind of the parameters."),
            AGE,
        ),
    )


_REINVOCATIONS: Final = ("IfNeeded", "Never")
_APPLY_CONFIGURATION: Final = "ApplyConfiguration"
_JSON_PATCH: Final = "JSONPatch"


def validate_policy(
    compatibility: CompatibilityVersion, document: Document, old: Document | None = None
) -> Errors:
    """Returns the errors in a policy, or in its update from `old`."""
    spec = document.get("spec", {})
    old_spec = old.get("spec", {}) if old is not None else None
    if excess := too_many_policy_expressions(spec, old_spec):
        return excess
    expressions = PolicyExpressions(spec, old_spec, compatibility, always_has_variables=True)
    errors = validate_common_fields(spec, old_spec, expressions, compatibility, is_mutating=True)
    if not spec.get("mutations"):
        errors.append(required("spec.mutations", "mutations must contain at least one item"))
    for where, mutation in items(spec, "mutations", "spec"):
        errors += _mutation(where, mutation, expressions)
    reinvocation = spec.get("reinvocationPolicy")
    return errors + one_of("spec.reinvocationPolicy", reinvocation, _REINVOCATIONS, required_text="")


def _mutation(path: str, mutation: Document, expressions: PolicyExpressions) -> Errors:
    patch_type = mutation.get("patchType", "")
    if not patch_type:
        return [required(f"{path}.patchType")]
    if patch_type == _APPLY_CONFIGURATION:
        field, other, kind = "applyConfiguration", "jsonPatch", APPLY_CONFIGURATION
    elif patch_type == _JSON_PATCH:
        field, other, kind = "jsonPatch", "applyConfiguration", JSON_PATCHES
    else:
        return [not_supported(f"{path}.patchType", patch_type, (_APPLY_CONFIGURATION, _JSON_PATCH))]
    errors: Errors = []
    if (patch := mutation.get(field)) is None:
        errors.append(required(f"{path}.{field}", f"must be specified when patchType is {patch_type}"))
    elif text := patch.get("expression", "").strip():
        errors += expressions.errors(f"{path}.{field}.expression", text, kind)
    else:
        errors.append(required(f"{path}.{field}.expression"))
    if mutation.get(other) is not None:
        text = f"must not be specified when patchType is {patch_type}"
        errors.append(invalid(f"{path}.{other}", f"{{{other}}}", text))
    return errors
