"""ValidatingAdmissionPolicies. Source: pkg/apis/admissionregistration/{validation,v1}."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from apiserver.catalogue.admissionregistration import match_rules
from apiserver.catalogue.admissionregistration.expressions import PolicyExpressions
from apiserver.catalogue.admissionregistration.policy_rules import (
    param_kind_cell,
    too_many_policy_expressions,
    validate_common_fields,
)
from apiserver.catalogue.builtin_type import BuiltinType, clear_status, status_without_metadata
from apiserver.catalogue.common.columns import list_length
from apiserver.cel.admission import AUDIT_ANNOTATION, CONDITION, MESSAGE
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.names import byte_length
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.checks import follows, one_of_if_set, uniqueness
from apiserver.schema.validation.conditions import validate_conditions
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import items


def builtin_type(compatibility: CompatibilityVersion) -> BuiltinType:
    """Returns the type. compatibility: the version that limits new expressions."""
    validate = partial(validate_policy, compatibility)
    return BuiltinType(
        "admissionregistration.",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        is_namespaced=False,
        categories=("api-extensions",),
        subresources=(status_without_metadata(validate_policy_status_update),),
        defaults={
            **match_rules.DEFAULTS,
            "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec": setting(
                failurePolicy="Fail"
            ),
        },
        strategy=Strategy(
            allows_unconditional_update=False,
            prepare_create=clear_status,
            validate_create=validate,
            update=UpdateStrategy(prepare=keep_status, validate=validate),
            has_generation=True,
            is_costly=True,  # There may be many expressions to compile.
        ),
        columns=columns(
            Column(
                "Validations",
                list_length("spec", "validations"),
                "The number of validations.",
                type="integer",
            ),
            Column("ParamKind", param_kind_cell, "The kind of the parameters."),
            AGE,
        ),
    )


_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ANNOTATIONS_MAX: Final = 20
_ANNOTATION_BYTES_MAX: Final = 5 * 1024


def validate_policy(
    compatibility: CompatibilityVersion, document: Document, old: Document | None = None
) -> Errors:
    """Returns the errors in a policy, or in its update from `old`."""
    spec = document.get("spec", {})
    old_spec = old.get("spec", {}) if old is not None else None
    if excess := too_many_policy_expressions(spec, old_spec):
        return excess
    expressions = PolicyExpressions(spec, old_spec, compatibility)
    errors = validate_common_fields(spec, old_spec, expressions, compatibility)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must contain at least one item"
        return [*errors, required("spec.validations", text), required("spec.auditAnnotations", text)]
    for where, validation in items(spec, "validations", "spec"):
        errors += _validation(where, validation, expressions)
    return errors + _audit_annotations(document["metadata"].get("name", ""), spec, expressions)


def validate_policy_status_update(new: Document, old: Document) -> Errors:
    errors: Errors = []
    status = new.get("status") or {}
    for where, warning in items(
        status.get("typeChecking") or {}, "expressionWarnings", "status.typeChecking"
    ):
        if not warning.get("warning"):
            errors.append(required(f"{where}.warning"))
        if not warning.get("fieldRef", "").strip():
            errors.append(required(f"{where}.fieldRef"))
    return errors + validate_conditions(status, "status")


def _validation(path: str, validation: Document, expressions: PolicyExpressions) -> Errors:
    message, message_text = validation.get("message", ""), validation.get("messageExpression", "")
    errors: Errors = []
    if (text := validation.get("expression", "")).strip():
        errors += expressions.errors(f"{path}.expression", text, CONDITION)
    else:
        errors.append(required(f"{path}.expression", "expression is not specified"))
    if message_text.strip():
        errors += expressions.errors(f"{path}.messageExpression", message_text, MESSAGE)
    elif message_text:
        errors.append(invalid(f"{path}.messageExpression", message_text, "must be non-empty if specified"))
    if message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif re.search("[\n\r]", message.strip()):
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    return errors + one_of_if_set(f"{path}.reason", validation.get("reason"), _REASONS)


def _audit_annotations(policy: str, spec: Document, expressions: PolicyExpressions) -> Errors:
    errors: Errors = []
    annotations = spec.get("auditAnnotations") or []
    if len(annotations) > _ANNOTATIONS_MAX:
        text = f"must not have more than {_ANNOTATIONS_MAX} auditAnnotations"
        errors.append(invalid("spec.auditAnnotations", annotations, text))
    unique = uniqueness()
    for where, annotation in items(spec, "auditAnnotations", "spec"):
        key, text = annotation.get("key", ""), annotation.get("valueExpression", "")
        full_key = f"{policy}/{key}"
        errors += follows(f"{where}.key", full_key, names.qualified_name)
        if not text.strip():
            errors.append(required(f"{where}.valueExpression", "valueExpression is not specified"))
        elif byte_length(text.strip()) > _ANNOTATION_BYTES_MAX:
            problem = f"must not exceed {_ANNOTATION_BYTES_MAX} bytes in length"
            errors.append(required(f"{where}.valueExpression", problem))
        else:
            errors += expressions.errors(f"{where}.valueExpression", text, AUDIT_ANNOTATION)
        errors += unique(f"{where}.key", key)
    return errors
