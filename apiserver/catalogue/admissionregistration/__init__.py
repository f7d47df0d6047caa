"""The group `admissionregistration.k8s.io`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from apiserver.catalogue.admissionregistration import validating_admission_policies, webhook_configurations
from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType
from apiserver.catalogue.pod_specs.templates import clear_status
from apiserver.field_errors import FieldError
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import STATUS, Strategy, UpdateStrategy, keep_status
from apiserver.validation.checks import at
from apiserver.vocabulary import Document


def types() -> tuple[BuiltinType, ...]:
    return (
        _webhooks("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        _type(
            "validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            subresources=(
                replace(
                    STATUS_SUBRESOURCE,
                    update=replace(
                        STATUS, validate=validating_admission_policies.validate_policy_status_update
                    ),
                ),
            ),
            strategy=Strategy(
                prepare_create=clear_status,
                validate=validating_admission_policies.validate_policy,
                update=UpdateStrategy(prepare=keep_status),
                has_generation=True,
            ),
            columns=columns(
                Column(
                    "Validations",
                    _count("spec", "validations"),
                    type="integer",
                    description="How many expressions a request has to fulfil.",
                ),
                Column("ParamKind", _param_kind, description="The kind of objects that they can refer to."),
                AGE,
            ),
        ),
        _type(
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            strategy=_with_generation(validating_admission_policies.validate_binding),
            columns=columns(
                Column(
                    "PolicyName", field_cell("spec", "policyName"), description="The policy that is applied."
                ),
                Column("ParamRef", _param_ref, description="The objects that it refers to."),
                AGE,
            ),
        ),
        _webhooks("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    )


_PACKAGE: Final = "io.k8s.api.admissionregistration.v1."


def _type(resource: str, kind: str, **more: Any) -> BuiltinType:
    return BuiltinType(
        "admissionregistration.",
        "v1",
        resource,
        kind,
        _PACKAGE + kind,
        is_namespaced=False,
        categories=("api-extensions",),
        **more,
    )


def _webhooks(resource: str, kind: str) -> BuiltinType:
    return _type(
        resource,
        kind,
        strategy=_with_generation(webhook_configurations.validate_webhook_configuration),
        columns=columns(
            Column("Webhooks", _count("webhooks"), type="integer", description="How many webhooks it has."),
            AGE,
        ),
    )


def _with_generation(validate: Callable[[Document], list[FieldError]]) -> Strategy:
    return Strategy(validate=validate, has_generation=True)


# ---- columns


def _count(*steps: str) -> Callable[[Document, float], int]:
    return lambda document, now: len(at(document, *steps) or ())


def _param_kind(document: Document, now: float) -> str:
    kind = at(document, "spec", "paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"


def _param_ref(document: Document, now: float) -> str:
    ref = at(document, "spec", "paramRef")
    if not ref:
        return "<unset>"
    name, namespace = ref.get("name"), ref.get("namespace")
    if not name:
        return f"{namespace}/*" if namespace else "*"
    return f"{namespace}/{name}" if namespace else str(name)
