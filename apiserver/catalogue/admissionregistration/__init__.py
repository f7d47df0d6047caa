"""The group `admissionregistration.k8s.io`: who else has a say about writes."""

from __future__ import annotations

from apiserver.catalogue.admissionregistration import (
    mutating_admission_policies,
    mutating_admission_policy_bindings,
    validating_admission_policies,
    validating_admission_policy_bindings,
    webhook_configurations,
)
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import other_version


def types() -> tuple[BuiltinType, ...]:
    mutating = (
        mutating_admission_policies.builtin_type(),
        mutating_admission_policy_bindings.builtin_type(),
    )
    return (
        *mutating,
        webhook_configurations.builtin_type("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        validating_admission_policies.builtin_type(),
        validating_admission_policy_bindings.builtin_type(),
        webhook_configurations.builtin_type(
            "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
        ),
        *(other_version(each, version) for version in ("v1beta1", "v1alpha1") for each in mutating),
    )
