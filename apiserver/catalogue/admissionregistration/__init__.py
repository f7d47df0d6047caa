"""The group `admissionregistration.k8s.io`: webhooks and policies that admit writes."""

from __future__ import annotations

from apiserver.catalogue.admissionregistration import (
    mutating_admission_policies,
    policy_bindings,
    validating_admission_policies,
    webhook_configurations,
)
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import other_version
from apiserver.cel.compatibility_version import CompatibilityVersion


def types(compatibility: CompatibilityVersion) -> tuple[BuiltinType, ...]:
    """Returns the group's types. compatibility: the version that limits new expressions."""
    mutating = (mutating_admission_policies.builtin_type(compatibility), policy_bindings.MUTATING)
    return (
        *mutating,
        webhook_configurations.builtin_type(
            "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", compatibility
        ),
        validating_admission_policies.builtin_type(compatibility),
        policy_bindings.VALIDATING,
        webhook_configurations.builtin_type(
            "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", compatibility
        ),
        *(other_version(each, version) for version in ("v1beta1", "v1alpha1") for each in mutating),
    )
